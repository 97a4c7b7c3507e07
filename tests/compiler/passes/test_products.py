"""Products: the gradients of matrices leave the kernel, and stay the same."""

import pytest

from micrograd.compiler.ir import Accumulate, Loop, Ref, Scatter, Switch, refs
from micrograd.compiler.passes.pipeline import program
from micrograd.compiler.passes.products import Product, alone, split
from tests.helpers import assert_close
from tests.kernels import everything, graph_of, interpreted
from tests.products import CASES

COUNTS = {
    "a network": 2, "a small network": 0, "a matrix used twice, and elsewhere": 2, "several products over one row": 2,
    "steps": 20, "a difference": 1, "a row that spans two arguments": 1, "a table": 1,
    "weights with the same factors": 0, "the same gradient for all rows": 0,
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_split_from_its_products_computes_the_same(name):
    function, example, parameters = CASES[name]
    graph = graph_of(function, example, parameters)
    whole = program(graph, everything(graph))
    kernel, products, size = split(whole.kernel, whole.graph.sizes)
    assert all(product.a.strides[-2:] == (1, 0) for product in products)  # as C reads it
    steps = [product.step() for product in products]
    assert len(steps) == COUNTS[name]
    expected = interpreted(whole, parameters, example)
    results, gradients = interpreted(whole._replace(kernel=[*kernel, *steps]), parameters, example)
    assert results == expected.results
    assert_close(gradients, expected.gradients)
    places = [place.base for place, _ in refs(tuple(kernel)) if place.array == "block"]
    assert len(places) == len({*places})  # a row is copied once
    assert all(place < size for place in places)


def test_a_row_of_an_argument_is_not_copied_and_others_are_in_loops_that_access_others_too():
    function, example, parameters = CASES["a network"]
    graph = graph_of(function, example, parameters)
    whole = program(graph, graph.ends("backward"))
    kernel, products, size = split(whole.kernel, whole.graph.sizes)
    assert [product.b for product in products] == [Ref("block", 16, (0, 1)), Ref("x", 0, (0, 1))]
    assert size == 16 + 20 + 20
    loops = [step for step in kernel if any(ref.array == "block" for ref, _ in refs(step))]
    assert [len(loop.body) for loop in loops] == [3, 5]


PRODUCT = Product((16, 20), Ref("g", 42, (21, 1)), Ref("block", 0, (1, 0)), Ref("block", 16, (0, 1)))


def adding(*place):
    """A step that adds to the gradient at a place."""
    return Accumulate(Ref("g", *place), Ref("t", 0))


@pytest.mark.parametrize(("step", "is_alone"), [
    (Loop(16, (adding(62, (21,)),)), True),  # between the rows
    (Loop(16, (adding(61, (21,)),)), False),
    (Loop(16, (adding(62, (20,)),)), False),
    (Loop(2, (Loop(16, (adding(62, (1, 21)),)),)), False),  # also in the next row
    (Loop(3, (adding(62, ((0, 21, 42),)),)), False),  # where not known
    (adding(41), True), (adding(42), False), (adding(376), False), (adding(377), True),
    (Loop(2, (Scatter(Ref("g", 0, (1, 21)), 3, Ref("x", 0), Ref("t", 0)),)), False),
    (Scatter(Ref("g", 62, (21,)), 16, Ref("x", 0), Ref("t", 0)), True),
    (Switch((0, 1, 1), ((adding(0),), (adding(62, (21,)),))), True),
    (Switch((0, 1, 1), ((adding(0),), (adding(60, (1,)),))), False),
])  # fmt: skip
def test_a_product_is_alone_if_nothing_else_adds_to_its_gradients(step, is_alone):
    assert alone([PRODUCT], [step]) == [PRODUCT] * is_alone


@pytest.mark.parametrize(("change", "found"), [
    ({"target": Ref("g", 400, (21, 1))}, 2), ({"target": Ref("g", 41, (21, 1))}, 0),
    ({"target": Ref("g", 400, (0, 1))}, 1), ({"target": Ref("g", 62, (0, 21, 1)), "rounds": (2, 16, 1)}, 1),
    ({"target": Ref("g", 62, (21, 1)), "rounds": (16, 1)}, 1),  # each between the rows of the other
])  # fmt: skip
def test_products_are_alone_if_they_do_not_meet(change, found):
    assert len(alone([PRODUCT._replace(**change), PRODUCT], [])) == found
