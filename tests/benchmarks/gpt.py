"""A character GPT, a training step on one name: microgpt's architecture in our engine, compiled, and in others.

One layer with 4 heads, 16 numbers a token, a context of at most 16: rmsnorm, causal attention, a relu network 4 times
as wide, no biases; 4,192 weights. The network is one text, `loss_of`, for all scalar engines, each with operations of
its own: our fused ones, and there sums of products, exponentials and logarithms.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.benchmarks import values
from tests.benchmarks.data import RATE
from tests.benchmarks.harness import Benchmark, Contestant, Measure, compilation, optimized
from tests.benchmarks.mlp import function_alone, our_training
from tests.benchmarks.values import scalar_engines, their_training, value_of

WIDTH, HEADS, CONTEXT, VOCABULARY = 16, 4, 16, 27
SHAPES = {
    "tokens": (VOCABULARY, WIDTH),
    "positions": (CONTEXT, WIDTH),
    "queries": (WIDTH, WIDTH),
    "keys": (WIDTH, WIDTH),
    "values": (WIDTH, WIDTH),
    "attended": (WIDTH, WIDTH),
    "widen": (4 * WIDTH, WIDTH),
    "narrow": (WIDTH, 4 * WIDTH),
    "logits": (VOCABULARY, WIDTH),
}
NAME = [26, 8, 18, 0, 1, 4, 11, 26]  # "isabel" between two ends: 7 tokens to predict the next from
EPSILON = 1e-5


def benchmarks() -> list[Benchmark]:
    """A training step, its forward and backward pass, and what it takes to compile it."""

    def compiled(kind: str) -> tuple[Contestant, ...]:
        return tuple(Contestant(f"compiled to {name}", our_task, (name.lower(), kind)) for name in ("Python", "C"))

    return [
        Benchmark(
            f"{title} of a GPT, 4,192 weights, one name",
            (Contestant("eager", our_task, ("eager", kind)), *compiled(kind)),
            (*scalar_engines(their_task, kind), Contestant("PyTorch", pytorch_task, (kind,))),
        )
        for kind, title in (("step", "training step"), ("gradient", "forward and backward"))
    ] + [
        Benchmark(
            "forward and backward of the GPT, the generated function alone",
            (Contestant("compiled to C", our_task, ("c", "function")),),
            (Contestant("PyTorch", pytorch_task, ("gradient",)),),
        ),
        Benchmark(
            "trace and compile the GPT",
            tuple(Contestant(f"to {name}", compile_gpt, (name.lower(),)) for name in ("Python", "C")),
            rounds=3,
        ),
    ]


@dataclass(frozen=True)
class Operations:
    """What the network is made of besides arithmetic: each as its library does it best."""

    dot: Callable[[Sequence[Any], Sequence[Any]], Any]
    mean: Callable[[Sequence[Any]], Any]
    softmax: Callable[[Sequence[Any]], list[Any]]
    cross_entropy: Callable[[Sequence[Any], int], Any]


def loss_of(weights: dict[str, list[list[Any]]], name: Sequence[int], op: Operations) -> Any:
    """The mean cross-entropy of the next token at each position of a name."""

    def linear(matrix: str, x: Sequence[Any]) -> list[Any]:
        return [op.dot(row, x) for row in weights[matrix]]

    def rmsnorm(x: Sequence[Any]) -> list[Any]:
        scale = (op.dot(x, x) * (1 / WIDTH) + EPSILON) ** -0.5
        return [xi * scale for xi in x]

    def added(x: Sequence[Any], y: Sequence[Any]) -> list[Any]:
        return [xi + yi for xi, yi in zip(x, y, strict=True)]

    def attention(query: Sequence[Any]) -> list[Any]:
        size = WIDTH // HEADS
        output = []
        for head in (slice(start, start + size) for start in range(0, WIDTH, size)):
            shares = op.softmax([op.dot(query[head], key[head]) * size**-0.5 for key in keys])
            output += [op.dot(shares, column) for column in zip(*[value[head] for value in values], strict=True)]
        return output

    keys: list[list[Any]] = []
    values: list[list[Any]] = []
    losses = []
    for position, (token, following) in enumerate(pairwise(name)):
        x = rmsnorm(added(weights["tokens"][token], weights["positions"][position]))
        normed = rmsnorm(x)
        keys.append(linear("keys", normed))
        values.append(linear("values", normed))
        x = added(x, linear("attended", attention(linear("queries", normed))))
        x = added(x, linear("narrow", [h.relu() for h in linear("widen", rmsnorm(x))]))
        losses.append(op.cross_entropy(linear("logits", x), following))
    return op.mean(losses)


def our_task(form: str, kind: str) -> Measure:
    """Eager, with the fused operations, or compiled by a backend."""
    from micrograd.optim import SGD

    fast, loss, parameters = our_gpt(form)
    if kind == "function":
        return function_alone(fast, fast.pack())

    def eager() -> float:
        result = loss()
        result.backward()
        return float(result.data)

    gradient = fast.backward if fast else eager
    return our_training(kind, gradient, SGD(parameters, RATE), lambda: restart(parameters))


def our_gpt(form: str) -> tuple[Any, Callable[[], Any], list[Any]]:
    """The compiled loss, or None if the form is "eager"; the loss itself; and the weights."""
    import micrograd
    from micrograd import Value, dot, losses, mean

    weights = {name: [[Value(0.0) for _ in range(m)] for _ in range(n)] for name, (n, m) in SHAPES.items()}
    parameters = flat(weights)
    restart(parameters)
    op = Operations(dot, mean, losses.softmax, losses.cross_entropy)

    def loss() -> Any:
        return loss_of(weights, NAME, op)

    if form == "eager":
        return None, loss, parameters
    return micrograd.compile(loss, (), parameters=parameters, backend=form), loss, parameters


def compile_gpt(backend: str) -> Measure:
    """Tracing and compiling, with nothing in the cache, and one run."""
    return compilation(lambda: our_gpt(backend)[0].backward())


def their_task(engine: str, kind: str) -> Measure:
    """In another scalar engine."""
    value = value_of(engine)
    weights = {name: [[value(0.0) for _ in range(m)] for _ in range(n)] for name, (n, m) in SHAPES.items()}
    parameters = flat(weights)
    op = Operations(values.dot, values.mean, values.softmax, values.cross_entropy)

    def gradient() -> float:
        loss = loss_of(weights, NAME, op)
        loss.backward()
        return float(loss.data)

    return their_training(kind, gradient, parameters, lambda: restart(parameters))


def pytorch_task(kind: str) -> Measure:
    """In PyTorch, one thread: all positions at once, and the attention with a mask."""
    import torch
    from torch.nn import functional

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    weights = {name: torch.zeros(shape, requires_grad=True) for name, shape in SHAPES.items()}
    optimizer = torch.optim.SGD(weights.values(), RATE)
    tokens, following = torch.tensor(NAME[:-1]), torch.tensor(NAME[1:])
    n = len(tokens)

    def rmsnorm(x: Any) -> Any:
        return functional.rms_norm(x, (WIDTH,), eps=EPSILON)

    def heads(x: Any) -> Any:
        return x.view(n, HEADS, -1).transpose(0, 1)

    def gradient() -> float:
        x = rmsnorm(weights["tokens"][tokens] + weights["positions"][:n])
        normed = rmsnorm(x)
        query, key, value = (heads(normed @ weights[name].T) for name in ("queries", "keys", "values"))
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + attended.transpose(0, 1).reshape(n, WIDTH) @ weights["attended"].T
        x = x + (rmsnorm(x) @ weights["widen"].T).relu() @ weights["narrow"].T
        loss = functional.cross_entropy(x @ weights["logits"].T, following)
        loss.backward()
        return loss.item()

    def restore() -> None:
        rng = random.Random(1)
        with torch.no_grad():
            for matrix in weights.values():
                matrix.copy_(torch.tensor([rng.gauss(0, 0.08) for _ in range(matrix.numel())]).view(matrix.shape))

    return optimized(
        kind, gradient, optimizer, restore, lambda: torch.cat([w.grad.flatten() for w in weights.values()]).tolist()
    )


def restart(parameters: Sequence[Any]) -> None:
    """The weights as they are before training."""
    rng = random.Random(1)
    for parameter in parameters:
        parameter.data = rng.gauss(0, 0.08)


def flat(weights: dict[str, list[list[Any]]]) -> list[Any]:
    """All weights, in order."""
    return [weight for matrix in weights.values() for row in matrix for weight in row]
