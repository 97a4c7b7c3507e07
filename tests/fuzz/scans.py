"""Random loops: `python -m tests.fuzz.scans --programs N --seed N` compiles scans, and compares them with the engine.

A program is a scan whose step does some random operations on its state, x, parameters, computed numbers from outside
and constants, with a scan inside it now and then, and perhaps a second scan over what the first one returns.
"""

import random
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from micrograd import Value, compile, dot, logsumexp, scan, take, where
from tests.fuzz import command

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
    """Loops one after the other: the second one scans the ys of the first."""

    bodies: list[Body]
    rounds: int
    until: bool


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
    for _ in range(rng.randint(1, 7)):
        kind = rng.choice(KINDS)
        if kind != "scan" or depth < 1:
            choice = choices[kind]() if kind in choices else None
            operations.append((kind, choice, [one() for _ in range(OPERANDS[kind])]))
    last = n + len(operations) - 1
    state = [rng.choice([last, one(), one(), last if adds else i]) for i in range(n_state)]
    return Body(operations, state, [one() for _ in range(n_y)], adds)


def generate(seed: int, index: int) -> Program:
    """The program of this number."""
    rng = random.Random(f"{seed} {index}")
    bodies = [body(rng, N_STATE, N_X, 2), body(rng, N_STATE, 2, 1)]
    return Program(bodies[: rng.choice([1, 1, 2])], rng.choice([8, 9, 12, 41, 64]), rng.random() < 0.2)


def stepped(of: Body, state: list[Any], x: list[Any], outside: list[Any]) -> tuple[list[Any], list[Any]]:
    """The step of a body."""
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
    """What a program returns."""
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
    return total + state[0] * 1.5 + state[-1] + 0.1 * w[0]


def numbers(rounds: int) -> Example:
    """An example, and other numbers for each number of rounds."""
    rng = random.Random(rounds)
    return [rng.uniform(-1, 1) for _ in range(N_STATE)], [
        [rng.uniform(-1, 1) for _ in range(N_X)] for _ in range(rounds)
    ]


def differences(program: Program, backend: str) -> list[tuple[float, float]]:
    """What compiled code computes otherwise than the engine, and the engine's numbers."""
    s, xs = numbers(program.rounds)
    w = [Value(0.3 * (i - 3.4)) for i in range(N_PARAMETERS)]
    fast = compile(lambda s, xs: run(program, w, s, xs), (s, xs), parameters=w, backend=backend)
    value, (of_s, of_xs) = fast.value_and_grad(s, xs, argnum=(0, 1))
    found = [value, fast(s, xs), *of_s, *(g for row in of_xs for g in row)]
    fast.backward([s] * 9, [xs] * 9)
    found += [v.grad for v in w]
    for v in w:
        v.grad = 0.0
    arguments = [Value(v) for v in s], [[Value(v) for v in x] for x in xs]
    result = run(program, w, *arguments)
    result.backward()
    expected = [result.data, result.data, *(v.grad for v in arguments[0]), *(v.grad for x in arguments[1] for v in x)]
    expected += [v.grad for v in w]
    pairs = zip(found, expected, strict=True)
    return [(a, b) for a, b in pairs if abs(a - b) > 1e-9 * max(1.0, abs(b))]


def main() -> int:
    """The command; its exit status."""
    parser = command("python -m tests.fuzz.scans", "Compile random scans.", programs=200)
    parser.add_argument("--backend", default="python", help="python or c (default: %(default)s)")
    options = parser.parse_args()
    for index in range(options.programs):
        program = generate(options.seed, index)
        if found := differences(program, options.backend):
            print(f"program {index} of seed {options.seed} differs: {found}\n{program}")
            return 1
    print(f"{options.programs:,} programs, none differs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
