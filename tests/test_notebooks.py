"""The notebooks run from first to last cell, reproduce their stored outputs, and check exercises fairly."""

import inspect
import math
import random
import re
import textwrap

import pytest

from micrograd import Value, fit, losses, nn, optim, where
from micrograd import data as datasets
from micrograd.functional import grad

pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

from tests import notebooks
from tests.notebooks import checks

each_notebook = pytest.mark.parametrize("path", notebooks.NOTEBOOKS, ids=lambda path: path.stem)


@each_notebook
def test_it_says_what_it_is_stored_with(path):
    assert notebooks.said(notebooks.execute(path)) == notebooks.said(notebooks.read(path))


@each_notebook
def test_it_is_stored_without_anything_about_the_machine_that_it_ran_on(path):
    notebook = notebooks.read(path)
    assert path.stat().st_size < 100_000
    assert not re.search(r"0x[0-9a-f]{6}|/(home|root|tmp|usr)/|[A-Z]:\\", path.read_text(encoding="utf-8"))
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert [cell.metadata for cell in notebook.cells] == [{}] * len(notebook.cells)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert not any(output.get("metadata") for output in outputs)
    assert {"stream", "display_data", "execute_result"} >= {output.output_type for output in outputs}
    assert {"stdout"} >= {output.name for output in outputs if output.output_type == "stream"}


@each_notebook
def test_it_ends_with_exercises_that_nobody_has_solved(path):
    sources = [cell.source for cell in notebooks.read(path).cells]
    asked = re.findall(r"^checks\.(\w+)\(", "\n".join(sources), re.MULTILINE)
    outputs = [output for cell in notebooks.said(notebooks.read(path)) for output in cell]
    printed = "".join(output.get("stdout", "") for output in outputs)
    assert len(asked) >= 3
    assert printed.count("Not yet: ") == len(asked)
    assert "Right." not in printed


@each_notebook
def test_the_files_it_links_to_exist(path):
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", "\n".join(cell.source for cell in notebooks.read(path).cells))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_every_check_is_used_in_a_notebook():
    sources = "\n".join(cell.source for path in notebooks.NOTEBOOKS for cell in notebooks.read(path).cells)
    assert sorted(re.findall(r"^checks\.(\w+)\(", sources, re.MULTILINE)) == sorted(EXERCISES)


# Exercises: a right answer to each, and wrong ones with what the check says of them


def small():
    """The class that the first notebook has come to."""
    [*_, source] = [
        cell.source for cell in notebooks.read(notebooks.NOTEBOOKS[0]).cells if "class Value" in cell.source
    ]
    namespace = {}
    exec(source, namespace)
    return namespace["Value"]


Small = small()


def sin(x):
    def _backward(grad):
        x.grad += grad * math.cos(x.data)

    return Small(math.sin(x.data), (x,), "sin", _backward)


def cos(x):
    def _backward(grad):
        x.grad -= grad * math.sin(x.data)

    return Small(math.cos(x.data), (x,), "cos", _backward)


def sqrt(x):
    root = math.sqrt(x.data)

    def _backward(grad):
        x.grad += grad / (2 * root)

    return Small(root, (x,), "sqrt", _backward)


def sine(derivative):
    """An answer with this for a `_backward`."""
    return lambda x: Small(math.sin(x.data), (x,), "sin", lambda grad: derivative(x, grad))


def replaced(x, grad):
    x.grad = grad * math.cos(x.data)


def unchained(x, grad):
    x.grad += math.cos(x.data)


def itself(x, grad):
    x.grad += grad * math.sin(x.data)


def slope(f, x):
    h = 1e-5
    return (f(x + h) - f(x - h)) / (2 * h)


def square(x):
    return x * x


def layer(weights, biases, x):
    return [sum((w * xi for w, xi in zip(ws, x, strict=True)), b).tanh() for ws, b in zip(weights, biases, strict=True)]


def neurons(weights, biases, x, output):
    """A layer in which the output is computed from the sum of products and the bias."""
    sums = [sum(w * xi for w, xi in zip(ws, x, strict=True)) for ws in weights]
    return [output(total, b) for total, b in zip(sums, biases, strict=True)]


def batches(xs, ys, size):
    order = random.sample(range(len(xs)), len(xs))
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        yield [xs[i] for i in chosen], [ys[i] for i in chosen]


def shuffled_apart(xs, ys, size):
    return [(random.sample(xs, size), random.sample(ys, size))]


def in_order(xs, ys, size):
    return [(xs[i : i + size], ys[i : i + size]) for i in range(0, len(xs), size)]


def always_the_same(xs, ys, size):
    order = random.Random(0).sample(range(len(xs)), len(xs))
    return in_order([xs[i] for i in order], [ys[i] for i in order], size)


def cross_entropy(logits, target):
    largest = max(logit.data for logit in logits)
    return sum((logit - largest).exp() for logit in logits).log() - (logits[target] - largest)


def by_the_book(logits, target):
    return -(logits[target].exp() / sum(logit.exp() for logit in logits)).log()


def mean_loss(losses):
    total = count = 0
    for loss in losses:
        total += loss.data
        count += 1
    return total / count


