"""Random scans, compiled to Python and compared with the engine.

A program is a scan whose step does some random operations on its state, x, parameters, computed numbers from outside
and constants, with a scan inside it now and then, and perhaps a second scan over what the first one returns. A step
draws its operations while it runs, from a seed of its own, so they are the same in each round.
"""

import random
from collections.abc import Callable
from typing import Any

from micrograd import Value, compile, dot, logsumexp, promote, scan, take, where
from tests.helpers import assert_as_engine, assert_close, eager, flat

N_PARAMETERS = 8
UNARY = [Value.tanh, Value.sin, Value.sigmoid, Value.relu, Value.exp]
Step = Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]]


def random_step(rng: random.Random, outside: list[Any], n_y: int, kinds: list[str]) -> Step:
    """A step that computes with its state, its x and numbers from outside, parameters first.

    If it only `adds` numbers to the state, it uses the state for nothing else.
    """
    seed, adds = rng.random(), rng.random() < 0.3

    def step(state: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        drawn, w, found = random.Random(seed), outside[:N_PARAMETERS], [*state, *x, *outside]

        def one() -> Any:
            return drawn.choice(found[len(state) if adds else 0 :])

        for _ in range(drawn.randint(0, 7)):
            n_operands, operation = OPERATIONS[drawn.choice(kinds)]
            new = operation(w, drawn, *[one() for _ in range(n_operands)])
            found.append((new * 0.5 + 0.0 * w[0]).tanh())
        following = []
        for s in state:
            number = drawn.choice([found[-1], one(), one(), found[-1] if adds else s])
            following.append(s + number * 0.1 if adds else number * 0.9)
        return following, [one() for _ in range(n_y)]

    return step


def scanned(w: list[Any], rng: random.Random, first: Any, second: Any, *captured: Any) -> Any:
    """A loop inside the step, which reads numbers of the step around it."""
    xs = [[first * (0.1 * i)] for i in range(rng.randint(8, 10))]
    last, ys = scan(random_step(rng, [*w, *captured], 1, KINDS), [first, second], xs)
    return last[0] + last[1] + sum(y[0] for y in ys)


OPERATIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "+": (2, lambda w, rng, a, b: a + b), "-": (2, lambda w, rng, a, b: a - b), "*": (2, lambda w, rng, a, b: a * b),
    "unary": (1, lambda w, rng, a: rng.choice(UNARY)(a + 0.0 * w[0])),
    "where": (4, lambda w, rng, a, b, c, d: where(a > b, c, d)),
    "dot": (4, lambda w, rng, *xs: dot(w[rng.randrange(N_PARAMETERS - 4) :][:4], xs)),
    "logsumexp": (4, lambda w, rng, *xs: logsumexp(xs)), "sum": (4, lambda w, rng, *xs: sum(x * 0.5 for x in xs)),
    "take": (1, lambda w, rng, a: take(w[:4], where(a > 0, 1, 2))), "scan": (5, scanned),
}  # fmt: skip
"""How many operands each operation has, and its function, which draws whatever else there is to choose."""
KINDS = ["*", "unary", *OPERATIONS][:-1]
"""The operations to draw from in an inner loop, two of them twice as often; in an outer one, there is a scan, too."""


def run(seed: int, w: list[Value], s: list[Any], xs: list[Any]) -> Any:
    """The program with that seed: loops one after the other. Some return a number of the last state alone."""
    rng = random.Random(seed)
    until = (lambda s: s[0] > 0.8) if rng.random() < 0.2 else None
    outside = [*w, (w[0] * w[1]).sin(), w[2] - s[0], 0.7]
    total, state = 0.0, s
    for n_y in (2, 1)[: rng.choice([1, 1, 2])]:
        step = random_step(rng, outside, n_y, [*KINDS, "scan"])
        if until:
            state, _ = scan(lambda s, x, step=step: (step(s, x)[0], None), state, xs, until=until)
        else:
            state, xs = scan(step, state, xs)
            total = total + sum(y[0] for y in xs) - 0.3 * xs[2][-1]
    if rng.random() < 0.3:
        return promote(state[0])[0]
    return total + state[0] * 1.5 + state[-1] + 0.1 * w[0]


def check(seed: int) -> None:
    """See that compiled Python computes what the engine does: the value, and the gradients of all arguments."""
    rng = random.Random(seed)
    n, w = rng.choice([8, 9, 12, 41, 64]), [Value(0.3 * (i - 3.4)) for i in range(N_PARAMETERS)]
    s, *xs = [[rng.uniform(-1, 1) for _ in range(2)] for _ in range(1 + n)]

    def function(s: list[Any], xs: list[Any]) -> Any:
        return run(seed, w, s, xs)

    fast = compile(function, (s, xs), parameters=w, backend="python")
    value, gradients = fast.value_and_grad(s, xs)
    assert_close(flat([value, *gradients]), flat(list(eager(function, s, xs))), 1e-9)
    assert_as_engine(fast, function, [s] * 9, [xs] * 9, tolerance=1e-9)
