"""The loops of scan: what a round computes, and what is left to compute after the loop."""

from math import prod

import numpy as np

import micrograd
from micrograd import dot, functional, scan
from micrograd import sum as added_up
from micrograd.compiler.ir import innermost, refs
from micrograd.compiler.passes.pipeline import program


def squares(w, center, xs):
    """The sum of squares of w times x - center, and of what follows from one x alone."""

    def step(state, x):
        z = [dot(row, [a - b for a, b in zip(x, center, strict=True)]) for row in w]
        return [state[0] + added_up(v * v for v in z), state[1] + center[0] * x[0] * 2.0], x[1] * center[1]

    (first, second), ys = scan(step, [0.0, 0.0], xs)
    return first + second * added_up(ys)


def test_what_follows_linearly_from_a_sum_is_computed_after_the_loop(backend):
    numbers = np.random.default_rng(0)
    arguments = [numbers.normal(size=shape).tolist() for shape in ((3, 3), (3,), (20, 3))]
    fast = micrograd.compile(squares, arguments, backend=backend)
    graph, found = fast._first_graph(), []
    for places in ((0, 1), (0, 1, 2)):
        _, gradients = fast.value_and_grad(*arguments, argnum=places)
        expected = functional.value_and_grad(squares, places)(*arguments)[1]
        assert all(np.allclose(a, b, rtol=1e-12) for a, b in zip(gradients, expected, strict=True))
        kernel = program(graph, graph.ends(places)).kernel
        steps = [each for step in kernel for each in innermost(step) if each[1][:1] == (20,)]
        found.append(sum(prod(rounds) for step, around in steps for _, rounds in refs(step, around)))
    assert found[0] < found[1] - 20 * 9  # where each x gets a gradient, each round needs the products with w
