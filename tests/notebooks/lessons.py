"""Five short lessons in the playground, each of which asks before it trains.

`lesson("xor")` writes the page xor.html and shows it.
"""

from micrograd import data, losses, nn, optim, viz

try:
    from .pictures import Page
except ImportError:  # in a notebook beside it
    from pictures import Page

SIZES = {"none": [], "2": [2], "3": [3], "4": [4], "8": [8], "16-16": [16, 16]}
LESSONS = {
    "xor": [
        {
            "text": "XOR, and no hidden neuron: one line. How low can the loss get?",
            "answers": ["to 0", "to 0.69, the logarithm of 2", "it rises"],
            "choice": {"hidden": "none", "activation": "tanh"},
            "data": "xor",
            "rate": 0.3,
            "after": "0.69 is what it costs to answer a half to everything. No straight line separates XOR.",
        },
        {
            "text": "Three hidden neurons: three lines. How low now?",
            "answers": ["to 0.69", "to half of that", "towards 0"],
            "choice": {"hidden": "3", "activation": "tanh"},
            "data": "xor",
            "rate": 0.3,
            "after": "Towards 0. Point at each neuron to see its line: which of the three could you switch off?",
        },
    ],
    "circles": [
        {
            "text": "A ring around another. Can two lines fence the inner one in?",
            "answers": ["yes", "no, one side stays open"],
            "choice": {"hidden": "2", "activation": "tanh"},
            "data": "circles",
            "noise": 0.1,
            "n": 100,
            "rate": 0.3,
            "after": "Two lines leave a strip or a wedge, which is open.",
        },
        {
            "text": "And three?",
            "answers": ["yes, as a triangle", "no, it takes four"],
            "choice": {"hidden": "3", "activation": "tanh"},
            "data": "circles",
            "noise": 0.1,
            "n": 100,
            "rate": 0.3,
            "after": "A triangle is a fence.",
        },
    ],
    "relus": [
        {
            "text": "Four neurons with relu, and a learning rate of 0.1. What will each of them see?",
            "answers": ["0 on one side of a line, a slope on the other", "waves", "the same everywhere"],
            "choice": {"hidden": "4", "activation": "relu"},
            "data": "moons",
            "rate": 0.1,
            "after": "A relu is flat on one side of its line. Where it is flat, its weights get no gradient.",
        },
        {
            "text": "The same with a rate of 10. Steps that are far too long throw neurons off. Do they come back?",
            "answers": ["yes, the gradient brings them back", "no, they stay where they are"],
            "choice": {"hidden": "4", "activation": "relu"},
            "data": "moons",
            "rate": 10,
            "after": "A relu that is 0 for all points has no gradient for any of them: it is dead. Find one that is.",
        },
    ],
    "rate": [
        {
            "text": "A learning rate of 0.001. What does the loss do in a few seconds?",
            "answers": ["it falls fast", "it hardly moves", "it jumps about"],
            "choice": {"hidden": "8", "activation": "tanh"},
            "data": "moons",
            "rate": 0.001,
            "after": "Downhill, but in tiny steps.",
        },
        {
            "text": "A hundred thousand times as much: 100?",
            "answers": ["it falls a hundred thousand times as fast", "it jumps about", "it hardly moves"],
            "choice": {"hidden": "8", "activation": "tanh"},
            "data": "moons",
            "rate": 100,
            "after": "Each step goes too far, and the next one has to make up for it.",
        },
    ],
    "overfitting": [
        {
            "text": "Thirty points with much noise, and a large network. What does the loss on other points do?",
            "answers": ["it falls, like the other", "it falls, then rises", "it stays where it is"],
            "choice": {"hidden": "16-16", "activation": "tanh"},
            "data": "moons",
            "noise": 0.3,
            "n": 30,
            "rate": 0.02,
            "after": "It learns the noise of these thirty points, and others have another noise.",
        },
        {
            "text": "The same network, and a hundred times as many points?",
            "answers": ["the same", "both losses fall together"],
            "choice": {"hidden": "16-16", "activation": "tanh"},
            "data": "moons",
            "noise": 0.3,
            "n": 3000,
            "rate": 0.02,
            "after": "Three thousand accidents are too many to learn by heart; what remains is what they share.",
        },
    ],
}
"""The parts of each lesson: a question, what is set for it, and what is said after the training."""


def network(hidden: list[int], activation: str) -> nn.MLP:
    """What the lessons choose from."""
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
    viz.save_playground(
        network,
        losses.binary_cross_entropy_with_logits,
        *data.moons(100, noise=0.2, rng=1),
        f"{name}.html",
        optimizer=lambda parameters: make(parameters, 0.1),
        validation=data.moons(100, noise=0.2, rng=2),
        choices=choices,
        lesson=parts,
    )
    return Page(f"{name}.html", height=900)
