"""The checks of the notebooks' exercises: they say what is wrong with an answer, but do not reveal it.

Each takes the reader's answer and prints "Right.", or "Not yet:" and why.
"""

import math
import traceback
import weakref
from collections import Counter
from collections.abc import Callable
from functools import partial, wraps
from itertools import pairwise
from pathlib import Path

import micrograd
from micrograd import data, gradcheck, losses
from micrograd.functional import GradientError

PACKAGE = Path(micrograd.__file__).parent


class NotYet(Exception):
    """What is wrong with an answer."""


def check(test: Callable) -> Callable:
    """The test of an answer, which ends in what it prints."""

    @wraps(test)
    def checked(*answer):
        try:
            test(*answer)
        except NotYet as reason:
            print(f"Not yet: {reason}")
        except Exception as error:
            print(f"Not yet: {_place(error)}{type(error).__name__}: {error}")
        else:
            print("Right.")

    return checked


def _place(error: Exception) -> str:
    """The line of the answer that the error came from, if there is one."""
    lines = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and PACKAGE not in Path(frame.filename).parents
    ]
    return f"line {lines[-1].lineno} of your cell says `{lines[-1].line}`, and that raises a " if lines else ""


def _value(call: str, result: object, kind: type = micrograd.Value) -> object:
    """The result of the call, which has to be a Value."""
    if result is None:
        raise NotYet(f"{call} returns nothing")
    if isinstance(result, (int, float)):
        raise NotYet(f"{call} returns the plain number {result:.6g}: return a Value, which knows where it came from")
    if not isinstance(result, kind):
        raise NotYet(f"{call} returns a {type(result).__name__}: expected a Value")
    return result


def _number(call: str, result: object) -> float:
    """The result of the call, which has to be a number."""
    if result is None:
        raise NotYet(f"{call} returns nothing")
    if not isinstance(result, (int, float)):
        raise NotYet(f"{call} returns a {type(result).__name__}: expected a number")
    return result


def _close(a: float, b: float, tolerance: float = 1e-9) -> bool:
    return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)


def _same(what: str, found: float, expected: float) -> None:
    if not _close(found, expected):
        raise NotYet(f"{what} is {found:.6g}: expected {expected:.6g}")


# Numbers and gradients


def _operation(name: str, answer: Callable, kind: type) -> None:
    """Whether a function of a Value gives what micrograd's method of that name does."""
    for number in 0.5, 2.0:
        truth = micrograd.Value(number)
        result = getattr(truth, name)()
        result.backward()
        slope = truth.grad

        def gradient(formula, number=number):
            x = kind(number)
            formula(x).backward()
            return x.grad

        call = f"{name}(Value({number}))"
        node = _value(call, answer(kind(number)), kind)
        _same(f"the number in {call}", node.data, result.data)
        if not node._prev:
            raise NotYet(f"{call} has no operands: without them, backward() does not find its way to x")
        if node._backward is None:
            raise NotYet(f"{call} has no _backward: the way back ends there, and x gets no gradient")
        found = gradient(answer)
        if not _close(found, slope):
            raise NotYet(f"at x = {number} the gradient of {name}(x) is {found:.6g}, but nudging x finds {slope:.6g}")
        if not _close(gradient(lambda x: answer(x) * 3), 3 * slope):
            raise NotYet(
                f"{name}(x) has the right gradient, but {name}(x) * 3 has not: slopes along a path multiply, so what x "
                "gets must depend on the gradient of the result"
            )
        if not _close(gradient(lambda x: answer(x) + x), slope + 1):
            raise NotYet(f"{name}(x) has the right gradient, but in {name}(x) + x one of the two paths from x is lost")


sin = check(partial(_operation, "sin"))
cos = check(partial(_operation, "cos"))
sqrt = check(partial(_operation, "sqrt"))


@check
def slope(answer: Callable) -> None:
    for name, f, x, expected in [
        ("x * x * x", lambda x: x * x * x, 2.0, 12.0),
        ("1 / x", lambda x: 1 / x, -0.5, -4.0),
        ("5 * x", lambda x: 5 * x, 0.0, 5.0),
    ]:
        asked = []

        def watched(x, f=f, asked=asked):
            asked.append(x)
            return f(x)

        found = _number(f"slope(f, {x})", answer(watched, x))
        if not asked:
            raise NotYet("the function f is never called")
        below, above = (x - min(asked)), (max(asked) - x)
        if min(below, above) <= 0:
            raise NotYet(f"f is asked on one side of x = {x} only, which costs more of the accuracy than need be")
        if above < 1e-9 * max(1, abs(x)):
            raise NotYet(f"the nudge is {above:.1g}: that small, the rounding of the numbers drowns the difference")
        if not _close(found, expected, 1e-6):
            raise NotYet(f"for {name} at {x} it gives {found:.8g}, not {expected:g}, with a nudge of {above:.1g}")


