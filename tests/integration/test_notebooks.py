"""The notebooks run from first to last cell, reproduce their stored outputs, and check exercises fairly."""

import importlib.util
import inspect
import linecache
import math
import random
import re
import runpy
import shutil
import sys
import textwrap
from itertools import count

import numpy as np
import pytest

from micrograd import Value, nn
from micrograd.functional import grad

pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

import nbformat

from tests import notebooks
from tests.notebooks import checks, digits, pictures, reader
from tests.notebooks.checks.engine import CORE, ENGINE
from tests.notebooks.mark import ASKED, asked, mark
from tests.notebooks.solutions import part_1, part_2, part_3, part_4, part_5, part_6, part_7

FIRST = notebooks.read(notebooks.NOTEBOOKS[0])

TIMES = re.compile(r"^\| \[?(\d)\. .*?\| (\d+) \| (\d+) \|", re.MULTILINE)
MINUTES = {part: (int(core), int(more)) for part, core, more in TIMES.findall(FIRST.cells[0].source)}
"""The minutes of the core and of what is more, by the number of the part."""

each_notebook = pytest.mark.parametrize("path", notebooks.NOTEBOOKS, ids=lambda path: path.stem)
STORED = [*(notebooks.EXECUTED / path.name for path in notebooks.NOTEBOOKS), *notebooks.FROM_PAGES]
SLOW = ("4_classes_and_digits", "5_the_bridge", "6_a_transformer")
each_stored = pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=[pytest.mark.long] if path.stem in SLOW else [], id=path.stem) for path in STORED]
)
def test_it_says_what_it_is_stored_with_and_nothing_else(path, capfd):
    if path == notebooks.ENGINEERING and not (importlib.util.find_spec("scipy") and shutil.which("gcc")):
        pytest.skip("there is no SciPy or no gcc here")
    opened = path if path in notebooks.FROM_PAGES else notebooks.HERE / path.name
    ran, stored = notebooks.run(notebooks.read(opened)), notebooks.read(path)
    if not importlib.util.find_spec("torch"):
        for made, cell in zip(ran.cells, stored.cells, strict=True):
            if "torch" in cell.source and cell.cell_type == "code":
                assert "skipped: " in made.outputs[0].text
                cell.outputs = made.outputs
    assert notebooks.said(ran) == notebooks.said(stored)
    assert path not in notebooks.FROM_PAGES or ran.metadata.left == []
    assert capfd.readouterr().err == ""


def sources(notebook):
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


@each_notebook
def test_students_open_it_without_outputs(path):
    opened, executed = notebooks.read(path), notebooks.read(notebooks.EXECUTED / path.name)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in opened.cells)
    assert sources(opened) == sources(executed)


@each_stored
def test_it_is_stored_without_anything_about_the_machine_that_it_ran_on(path):
    notebook = notebooks.read(path)
    assert path.stat().st_size < 150_000
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
def test_it_has_exercises_that_nobody_has_solved(path):
    cells = [cell for cell in notebooks.read(notebooks.EXECUTED / path.name).cells if ASKED.search(cell.source)]
    assert cells
    for cell in cells:
        [output] = cell.outputs
        assert output.text.count("Not yet: ") >= len(ASKED.findall(cell.source))
        assert "Right." not in output.text


@each_notebook
def test_it_asks_before_it_shows(path):
    """Its sections say how long they take, and there is a question before what a cell prints, in most of them."""
    cells = notebooks.read(path).cells
    text = "\n".join(cell.source for cell in cells)
    minutes = {"": 0, " more": 0}
    for n, kind in re.findall(r"^## .*\((\d+) minutes?( more)?\)$", text, re.MULTILINE):
        minutes[kind] += int(n)
    assert tuple(minutes.values()) == MINUTES[path.name[0]]
    assert text.count("**Predict.**") >= 5
    asked = [i for i, cell in enumerate(cells) if "**Predict.**" in cell.source]
    assert all(cells[i].cell_type == "markdown" for i in asked)


@pytest.mark.parametrize(("path", "page"), notebooks.FROM_PAGES.items(), ids=lambda path: path.stem)
def test_a_page_is_a_notebook_too(path, page):
    assert sources(notebooks.from_page(page)) == sources(notebooks.read(path))


def test_every_check_is_used_in_a_notebook():
    sources = "\n".join(cell.source for path in notebooks.NOTEBOOKS for cell in notebooks.read(path).cells)
    assert sorted(ASKED.findall(sources)) == sorted([*EXERCISES, "engine"])


# Exercises: a right answer to each, and wrong ones with what the check says of them


