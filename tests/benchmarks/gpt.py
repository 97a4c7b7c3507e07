"""A training step of a character GPT on a name: microgpt's architecture in our engine, compiled, and in others.

One layer with 4 heads, 16 numbers a token, a context of at most 16: rmsnorm, causal attention, a relu network 4 times
as wide, no biases; 4,192 weights. Both scalar engines run the same class, `GPT`, each with its own
operations: fused ones in ours, and sums of products, exponentials and logarithms in micrograd 0.1.0. Tokens are data:
compiled code accepts any name, and is compiled once for each length. First all learn one name by gradient descent, then
names of several lengths, one a step, with Adam.
"""

import operator
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.benchmarks import values
from tests.benchmarks.arrays import pytorch_training
from tests.benchmarks.data import RATE, orders
from tests.benchmarks.harness import Benchmark, Contestant, Measure
from tests.benchmarks.mlp import Task, compiled, compiled_training, our_training
from tests.benchmarks.values import scalar_engine, their_training, their_value

WIDTH, HEADS, CONTEXT, VOCABULARY = 16, 4, 16, 27
BLOCK = {
    **dict.fromkeys(("queries", "keys", "values", "attended"), (WIDTH, WIDTH)),
    "widen": (4 * WIDTH, WIDTH),
    "narrow": (WIDTH, 4 * WIDTH),
}
NAME = [26, 8, 18, 0, 1, 4, 11, 26]  # "isabel" between two ends: 7 tokens to predict the next from
NAMES = ("ada", "emma", "mia", "isabel", "sophia", "luna", "camila", "olivia", "charles", "dorothy")
EPOCHS = 100  # in which each name is shown once
ADAM: dict[str, Any] = {"betas": (0.85, 0.99), "eps": 1e-8}
ADAM_RATE = 0.01
EPSILON = 1e-5


def benchmarks() -> list[Benchmark]:
    """A training step on one name, and on names of several lengths."""
    compiled = (Contestant(f"compiled to {name}", our_task, (name.lower(),)) for name in ("Python", "C"))
    return [
        Benchmark(
            "training step of a GPT, 4,192 weights, one name",
            (Contestant("eager", our_eager_task), *compiled),
            (scalar_engine(their_task), Contestant("PyTorch", pytorch_task)),
        ),
        Benchmark(
            "training step of the GPT, Adam, names of 3 to 7 letters",
            (Contestant("compiled to C", our_names, ("c",)),),
            (Contestant("PyTorch", pytorch_names),),
        ),
    ]


def shapes(layers: int = 1) -> dict[str, tuple[int, int]]:
    """The shapes of all matrices, those of a layer with its number."""
    blocks = {f"{name} {layer}": shape for layer in range(layers) for name, shape in BLOCK.items()}
    return {"tokens": (VOCABULARY, WIDTH), "positions": (CONTEXT, WIDTH), **blocks, "logits": (VOCABULARY, WIDTH)}


@dataclass(frozen=True)
class Operations:
    """What the network is made of besides arithmetic: each as its library does it best."""

    value: Callable[[float], Any]
    take: Callable[[Sequence[Any], Any], Any]
    dot: Callable[[Sequence[Any], Sequence[Any]], Any]
    mean: Callable[[Sequence[Any]], Any]
    softmax: Callable[[Sequence[Any]], list[Any]]
    cross_entropy: Callable[[Sequence[Any], Any], Any]


