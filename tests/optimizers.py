"""The table of optimizers that the tests share: a new optimizer is tested everywhere by adding a row here.

Each is compared with the one of that name in `torch.optim`, and trains compiled as it does eager.
"""

from typing import Any, NamedTuple

from micrograd.optim import SGD, Adam, AdamW, RMSprop


class Row(NamedTuple):
    """What is known of an optimizer."""

    kind: type
    defaults: dict[str, Any]  # its options, with what they are by default: numbers from 0 where that is a number
    options: list[dict[str, Any]]  # some of them as they may be set, for which a training run converges


def row(kind: type, defaults: dict[str, Any], *options: dict[str, Any]) -> Row:
    """The row of an optimizer: a learning rate of 0.1 alone, and with each of these options."""
    return Row(kind, defaults, [{"learning_rate": 0.1, **each} for each in ({}, *options)])


OF_ADAM = {"learning_rate": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
ROWS = (
    row(
        SGD, {"learning_rate": 1e-3, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False},
        {"weight_decay": 0.2}, {"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.3},
        {"momentum": 0.9, "nesterov": True}, {"momentum": 0.9, "weight_decay": 0.2},
        {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.2},
        {"momentum": 0.9, "weight_decay": 0.2, "nesterov": True}, {"clip_grad_norm": 0.05},
    ),
    row(
        Adam, OF_ADAM, {"betas": (0.5, 0.75)}, {"betas": (0.0, 0.0)}, {"eps": 0.1}, {"weight_decay": 0.2},
        {"eps": 0.1, "clip_grad_norm": 0.05},
    ),
    row(
        AdamW, OF_ADAM | {"weight_decay": 1e-2}, {"weight_decay": 0.0},
        {"betas": (0.5, 0.75), "eps": 0.1, "weight_decay": 0.2, "clip_grad_norm": 0.05},
    ),
    row(
        RMSprop,
        {"learning_rate": 1e-2, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0.0, "momentum": 0.0, "centered": False},
        {"alpha": 0.0}, {"alpha": 0.5, "eps": 0.1, "centered": True},
        {"momentum": 0.5, "eps": 0.1, "clip_grad_norm": 0.05},
        {"alpha": 0.5, "eps": 0.1, "weight_decay": 0.2, "momentum": 0.9},
    ),
)  # fmt: skip
