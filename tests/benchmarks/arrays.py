"""The same networks in array libraries, all examples at once: NumPy by hand and PyTorch.

Each uses one thread, doubles, and the same weights.
"""

import math
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any

from tests.benchmarks.data import RATE, RATES, examples, points, weights
from tests.benchmarks.harness import Measure, optimized, training

# NumPy, with the backward pass written by hand


def numpy(kind: str, loss: str, sizes: Sequence[int], n: int, optimizer: str = "SGD") -> Measure:
    """The network, and the mean loss of n examples."""
    import numpy as np

    xs, ys = map(np.array, examples(loss, sizes, n))
    rows = np.arange(n)

    def hinge(outputs: Any) -> tuple[float, Any]:
        margins = 1 - ys[:, None] * outputs
        return np.maximum(margins, 0).mean(), np.where(margins > 0, -ys[:, None] / n, 0.0)

    def cross_entropy(logits: Any) -> tuple[float, Any]:
        powers = np.exp(logits - logits.max(1, keepdims=True))
        shares = powers / powers.sum(1, keepdims=True)
        loss = -np.log(shares[rows, ys]).mean()
        shares[rows, ys] -= 1
        return loss, shares / n

    derived = {"hinge": hinge, "cross-entropy": cross_entropy}[loss]  # the loss, and its derivative by each output
    layers: list[Any] = []
    gradients: list[Any] = []

    def restart() -> None:
        layers[:] = [(rows[:, :-1].copy(), rows[:, -1].copy()) for rows in map(np.array, weights(sizes))]

    def gradient() -> float:
        inputs = [xs]
        for w, b in layers[:-1]:
            inputs.append(np.maximum(inputs[-1] @ w.T + b, 0))
        w, b = layers[-1]
        result, d = derived(inputs[-1] @ w.T + b)
        gradients[:] = [(d.T @ inputs[-1], d.sum(0))]
        for i in range(len(layers) - 1, 0, -1):
            d = (d @ layers[i][0]) * (inputs[i] > 0)
            gradients.insert(0, (d.T @ inputs[i - 1], d.sum(0)))
        return float(result)

    arrays = [part for rows in map(np.array, weights(sizes)) for part in (rows[:, :-1], rows[:, -1])]
    moments = [np.zeros((2, *array.shape)) for array in arrays]
    taken = 0

    def step() -> float:
        nonlocal taken
        result = gradient()
        taken += 1
        scale, rate = math.sqrt(1 - 0.999**taken), RATES[optimizer]
        for x, d, (m, v) in zip(chain(*layers), chain(*gradients), moments, strict=True):
            if optimizer == "SGD":
                x -= rate * d
            else:
                m *= 0.9
                m += 0.1 * d
                v *= 0.999
                v += 0.001 * d * d
                x -= rate * scale / (1 - 0.9**taken) * m / (np.sqrt(v) + 1e-8 * scale)
        return result

    def flat() -> list[float]:
        return [float(g) for dw, db in gradients for g in np.column_stack([dw, db]).ravel()]

    return training(kind, step, gradient, restart, flat)


# PyTorch


def pytorch(
    kind: str, loss: str, sizes: Sequence[int], n: int, optimizer: str = "SGD", dtype: str = "float64"
) -> Measure:
    """The network and the mean loss of n examples, as people write it."""
    import torch

    parameters, loss_of = pytorch_network(loss, sizes, n, dtype)
    steps = getattr(torch.optim, optimizer)(parameters, RATES[optimizer])
    return pytorch_training(kind, loss_of, steps, lambda: _set(parameters, sizes), flat)


def pytorch_network(
    loss: str, sizes: Sequence[int], n: int, dtype: str = "float64"
) -> tuple[list[Any], Callable[[], Any]]:
    """The parameters of the network, and a function that gives the mean loss of n examples."""
    import torch

    model, parameters = pytorch_mlp(sizes, dtype=dtype)
    inputs, targets = map(torch.tensor, examples(loss, sizes, n))
    if loss == "hinge":
        return parameters, lambda: (1 - targets[:, None] * model(inputs)).relu().mean()
    return parameters, lambda: torch.nn.functional.cross_entropy(model(inputs), targets)


def pytorch_training(
    kind: str,
    loss_of: Callable[[], Any],
    optimizer: Any,
    set_parameters: Callable[[], None],
    flatten: Callable[[list[Any]], list[float]],
) -> Measure:
    """A step of one of PyTorch's optimizers, or a gradient; `flatten` puts gradients in the order of ours."""

    def gradient() -> float:
        loss = loss_of()
        loss.backward()
        return float(loss.item())

    parameters = optimizer.param_groups[0]["params"]
    return optimized(kind, gradient, optimizer, set_parameters, lambda: flatten([p.grad for p in parameters]))


def tight_pytorch(kind: str, sizes: Sequence[int], n: int) -> Measure:
    """The hinge loss in as few calls as it takes: fused products, in place, no modules, gradients not stored."""
    import torch

    _, parameters = pytorch_mlp(sizes)
    x, y = map(torch.tensor, points(n))
    y = y[:, None]
    gradients: Any = ()

    def gradient() -> float:
        nonlocal gradients
        hidden = x
        for w, b in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
            hidden = torch.addmm(b, hidden, w.t()).relu_()
        *_, w, b = parameters
        loss = (1 - y * torch.addmm(b, hidden, w.t())).relu_().mean()
        gradients = torch.autograd.grad(loss, parameters)
        return float(loss.item())

    def step() -> float:
        loss = gradient()
        with torch.no_grad():
            torch._foreach_add_(parameters, gradients, alpha=-RATE)
        return loss

    return training(kind, step, gradient, lambda: _set(parameters, sizes), lambda: flat(gradients))


def pytorch_mlp(sizes: Sequence[int], most: float = 1.0, dtype: str = "float64") -> tuple[Any, list[Any]]:
    """A network of linear layers and relus, and its parameters."""
    import torch

    torch.set_num_threads(1)
    torch.set_default_dtype(getattr(torch, dtype))
    layers: list[Any] = []
    for n, m in pairwise(sizes):
        layers += [torch.nn.Linear(n, m), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    parameters = list(model.parameters())
    _set(parameters, sizes, most)
    return model, parameters


def _set(parameters: Sequence[Any], sizes: Sequence[int], most: float = 1.0) -> None:
    """Give the parameters the weights that all have."""
    import torch

    with torch.no_grad():
        for i, rows in enumerate(map(torch.tensor, weights(sizes, most))):
            parameters[2 * i].copy_(rows[:, :-1])
            parameters[2 * i + 1].copy_(rows[:, -1])


def flat(parameters: Sequence[Any]) -> list[float]:
    """Numbers in the shapes of the parameters, in the order of our networks: each row, then its bias."""
    import torch

    layers = zip(parameters[::2], parameters[1::2], strict=True)
    return torch.cat([torch.cat([w, b[:, None]], 1).flatten() for w, b in layers]).tolist()  # type: ignore[no-any-return]
