"""Five short lessons for the playground. Each asks before it trains.

`lesson("xor")` writes the page lesson_xor.html and shows it.
"""

from typing import Any

from micrograd import data, losses, nn, optim, viz

try:
    from .pictures import Page
except ImportError:  # in a notebook beside it
    from pictures import Page

SIZES = {"none": [], "2": [2], "3": [3], "4": [4], "8": [8], "16-16": [16, 16]}


def part(text: str, answers: list[str], after: str, hidden: str, activation: str = "tanh", **rest: Any) -> dict:
    """A question, what the page says after training, and what is set for it: on moons, unless it says otherwise."""
    choice = {"hidden": hidden, "activation": activation}
    return {"text": text, "answers": answers, "after": after, "choice": choice, "data": "moons", **rest}


LESSONS = {
    "xor": [
        part("XOR, and no hidden neuron: one line. How low can the loss get?",
             ["to 0", "to 0.25", "it rises"],
             "To 0.25: the loss if every answer is a half. No straight line separates XOR.",
             "none", rate=0.1, data="xor"),
        part("Three hidden neurons: three lines. How low now?",
             ["to 0.25", "to half of that", "towards 0"],
             "Towards 0. Each card shows what a neuron sees; click one and switch it off. Does the network need it?",
             "3", rate=0.1, data="xor", steps=200),
    ],
    "circles": [
        part("A ring around another. Can two lines fence the inner one in?",
             ["yes", "no, one side stays open"],
             "No. Two lines leave a strip or a wedge, and both are open.",
             "2", rate=2, data="circles", noise=0.1, n=100),
        part("And three?",
             ["yes, as a triangle", "no, it takes four"],
             "Yes: a triangle is a fence. Here it takes some 200 steps to close.",
             "3", rate=2, data="circles", noise=0.1, n=100, steps=300),
    ],
    "relus": [
        part("Four neurons with relu, and a learning rate of 0.1. What will each of them see?",
             ["0 on one side of a line, a slope on the other", "waves", "the same everywhere"],
             "0 on one side, a slope on the other. Where a relu is flat, its weights get no gradient.",
             "4", rate=0.1, activation="relu"),
        part("The same with a rate of 10: steps that are far too long throw neurons off. Do they come back?",
             ["yes, the gradient brings them back", "no, they stay where they are"],
             "No. A relu that is 0 for all points has no gradient for any of them: it is dead. Find a dead one.",
             "4", rate=10, activation="relu"),
    ],
    "rate": [
        part("A learning rate of 0.001. What does the loss do in a few seconds?",
             ["it falls fast", "it hardly moves", "it jumps about"],
             "It hardly moves: downhill, but in tiny steps.",
             "8", rate=0.001),
        part("And with 100, a hundred thousand times as much?",
             ["it falls a hundred thousand times as fast", "it jumps about", "it hardly moves"],
             "It jumps about: each step goes too far, and the next one has to make up for it.",
             "8", rate=100),
    ],
    "overfitting": [
        part("Thirty points with a lot of noise, and a large network. What does the loss on other points do?",
             ["it falls, like the other", "it falls, then rises", "it stays where it is"],
             "It falls, then rises. The network learns the noise of these thirty points; others have other noise.",
             "16-16", rate=0.02, noise=0.3, n=30, steps=200),
        part("The same network, and a hundred times as many points?",
             ["the same", "both losses fall together"],
             "Both fall together. Three thousand accidents are too many to learn by heart; what they share is left.",
             "16-16", rate=0.02, noise=0.3, n=3000),
    ],
}  # fmt: skip
"""The parts of each lesson: a question, what is set for it, and what the page says after training."""


def network(hidden: list[int], activation: str) -> nn.MLP:
    """The network that the lessons vary."""
    return nn.MLP(2, [*hidden, 1], activation, rng=1)


def lesson(name: str) -> Page:
    """Write a lesson as a page, and show it."""
    parts = LESSONS[name]
    used = {part["choice"]["hidden"] for part in parts}
    choices = {
        "hidden": {label: sizes for label, sizes in SIZES.items() if label in used},
        "activation": list(dict.fromkeys(part["choice"]["activation"] for part in parts)),
    }
    make = optim.Adam if name == "overfitting" else optim.SGD
    loss = losses.mse_loss if name == "xor" else losses.binary_cross_entropy_with_logits  # of part 2, or of part 3
    path = f"lesson_{name}.html"
    viz.save_playground(
        network,
        loss,
        *data.moons(100, noise=0.2, rng=1),
        path,
        optimizer=lambda parameters: make(parameters, 0.1),
        validation=data.moons(100, noise=0.2, rng=2),
        choices=choices,
        lesson=parts,
    )
    return Page(path, height=900)
