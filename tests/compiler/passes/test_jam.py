"""Unroll and jam: rounds that read the same numbers run together, where that changes no result."""

import pytest

from micrograd import compile, losses, nn
from micrograd.compiler.ir import Accumulate, Assign, Call, Loop, Ref, Scatter, Sum, Term
from micrograd.compiler.passes import jam
from micrograd.compiler.passes.jam import can_jam
from micrograd.compiler.passes.pipeline import program
from micrograd.compiler.targets.c import library_source
from tests.helpers import backward, needs_compiler
from tests.kernels import everything, graph_of

ROUNDS = 32
X = Term("+", (Ref("p", 0, (50, 1)), Ref("x", 0, (0, 1))))
Y = Ref("t", 0, (1,))


def layer(term=X, target=Y, rounds=ROUNDS, after=()):
    """A loop over the rows of a matrix: the dot product of each with the inputs."""
    return Loop(9, (Assign(target, Sum((Term("+", (Ref("p", 40, (50,)),)), Loop(rounds, (term,))))), *after))


def test_a_layer_is_jammed_with_its_activation():
    assert can_jam(layer())
    assert can_jam(layer(after=(Assign(Ref("t", 100, (1,)), Call("tanh", (Y,))),)))


def test_gradients_of_weights_are_jammed_unless_rounds_share_some():
    gradient = Sum((Term("+", (Ref("t", 0, (1, 0)), Ref("x", 0, (0, 1)))),))
    assert can_jam(Loop(9, (Loop(ROUNDS, (Accumulate(Ref("g", 0, (ROUNDS, 1)), gradient),)),)))
    assert not can_jam(Loop(9, (Loop(ROUNDS, (Accumulate(Ref("g", 0, (ROUNDS - 1, 1)), gradient),)),)))


TOTAL = Ref("sum0")
ADDED = Assign(TOTAL, Sum((Term("+", (TOTAL,)), Term("+", (Ref("t", 0, (0, 1)), Ref("x", 0, (1, 0)))))))
NOT_JAMMED = {
    "a sum that goes on from round to round": Loop(9, (Loop(ROUNDS, (ADDED,)),)),
    "no shared row": layer(Term("+", (Ref("p", 0, (50, 1)), Ref("x", 0, (50, 1))))),
    "a single shared number": layer(Term("+", (Ref("p", 0, (50, 1)), Ref("x", 0, (0, 0))))),
    "reads of earlier rounds": layer(Term("+", (Ref("t", 9 - ROUNDS, (0, 1)), Ref("x", 0, (0, 1))))),
    "a shared target": layer(target=Ref("t", 0, (0,))),
    "a scatter": layer(after=(Loop(3, (Scatter(Ref("g", 0, (0, 1)), 3, Ref("x"), Ref("x")),)),)),
}


@pytest.mark.parametrize("loop", NOT_JAMMED.values(), ids=NOT_JAMMED)
def test_other_loops_are_not_jammed(loop):
    assert not can_jam(loop)


@needs_compiler
@pytest.mark.parametrize("hidden", [12, 13])  # of which two are jammed at a time
def test_jamming_changes_no_bit(monkeypatch, hidden):
    model = nn.MLP(40, [hidden, 5], activation="tanh", rng=1)
    examples = [[[0.1 * i - 0.01 * k for i in range(40)] for k in range(32)], [float(k % 5) for k in range(32)]]
    found = []
    for factor in (1, 2, 4):
        monkeypatch.setattr(jam, "JAM_FACTOR", factor)

        def loss(x, y):
            return losses.cross_entropy(model(x), y)

        example = [column[0] for column in examples]
        graph = graph_of(loss, example, model.parameters())
        source = library_source(program(graph, everything(graph)), tile=2)
        assert ("sum0_1[k]" in source) == (factor > 1)
        fast = compile(loss, tuple(example), parameters=model.parameters(), backend="c")
        found.append(backward(fast, *examples))
    assert found[0] == found[1] == found[2]