@check
def accumulation(answer: Callable, kind: type) -> None:
    x = kind(3.0)
    pending, nodes = [_value("f(Value(3.0))", answer(x), kind)], {}
    while pending:
        node = pending.pop()
        if id(node) not in nodes:
            nodes[id(node)] = node
            pending += node._prev
    if id(x) not in nodes:
        raise NotYet("the result does not depend on x: nothing leads back to it")
    inner = {key for key, node in nodes.items() if _leads_to(node, x)}
    uses = Counter(id(operand) for node in nodes.values() for operand in node._prev)
    if all(uses[key] < 2 for key in inner):
        raise NotYet("there is only one path from x to the result, so no gradient ever arrives where one is already")


def _leads_to(node: object, x: object) -> bool:
    return node is x or any(_leads_to(operand, x) for operand in node._prev)


# A network by hand


@check
def layer(answer: Callable) -> None:
    rows, biases, xs = [[0.1, -0.2, 0.3], [0.4, 0.5, -0.6]], [0.2, -0.1], [1.0, 2.0, -1.0]
    weights = [[micrograd.Value(w) for w in row] for row in rows]
    outputs = answer(weights, [micrograd.Value(b) for b in biases], [micrograd.Value(x) for x in xs])
    if not isinstance(outputs, list):
        raise NotYet(
            f"layer(...) returns {'nothing' if outputs is None else f'a {type(outputs).__name__}'}, not a list"
        )
    if len(outputs) != len(rows):
        raise NotYet(f"for {len(rows)} neurons with {len(xs)} inputs each there are {len(outputs)} outputs")
    for i, (output, row, b) in enumerate(zip(outputs, rows, biases, strict=True)):
        number = _value(f"neuron {i} of layer(...)", output).data
        products = math.fsum(w * x for w, x in zip(row, xs, strict=True))
        if not _close(number, math.tanh(products + b)):
            mistakes = {
                "the sum itself, before it is squeezed": products + b,
                "what it is without its bias": math.tanh(products),
                "neither squeezed, nor has it a bias": products,
                "what it is with another neuron's bias": math.tanh(products + biases[1 - i]),
            }
            hints = [f": that is {told}" for told, mistake in mistakes.items() if _close(number, mistake)]
            raise NotYet(f"neuron {i} gives {number:.6g}, not {math.tanh(products + b):.6g}{''.join(hints[:1])}")
        output.backward()
        if not all(w.grad for w in weights[i]):
            raise NotYet(f"no gradient reaches the weights of neuron {i}: somewhere its graph is cut")


@check
def batches(answer: Callable) -> None:
    xs, ys = [[float(i)] for i in range(20)], list(range(20))
    orders = []
    for _ in range(3):
        made = answer(list(xs), list(ys), 8)
        if made is None:
            raise NotYet("batches(...) returns nothing, and yields nothing")
        made = [tuple(batch) for batch in made]
        if any(len(batch) != 2 for batch in made):
            raise NotYet("a batch has to be two lists: the inputs, and the targets")
        sizes = [len(batch_ys) for _, batch_ys in made]
        for batch_xs, batch_ys in made:
            if len(batch_xs) != len(batch_ys):
                raise NotYet(f"a batch has {len(batch_xs)} inputs, but {len(batch_ys)} targets")
            for x, y in zip(batch_xs, batch_ys, strict=True):
                if x != [float(y)]:
                    raise NotYet(f"the input {x} comes with the target {y}: inputs and targets no longer match")
        order = [y for _, batch_ys in made for y in batch_ys]
        if sorted(order) != ys:
            raise NotYet(f"of 20 examples there are {len(order)} in the batches, {len(set(order))} of them different")
        if sizes != [8, 8, 4]:
            raise NotYet(f"20 examples in batches of 8 come as {sizes}")
        orders.append(order)
    if orders[0] == ys:
        raise NotYet("the examples come in the order that they have")
    if any(a == b for a, b in pairwise(orders)):
        raise NotYet("they come in the same order each time")


@check
def cross_entropy(answer: Callable) -> None:
    for numbers, target in [([2.0, 1.0, 0.1], 0), ([2.0, 1.0, 0.1], 2), ([0.5, -0.5], 1)]:
        logits = [micrograd.Value(number) for number in numbers]
        expected = losses.cross_entropy(numbers, target).data
        call = f"cross_entropy({numbers}, {target})"
        loss = _value(call, answer(logits, target))
        if _close(loss.data, -expected):
            raise NotYet(f"{call} is {loss.data:.6g}: the worse the answer, the larger a loss should be")
        if _close(loss.data, math.exp(-expected)):
            raise NotYet(f"{call} is {loss.data:.6g}, which is the probability of that class")
        _same(call, loss.data, expected)
        loss.backward()
        if not all(logit.grad for logit in logits):
            raise NotYet("no gradient reaches some of the logits: each of them matters to the loss")
    for numbers, target in [([1000.0, 0.0], 0), ([0.0, 1000.0], 0)]:
        call = f"cross_entropy({numbers}, {target})"
        expected = losses.cross_entropy(numbers, target).data
        try:
            loss = answer([micrograd.Value(number) for number in numbers], target)
            loss.backward()
        except (ArithmeticError, ValueError) as error:
            raise NotYet(
                f"small logits are all right, but {call} raises {type(error).__name__}: {str(error).split(';')[0]}"
            ) from None
        _same(call, loss.data, expected)


