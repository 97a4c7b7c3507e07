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


ROWS = (
    Row(
        SGD,
        {"learning_rate": 1e-3, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False},
        [
            {"learning_rate": 0.1}, {"learning_rate": 0.1, "weight_decay": 0.2},
            {"learning_rate": 0.1, "momentum": 0.9}, {"learning_rate": 0.1, "momentum": 0.9, "dampening": 0.3},
            {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True},
            {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.2},
            {"learning_rate": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.2},
            {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.2, "nesterov": True},
            {"learning_rate": 0.1, "clip_grad_norm": 0.05},
        ],
    ),
    Row(
        Adam,
        {"learning_rate": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0},
        [
            {"learning_rate": 0.1}, {"learning_rate": 0.1, "betas": (0.5, 0.75)},
            {"learning_rate": 0.1, "betas": (0.0, 0.0)}, {"learning_rate": 0.1, "eps": 0.1},
            {"learning_rate": 0.1, "weight_decay": 0.2}, {"learning_rate": 0.1, "eps": 0.1, "clip_grad_norm": 0.05},
        ],
    ),
    Row(
        AdamW,
        {"learning_rate": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2},
        [
            {"learning_rate": 0.1},
            {"learning_rate": 0.1, "weight_decay": 0.0},
            {"learning_rate": 0.1, "betas": (0.5, 0.75), "eps": 0.1, "weight_decay": 0.2, "clip_grad_norm": 0.05},
        ],
    ),
    Row(
        RMSprop,
        {"learning_rate": 1e-2, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0.0, "momentum": 0.0, "centered": False},
        [
            {"learning_rate": 0.1},
            {"learning_rate": 0.1, "alpha": 0.0},
            {"learning_rate": 0.1, "alpha": 0.5, "eps": 0.1, "centered": True},
            {"learning_rate": 0.1, "momentum": 0.5, "eps": 0.1, "clip_grad_norm": 0.05},
            {"learning_rate": 0.1, "alpha": 0.5, "eps": 0.1, "weight_decay": 0.2, "momentum": 0.9},
        ],
    ),
)  # fmt: skip