def class_of(number, name, which=-1):
    """The class of that name which a notebook has come to; or an earlier one."""
    cells = notebooks.read(notebooks.NOTEBOOKS[number - 1]).cells
    source = [cell.source for cell in cells if f"class {name}" in cell.source][which]
    namespace = {"np": np}
    exec(source, namespace)
    return namespace[name]


Small, Tensor = class_of(1, "Value"), class_of(5, "Tensor")
Early = class_of(1, "Value", -2)  # without plain numbers beside it


def slipped(solution, right, wrong):
    """The solution with something else written in a place."""
    source = inspect.getsource(solution)
    assert right in source
    namespace = globals() | vars(inspect.getmodule(solution))
    file = f"<{solution.__name__} with {wrong}>"
    linecache.cache[file] = len(source), None, source.replace(right, wrong, 1).splitlines(keepends=True), file
    exec(compile(source.replace(right, wrong, 1), file, "exec"), namespace)
    return namespace[solution.__name__]


def from_zero(kind):
    """A layer that begins each sum with a number of its own."""

    def layer(weights, biases, x):
        outputs = []
        for ws, b in zip(weights, biases, strict=True):
            total = kind(0.0)
            for w, xi in zip(ws, x, strict=True):
                total = total + w * xi
            outputs.append((total + b).tanh())
        return outputs

    return layer


def in_place(xs, ys, size):
    pairs = random.sample(list(zip(xs, ys, strict=True)), len(xs))
    xs[:], ys[:] = zip(*pairs, strict=True)
    return part_2.batches(xs, ys, size)


SHUFFLED = "random.sample(range(len(xs)), len(xs))"
CURVED = "grad(f)(x) / abs(grad(grad(f))(x))"
STARTS = count(3)


def rotated(n):
    """The numbers below n, from another one on each time."""
    start = next(STARTS) % n
    return [*range(start, n), *range(start)]


def in_blocks(n, size=8):
    """The numbers below n, in random order within each block."""
    blocks = [range(n)[start : start + size] for start in range(0, n, size)]
    return [i for block in blocks for i in random.sample(block, len(block))]


def by_the_size_of_the_key(query, keys, values):
    size = math.sqrt(len(query))
    return part_6.attend([q * size for q in query], [[k / math.hypot(*key) for k in key] for key in keys], values)


def halved(x):
    bound = 1 + x.data if x.data > 0 else 1 - x.data

    def _backward(grad):
        x.grad += grad / (bound * bound)

    return Value(x.data / bound, (x,), "softsign", _backward)


def a_fixed_number_of_steps(f, x):
    for _ in range(100):
        x -= grad(f)(x) / abs(grad(grad(f))(x))
    return x


def branching(prediction, target):
    error = abs(prediction - target)
    return error * error / 2 if error <= 1 else error - 0.5