class GPT:
    """The network: a function from the tokens so far to the logits of the next one at each position."""

    def __init__(self, op: Operations, layers: int = 1) -> None:
        self.op, self.layers = op, layers
        self.weights = {
            name: [[op.value(0.0) for _ in range(m)] for _ in range(n)] for name, (n, m) in shapes(layers).items()
        }
        self.restart()

    def parameters(self) -> list[Any]:
        return [weight for matrix in self.weights.values() for row in matrix for weight in row]

    def restart(self) -> None:
        """The weights as they are before training."""
        parameters = self.parameters()
        for parameter, number in zip(parameters, initial(len(parameters)), strict=True):
            parameter.data = number

    def loss(self, logits: Sequence[Sequence[Any]], following: Sequence[Any]) -> Any:
        """The mean cross-entropy of the next tokens."""
        return self.op.mean([self.op.cross_entropy(row, token) for row, token in zip(logits, following, strict=True)])

    def task(self, texts: Sequence[Sequence[int]]) -> Task:
        """The loss of a text, and these as a batch."""
        batch = [text[:-1] for text in texts], [text[1:] for text in texts]
        return Task(lambda tokens, following: self.loss(self(tokens), following), self.parameters(), batch)

    def gradient(self) -> float:
        """The loss of one name, forward and backward."""
        loss = self.loss(self(NAME[:-1]), NAME[1:])
        loss.backward()
        return float(loss.data)

    def __call__(self, tokens: Sequence[Any]) -> list[list[Any]]:
        op, weights = self.op, self.weights

        def linear(matrix: str, x: Sequence[Any]) -> list[Any]:
            return [op.dot(row, x) for row in weights[matrix]]

        def rmsnorm(x: Sequence[Any]) -> list[Any]:
            scale = (op.dot(x, x) * (1 / WIDTH) + EPSILON) ** -0.5
            return [xi * scale for xi in x]

        def added(x: Sequence[Any], y: Sequence[Any]) -> list[Any]:
            return [xi + yi for xi, yi in zip(x, y, strict=True)]

        def attention(query: Sequence[Any], keys: Sequence[Any], values: Sequence[Any]) -> list[Any]:
            size = WIDTH // HEADS
            output = []
            for head in (slice(start, start + size) for start in range(0, WIDTH, size)):
                shares = op.softmax([op.dot(query[head], key[head]) * size**-0.5 for key in keys])
                output += [op.dot(shares, column) for column in zip(*[value[head] for value in values], strict=True)]
            return output

        keys: list[list[Any]] = [[] for _ in range(self.layers)]
        values: list[list[Any]] = [[] for _ in range(self.layers)]
        logits = []
        for position, token in enumerate(tokens):
            x = rmsnorm(added(op.take(weights["tokens"], token), weights["positions"][position]))
            for k in range(self.layers):
                normed = rmsnorm(x)
                keys[k].append(linear(f"keys {k}", normed))
                values[k].append(linear(f"values {k}", normed))
                attended = attention(linear(f"queries {k}", normed), keys[k], values[k])
                x = added(x, linear(f"attended {k}", attended))
                x = added(x, linear(f"narrow {k}", [h.relu() for h in linear(f"widen {k}", rmsnorm(x))]))
            logits.append(linear("logits", x))
        return logits


def initial(n: int) -> list[float]:
    """The weights that all have before training."""
    rng = random.Random(1)
    return [rng.gauss(0, 0.08) for _ in range(n)]


def names(spelled: Sequence[str] = ()) -> list[list[int]]:
    """The tokens of each name, between two ends."""
    return [[26, *(ord(letter) - ord("a") for letter in name), 26] for name in spelled or NAMES]


# Ours


def our_gpt(layers: int = 1) -> GPT:
    """With the fused operations."""
    from micrograd import Value, dot, losses, mean, take

    return GPT(Operations(Value, take, dot, mean, losses.softmax, losses.cross_entropy), layers)


def our_eager_task() -> Measure:
    from micrograd.optim import SGD

    gpt = our_gpt()
    return our_training("step", gpt.gradient, SGD(gpt.parameters(), RATE), gpt.restart)


def our_task(backend: str) -> Measure:
    """Compiled by a backend, for names as long as this one."""
    gpt = our_gpt()
    return compiled_training("step", *compiled(gpt.task([NAME]), backend), gpt.restart)


