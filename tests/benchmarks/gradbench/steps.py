"""Programs that take many steps in time: a recurrent network, and a differential equation."""

from typing import Any

import numpy as np

from micrograd import dot, scan
from micrograd import sum as total
from tests.benchmarks.gradbench.libraries import Library
from tests.benchmarks.gradbench.problem import Problem, uniform

BITS = 14  # of a character, and so the width of the network

# lstm: the gradient of the loss of a network. Its gates have a weight and a bias for each bit


def text(layers: int, steps: int) -> tuple[Any, Any, Any, Any]:
    """The gates' weights and biases, layer by layer; three rows for input and output; the state; the characters."""
    bits = np.round(uniform(steps, BITS, seed=3))
    return uniform(layers, 2, 4, BITS), uniform(3, BITS, seed=1), uniform(layers, 2, BITS, seed=2), bits


def cell(gates: list[list[list[Any]]], state: list[list[Any]], xs: list[Any]) -> list[list[Any]]:
    """The state of a layer, hidden and cell, after the next input."""
    (w_forget, w_in, w_out, w_change), (b_forget, b_in, b_out, b_change) = gates
    hidden, cells = [], []
    for i, (x, h, c) in enumerate(zip(xs, *state, strict=True)):
        forget = (x * w_forget[i] + b_forget[i]).sigmoid()
        ingate = (h * w_in[i] + b_in[i]).sigmoid()
        outgate = (x * w_out[i] + b_out[i]).sigmoid()
        cells.append(c * forget + ingate * (h * w_change[i] + b_change[i]).tanh())
        hidden.append(outgate * cells[-1].tanh())
    return [hidden, cells]


def our_lstm(layers: int, steps: int) -> Problem:
    """The loss, bit by bit."""

    def loss(gates: Any, extra: Any, state: Any, bits: Any) -> Any:
        scale, weights, biases = extra

        def step(state: Any, pair: Any) -> tuple[Any, Any]:
            bits, following = pair
            (sum_before, layers), xs = state, [x * s for x, s in zip(bits, scale, strict=True)]
            new = []
            for gates_of_one, state_of_one in zip(gates, layers, strict=True):
                new.append(cell(gates_of_one, state_of_one, xs))
                xs = new[-1][0]
            ys = [x * w + b for x, w, b in zip(xs, weights, biases, strict=True)]
            normal = (total(y.exp() for y in ys) + 2).log()
            return (sum_before + dot(following, [y - normal for y in ys]), new), None

        pairs = [[bits[t], bits[t + 1]] for t in range(steps - 1)]
        (log_likelihood, _), _ = scan(step, (0.0, state), pairs)
        return -log_likelihood / (BITS * (steps - 1))

    return Problem(loss, text(layers, steps))


def their_lstm(of: Library, layers: int, steps: int) -> Problem:
    """The loss, with the bits of a layer in one array."""

    def loss(gates: Any, extra: Any, state: Any, bits: Any) -> Any:
        def step(carried: Any, pair: Any) -> Any:
            log_likelihood, states = carried
            (x, following), new = pair, []
            x = x * extra[0]
            for (w, b), (h, c) in zip(gates, states, strict=True):
                f, i, o, change = of.np.stack([x, h, x, h]) * w + b
                c = c * sigmoid(f) + sigmoid(i) * of.np.tanh(change)
                x = sigmoid(o) * of.np.tanh(c)
                new.append(of.np.stack([x, c]))
            y = x * extra[1] + extra[2]
            y = y - of.np.log(of.np.exp(y).sum() + 2)
            return log_likelihood + (following * y).sum(), of.np.stack(new)

        def sigmoid(x: Any) -> Any:
            return 1 / (1 + of.np.exp(-x))

        pairs = of.np.stack([bits[:-1], bits[1:]], 1)
        return -of.scan(step, (of.array(0.0), state), pairs)[0] / (BITS * (steps - 1))

    return Problem(loss, text(layers, steps))


# ode: n equations, each driven by the one before it, in s Runge-Kutta steps from 0 to 2


def our_ode(n: int, steps: int, last: int) -> Problem:
    """The solution at time 2, or its last number."""
    h = 2 / steps

    def solution(x: list[Any]) -> Any:
        def slopes(y: list[Any]) -> list[Any]:
            return [x[0], *[a * b for a, b in zip(x[1:], y, strict=False)]]

        def moved(y: list[Any], k: list[Any], h: float) -> list[Any]:
            return [a + h * b for a, b in zip(y, k, strict=True)]

        def step(y: list[Any], _: None) -> tuple[list[Any], None]:
            k1 = slopes(y)
            k2 = slopes(moved(y, k1, h / 2))
            k3 = slopes(moved(y, k2, h / 2))
            k4 = slopes(moved(y, k3, h))
            each = zip(y, k1, k2, k3, k4, strict=True)
            return [y + h / 6 * (a + 2 * b + 2 * c + d) for y, a, b, c, d in each], None

        y, _ = scan(step, [0.0] * n, length=steps)
        return y[-1] if last else y

    return Problem(solution, (uniform(n),))


def their_ode(of: Library, n: int, steps: int, last: int) -> Problem:
    h, one = 2 / steps, of.array([1.0])

    def solution(x: Any) -> Any:
        def slopes(y: Any) -> Any:
            return x * of.np.concatenate([one, y[:-1]])

        def step(y: Any, _: Any) -> Any:
            k1 = slopes(y)
            k2 = slopes(y + h / 2 * k1)
            k3 = slopes(y + h / 2 * k2)
            k4 = slopes(y + h * k3)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        y = of.scan(step, of.np.zeros_like(x), of.np.zeros(steps))
        return y[-1] if last else y

    return Problem(solution, (uniform(n),))