RING = part_3.ring()
EXERCISES = {
    "sin": [
        ((part_1.sin, Small),),
        ((lambda x: None, Small), "returns nothing"),
        ((lambda x: math.sin(x.data), Small), "the plain number 0.479426"),
        ((lambda x: "sin", Small), "returns a str: expected a Value"),
        ((lambda x: Small(math.sin(x.data)), Small), "has no operands"),
        ((lambda x: Small(math.sin(x.data), (x,)), Small), "has no _backward"),
        ((lambda x: Small(x.data, (x,)), Small), "is 0.5: expected 0.479426"),
        ("grad * math.cos", "grad * math.sin", "is 0.479426, but nudging x finds 0.877583"),
        ("grad * math.cos", "math.cos", "must depend on the gradient of the result"),
        ("+=", "=", "one of the two paths from x is lost"),
        ("(x,)", "(Small(x.data),)", "has operands, but not x: backward() does not find its way to x"),
        ((lambda x: math.sin(x), Small), "a TypeError: must be real number, not Value; the number is its .data"),
        ("x.grad += grad", "return grad", "is 0, but nudging x finds 0.877583: nothing reads what _backward returns"),
        ("math.cos(x.data)", "(1 + 1e-8) * math.cos(x.data)", "is 0.87758257, but nudging x finds 0.87758256"),
        ((lambda x: Small(math.sin(x.data), x), Small), "a comma follows it, as in (x,)"),
        ((lambda x: Small(math.sin(x.data), (x,), print), Small), "where the operation's name, `_op`, should be"),
        ((lambda x: 10.0**1000, Small), "and that raises an OverflowError"),
        ((lambda x: Value(x.data).sin(), Small), "returns a Value: expected a Value of the class in this notebook"),
        ((lambda x: Small(math.sin(x.data), (x, 0.0), "sin", print), Small), "a cell above says `"),
    ],
    "cos": [((part_1.cos, Small),), ((part_1.sin, Small), "is 0.479426: expected 0.877583")],
    "sqrt": [((part_1.sqrt, Small),), ((part_1.cos, Small), "is 0.877583: expected 0.707107")],
    "slope": [
        ((part_1.slope,),),
        ((lambda f, x: [f(x)],), "returns a list: expected a number"),
        ((lambda f, x: 12.0,), "never called"),
        ((lambda f, x: (f(x + 1e-6) - f(x)) / 1e-6,), "f is evaluated on one side of x = 2.0 only: both"),
        ((lambda f, x: (f(x + 1e-13) - f(x - 1e-13)) / 2e-13,), "the rounding of the numbers drowns the difference"),
        ((lambda f, x: (f(x + 1e-16) - f(x - 1e-16)) / 2e-16,), "f is evaluated at x = 2.0 only: so close"),
        ((lambda f, x: (f(x + 0.1) - f(x - 0.1)) / 0.2,), "gives 12.01, not 12, with a nudge of 0.1"),
        ((lambda f, x: (f(x + 1e-6) - f(x - 1e-6)) / 2 * 1e-6,), "is it multiplied by h?"),
    ],
    "accumulation": [
        ((part_1.two_paths, Small),),
        ((lambda x: x.tanh() * 2 + x, Small),),
        ((lambda x: x * 2 + x, Early),),
        ((lambda x: 2 * x * x + 1, Early),),
        ((lambda x: Small(2.0), Small), "does not depend on x"),
        ((lambda x: x * Early(1.0) + x * Early(0.0), Early), "with = its gradient is 1, too, which is right"),
        ((lambda x: (3 * x + 1).tanh(), Small), "only one path"),
        ((lambda x: None, Small), "g(Value(3.0)) returns nothing"),
        ((lambda x: x**2, Early), "for ** or pow(): 'Value' and 'int'; of the operators, the class above has only"),
        ((lambda x: x - x, Early), "for -: 'Value' and 'Value'; of the operators, the class above has only + and *"),
    ],
    "layer": [
        ((part_2.layer,),),
        ((lambda ws, bs, x: None,), "layer(...) returns nothing"),
        ((lambda ws, bs, x: part_2.layer(ws, bs, x)[0],), "returns a Value: expected a list"),
        ((lambda ws, bs, x: part_2.layer(ws, bs, x)[:1],), "2 neurons with 3 inputs each, the number of outputs is 1"),
        ((lambda ws, bs, x: [y.data for y in part_2.layer(ws, bs, x)],), "layer(...) returns the plain number"),
        ((lambda ws, bs, x: [y.detach() for y in part_2.layer(ws, bs, x)],), "no gradient reaches weight 0 of neuron"),
        ((from_zero(part_2.Value), part_2.Value),),
        ((from_zero(Value),),),
        (", b)", ", b.data)", "no gradient reaches the bias of neuron 0"),
        ("w * xi", "w * xi.data", "no gradient reaches input 0"),
        ((lambda ws, bs, x: [(sum(ws[i][j] * x[j] for j in range(3)) + bs[i]).tanh() for i in (0, 1)],), "IndexError"),
        (", b).tanh()", ", b)", "before it is squeezed"),
        (", b).tanh()", ", 0.0).tanh()", "without its bias"),
        (", b).tanh()", ", 0.0)", "without a bias, before it is squeezed"),
        ("zip(weights, biases", "zip(weights, biases[::-1]", "another neuron's bias"),
        (", b).tanh()", ", 0.0).tanh() + b", "neuron 0 gives"),
    ],
    "batches": [
        ((part_2.batches,),),
        ((lambda xs, ys, size: list(part_2.batches(xs, ys, size)),),),
        ((lambda xs, ys, size: None,), "returns nothing, and yields nothing"),
        ((lambda xs, ys, size: iter(lambda: (xs, ys), None),), "more than 20 batches: is there something that ends"),
        ((lambda xs, ys, size: [xs],), "a batch has to be two lists"),
        ((lambda xs, ys, size: [(xs, ys[:3])],), "a batch has 20 inputs, but 3 targets"),
        ((lambda xs, ys, n: [(random.sample(xs, n), random.sample(ys, n))],), "inputs and targets no longer match"),
        ((lambda xs, ys, size: list(part_2.batches(xs, ys, size))[:-1],), "of 20 examples there are 16 in the batches"),
        ((lambda xs, ys, size: part_2.batches(xs, ys, size - 1),), "come as [7, 7, 6]"),
        (SHUFFLED, "range(len(xs))", "in their original order"),
        (SHUFFLED, SHUFFLED.replace("random", "random.Random(0)", 1), "in the same order each time"),
        (SHUFFLED, "rotated(len(xs))", "each example is followed by the same one each time"),
        (SHUFFLED, "in_blocks(len(xs), size)", "the same eight examples are always together"),
        ((in_place,), "the lists that the caller gave are in another order now"),
    ],
    "softmax": [
        ((part_4.softmax,),),
        ((lambda logits: None,), "is nothing"),
        ((lambda logits: part_4.softmax(logits)[0],), "is a Value: expected a list"),
        ((lambda logits: part_4.softmax(logits)[:1],), "has the length 1: expected 3"),
        ("[power / total", "[power.data / total.data", "softmax([2.0, 1.0, 0.1])[0] is the plain number 0.659"),
        ((lambda logits: [logit.exp() for logit in logits],), "adds up to 11.2125: probabilities add up to 1"),
        ((lambda logits: [logit / sum(logits) for logit in logits],), "where are the powers of e?"),
        ((lambda logits: part_4.softmax([2 * logit for logit in logits]),), "begins with 0.863777"),
        ((lambda logits: [p.detach() for p in part_4.softmax(logits)],), "is 0, where nudging finds"),
        ("logit - largest", "logit - logits[0]", "softmax([0.0, 1000.0]) raises OverflowError: exp(1000.0)"),
        ("logit - largest", "logit - sum(logits) / 2", "softmax([2000.0, 0.0]) raises OverflowError: exp(1000.0)"),
        ("[power / total", "[power.data / total", "the gradient with respect to logits[0]"),
        (" - largest", "", "softmax([1000.0, 0.0]) raises OverflowError: exp(1000.0)"),
    ],
    "spread": [
        ((part_4.spread,),),
        ((lambda inputs: 0.0,), "a standard deviation is above 0"),
        ((lambda inputs: inputs**-0.5,), "0.0313 times as large: that is right for tanh"),
        ((lambda inputs: 2 / inputs,), "times as large: that is the variance"),
        ((lambda inputs: 0.02,), "ten layers make a signal 3.36e-13 times as large"),
    ],
    "penalty": [
        ((part_4.penalty,),),
        ("return strength * ", "return ", "that is the sum without the strength"),
        ("w**2", "w", "of the weights, not of their squares"),
        ("w**2", "abs(w)", "of their sizes, not of their squares"),
        ("return strength", "return strength / 3", "divided by their number"),
        ("return strength", "return strength / 2", "is 0.2625, not 0.525"),
        ((lambda weights, strength: part_4.penalty(weights, strength).detach(),), "was it cut off?"),
    ],
    "tensor_relu": [
        ((part_5.relu, Tensor),),
        ((lambda x: np.maximum(x.data, 0), Tensor), "returns an ndarray: expected a Tensor"),
        ((lambda x: Tensor(x.data[0], (x,), print), Tensor), "has the shape (3,): expected (2, 3)"),
        ((lambda x: Tensor(x.data, (x,), print), Tensor), "where x is -1.0, relu(x) is -1: expected 0"),
        ("+=", "=", "and where x is 0.5, 1 arrives: = in place of +="),
        ("grad * (", "(", "2 arrives: does _backward use the gradient it is given?"),
        ("grad * (x.data > 0)", "grad", "where x is -1.0, 3 arrives"),
    ],
    "bias": [
        ((part_5.add_bias, Tensor),),
        ((lambda x, b: Tensor(x.data, (x, b), print), Tensor), "the first number of add_bias(x, b) is 1: expected 1.5"),
        ((lambda x, b: Tensor(x.data + b.data, (b, Tensor(x.data)), print), Tensor), "has operands, but not x"),
        ((lambda x, b: Tensor(x.data + b.data, (x,), print), Tensor), "has operands, but not b"),
        ("grad.sum(axis=0)", "grad", "gets the gradients of a whole column"),
        ("b.grad += grad.sum(axis=0)", "b.grad = b.grad + grad", "x.grad has the shape (2, 3) and b.grad (2, 3): exp"),
        ("grad.sum(axis=0)", "grad[0]", "whose gradients are 1 and 10, is 1: expected 11"),
        ("b.grad +=", "b.grad =", "b.grad for column 0, whose gradients are 1 and 10, is still 11: use +="),
        ("x.grad +=", "x.grad =", "come back again, x.grad where the gradient is 20 is still 20: use +="),
        ("(axis=0)", "(axis=0) * [1, 0, 0]", "b.grad for column 1, whose gradients are 2 and"),
    ],
    "attention": [
        ((part_6.attend,),),
        ("zip(*values", "zip(*keys", "it is the values that are mixed"),
        ("dot(query", "dot([q.data for q in query]", "respect to query[0]"),
        (" / sqrt(len(query))", "", "that is without the square root"),
        ("sqrt(len(query))", "4", "the result begins with"),
        ("sqrt(len(query))", "len(query)", "divided by the length itself"),
        ("softmax(", "(", "without softmax"),
        ("len(query)", "len(keys)", "the square root of the number of keys"),
        ("len(query)", "dot(query, query).data", "the size of the query"),
        ((by_the_size_of_the_key,), "divided by the sizes of the keys"),
        ("dot(shares", "dot([1 / len(keys)] * len(keys)", "with equal shares"),
    ],
    "cross_entropy": [
        ((part_4.cross_entropy,),),
        ((lambda logits, target: -part_4.cross_entropy(logits, target),), "the larger a loss should be"),
        ((lambda logits, target: (-part_4.cross_entropy(logits, target)).exp(),), "the probability of that class"),
        ((lambda logits, target: part_4.cross_entropy(logits, 0),), "is 0.41703: expected 2.31703"),
        ("logits[target] - largest", "logits[target].data - largest", "the gradient with respect to logits[0] is 0.65"),
        ("max(logit.data for logit in logits)", "0", "cross_entropy([1000.0, 0.0], 0) raises OverflowError: exp"),
    ],
    "memory": [
        ((part_3.mean_loss,),),
        ("loss.data", "loss", "100 of them are still in memory"),
        ("in values", "in list(values)", "up to 99 losses are in memory at the same time"),
        ("total / count", "total / count * (1 + 1e-8)", "is 3137.25003: expected 3137.25"),
        ("total / count", "total", "the mean of a hundred losses is"),
    ],
    "halving": [
        ((part_3.halving,),),
        ("//", "/", "halving(1) is 0.198618: expected 0.2"),
        ((lambda step: 0.2 if step < 100 else 0.1,), "halving(200) is 0.1: expected 0.05"),
    ],
    "circles": [
        ((RING,),),
        ((nn.MLP(2, [1], rng=1),), "no better than a guess"),
        ((lambda x: Value(0.8 - x[0]),), "it has learned something, but not the whole ring"),
        ((lambda x: RING(x).sigmoid(),),),
        ((nn.MLP(2, [4, 2], rng=1),), "the model gives a list of 2: expected one number"),
    ],
    "softsign": [
        ((part_7.softsign,),),
        ((lambda x: x / 2,), "is 1: expected 0.666667"),
        ((lambda x: x / (1 + abs(x)),), "not a single node"),
        ("(bound * bound)", "bound", "softsign(x) at -0.5: the gradient with respect to inputs[0] is 0.6666"),
        ("(bound * bound)", "(1 - x.data) ** 2", "softsign(x) at 2.0: the gradient"),
        ("+=", "=", "or not added to what was there before"),
        ("(bound * bound)", "(x.data - x.data)", "`x.grad += grad / (x.data - x.data)`, and that raises a ZeroDiv"),
        ((halved,), "cannot be compiled: "),
        ("(bound * bound)", "math.pow(bound, 2)", "a Value, and a function of `math` takes only plain numbers"),
        ((lambda x: math.sin(x),), "and that raises a PlainNumberError"),
    ],
    "minimum": [
        ((part_7.minimum,),),
        ((lambda f, x: x,), "minimum(f, 0.0) of (x - 3) ** 2 gives 0, where the slope is -6, not 0"),
        ((a_fixed_number_of_steps,),),
        (CURVED, "0.1 * grad(f)(x)", "of 1000 (x - 3) ** 2 runs away: how far to step depends on"),
        ("abs(grad(grad(f))(x))", "grad(grad(f))(x)", "of x^4 / 4 - x^2 / 2 gives 0: the slope is 0 there, but it"),
        ("abs(step) > 1e-9", "True", "is there something that ends the loop?"),
    ],
    "huber": [
        ((part_7.huber,),),
        ("error <= 1", "True", "huber(3.0, 0.0) is 4.5: expected 2.5"),
        ("error - 0.5", "error.data - 0.5", "the gradient with respect to prediction is 0, where nudging finds 1"),
        ((branching,), "cannot be compiled; `where` may help"),
    ],
}
"""A right answer to each exercise and what else it is called with, then others with what is said of them.

A wrong answer is one of its own, or the right one with a slip: a part of its source, and what is written there.
"""


