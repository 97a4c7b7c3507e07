"""The checks of part 4: classes and digits."""

import math
from collections.abc import Callable
from functools import partial

import micrograd
from micrograd import losses

from .answers import NotYet, check, close, number_of, row_of, same, same_gradients, value_of


@check
def softmax(answer: Callable) -> None:
    for numbers in [2.0, 1.0, 0.1], [0.5, -0.5]:
        logits = [micrograd.Value(number) for number in numbers]
        expected = [p.data for p in losses.softmax(numbers)]
        call = f"the result of softmax({numbers})"
        shares = row_of(call, answer(logits), len(numbers))
        found = [share.data for share in shares]
        if not all(map(close, found, expected)):
            powers = [math.exp(number) for number in numbers]
            if all(map(close, found, powers)):
                raise NotYet(f"{call} adds up to {sum(found):.6g}: probabilities add up to 1")
            if all(map(close, found, [number / sum(numbers) for number in numbers])):
                raise NotYet(f"{call} has the shares of the scores themselves: where are the powers of e?")
            raise NotYet(f"{call} begins with {found[0]:.6g}: expected {expected[0]:.6g}")
        same_gradients(f"softmax({numbers})", answer, losses.softmax, logits=numbers)
    for numbers in [1000.0, 0.0], [0.0, 1000.0], [2000.0, 0.0], [-1000.0, -1000.0]:
        call = f"softmax({numbers})"
        try:
            shares = row_of(call, answer([micrograd.Value(number) for number in numbers]), 2)
        except (ArithmeticError, ValueError) as error:
            raise _too_large(call, error) from None
        same(f"the first of {call}", shares[0].data, losses.softmax(numbers)[0].data)


def _too_large(call: str, error: Exception) -> NotYet:
    return NotYet(f"small logits are all right, but {call} raises {type(error).__name__}: {str(error).split(';')[0]}")


@check
def cross_entropy(answer: Callable) -> None:
    for numbers, target in [([2.0, 1.0, 0.1], 0), ([2.0, 1.0, 0.1], 2), ([0.5, -0.5], 1)]:
        logits = [micrograd.Value(number) for number in numbers]
        expected = losses.cross_entropy(numbers, target).data
        call = f"cross_entropy({numbers}, {target})"
        loss = value_of(call, answer(logits, target))
        if close(loss.data, -expected):
            raise NotYet(f"{call} is {loss.data:.6g}: the worse the answer, the larger a loss should be")
        if close(loss.data, math.exp(-expected)):
            raise NotYet(f"{call} is {loss.data:.6g}, which is the probability of that class")
        same(call, loss.data, expected)
        same_gradients(call, partial(_of, answer, target), partial(_of, losses.cross_entropy, target), logits=numbers)
    for numbers, target in [([1000.0, 0.0], 0), ([0.0, 1000.0], 0), ([2000.0, 0.0], 1)]:
        call = f"cross_entropy({numbers}, {target})"
        expected = losses.cross_entropy(numbers, target).data
        try:
            loss = answer([micrograd.Value(number) for number in numbers], target)
            loss.backward()
        except (ArithmeticError, ValueError) as error:
            raise _too_large(call, error) from None
        same(call, loss.data, expected)


def _of(loss: Callable, target: int, logits: list[micrograd.Value]) -> micrograd.Value:
    return loss(logits, target)


@check
def spread(answer: Callable) -> None:
    for inputs in 16, 64, 1000:
        found = number_of(f"spread({inputs})", answer(inputs))
        if found <= 0:
            raise NotYet(f"spread({inputs}) is {found:.6g}: a standard deviation is above 0")
        gain = math.sqrt(inputs / 2) * found  # of a layer: half of the n squares in a sum are those of zeros
        if not close(gain, 1, 1e-3):
            hint = ": that is right for tanh, but relu cuts off half of the signal" * close(gain, math.sqrt(0.5), 1e-3)
            hint = hint or ": that is the variance, the square of it" * close(found, 2 / inputs)
            raise NotYet(
                f"with spread({inputs}) = {found:.4g}, ten layers make a signal {gain**10:.3g} times as large{hint}"
            )


@check
def penalty(answer: Callable) -> None:
    numbers, strength = [0.5, -2.0, 1.0], 0.1
    weights = [micrograd.Value(number) for number in numbers]
    call = f"penalty({numbers}, {strength})"
    found, expected = value_of(call, answer(weights, strength)), strength * sum(number**2 for number in numbers)
    if not close(found.data, expected):
        mistakes = {
            "without the strength": expected / strength,
            "of the weights, not of their squares": strength * sum(numbers),
            "of their sizes, not of their squares": strength * sum(map(abs, numbers)),
            "of the squares divided by their number": expected / len(numbers),
        }
        hints = [f": that is the sum {name}" for name, mistake in mistakes.items() if close(found.data, mistake)]
        raise NotYet(f"{call} is {found.data:.6g}, not {expected:.6g}{''.join(hints[:1])}")
    found.backward()
    for weight, number in zip(weights, numbers, strict=True):
        if not close(weight.grad, 2 * strength * number):
            gradient = f"the weight {number} gets the gradient {weight.grad:.6g}"
            raise NotYet(f"the number is right, but {gradient}: was it cut off?")