# Training, and seeing it


@check
def memory(answer: Callable) -> None:
    made, most = [], 0

    def one(i):
        loss = (micrograd.Value(float(i)) - 1.5) ** 2
        made.append(weakref.ref(loss))
        return loss

    def losses():
        nonlocal most
        for i in range(100):
            most = max(most, sum(loss() is not None for loss in made))
            yield one(i)

    result = answer(losses())
    if isinstance(result, micrograd.Value) and not result._prev:
        result = result.data
    alive = sum(loss() is not None for loss in made)
    if alive > 1:
        raise NotYet(
            f"after a hundred losses, {alive} of them are still in memory: the mean that you return remembers what it "
            "was computed from"
        )
    if most > 3:
        raise NotYet(f"up to {most} losses are in memory at the same time: something keeps them until the end")
    _same(
        "the mean of a hundred losses",
        _number("mean_loss(losses)", result),
        sum((i - 1.5) ** 2 for i in range(100)) / 100,
    )


@check
def halving(answer: Callable) -> None:
    for step in 0, 1, 99, 100, 199, 200, 1000:
        _same(f"halving({step})", _number(f"halving({step})", answer(step)), 0.2 / 2 ** (step // 100))


@check
def circles(model: Callable) -> None:
    xs, ys = data.circles(200, noise=0.1, rng=99)
    right = sum((model(x) > 0) == y for x, y in zip(xs, ys, strict=True)) / len(xs)
    if right < 0.95:
        hint = "that is no better than a guess" if right < 0.6 else "it has learned something, but not the whole ring"
        raise NotYet(f"the model gets {right:.0%} of 200 new points right: {hint}")


# Derivatives and compiled code


@check
def softsign(answer: Callable) -> None:
    for number in 2.0, -0.5:
        x = micrograd.Value(number)
        node = _value(f"softsign(Value({number}))", answer(x))
        _same(f"the number in softsign(Value({number}))", node.data, number / (1 + abs(number)))
        if len(node._prev) != 1 or node._prev[0] is not x:
            raise NotYet("it has the right number, but it is not a single node with x as its operand")
        if node._backward is None:
            raise NotYet("it has no _backward: the way back ends there, and x gets no gradient")
    for name, formula in [
        ("softsign(x)", answer),
        ("softsign(x) * 3", lambda x: answer(x) * 3),
        ("softsign(x) + x", lambda x: answer(x) + x),
        ("the derivative of softsign", micrograd.grad(answer)),
    ]:
        try:
            gradcheck(formula, -0.5)
        except GradientError as error:
            raise NotYet(f"{name}: {error}") from None
    try:
        compiled = micrograd.compile(answer, (0.0,), backend="python")
    except Exception as error:
        raise NotYet(f"it is right as a Value, but cannot be compiled: {error}") from None
    _same("compiled, softsign(-0.5)", compiled(-0.5), -0.5 / 1.5)


@check
def minimum(answer: Callable) -> None:
    for name, f, start, expected in [
        ("(x - 3) ** 2", lambda x: (x - 3) ** 2, 0.0, 3.0),
        ("e^x - 2 x", lambda x: x.exp() - 2 * x, 0.0, math.log(2)),
        ("x^4 + x^2 + x", lambda x: x**4 + x**2 + x, 1.0, -0.3854584985485024),
    ]:
        runs = 0

        def counted(x, f=f):
            nonlocal runs
            runs += 1
            if runs > 1000:
                raise NotYet("it has run the function a thousand times: is there something that ends the loop?")
            return f(x)

        call = f"minimum(f, {start}) of {name}"
        found = answer(counted, start)
        found = _number(call, found.data if isinstance(found, micrograd.Value) else found)
        if not _close(found, expected, 1e-6):
            raise NotYet(f"{call} gives {found:.6g}, where the slope is {micrograd.grad(f)(float(found)):.3g}, not 0")
        if runs > 100:
            raise NotYet(f"{call} is right, but has run the function {runs} times: are the steps too small?")


@check
def huber(answer: Callable) -> None:
    points = [(0.5, 0.0, 0.125), (0.0, -0.8, 0.32), (3.0, 0.0, 2.5), (-1.0, 1.0, 1.5)]
    for prediction, target, expected in points:
        call = f"huber({prediction}, {target})"
        _same(call, _value(call, answer(micrograd.Value(prediction), micrograd.Value(target))).data, expected)
    try:
        compiled = micrograd.compile(answer, (0.0, 0.0), backend="python")
    except micrograd.compiler.TraceError as error:
        raise NotYet(f"the numbers are right, but it cannot be compiled: {error}") from None
    for prediction, target, expected in points:
        _same(f"compiled, huber({prediction}, {target})", compiled(prediction, target), expected)