def answers(name):
    """What the check of an exercise is given, and what it says, if that is wrong."""
    right, *others = EXERCISES[name][0][0]
    for row in EXERCISES[name]:
        match row:
            case (answer,):
                yield name, answer, None
            case answer, hint:
                yield name, answer, hint
            case before, after, hint:
                yield name, (slipped(right, before, after), *others), hint


RIGHT = [(name, answer) for exercise in EXERCISES for name, answer, hint in answers(exercise) if hint is None]
WRONG = [(name, answer, hint) for exercise in EXERCISES for name, answer, hint in answers(exercise) if hint]


@pytest.mark.parametrize(("name", "answer"), RIGHT, ids=[name for name, _ in RIGHT])
def test_a_right_answer_is_accepted(name, answer, capsys):
    getattr(checks, name)(*answer)
    assert re.sub(r" With =, the gradient at x = 3 would be .*\.", "", capsys.readouterr().out) == "Right.\n"


def test_a_right_answer_about_accumulation_shows_the_wrong_gradient(capsys):
    checks.accumulation(part_1.two_paths, Small)
    assert capsys.readouterr().out == "Right. With =, the gradient at x = 3 would be 3, not 6.\n"


@pytest.mark.parametrize(("name", "answer", "hint"), WRONG, ids=[f"{name}: {hint}" for name, _, hint in WRONG])
def test_a_check_says_what_is_wrong_with_an_answer_but_not_what_is_right(name, answer, hint, capsys):
    getattr(checks, name)(*answer)
    said = capsys.readouterr().out
    assert said.startswith("Not yet: ")
    assert hint in said
    solution = EXERCISES[name][0][0][0]
    if inspect.isfunction(solution):
        _, *lines = textwrap.dedent(inspect.getsource(solution)).splitlines()
        assert not any(line.strip() in said for line in lines if line.strip())


