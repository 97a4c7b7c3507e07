"""A character GPT, a training step on one name: microgpt's architecture in our engine, compiled, and in others.

One layer with 4 heads, 16 numbers a token, a context of at most 16: rmsnorm, causal attention, a relu network 4 times
as wide, no biases; 4,192 weights. The network is one text, `loss_of`, for ours and for micrograd 0.1.0, each with its
own operations: our fused ones, and there sums of products, exponentials and logarithms, which it lacks, in its form.
"""

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from typing import Any

from tests.benchmarks.compiler import PYTORCH, RATE, compilation, function_alone
from tests.benchmarks.harness import OURS, Benchmark, Contestant, Measure, installed, repeated

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
    """A training step and what it takes to compile it."""
    original = installed("micrograd==0.1.0")

    def pytorch(kind: str = "step") -> Contestant:
        return Contestant(PYTORCH, pytorch_task, (kind,))

    def theirs(target: float | None = None, kind: str = "step") -> Contestant:
        return Contestant("micrograd 0.1.0's form", their_task, (kind,), path=original, target=target)

    def ours(form: str, kind: str = "step") -> Contestant:
        return Contestant(f"{OURS}, {form}", our_task, (form, kind))

    def compiling(form: str) -> Contestant:
        return Contestant(f"{OURS}, {form}", compile_gpt, (form,))

    return [
        Benchmark("GPT, training step", (ours("eager"), theirs(), pytorch()), rounds=5),
        Benchmark("GPT, training step", (ours("python"), theirs(200), pytorch()), rounds=5),
        Benchmark("GPT, training step", (ours("c"), theirs(2_000), pytorch()), rounds=5),
        Benchmark(
            "GPT, forward and backward alone",
            (ours("c", "gradient"), theirs(2_000, "gradient"), pytorch("gradient")),
            rounds=5,
        ),
        Benchmark("the same, the generated function alone", (ours("c", "function"), pytorch("gradient"))),
        Benchmark("GPT, trace and compile, at most 3 s", (compiling("python"),), rounds=3),
        Benchmark("GPT, trace and compile, at most 10 s", (compiling("c"),), rounds=3),
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
        packed = fast.pack()
        run, numbers, gradients, results = function_alone(fast, packed)

        def function() -> float:
            run(numbers, 1.0, packed, gradients, results)
            return results[0]  # type: ignore[no-any-return]

        return repeated(function, function)
    optimizer = SGD(parameters, RATE)

    def eager() -> float:
        result = loss()
        result.backward()
        return result.data  # type: ignore[no-any-return]

    backward = fast.backward if fast else eager

    def step() -> float:
        optimizer.zero_grad()
        result = backward()
        optimizer.step()
        return result

    return training(kind, step, backward, lambda: restart(parameters))


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


def their_task(kind: str) -> Measure:
    """In micrograd 0.1.0's form."""
    from micrograd.engine import Value  # here the other one

    add_functions(Value)
    sys.setrecursionlimit(100_000)  # it recurses once per node of a path
    weights = {name: [[Value(0.0) for _ in range(m)] for _ in range(n)] for name, (n, m) in SHAPES.items()}
    parameters = flat(weights)

    def exponentials(logits: Sequence[Any]) -> list[Any]:
        largest = max(logit.data for logit in logits)
        return [(logit - largest).exp() for logit in logits]

    def softmax(logits: Sequence[Any]) -> list[Any]:
        powers = exponentials(logits)
        total = sum(powers)
        return [power / total for power in powers]

    op = Operations(
        dot=lambda ws, xs: sum(w * x for w, x in zip(ws, xs, strict=True)),
        mean=lambda xs: sum(xs) * (1 / len(xs)),
        softmax=softmax,
        cross_entropy=lambda logits, i: -softmax(logits)[i].log(),
    )

    def gradient() -> float:
        loss = loss_of(weights, NAME, op)
        loss.backward()
        return loss.data  # type: ignore[no-any-return]

    def step() -> float:
        for p in parameters:
            p.grad = 0
        loss = gradient()
        for p in parameters:
            p.data -= RATE * p.grad
        return loss

    return training(kind, step, gradient, lambda: restart(parameters))


def add_functions(value: Any) -> None:
    """Give micrograd 0.1.0's Value an exponential and a logarithm, written as its other operations are."""

    def exponential(self: Any) -> Any:
        out = value(exp(self.data), (self,), "exp")

        def _backward() -> None:
            self.grad += out.data * out.grad

        out._backward = _backward
        return out

    def logarithm(self: Any) -> Any:
        out = value(log(self.data), (self,), "log")

        def _backward() -> None:
            self.grad += out.grad / self.data

        out._backward = _backward
        return out

    value.exp, value.log = exponential, logarithm


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

    def step() -> float:
        optimizer.zero_grad()
        loss = gradient()
        optimizer.step()
        return loss

    def start() -> None:
        rng = random.Random(1)
        with torch.no_grad():
            for matrix in weights.values():
                matrix.copy_(torch.tensor([rng.gauss(0, 0.08) for _ in range(matrix.numel())]).view(matrix.shape))

    return training(kind, step, gradient, start)


def training(kind: str, step: Callable[[], float], gradient: Callable[[], float], start: Callable[[], None]) -> Measure:
    """The measurement of a step, with the loss after the first as its result, or of a gradient."""

    def result() -> float:
        start()
        if kind == "step":
            step()
        return gradient()

    return repeated(step if kind == "step" else gradient, result)


def restart(parameters: Sequence[Any]) -> None:
    """The weights as they are before training."""
    rng = random.Random(1)
    for parameter in parameters:
        parameter.data = rng.gauss(0, 0.08)


def flat(weights: dict[str, list[list[Any]]]) -> list[Any]:
    """All weights, in order."""
    return [weight for matrix in weights.values() for row in matrix for weight in row]