def our_names(backend: str) -> Measure:
    """Adam's steps in a training block, one name each: the time of a step, and the mean loss of the last epoch."""
    from micrograd.optim import Adam

    gpt = our_gpt()
    fast, _ = compiled(gpt.task([NAME]), backend)
    packed = [fast.pack(*gpt.task([text]).batch) for text in names()]
    for batch in packed:
        fast.backward(batch)  # compiles what its length needs

    def measure() -> tuple[float, float]:
        gpt.restart()
        with fast.training(Adam(gpt.parameters(), ADAM_RATE, **ADAM)) as step:
            started = time.perf_counter()
            for order in orders(len(packed), EPOCHS):
                total = sum(step(packed[i]) for i in order)
            return (time.perf_counter() - started) / (EPOCHS * len(packed)), total / len(packed)

    return measure


# Others


def their_task() -> Measure:
    op = Operations(their_value(), operator.getitem, values.dot, values.mean, values.softmax, values.cross_entropy)
    gpt = GPT(op)
    return their_training(gpt.gradient, gpt.parameters(), gpt.restart)


def pytorch_task() -> Measure:
    """In PyTorch, one name by gradient descent."""
    import torch

    weights = pytorch_weights()
    tokens, following = torch.tensor(NAME[:-1]), torch.tensor(NAME[1:])
    return pytorch_training(
        "step",
        lambda: pytorch_loss(weights, tokens, following),
        torch.optim.SGD(weights.values(), RATE),
        lambda: pytorch_restart(weights),
        flat,
    )


def flat(tensors: Sequence[Any]) -> list[float]:
    import torch

    return torch.cat([tensor.flatten() for tensor in tensors]).tolist()  # type: ignore[no-any-return]


def pytorch_names() -> Measure:
    """In PyTorch, names of several lengths by Adam: the time of a step, and the mean loss of the last epoch."""
    import torch

    weights = pytorch_weights()
    pairs = [(tokens[:-1], tokens[1:]) for tokens in map(torch.tensor, names())]

    def measure() -> tuple[float, float]:
        pytorch_restart(weights)
        optimizer = torch.optim.Adam(weights.values(), ADAM_RATE, **ADAM)
        started = time.perf_counter()
        for order in orders(len(pairs), EPOCHS):
            total = 0.0
            for i in order:
                loss = pytorch_loss(weights, *pairs[i])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
        return (time.perf_counter() - started) / (EPOCHS * len(pairs)), total / len(pairs)

    return measure


def pytorch_weights(layers: int = 1) -> dict[str, Any]:
    """The weights in PyTorch, with one thread and doubles."""
    import torch

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    weights = {name: torch.zeros(shape, requires_grad=True) for name, shape in shapes(layers).items()}
    pytorch_restart(weights)
    return weights


def pytorch_restart(weights: dict[str, Any]) -> None:
    """Give them the numbers that all have before training."""
    import torch

    sizes = [matrix.numel() for matrix in weights.values()]
    numbers = torch.tensor(initial(sum(sizes))).split(sizes)
    with torch.no_grad():
        for matrix, part in zip(weights.values(), numbers, strict=True):
            matrix.copy_(part.view(matrix.shape))


def pytorch_loss(weights: dict[str, Any], tokens: Any, following: Any) -> Any:
    """The network and its loss, of one text or a batch: all positions at once, and the attention with a mask."""
    from torch.nn import functional

    def rmsnorm(x: Any) -> Any:
        return functional.rms_norm(x, (WIDTH,), eps=EPSILON)

    def heads(x: Any) -> Any:
        return x.view(*x.shape[:-1], HEADS, -1).transpose(-3, -2)

    x = rmsnorm(weights["tokens"][tokens] + weights["positions"][: tokens.shape[-1]])
    for k in range((len(weights) - 3) // len(BLOCK)):
        normed = rmsnorm(x)
        query, key, value = (heads(normed @ weights[f"{name} {k}"].T) for name in ("queries", "keys", "values"))
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + attended.transpose(-3, -2).reshape(x.shape) @ weights[f"attended {k}"].T
        x = x + (rmsnorm(x) @ weights[f"widen {k}"].T).relu() @ weights[f"narrow {k}"].T
    return functional.cross_entropy((x @ weights["logits"].T).flatten(0, -2), following.flatten())