SOURCE = inspect.getsource(part_2.Value)
MISTAKES = [
    ("self.grad += grad * other.data", "self.grad += grad * self.data", "*", "the larger b is, the faster"),
    ("            other.grad += grad\n", "            other.grad = grad\n", "+", "the same number twice"),
    ("            self.grad += grad\n", "            self.grad = grad\n", "+", "a has two paths now"),
    ("            self.grad += grad\n", "            return grad\n", "+", "nothing reads what _backward returns"),
    ("            self.grad += grad\n", "            self.grad += 1\n", "+", "multiply by the gradient it is given?"),
    ("(self, other), _backward)", "(self, other))", "+", "a + b has no _backward"),
    ("_backward(grad):\n", "_backward():\n", "+", "it gets the gradient of the result: def _backward(grad)"),
    ("_backward(grad):\n", "_backward(grad):\n            other.grad = 0\n", "+", "b has two paths now"),
    ("(self, other), _b", "(self, other), '+', _b", "+", "were given; this class takes no name for the operation"),
    ("isinstance(other, Value)", "not isinstance(other, int)", "+", "'float' object has no attribute 'data'"),
    ("(self, other), _b", "(self,), _b", "+", "a + b has operands, but not b: backward() does not find its way to b"),
    ("* other.data, (self, other)", "* other.data, (other,)", "*", "a * b has operands, but not a"),
    ("**exponent, (self,)", "**exponent, ()", "**", "a**3 has no operands"),
    ("self.data ** (exponent - 1)", "self.data**exponent / self.data", "**", "a ZeroDivisionError"),
    ("e(result, (self,)", "e(result, ()", "exp", "a.exp() has no operands"),
    ("(self.data), (self,)", "(self.data), ()", "log", "a.log() has no operands"),
    ("0.0), (self,)", "0.0), ()", "relu", "a.relu() has no operands"),
    ("node._backward(node.grad)", "node._backward(1.0)", "backward", "get the gradient of its own number"),
    ("        self.grad = 1.0\n", "", "backward", "after x.backward(), x.grad is 0: x moves as fast as itself"),
    ("if node not in seen", "if True", "backward", "the _backward of one number is called 4 times"),
    ("reversed(order)", "order", "backward", "wait for all nodes that use its number"),
    *[
        (
            "for operand in node._prev:\n                    visit(operand)\n                order.append(node)",
            f"order.insert(0, node)\n                for operand in {operands}:\n                    visit(operand)",
            "backward",
            "wait for all nodes that use its number",
        )
        for operands in ("node._prev", "reversed(node._prev)")
    ],
    ("self.grad = 1.0", "self.grad = [setattr(v, 'grad', 0.0) for v in order] and 1.0", "backward", "gradients add up"),
    ("reversed(order)", "order[-1:]", "backward", "4 of 5 operations are never asked for their gradients"),
    ("reversed(order)", "order[:2:-1]", "backward", "is never asked for its gradients"),
    ("node._backward(node.grad)", "node._backward()", "backward", "takes its node's gradient: v._backward(v.grad)"),
    ("if node._backward:", "if True:", "backward", "'NoneType' object is not callable; a leaf has no _backward"),
    ("return Value(self.data * other.data, ", "(self.data * other.data, ", "*", "a * b returns nothing"),
    ("exponent * self.data ** (", "exponent * self.data ** (1 + ", "**", "the exponent in the slope is smaller by 1"),
    ("grad * exponent * self", "grad * self", "**", "a**3 has the gradient 2.25 with respect to a, but nudging finds"),
    ("return self + other * -1", "return self + other", "-", "the number in a - b is -0.5: expected 3.5"),
    ("return self * -1 + other", "...", "-", "2 - a returns nothing"),
    ("return self * other**-1", "return self.data / other.data", "/", "the plain number -0.75"),
    ("grad * result\n", "grad * self.data\n", "exp", "the slope of exp is the result"),
    ("grad * result\n", "result\n", "exp", "is right, but in (a.exp()) * 3 it is not"),
    ("grad / self.data", "grad / math.log(self.data)", "log", "one over the operand, not over the result"),
    ("def log(", "def ln(", "log", "object has no attribute 'log'"),
    ("1 - result**2", "1 - self.data**2", "tanh", "the square in the slope is the square of the result"),
    ("grad * (self.data > 0)", "grad", "relu", "below 0 relu is flat"),
]
"""A line of the engine, what is written in its place, and what is said of which operation."""


