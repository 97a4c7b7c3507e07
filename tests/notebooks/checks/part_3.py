"""The checks of part 3: training, and seeing it."""

import weakref
from collections.abc import Callable

import micrograd
from micrograd import data

from .answers import NotYet, check, number_of, same


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
        raise NotYet(f"in the end, {alive} of them are still in memory: the mean remembers what it was computed from")
    if most > 3:
        raise NotYet(f"up to {most} losses are in memory at the same time: something keeps them until the end")
    expected = sum((i - 1.5) ** 2 for i in range(100)) / 100
    same("the mean of a hundred losses", number_of("mean_loss(losses)", result), expected)


@check
def halving(answer: Callable) -> None:
    for step in 0, 1, 99, 100, 199, 200, 1000:
        same(f"halving({step})", number_of(f"halving({step})", answer(step)), 0.2 / 2 ** (step // 100))


@check
def circles(model: Callable) -> None:
    xs, ys = data.circles(200, noise=0.1, rng=99)
    scores = [model(x) for x in xs]
    if isinstance(scores[0], list):
        raise NotYet(f"the model gives a list of {len(scores[0])}: expected one number, which is high for class 1")
    zero, half = (sum((x > border) == y for x, y in zip(scores, ys, strict=True)) / len(xs) for border in (0, 0.5))
    if (best := max(zero, half)) < 0.95:
        hint = "that is no better than a guess" if best < 0.6 else "it has learned something, but not the whole ring"
        raise NotYet(f"of 200 new points, {zero:.0%} are right with class 1 above 0, {half:.0%} above ½: {hint}")
