"""Random scans, compiled to Python and compared with the engine.

A program is a scan whose step does some random operations on its state, x, parameters, computed numbers from outside
and constants, with a scan inside it now and then, and perhaps a second scan over what the first one returns.
"""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from micrograd import Value, compile, dot, logsumexp, promote, scan, take, where
from tests.helpers import assert_as_engine, assert_close, eager, flat

N_PARAMETERS, N_STATE, N_X = 8, 2, 2
UNARY = ["tanh", "sin", "sigmoid", "relu", "exp"]
KINDS = ["+", "-", "*", "*", "unary", "unary", "where", "dot", "logsumexp", "take", "scan", "sum"]
OPERANDS = {"unary": 1, "take": 1, "+": 2, "-": 2, "*": 2, "where": 4, "dot": 4, "logsumexp": 4, "sum": 4, "scan": 5}
Example = tuple[list[float], list[list[float]]]


class Body(NamedTuple):
    """What a step computes: operations on earlier numbers, by their positions; its next state and y are positions.

    Each operation is its kind, what else is chosen, and its operands. If a step only `adds` numbers to the state, it
    uses the state for nothing else.
    """

    operations: list[tuple[Any, ...]]
    state: list[int]
    y: list[int]
    adds: bool


class Program(NamedTuple):
    """Loops one after the other: the second one scans the ys of the first.

    Some return a number of the last state `alone`.
    """

    bodies: list[Body]
    rounds: int
    until: bool
    alone: bool


def body(rng: random.Random, n_state: int, n_x: int, n_y: int, depth: int = 0) -> Body:
    """A random step."""
    operations: list[tuple[Any, ...]] = []
    n = n_state + n_x + N_PARAMETERS + 3  # what there is to start from: also two computed numbers, and a constant
    adds = rng.random() < 0.3

    def one() -> int:
        return rng.randrange(n_state if adds else 0, n + len(operations))

    choices: dict[str, Callable[[], Any]] = {
        "unary": lambda: rng.choice(UNARY),
        "dot": lambda: rng.randrange(N_PARAMETERS - 4),
        "scan": lambda: (body(rng, 2, 1, 1, depth + 1), rng.randint(8, 10)),
    }
    for _ in range(rng.randint(0, 7)):
        kind = rng.choice(KINDS)
        if kind != "scan" or depth < 1:
            choice = choices[kind]() if kind in choices else None
            operations.append((kind, choice, [one() for _ in range(OPERANDS[kind])]))
    last = n + len(operations) - 1
    state = [rng.choice([last, one(), one(), last if adds else i]) for i in range(n_state)]
    return Body(operations, state, [one() for _ in range(n_y)], adds)


def generate(index: int) -> Program:
    rng = random.Random(index)
    bodies = [body(rng, N_STATE, N_X, 2), body(rng, N_STATE, 2, 1)]
    bodies, rounds = bodies[: rng.choice([1, 1, 2])], rng.choice([8, 9, 12, 41, 64])
    return Program(bodies, rounds, until=rng.random() < 0.2, alone=rng.random() < 0.3)


def stepped(of: Body, state: list[Any], x: list[Any], outside: list[Any]) -> tuple[list[Any], list[Any]]:
    found = [*state, *x, *outside]
    w = outside[:N_PARAMETERS]
    for kind, choice, operands in of.operations:
        new = OPERATIONS[kind](w, choice, *(found[i] for i in operands))
        found.append((new * 0.5 + 0.0 * w[0]).tanh())
    following = [s + found[i] * 0.1 if of.adds else found[i] * 0.9 for s, i in zip(state, of.state, strict=True)]
    return following, [found[i] for i in of.y]


def scanned(w: list[Any], choice: tuple[Body, int], first: Any, second: Any, *captured: Any) -> Any:
    """A loop inside the step, which reads numbers of the step around it."""
    inner, n = choice
    xs = [[first * (0.1 * i)] for i in range(n)]
    last, ys = scan(lambda s, x: stepped(inner, s, x, [*w, *captured]), [first, second], xs)
    return last[0] + last[1] + sum(y[0] for y in ys)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": lambda w, _, a, b: a + b, "-": lambda w, _, a, b: a - b, "*": lambda w, _, a, b: a * b,
    "unary": lambda w, name, a: getattr(Value, name)(a + 0.0 * w[0]),
    "where": lambda w, _, a, b, c, d: where(a > b, c, d), "dot": lambda w, start, *xs: dot(w[start : start + 4], xs),
    "logsumexp": lambda w, _, *xs: logsumexp(xs), "sum": lambda w, _, *xs: sum(x * 0.5 for x in xs),
    "take": lambda w, _, a: take(w[:4], where(a > 0, 1, 2)), "scan": scanned,
}  # fmt: skip


def run(program: Program, w: list[Value], s: list[Any], xs: list[Any]) -> Any:
    outside = [*w, (w[0] * w[1]).sin(), w[2] - s[0], 0.7]
    total, state = 0.0, s
    for each in program.bodies:

        def step(s: list[Any], x: list[Any], of: Body = each) -> tuple[list[Any], Any]:
            state, y = stepped(of, s, x, outside)
            return state, None if program.until else y

        state, ys = scan(step, state, xs, until=(lambda s: s[0] > 0.8) if program.until else None)
        if ys is not None:
            xs = ys
            total = total + sum(y[0] for y in ys) - 0.3 * ys[2][-1]
    if program.alone:
        return promote(state[0])[0]
    return total + state[0] * 1.5 + state[-1] + 0.1 * w[0]


def numbers(rounds: int) -> Example:
    """An example, and other numbers for each number of rounds."""
    rng = random.Random(rounds)
    return [rng.uniform(-1, 1) for _ in range(N_STATE)], [
        [rng.uniform(-1, 1) for _ in range(N_X)] for _ in range(rounds)
    ]


def check(program: Program) -> None:
    """See that compiled Python computes what the engine does: the value, and the gradients of all arguments."""
    example = numbers(program.rounds)
    w = [Value(0.3 * (i - 3.4)) for i in range(N_PARAMETERS)]

    def function(s: list[Any], xs: list[Any]) -> Any:
        return run(program, w, s, xs)

    fast = compile(function, example, parameters=w, backend="python")
    value, gradients = fast.value_and_grad(*example)
    assert_close(flat([value, *gradients]), flat(list(eager(function, *example))), 1e-9)
    assert_as_engine(fast, function, *[[argument] * 9 for argument in example], tolerance=1e-9)