def compared(source, capsys):
    """The class, what the comparison returns, and what it says of each operation."""
    namespace = {"math": math}
    exec(source, namespace)
    returned = checks.engine(namespace["Value"])
    *lines, follows = capsys.readouterr().out.splitlines()
    chosen = "your class." if returned is namespace["Value"] else "micrograd"
    assert follows.startswith(f"What follows runs on {chosen}")
    return namespace["Value"], returned, dict(line.split(maxsplit=1) for line in lines)


class TestAnEngine:
    def test_that_is_right_and_as_long_as_promised_is_what_the_notebook_goes_on_with(self, capsys):
        assert 80 <= len(SOURCE.splitlines()) <= 120
        for source in SOURCE, SOURCE.replace("self._prev = _prev", "self._prev = set(_prev)"):
            written, returned, said = compared(source, capsys)
            assert returned is written
            assert said == dict.fromkeys(ENGINE, "Right.")
        *operations, _, _ = asked(notebooks.read(notebooks.NOTEBOOKS[1]))
        assert len(operations) == len(ENGINE)
        assert set(operations) <= checks.answers.RIGHT

    @pytest.mark.parametrize(("right", "wrong", "operation", "hint"), MISTAKES, ids=[row[3] for row in MISTAKES])
    def test_with_a_mistake_is_wrong_in_that_operation_for_a_reason(self, right, wrong, operation, hint, capsys):
        assert right in SOURCE
        _, returned, said = compared(SOURCE.replace(right, wrong, 1), capsys)
        assert (returned is Value) == (operation in CORE)
        assert said[operation].startswith("Not yet: ")
        assert hint in said[operation]
        basic = operation in ("+", "*", "backward")
        others = {name for name in said if name != operation and said[name] != "Right."}
        assert all(re.search(f"right first|{hint}", said[name]) for name in others) if basic else others <= {"/"}

    def test_without_a_line_is_wrong_in_every_operation(self, capsys):
        sources = [cell.source for cell in notebooks.read(notebooks.NOTEBOOKS[1]).cells]
        _, returned, said = compared(*[source for source in sources if "class Value" in source], capsys)
        assert returned is Value
        assert all(verdict.startswith("Not yet: ") for verdict in said.values())

    def test_of_seven_methods_is_enough_for_the_rest_of_the_part(self, capsys, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(notebooks.HERE)
        monkeypatch.chdir(tmp_path)
        core = re.split(r"(?m)^    (?=def )", SOURCE)
        names = "__init__", "__repr__", "__add__", "__radd__", "__mul__", "__rmul__", "backward", "__pow__", "tanh"
        kept = [part for part in core[1:] if re.match(r"def (\w+)", part)[1] in names]
        assert len(kept) == len(names)
        _, *cells = [cell.source for cell in notebooks.read(notebooks.NOTEBOOKS[1]).cells if cell.cell_type == "code"]
        namespace = {}
        exec("import math\n" + "    ".join([core[0], *kept]), namespace)
        written = namespace["Value"]
        for cell in cells:
            exec(cell, namespace)
        assert namespace["Value"] is written
        assert type(namespace["hidden"][0][0]) is written
        exec("train(neuron, weights, either, steps=3, learning_rate=0.3)", namespace)
        said = capsys.readouterr().out
        assert said.count("Right.") == len(CORE)
        assert "step    3" in said
        assert "[1.0, 0.0]  0.998" in said

    def test_that_is_micrograds_own_gets_no_marks(self, capsys):
        assert checks.engine(Value) is Value
        said = capsys.readouterr().out
        assert said == "This is micrograd's own class: run the cell with yours again, then this one.\n"


# Marking


def test_a_notebook_is_marked_by_what_is_right_in_it(tmp_path):
    notebook = notebooks.read(notebooks.NOTEBOOKS[6])
    for cell in notebook.cells:
        if cell.source.startswith(("import checks", "def minimum")):
            name = ASKED.search(cell.source)[1]
            cell.source = f"import checks\nfrom solutions.part_7 import {name}\nchecks.{name}({name})"
    path = tmp_path / "ada.ipynb"
    notebooks.store(notebook, path)
    assert mark(path) == "ada.ipynb: 2 of 3 right; open: huber"
    notebook.cells[0].source = "My notes"
    notebook.cells[-2].source = "def huber(prediction, target:"
    notebook.cells.append(nbformat.v4.new_code_cell("print('Right.')\nchecks.minimum(minimum)"))
    notebooks.store(notebook, path)
    assert mark(path) == "ada.ipynb: 2 of 3 right; open: huber; 1 cell ends in an error"


def written(*sources):
    """The text of a file: a notebook with these cells."""
    return nbformat.writes(nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, sources)]))