def listed(losses):
    return sum(loss.data for loss in list(losses)) / 100


def summed(losses):
    return sum(losses) / 100


def halving(step):
    return 0.2 * 0.5 ** (step // 100)


def ring():
    xs, ys = datasets.circles(100, noise=0.1, rng=1)
    model = nn.MLP(2, [6, 1], rng=1)
    adam = optim.Adam(model.parameters(), learning_rate=0.05)
    loss = losses.binary_cross_entropy_with_logits
    fit(model, loss, xs, ys, epochs=60, batch_size=10, optimizer=adam, rng=1, progress=False, backend="python")
    return model


def softsign(x):
    bound = 1 + abs(x.data)

    def _backward(grad):
        x.grad += grad / (bound * bound)

    return Value(x.data / bound, (x,), "softsign", _backward)


def softsigned(derivative):
    """An answer with this for a `_backward`."""
    return lambda x: Value(x.data / (1 + abs(x.data)), (x,), "softsign", lambda grad: derivative(x, grad))


def bent(x, grad):
    x.grad += grad / (1 + abs(x.data))


def forgetful(x, grad):
    x.grad = grad / (1 + abs(x.data)) ** 2


def halved(x):
    bound = 1 + x.data if x.data > 0 else 1 - x.data
    return Value(x.data / bound, (x,), "softsign", lambda grad: bent(x, grad / bound))


def minimum(f, x):
    step = 1.0
    while abs(step) > 1e-9:
        step = grad(f)(x) / grad(grad(f))(x)
        x -= step
    return x


def downhill(f, x):
    for _ in range(300):
        x -= 0.1 * grad(f)(x)
    return x


def endless(f, x):
    while True:
        x -= 0.1 * grad(f)(x)


def huber(prediction, target):
    error = abs(prediction - target)
    return where(error <= 1, error * error / 2, error - 0.5)


def branching(prediction, target):
    error = abs(prediction - target)
    return error * error / 2 if error <= 1 else error - 0.5


EXERCISES = {
    "sin": [
        ((sin, Small),),
        ((lambda x: None, Small), "returns nothing"),
        ((lambda x: math.sin(x.data), Small), "the plain number 0.479426"),
        ((lambda x: "sin", Small), "returns a str: expected a Value"),
        ((lambda x: Small(math.sin(x.data)), Small), "has no operands"),
        ((lambda x: Small(math.sin(x.data), (x,)), Small), "has no _backward"),
        ((lambda x: Small(x.data, (x,)), Small), "is 0.5: expected 0.479426"),
        ((sine(itself), Small), "is 0.479426, but nudging x finds 0.877583"),
        ((sine(unchained), Small), "must depend on the gradient of the result"),
        ((sine(replaced), Small), "one of the two paths from x is lost"),
        ((lambda x: math.sin(x), Small), "`((lambda x: math.sin(x), Small)"),
    ],
    "cos": [((cos, Small),), ((sin, Small), "is 0.479426: expected 0.877583")],
    "sqrt": [((sqrt, Small),), ((cos, Small), "is 0.877583: expected 0.707107")],
    "slope": [
        ((slope,),),
        ((lambda f, x: None,), "returns nothing"),
        ((lambda f, x: [f(x)],), "returns a list: expected a number"),
        ((lambda f, x: 12.0,), "never called"),
        ((lambda f, x: (f(x + 1e-6) - f(x)) / 1e-6,), "on one side of x = 2.0 only"),
        ((lambda f, x: (f(x + 1e-13) - f(x - 1e-13)) / 2e-13,), "the rounding of the numbers drowns the difference"),
        ((lambda f, x: (f(x + 0.1) - f(x - 0.1)) / 0.2,), "gives 12.01, not 12, with a nudge of 0.1"),
        ((lambda f, x: f(x + 1e-6) - f(x - 1e-6),), "not 12, with a nudge of 1e-06"),
    ],
    "accumulation": [
        ((square, Small),),
        ((lambda x: x.tanh() * 2 + x, Small),),
        ((lambda x: Small(2.0), Small), "does not depend on x"),
        ((lambda x: (3 * x + 1).tanh(), Small), "only one path"),
    ],
    "layer": [
        ((layer,),),
        ((lambda ws, bs, x: None,), "returns nothing, not a list"),
        ((lambda ws, bs, x: layer(ws, bs, x)[0],), "returns a Value, not a list"),
        ((lambda ws, bs, x: layer(ws, bs, x)[:1],), "for 2 neurons with 3 inputs each there are 1 outputs"),
        ((lambda ws, bs, x: [y.data for y in layer(ws, bs, x)],), "neuron 0 of layer(...) returns the plain number"),
        ((lambda ws, bs, x: [y.detach() for y in layer(ws, bs, x)],), "no gradient reaches the weights of neuron 0"),
        ((lambda *given: neurons(*given, lambda total, b: total + b),), "before it is squeezed"),
        ((lambda *given: neurons(*given, lambda total, b: total.tanh()),), "without its bias"),
        ((lambda *given: neurons(*given, lambda total, b: total),), "neither squeezed, nor has it a bias"),
        ((lambda ws, bs, x: layer(ws, bs[::-1], x),), "another neuron's bias"),
        ((lambda *given: neurons(*given, lambda total, b: total.tanh() + b),), "neuron 0 gives"),
    ],
    "batches": [
        ((batches,),),
        ((lambda xs, ys, size: list(batches(xs, ys, size)),),),
        ((lambda xs, ys, size: None,), "returns nothing, and yields nothing"),
        ((lambda xs, ys, size: [xs],), "a batch has to be two lists"),
        ((lambda xs, ys, size: [(xs, ys[:3])],), "a batch has 20 inputs, but 3 targets"),
        ((shuffled_apart,), "inputs and targets no longer match"),
        ((lambda xs, ys, size: list(batches(xs, ys, size))[:-1],), "of 20 examples there are 16 in the batches"),
        ((lambda xs, ys, size: batches(xs, ys, size - 1),), "come as [7, 7, 6]"),
        ((in_order,), "in the order that they have"),
        ((always_the_same,), "in the same order each time"),
    ],
    "cross_entropy": [
        ((cross_entropy,),),
        ((lambda logits, target: None,), "returns nothing"),
        ((lambda logits, target: -cross_entropy(logits, target),), "the worse the answer, the larger a loss should be"),
        ((lambda logits, target: (-cross_entropy(logits, target)).exp(),), "which is the probability of that class"),
        ((lambda logits, target: cross_entropy(logits, 0),), "is 0.41703: expected 2.31703"),
        ((lambda logits, target: cross_entropy(logits, target).detach(),), "no gradient reaches some of the logits"),
        ((by_the_book,), "cross_entropy([1000.0, 0.0], 0) raises OverflowError: exp(1000.0)"),
    ],
    "memory": [
        ((mean_loss,),),
        ((lambda losses: None,), "returns nothing"),
        ((summed,), "100 of them are still in memory"),
        ((listed,), "up to 99 losses are in memory at the same time"),
        ((lambda losses: mean_loss(losses) * 100,), "the mean of a hundred losses is"),
    ],
    "halving": [
        ((halving,),),
        ((lambda step: None,), "halving(0) returns nothing"),
        ((lambda step: 0.2 * 0.5 ** (step / 100),), "halving(1) is 0.198618: expected 0.2"),
        ((lambda step: 0.2 if step < 100 else 0.1,), "halving(200) is 0.1: expected 0.05"),
    ],
    "circles": [
        ((ring(),),),
        ((nn.MLP(2, [1], rng=1),), "no better than a guess"),
        ((lambda x: Value(0.8 - x[0]),), "it has learned something, but not the whole ring"),
    ],
    "softsign": [
        ((softsign,),),
        ((lambda x: None,), "returns nothing"),
        ((lambda x: x / 2,), "is 1: expected 0.666667"),
        ((lambda x: x / (1 + abs(x)),), "not a single node"),
        ((lambda x: Value(x.data / (1 + abs(x.data)), (x,), "softsign"),), "has no _backward"),
        ((softsigned(bent),), "softsign(x): the gradient with respect to inputs[0] is 0.6666"),
        (
            (softsigned(forgetful),),
            "softsign(x): the gradient with respect to inputs[0] is not added",
        ),
        ((halved,), "cannot be compiled: "),
    ],
    "minimum": [
        ((minimum,),),
        ((lambda f, x: None,), "returns nothing"),
        ((lambda f, x: x,), "minimum(f, 0.0) of (x - 3) ** 2 gives 0, where the slope is -6, not 0"),
        ((downhill,), "has run the function 300 times: are the steps too small?"),
        ((endless,), "is there something that ends the loop?"),
    ],
    "huber": [
        ((huber,),),
        ((lambda prediction, target: None,), "returns nothing"),
        ((lambda prediction, target: (prediction - target) ** 2 / 2,), "huber(3.0, 0.0) is 4.5: expected 2.5"),
        ((branching,), "the numbers are right, but it cannot be compiled: "),
    ],
}
RIGHT = [(name, answer) for name, rows in EXERCISES.items() for answer, *wrong in rows if not wrong]
WRONG = [(name, answer, *wrong) for name, rows in EXERCISES.items() for answer, *wrong in rows if wrong]


@pytest.mark.parametrize(("name", "answer"), RIGHT, ids=[name for name, _ in RIGHT])
def test_a_right_answer_is_accepted(name, answer, capsys):
    getattr(checks, name)(*answer)
    assert capsys.readouterr().out == "Right.\n"


@pytest.mark.parametrize(("name", "answer", "told"), WRONG, ids=[f"{name}: {told}" for name, _, told in WRONG])
def test_a_wrong_answer_is_told_what_is_wrong_but_not_what_is_right(name, answer, told, capsys):
    getattr(checks, name)(*answer)
    said = capsys.readouterr().out
    assert said.startswith("Not yet: ")
    assert told in said
    solution = EXERCISES[name][0][0][0]
    if inspect.isfunction(solution):
        _, *lines = textwrap.dedent(inspect.getsource(solution)).splitlines()
        assert not any(line.strip() in said for line in lines if line.strip())
