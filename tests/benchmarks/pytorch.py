"""The compiled programs as people write them in PyTorch: with doubles, on one thread."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.benchmarks.data import numbers
from tests.benchmarks.harness import Measure, training


def _gradient(parameters: Sequence[Any], forward: Callable[[], Any], flat: Callable[[], Any]) -> Measure:
    """Forward and backward; `flat` gives the gradients in the order of ours."""

    def gradient() -> float:
        result = forward()
        result.backward()
        return float(result.item())

    def restart() -> None:
        for parameter in parameters:
            parameter.grad = None

    return training("gradient", gradient, gradient, restart, lambda: flat().tolist())


def _matrix(*shape: int) -> Any:
    import torch

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    count = torch.Size(shape).numel()
    return torch.tensor(numbers(count)).view(shape).requires_grad_()


def recurrent() -> Measure:
    """200 steps of a recurrent network, whose second input is the 1 that its biases are multiplied by."""
    import torch

    hidden, inputs = _matrix(16, 16), _matrix(2, 16)
    network = torch.nn.RNN(2, 16, bias=False)
    with torch.no_grad():
        network.weight_hh_l0.copy_(hidden)
        network.weight_ih_l0.copy_(inputs.T)
    xs = torch.tensor([[x, 1.0] for x in numbers(200)])
    return _gradient(
        [*network.parameters()],
        lambda: (network(xs)[1] ** 2).mean(),
        lambda: torch.cat([network.weight_hh_l0.grad.flatten(), network.weight_ih_l0.grad.T.flatten()]),
    )


def product() -> Measure:
    """A product of matrices."""
    import torch

    a, b, x = _matrix(30, 30), _matrix(30, 30), torch.tensor(1.0)
    return _gradient([a, b], lambda: (a @ b * x).tanh().mean(), lambda: torch.cat([a.grad.flatten(), b.grad.flatten()]))


def convolution() -> Measure:
    """An image of 16x16 and eight kernels of 3x3."""
    import torch

    kernels, image = _matrix(8, 1, 3, 3), torch.tensor(numbers(256, 1.0)).view(1, 1, 16, 16)
    return _gradient(
        [kernels],
        lambda: torch.nn.functional.conv2d(image, kernels).relu().mean(),
        lambda: kernels.grad.flatten(),
    )


def chain() -> Measure:
    """20,000 steps."""
    import torch

    torch.set_num_threads(1)
    c, d = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (0.9999, 0.01))
    start = torch.tensor(1.0, dtype=torch.float64)

    def forward() -> Any:
        x = start
        for _ in range(20_000):
            x = x * c + d
        return x

    return _gradient([c, d], forward, lambda: torch.stack([c.grad, d.grad]))