def test_notebooks_that_cannot_be_marked_are_named_and_the_rest_are_marked(tmp_path, monkeypatch, capsys):
    slow = written("while True: pass", "import checks\nfrom solutions.part_1 import slope", "checks.slope(slope)")
    files = {
        "missing": (None, "not marked: No such file or directory"),
        "text": ("text", "not marked: Notebook does not appear to be JSON: 'text'"),
        "table": ("{}", "not marked: Notebook could not be converted"),
        "dead": (written("import os; os._exit(1)", "checks.slope(slope)"), "not marked: Kernel died"),
        "notes": (written("1 + 1"), "not a part of the course: no cell calls one of its checks, as in checks.slope("),
        "slow": (slow, "1 of 5 right; open: accumulation, sin, cos, sqrt; 1 cell ends in an error"),
    }
    paths = {name: tmp_path / f"{name}.ipynb" for name in files}
    for name, (text, _) in files.items():
        if text:
            paths[name].write_text(text, encoding="utf-8")
    monkeypatch.setattr(notebooks, "PATIENCE", 3)
    monkeypatch.setattr(sys, "argv", ["mark", *map(str, paths.values()), str(tmp_path)])
    monkeypatch.delitem(sys.modules, "tests.notebooks.mark")
    runpy.run_module("tests.notebooks.mark", run_name="__main__")
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == f"{tmp_path.name}: not marked: Is a directory"
    for line, (name, (_, hint)) in zip(lines, files.items(), strict=True):
        assert line.startswith(f"{name}.ipynb: {hint}")


