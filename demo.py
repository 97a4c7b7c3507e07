"""Teaches a small neural network XOR, shows what it has learned, and draws it: `python demo.py`."""

import argparse
import copy
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from micrograd import Value, mean, nn
from micrograd.losses import mse_loss
from micrograd.optim import SGD
from micrograd.viz import draw_graph, remember_lines, save_html, save_playground, save_svg, sparkline

XOR = [((0.0, 0.0), 0.0), ((0.0, 1.0), 1.0), ((1.0, 0.0), 1.0), ((1.0, 1.0), 0.0)]  # inputs and target
TOLERANCE = 0.1  # XOR is solved if each prediction is this close to its target


def train(model: nn.MLP, steps: int, learning_rate: float) -> Iterator[float]:
    """Plain gradient descent on the mean squared error; yields the loss of each step."""
    for _ in range(steps):
        loss = mean((model(x) - target) ** 2 for x, target in XOR)
        model.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            parameter.data -= learning_rate * parameter.grad
        yield loss.data


def show_progress(losses: Iterator[float], steps: int) -> None:
    """One line that updates itself on a terminal, and then the curve of the loss; a few plain lines elsewhere."""
    live = sys.stdout.isatty()
    every = 20 if live else max(steps // 5, 1)
    seen = []
    for step, loss in enumerate(losses, start=1):
        seen.append(loss)
        if step % every == 0 or step == steps:
            print(f"step {step:{len(str(steps))}}/{steps}  loss {loss:.6f}", end="\r" if live else "\n", flush=True)
    print()
    if live and seen:
        print(f"loss from {seen[0]:.4g} to {seen[-1]:.4g}  {sparkline(seen, 40, sys.stdout.encoding)}\n")


def show_predictions(model: nn.MLP) -> bool:
    """Print the model's predictions; True if they are XOR."""
    print("x0  x1  target  prediction")
    predictions = [model(x).data for x, _ in XOR]
    for ((x0, x1), target), prediction in zip(XOR, predictions, strict=True):
        print(f"{x0:2.0f}  {x1:2.0f}  {target:6.0f}  {prediction:10.3f}")
    return all(abs(prediction - target) < TOLERANCE for (_, target), prediction in zip(XOR, predictions, strict=True))


def draw(model: nn.MLP, untrained: nn.MLP, learning_rate: float, directory: Path) -> None:
    """Write a playground, the graph of the prediction for (1, 0), and a page with that of the loss before training."""
    models = {"2-4-1": untrained, "one neuron": nn.Neuron(2, "sigmoid", rng=0)}
    page, xs, targets = directory / "playground.html", [x for x, _ in XOR], [target for _, target in XOR]
    save_playground(models, mse_loss, xs, targets, page, optimizer=lambda parameters: SGD(parameters, learning_rate))
    print(f"Open {page} in a browser to watch the network learn what a single neuron cannot.")
    prediction = model([Value(1.0, label="x0"), Value(0.0, label="x1")])
    prediction.label = "prediction"
    model.zero_grad()
    prediction.backward()
    save_svg(prediction, directory / "xor.svg")
    with remember_lines():
        loss = mean((untrained(x) - target) ** 2 for x, target in XOR)
    loss.label = "loss"
    save_html(loss, directory / "xor.html", learning_rate=learning_rate)
    (directory / "xor.dot").write_text(draw_graph(prediction), encoding="utf-8")
    print(f"A picture of the network is in {directory / 'xor.svg'},")
    print(f"and its graph, as text for Graphviz, in {directory / 'xor.dot'}.")
    print(f"Open {directory / 'xor.html'} to follow its loss, forward and backward, and to train it by hand.")


def main() -> int:
    """Run the demo; 0 if XOR is solved, 1 if not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="the seed of the random weights")
    parser.add_argument("--steps", type=int, default=1000, help="how many times the weights are updated")
    parser.add_argument("--learning-rate", type=float, default=2.0, help="how far they move against the gradient")
    parser.add_argument("--out", type=Path, default=".", metavar="DIR", help="where the pictures are written")
    options = parser.parse_args()
    if options.steps < 0:
        parser.error(f"argument --steps: {options.steps} is negative")
    if not 0 < options.learning_rate < math.inf:
        parser.error(f"argument --learning-rate: {options.learning_rate} is not a positive, finite number")
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"argument --out: {error}")

    model = nn.MLP(2, [4, 1], activation="tanh", output="sigmoid", rng=options.seed)
    untrained = copy.deepcopy(model)
    print(model)
    show_progress(train(model, options.steps, options.learning_rate), options.steps)
    solved = show_predictions(model)
    print("Solved: every" if solved else "Not solved: not every", f"prediction is within {TOLERANCE} of its target.\n")
    draw(model, untrained, options.learning_rate, options.out)
    return 0 if solved else 1


def end_quietly(program: Callable[[], int]) -> int:
    """Run the program, with no traceback if Ctrl-C, a closed pipe or an unwritable file ends it."""
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")  # there is none after `>&-`
    try:
        try:
            return program()
        finally:
            sys.stdout.flush()  # here, where its failure is caught
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except OSError as error:
        closed = isinstance(error, BrokenPipeError)  # whoever reads has seen enough, as `head` has
        if not closed:
            print(f"{Path(__file__).name}: error: {error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python would write at its end
        return 141 if closed else 2


if __name__ == "__main__":
    sys.exit(end_quietly(main))
