"""The checks of part 1: numbers and gradients."""

from collections.abc import Callable
from functools import partial
from typing import Any

import micrograd

from .answers import NotYet, apart, check, close, leads_back, number_of, reached, same, unread, value_of


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
        node = value_of(call, answer(x := kind(number)), kind)
        same(f"the number in {call}", node.data, result.data)
        leads_back(call, node, x=x)
        found = gradient(answer)
        if not close(found, slope):
            numbers = apart(found, ", but nudging x finds ", slope)
            raise NotYet(f"at x = {number} the gradient of {name}(x) is {numbers}{unread(node)}")
        if not close(gradient(lambda x: answer(x) * 3), 3 * slope):
            raise NotYet(
                f"{name}(x) has the right gradient, but {name}(x) * 3 has not: slopes along a path multiply, so what x "
                "gets must depend on the gradient of the result"
            )
        if not close(gradient(lambda x: answer(x) + x), slope + 1):
            raise NotYet(f"{name}(x) has the right gradient, but in {name}(x) + x one of the two paths from x is lost")


sin = check(partial(_operation, "sin"), "sin")
cos = check(partial(_operation, "cos"), "cos")
sqrt = check(partial(_operation, "sqrt"), "sqrt")


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

        found = number_of(f"slope(f, {x})", answer(watched, x))
        if not asked:
            raise NotYet("the function f is never called")
        below, above = (x - min(asked)), (max(asked) - x)
        if (nudge := max(below, above)) < 1e-9 * max(1, abs(x)):
            where = f"within {nudge:.1g} of x = {x} only" if nudge else f"at x = {x} only"
            raise NotYet(f"f is evaluated {where}: so close, the rounding of the numbers drowns the difference")
        if min(below, above) <= 0:
            raise NotYet(f"f is evaluated on one side of x = {x} only: both sides would be far more accurate")
        if not close(found, expected, 1e-6):
            hint = ": is it multiplied by h? `a / b * c` is `(a / b) * c`" * close(found / above**2, expected, 1e-2)
            raise NotYet(f"for {name} at {x} it gives {found:.8g}, not {expected:g}, with a nudge of {above:.1g}{hint}")


@check
def accumulation(answer: Callable, kind: type) -> str:
    class Adding(kind):
        """A number of theirs, which also takes plain numbers."""

        def __add__(self, other):
            return self._joined(kind.__add__, other)

        def __mul__(self, other):
            return self._joined(kind.__mul__, other)

        __radd__, __rmul__ = __add__, __mul__

        def _joined(self, operation, other):
            node = operation(self, other if isinstance(other, kind) else type(self)(other))
            node.__class__ = type(self)
            return node

    class Replacing(Adding):
        """The same with = in place of +=: whatever a closure adds to is 0."""

        grad = property(lambda self: 0.0, lambda self, grad: vars(self).update(grad=grad))

    Adding.__name__ = Replacing.__name__ = kind.__name__  # for errors
    try:
        right, replaced = (_gradient(answer, each, kind) for each in (Adding, Replacing))
    except TypeError as error:
        if "unsupported operand" not in str(error):
            raise
        raise TypeError(f"{error}; of the operators, the class above has only + and *") from error
    if close(right, replaced):
        if _paths(value_of("g(Value(3.0))", answer(x := Adding(3.0)), kind), x) > 1:
            raise NotYet(f"there are two paths from x, but with = its gradient is {replaced:g}, too, which is right")
        raise NotYet("there is only one path from x to the result, so no gradient ever arrives where one is already")
    return f"With =, the gradient at x = 3 would be {replaced:.6g}, not {right:.6g}."


def _gradient(answer: Callable, own: type, kind: type) -> float:
    """The gradient of the answer at 3, by the closures of this class."""
    x = own(3.0)
    result = value_of("g(Value(3.0))", answer(x), kind)
    order = [*reached(result).values()]
    if x not in order:
        raise NotYet("the result does not depend on x: nothing leads back to it")
    for node in order:
        node.__class__ = own
    result.grad = 1.0
    for node in reversed(order):
        if node._prev:
            node._backward(vars(node)["grad"])
    return vars(x)["grad"]


def _paths(node: Any, x: Any) -> int:
    """How many paths lead from the node to x."""
    return 1 if node is x else sum(_paths(operand, x) for operand in node._prev)