# What the notebooks learn from, and how they show it


def test_digits_are_the_same_for_a_seed_and_all_ten_come_equally_often():
    xs, ys = digits.digits(50, rng=1)
    assert (xs, ys) == digits.digits(50, rng=1)
    assert xs != digits.digits(50, rng=2)[0]
    assert sorted(ys) == sorted(list(range(10)) * 5)
    assert {len(x) for x in xs} == {64}
    assert all(0 <= pixel <= 1 for x in xs for pixel in x)
    assert all(max(x) > 0.7 and min(x) == 0 for x in xs)


def test_the_reader_that_the_course_begins_with_is_the_one_of_its_script_and_reads():
    """Also what is drawn in text; `python -m tests.notebooks.reader` writes the stored one."""
    model = reader.reader()
    xs, ys = digits.digits(300, rng=2)

    def answer(x):
        return max(range(10), key=[score.data for score in model(x)].__getitem__)

    assert sum(answer(x) == y for x, y in zip(xs, ys, strict=True)) > 280
    assert reader.pixels("#+.\n ##") == [1, 0.5, 0, 0, 0, 0, 0, 0, 1, 1, *[0] * 54]
    trained = reader.trained().parameters()
    assert [p.data for p in model.parameters()] == pytest.approx([p.data for p in trained], abs=0.002)


def test_a_graph_shows_the_slope_along_each_edge_and_leaves_the_gradients():
    for kind in Small, Value:
        a, b = kind(2.0), kind(-3.0)
        y = a * b + a
        y.backward()
        drawn = notebooks.texts(pictures.slopes(y, {"a": a, "b": b, "y": y}))
        assert drawn["a, gradient -2"] == drawn["b, gradient 2"] == drawn["y, gradient 1"] == 1
        assert (drawn["-3"], drawn["2"], drawn["1"]) == (2, 2, 2)  # numbers in nodes, and slopes of edges
        assert (a.grad, b.grad) == (-2, 2)
    x = Small(3.0)
    assert notebooks.texts(pictures.slopes(x * x, {}))["6"] == 1  # both edges are one
