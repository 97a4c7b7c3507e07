"""Programs that nest derivatives: a descent whose objective is itself a loop with derivatives in it.

The descent is GradBench's: its step is doubled after ten that improve, and halved after one that does not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import micrograd
from micrograd import grad, hypot, minimum, scan, value_and_grad, where
from micrograd import sum as total
from tests.benchmarks.gradbench.libraries import Library
from tests.benchmarks.gradbench.problem import Task

CLOSE = 1e-5  # where a descent ends: the length of a gradient or a step


def descent(value_and_slope: Callable[[Any], tuple[float, Any]], x: Any) -> Any:
    """The array at which the function is least, found from x by plain Python: the same for all libraries."""
    rate, improved = 1e-5, 0
    value, slope = value_and_slope(x)
    while np.linalg.norm(slope) > CLOSE:
        if improved == 10:
            rate, improved = 2 * rate, 0
            continue
        new = x - rate * np.asarray(slope)
        if np.linalg.norm(x - new) <= CLOSE:
            break
        new_value, new_slope = value_and_slope(new)
        if new_value < value:
            x, value, slope, improved = new, new_value, new_slope, improved + 1
        else:
            rate, improved = rate / 2, 0
    return x


# particle: where one of two charges has to be, for a third to fly through the origin

DT, STEPS = 0.1, 400
LAUNCH = [0.0, 8.0, 0.75, 0.0]


def potential(x: list[Any], charges: list[list[Any]]) -> Any:
    """The sum of the inverse distances."""
    return total(((x[0] - a) ** 2 + (x[1] - b) ** 2) ** -0.5 for a, b in charges)


def flight(w: Any) -> Any:
    """The square of the x at which the particle crosses the axis, by Euler's method. In the last step, it flies
    straight on."""

    def step(state: list[Any], _: None) -> tuple[list[Any], None]:
        x, y, speed, fall = state
        along, down = grad(potential)([x, y], [[10.0, 10.0 - w], [10.0, 0.0]])
        return [x + DT * speed, y + DT * fall, speed - DT * along, fall - DT * down], None

    def lands(state: list[Any]) -> Any:
        return state[1] + DT * state[3] <= 0

    (x, y, speed, fall), _ = scan(step, LAUNCH, length=STEPS, until=lands)
    return (x - y / fall * speed) ** 2


def our_particle() -> Task:
    """The descent by compiled flights."""
    fast = micrograd.compile(flight, (0.0,))
    return lambda: descent(fast.value_and_grad, 0.0)


def their_particle(of: Library) -> Task:

    def flight(w: Any) -> Any:
        def potential(x: Any) -> Any:
            charges = of.np.stack([of.np.stack([ten, ten - w]), of.np.stack([ten, 0 * ten])])
            return (((x - charges) ** 2).sum(1) ** -0.5).sum()

        def step(state: Any) -> Any:
            x, v = state
            return x + DT * v, v - DT * of.slope(potential)(x)

        def flies(state: Any) -> Any:
            return state[0][1] + DT * state[1][1] > 0

        x, v = of.loop(flies, step, (of.array(LAUNCH[:2]), of.array(LAUNCH[2:])))
        return (x[0] - x[1] / v[1] * v[0]) ** 2

    ten = of.array(10.0)
    fast = of.compiled(lambda w: of.jvp(flight, (w,), (of.np.ones_like(w),)))

    def value_and_slope(w: Any) -> tuple[float, float]:
        value, slope = fast(of.array(float(w)))
        return float(value), float(slope)

    return lambda: descent(value_and_slope, 0.0)


# saddle: the least of the greatest values of a function of two points

ROUNDS = 200
START = [1.0, 1.0]


def gap(x: list[Any], y: list[Any]) -> Any:
    """The square of the length of x minus the square of the length of y."""
    return x[0] ** 2 + x[1] ** 2 - (y[0] ** 2 + y[1] ** 2)


def highest(f: Callable[[list[Any]], Any], start: list[float]) -> tuple[Any, list[Any]]:
    """The greatest value and its point, found by the descent above, but uphill and in Values."""

    def step(state: list[Any], _: None) -> tuple[list[Any], None]:
        a, b, value, by_a, by_b, rate, improved = state
        point = [a + rate * by_a, b + rate * by_b]
        new_value, slope = value_and_grad(f)(point)
        is_better, is_bold = new_value > value, improved >= 10
        kept, bold = [a, b, value, by_a, by_b, rate / 2, 0.0], [a, b, value, by_a, by_b, 2 * rate, 0.0]
        better = [*point, new_value, *slope, rate, improved + 1]
        each = zip(bold, better, kept, strict=True)
        return [where(is_bold, a, where(is_better, b, c)) for a, b, c in each], None

    def is_over(state: list[Any]) -> Any:
        _, _, _, by_a, by_b, rate, improved = state
        return hypot(by_a, by_b) * where(improved >= 10, 1.0, minimum(rate, 1.0)) <= CLOSE

    value, slope = value_and_grad(f)(start)
    (a, b, value, *_), _ = scan(step, [*start, value, *slope, 1e-5, 0.0], length=ROUNDS, until=is_over)
    return value, [a, b]


def our_saddle() -> Task:
    """The descent along x, and then the ascent along y."""

    def worst(x: list[Any]) -> Any:
        return highest(lambda y: gap(x, y), START)[0]

    outer = micrograd.compile(worst, (START,))
    inner = micrograd.compile(gap, (START, START))

    def solve() -> Any:
        x = descent(outer.value_and_grad, np.array(START))

        def minus_gap(y: Any) -> tuple[float, Any]:
            value, slope = inner.value_and_grad(x, y, argnum=1)
            return -value, -slope

        return np.concatenate([x, descent(minus_gap, np.array(START))])

    return solve


def their_saddle(of: Library) -> Task:
    """The same descents. The inner one is a loop of arrays, and the outer derivative is carried forward through it."""

    def gap(x: Any, y: Any) -> Any:
        return (x * x).sum() - (y * y).sum()

    def worst(x: Any) -> Any:
        def f(y: Any) -> Any:
            return gap(x, y)

        def step(state: Any) -> Any:
            y, value, slope, rate, improved = state
            new = y + rate * slope
            new_value, is_bold = f(new), improved >= 10
            is_kept = is_bold | (new_value <= value)
            return (
                of.np.where(is_kept, y, new),
                of.np.where(is_kept, value, new_value),
                of.np.where(is_kept, slope, of.slope(f)(new)),
                of.np.where(is_bold, 2 * rate, of.np.where(is_kept, rate / 2, rate)),
                of.np.where(is_kept, zero, improved + 1),
            )

        def goes_on(state: Any) -> Any:
            _, _, slope, rate, improved = state
            return (slope**2).sum() ** 0.5 * of.np.where(improved >= 10, 1.0, of.np.minimum(rate, one)) > CLOSE

        return of.loop(goes_on, step, (start, f(start), of.slope(f)(start), of.array(1e-5), zero))[1]

    start, zero, one = of.array(START), of.array(0.0), of.array(1.0)
    outer = of.compiled(lambda x: (worst(x), of.jacobian(worst)(x)))
    inner = of.compiled(lambda x, y: (-gap(x, y), -of.slope(lambda y: gap(x, y))(y)))

    def numbers(pair: Any) -> tuple[float, Any]:
        return float(pair[0]), np.asarray(pair[1])

    def solve() -> Any:
        x = descent(lambda x: numbers(outer(of.array(x))), np.array(START))
        return np.concatenate([x, descent(lambda y: numbers(inner(of.array(x), of.array(y))), np.array(START))])

    return solve
