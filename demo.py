"""Teaches a small neural network XOR, shows what it has learned, and draws it: `python demo.py`."""

import copy
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from micrograd import Value, mean, nn
from micrograd.losses import mse_loss
from micrograd.optim import SGD
from micrograd.viz import draw_graph, save_html, save_playground, save_svg, sparkline

XOR = [((0.0, 0.0), 0.0), ((0.0, 1.0), 1.0), ((1.0, 0.0), 1.0), ((1.0, 1.0), 0.0)]  # inputs and target
STEPS = 1000
LEARNING_RATE = 2.0


def loss_of(model: nn.MLP) -> Value:
    """The mean squared error of the model's predictions."""
    return mean((model(x) - target) ** 2 for x, target in XOR)


def train(model: nn.MLP) -> list[float]:
    """Plain gradient descent; returns the loss of each step."""
    losses = []
    for step in range(1, STEPS + 1):
        loss = loss_of(model)
        model.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            parameter.data -= LEARNING_RATE * parameter.grad
        losses.append(loss.data)
        if step % 200 == 0:
            print(f"step {step:4}/{STEPS}  loss {loss.data:.6f}")
    return losses


def show_predictions(model: nn.MLP) -> None:
    """Print what the model has learned next to what it should have learned."""
    print("x0  x1  target  prediction")
    for (x0, x1), target in XOR:
        print(f"{x0:2.0f}  {x1:2.0f}  {target:6.0f}  {model((x0, x1)).data:10.3f}")


class Network(nn.MLP):
    """A network whose layers, activation and inputs are chosen in the page."""

    def __init__(self, hidden: list[int], activation: str, inputs: str) -> None:
        self.squares = inputs == "and squares"
        super().__init__(4 if self.squares else 2, [*hidden, 1], activation, output="sigmoid", rng=0)

    def __call__(self, x: Sequence[Any]) -> Any:
        """The output for two inputs."""
        return super().__call__([*x, *(xi**2 for xi in x)] if self.squares else x)


def write_playground() -> None:
    """Write a page that trains the network in the browser, and others: none of its neurons alone can learn XOR."""
    choices = {
        "hidden": {"4": [4], "none": [], "2": [2], "4-4": [4, 4]},
        "activation": ["tanh", "relu", "sigmoid"],
        "inputs": ["plain", "and squares"],
    }
    xs, targets = zip(*XOR, strict=True)
    rule = partial(SGD, learning_rate=LEARNING_RATE)
    save_playground(Network, mse_loss, xs, targets, "playground.html", optimizer=rule, choices=choices)


def write_steps(model: nn.MLP) -> None:
    """Write a page that steps through the loss, forward and backward."""
    loss = loss_of(model)
    loss.label = "loss"
    save_html(loss, "xor.html", learning_rate=LEARNING_RATE)


def draw_prediction(model: nn.MLP) -> None:
    """Draw the graph of the prediction for (1, 0), with its gradients: once folded, once with every Value."""
    prediction = model([Value(1.0, label="x0"), Value(0.0, label="x1")])
    prediction.label = "prediction"
    model.zero_grad()
    prediction.backward()
    save_svg(prediction, "xor.svg")
    Path("xor.dot").write_text(draw_graph(prediction), encoding="utf-8")


def main() -> None:
    """Train, show and draw."""
    model = nn.MLP(2, [4, 1], activation="tanh", output="sigmoid", rng=0)
    untrained = copy.deepcopy(model)
    print(model)
    losses = train(model)
    print(f"\nloss from {losses[0]:.4g} to {losses[-1]:.4g}  {sparkline(losses, 40, sys.stdout.encoding)}\n")
    show_predictions(model)
    write_playground()
    write_steps(untrained)
    draw_prediction(model)
    print("\nOpen playground.html in a browser to build networks, and to watch them learn what a single neuron cannot,")
    print("and xor.html to step through the loss of the XOR network, forward and backward, and to train it by hand.")
    print("A picture of the trained network is in xor.svg, and its graph, as text for Graphviz, in xor.dot.")


if __name__ == "__main__":
    main()
