"""Products: the gradients of matrices leave the kernel, and stay the same."""

import pytest

from micrograd.compiler.ir import Ref, refs
from micrograd.compiler.passes import program
from micrograd.compiler.passes.products import split
from tests.helpers import assert_close
from tests.kernels import everything, graph_of, interpreted
from tests.products import CASES

COUNTS = {
    "a network": 2, "a small network": 0, "a matrix used twice, and elsewhere": 2, "several products over one row": 2,
    "steps": 20, "a difference": 1, "a row that spans two arguments": 1, "a table": 1,
    "weights with the same factors": 0,
}  # fmt: skip


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


def test_a_row_of_an_argument_is_not_copied():
    function, example, parameters = CASES["a network"]
    graph = graph_of(function, example, parameters)
    whole = program(graph, graph.ends("backward"))
    _, products, size = split(whole.kernel, whole.sizes)
    assert [product.b for product in products] == [Ref("block", 16, (0, 1)), Ref("x", 0, (0, 1))]
    assert size == 16 + 20 + 20
