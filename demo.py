"""Teaches a small neural network XOR, shows what it has learned, and draws it: `python demo.py`."""

import copy
import sys
from pathlib import Path

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


def write_playground(model: nn.MLP) -> None:
    """Write a page that trains the model in the browser, next to a single neuron that cannot learn XOR."""
    models = {"2-4-1": model, "one neuron": nn.Neuron(2, "sigmoid", rng=0)}
    xs, targets = zip(*XOR, strict=True)
    save_playground(models, mse_loss, xs, targets, "playground.html", optimizer=lambda p: SGD(p, LEARNING_RATE))


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
    write_playground(untrained)
    write_steps(untrained)
    draw_prediction(model)
    print("\nOpen playground.html in a browser to watch the network learn what a single neuron cannot,")
    print("and xor.html to follow its loss, forward and backward, and to train it by hand.")
    print("A picture of the trained network is in xor.svg, and its graph, as text for Graphviz, in xor.dot.")


if __name__ == "__main__":
    main()
