"""Which Values the folded drawing hides behind those of a first example."""

import random

from hypothesis import given
from hypothesis import strategies as st

from micrograd import Value, dot, mean
from micrograd import sum as total
from micrograd.draw.graph.drawn import DrawnGraph
from micrograd.draw.graph.scopes import stacks
from tests.helpers import random_examples

LEAVES = 6


def graph_of_examples(random_, depth=2):
    """Means and sums of examples that are computed in the same way, from shared leaves and shared or own nodes."""
    leaves = [Value(random_.random()) for _ in range(LEAVES)]
    shared = leaves[0].exp()

    def example(recipe, depth):
        """A Value made by a recipe; its own leaves differ from example to example, and rarely what it shares."""
        x = Value(random_.random()) if random_.random() < 0.9 else leaves[0]
        for i, kind in enumerate(recipe):
            if kind == 0:
                x = x * (leaves[i] if random_.random() < 0.9 else leaves[0])
            elif kind == 1:
                x = x + (shared if random_.random() < 0.9 else leaves[1].exp())
            elif kind == 2 and depth:
                inner = [random_.randrange(2) for _ in range(3)]
                x = x * total([example(inner, depth - 1) for _ in range(2)])
            else:
                x = x.tanh()
        return x

    recipe = [random_.randrange(4) for _ in range(5)]
    result = mean([example(recipe, depth) for _ in range(3)])
    return DrawnGraph(result * shared if random_.random() < 0.3 else result)


def reachable(graph, without):
    """The Values that lead to the root without these operands, each a node and a place."""
    found, path = set(), [len(graph.values) - 1]
    while path:
        i = path.pop()
        if i not in found:
            found.add(i)
            path += [operand for j, operand in enumerate(graph.operands[i]) if (i, j) not in without]
    return found


@given(st.integers(0, 2**32))
@random_examples(60)
def test_only_what_belongs_to_further_examples_is_hidden(seed):
    graph = graph_of_examples(random.Random(seed))
    found = stacks(graph)
    further = {(stack.node, j) for stack in found for j in range(1, len(stack.members))}
    hidden = {i for stack in found for example in stack.members[1:] for i in example}
    assert not hidden & reachable(graph, without=further)
    assert {*range(graph.first, len(graph.values))} - hidden <= reachable(graph, without=further)


@given(st.integers(0, 2**32))
@random_examples(60)
def test_the_examples_of_a_stack_are_alike_value_by_value(seed):
    graph = graph_of_examples(random.Random(seed))
    for node, members in stacks(graph):
        assert [member[-1] for member in members] == list(graph.operands[node])
        first = {i: k for k, i in enumerate(members[0])}
        for member in members:
            assert len(member) == len(first)
            for i, its in zip(members[0], member, strict=True):
                assert graph.values[i]._op == graph.values[its]._op
                for operand, its_operand in zip(graph.operands[i], graph.operands[its], strict=True):
                    assert its_operand == (member[first[operand]] if operand in first else operand)


def test_stacks_are_found_in_most_of_these_graphs():
    found = [len(stacks(graph_of_examples(random.Random(seed)))) for seed in range(100)]
    assert sum(n > 0 for n in found) > 30
    assert max(found) > 1


def test_leaves_and_examples_that_share_one_in_different_places_are_drawn_side_by_side():
    x, y, z = (Value(float(i)) for i in range(3))
    for examples in [x, y], [x.exp() - y, y.exp() - z], [x.exp() * x.sin(), y.exp() * z.sin()]:
        assert not stacks(DrawnGraph(mean(examples)))


def test_a_chain_of_additions_may_go_on_after_its_like_examples():
    w, xs = Value(2.0), [Value(float(i)) for i in range(3)]
    [stack] = stacks(DrawnGraph(sum((w * x).tanh() for x in [*xs, w])))
    assert [len(example) for example in stack.members] == [3, 3, 3]


def test_of_a_recurrence_no_step_looks_at_all_that_came_before(monkeypatch):
    h, w, u = Value(0.0), Value(0.5), Value(0.25)
    for i in range(200):
        h = (dot([w], [h]) + dot([u], [Value(i)]) + 1.0).tanh()
    compared, title = [], DrawnGraph.title
    monkeypatch.setattr(DrawnGraph, "title", lambda graph, i: compared.append(i) or title(graph, i))
    graph = DrawnGraph(h)
    assert not stacks(graph)
    assert 0 < len(compared) < 2 * len(graph.values)
