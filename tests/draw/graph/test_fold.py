"""The folded drawing: which Values it hides behind those of a first example, and the names of all."""

import pytest

from micrograd import Value, mean, nn
from micrograd import sum as total
from micrograd.draw import network
from micrograd.draw.graph.fold import Folded, all_names

# Names


def names_in(root):
    folded = Folded(root)
    return dict(zip(folded.graph.values, all_names(folded), strict=True))


def test_neurons_weights_and_inputs_have_the_names_that_the_drawing_of_the_model_has():
    model = nn.MLP(2, [3, 2, 1], rng=1)
    found = names_in(mean((model([a, 1.0]) - 1.0) ** 2 for a in (0.0, 1.0)))
    assert [found[parameter] for parameter in model.parameters()] == network.described(model)["names"]
    assert {"x0", "x1", "h1[2]", "h1[2].z", "h2[1]", "out", "out − 1", "(out − 1)²", "mean"} <= set(found.values())
    assert list(found.values()).count("h1[2]") == 2  # one for each example


def test_a_label_is_a_name_and_what_has_none_is_called_after_its_formula_if_that_is_short():
    a, b, c = Value(2.0, label="a"), Value(3.0, label="b"), Value(4.0)
    named = (a * b).exp()
    named.label = "e"

    def name(root):
        return names_in(root + 0.0)[root]

    assert [name(x) for x in (a * b, named, -a, a % 2, a**3, a**b, 1 - a, a.clip(0.0, 1.0), total([a, b, c]))] == [
        "a × b", "e", "−a", "a % 2", "a³", "a^b", "1 − a", "clip(a)", "sum"
    ]  # fmt: skip
    assert [name(x) for x in (-a * b, (a + b) * a, (a + b) / (a - b), a / c, a * b + a)] == [
        "−a × b", "(a + b) × a", "(a + b) ÷ (a − b)", "a ÷ v1", "a × b + a"
    ]  # fmt: skip
    assert name(Value(1.0, (a,), "own")) == "own"
    assert name(((a + b) / (a - b)).tanh()) == "v1"


def test_two_values_never_share_a_name_but_in_examples():
    a, b = Value(2.0, label="a"), Value(3.0, label="b")
    assert [*names_in((a * b) * (a * b)).values()] == ["a", "b", "a × b", "v1", "(a × b) × v1"]
    assert [*names_in(Value(2.0, label="v1") * Value(3.0)).values()] == ["v1", "v2", "v1 × v2"]
    found = [*names_in(total([*nn.Layer(1, 2, rng=1)([0.5]), Value(1.0, label="x0")])).values()]
    assert found.count("x0") == 1
    assert len(set(found)) == len(found)


# Chains of additions, as Python's sum leaves them


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_chain_of_additions_folds_as_a_sum_does(n):
    model = nn.MLP(2, [3, 1], rng=1)
    squares = [(model([float(i), 1.0]) - 1.0) ** 2 for i in range(n)]
    chain = Folded(sum(squares) * 0.25)
    assert [card.title for card in chain.cards] == [card.title for card in Folded(total(squares) * 0.25).cards]
    assert [card.title for card in chain.cards][-2:] == [f"sum of {n}", "× 0.25"]
    assert len(chain.cards[-2].parts) == n - 1
    [members] = [stack.members for stack in chain.stacks]
    assert len(members) == n  # and what else is added to them stands beside it
    titles = [card.title for card in Folded(sum(squares) + model.layers[0].neurons[0].w[0].exp()).cards]
    assert {f"sum of {n}", "exp", "+"} <= {*titles}
    assert titles.count("+") == 1


@pytest.mark.parametrize("terms", [
    lambda x: [x.exp().tanh(), x.exp().tanh()],  # which a reader wants to see
    lambda x: [Value(float(i)) * x for i in range(4)],  # weighted inputs
    lambda x: [Value(float(i)) * x.exp() for i in range(4)],
    lambda x: [x.exp().tanh()] * 4,
    lambda x: [x.exp().tanh(), x.exp().sin(), x.exp().tanh(), x.exp().sin()],
    lambda x: nn.Layer(3, 2, rng=1)([x, x.exp(), Value(2.0)]),  # a network
    lambda x: [h := nn.Neuron(2, rng=1)([x, 1.0]), nn.Neuron(1, rng=1)([h])],  # a residual
])  # fmt: skip
def test_other_chains_are_drawn_as_they_are(terms):
    assert not Folded(sum(terms(Value(0.5)))).stacks
