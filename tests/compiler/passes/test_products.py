"""Products: the gradients of matrices leave the kernel, and stay the same."""

from collections import Counter
from itertools import chain, compress, product

import pytest

from micrograd.compiler.ir import Ref, offset, refs
from micrograd.compiler.passes import program
from micrograd.compiler.passes.products import settable, split
from tests.helpers import assert_close
from tests.kernels import everything, graph_of, interpreted
from tests.products import CASES

COUNTS = {
    "a network": 2, "a small network": 0, "a matrix used twice, and elsewhere": 2, "several products over one row": 2,
    "steps": 20, "a difference": 1, "a row that spans two arguments": 1, "a table": 1,
    "weights with the same factors": 0,
}  # fmt: skip


def reached(target, rounds):
    """The elements that a reference reaches."""
    offsets = [[offset(stride, i) for i in range(n)] for n, stride in zip(rounds, target.strides, strict=True)]
    return [target.base + sum(each) for each in product(*offsets)]


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_split_from_its_products_computes_the_same(name):
    function, example, parameters = CASES[name]
    graph = graph_of(function, example, parameters)
    whole = program(graph, everything(graph))
    kernel, products, size = split(whole.kernel, whole.sizes)
    steps = [product.step() for product in products]
    assert len(steps) == COUNTS[name]
    expected = interpreted(whole, parameters, example)
    results, gradients = interpreted(whole._replace(kernel=[*kernel, *steps]), parameters, example)
    assert results == expected.results
    assert_close(gradients, expected.gradients)
    places = [place.base for place, _ in refs(tuple(kernel)) if place.array == "block"]
    assert places == sorted({*places})  # a row is copied once
    assert all(place < size for place in places)


@pytest.mark.parametrize("name", CASES)
def test_products_that_alone_add_to_their_gradients_are_found(name):
    function, example, parameters = CASES[name]
    graph = graph_of(function, example, parameters)
    kernel, products, _ = split(program(graph, graph.ends("backward")).kernel, graph.sizes)
    others = [(ref, rounds) for ref, rounds in refs(tuple(kernel)) if ref.array == "g"]
    may_set, gaps = settable(products, others, len(parameters))
    added = Counter(chain(*[reached(*other) for other in others]))
    of_each = [reached(each.target, each.rounds) for each in products]
    added.update(chain(*of_each))
    assert may_set == [all(added[i] == 1 for i in its) for its in of_each]
    cleared = [i for first, n in zip(gaps[::2], gaps[1::2], strict=True) for i in range(first, first + n)]
    assert sorted([*cleared, *chain(*compress(of_each, may_set))]) == [*range(len(parameters))]


def test_a_row_of_an_argument_is_not_copied():
    function, example, parameters = CASES["a network"]
    graph = graph_of(function, example, parameters)
    whole = program(graph, graph.ends("backward"))
    _, products, size = split(whole.kernel, whole.sizes)
    assert [product.b for product in products] == [Ref("block", 16, (0, 1)), Ref("x", 0, (0, 1))]
    assert size == 16 + 20 + 20
