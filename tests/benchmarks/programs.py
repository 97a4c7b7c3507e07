"""Programs in two phrasings each: the same arithmetic, as two people would write it down.

Those of `TABLE` have been looked at while the compiler was written, those of `UNTUNED` have not.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from tests.benchmarks.data import numbers

Function = Callable[..., Any]


class Phrased(NamedTuple):
    """A program in two phrasings, with an example of the arguments and the parameters."""

    first: Function
    second: Function
    example: tuple[Any, ...]
    parameters: list[Any]


def values(n: int) -> list[Any]:
    """Parameters."""
    from micrograd import Value

    return [Value(number) for number in numbers(n, 0.4)]


def rows(n: int, width: int, of: Callable[..., list[Any]] = values) -> list[list[Any]]:
    """A matrix of parameters or of numbers."""
    flat = of(n * width)
    return [flat[i : i + width] for i in range(0, n * width, width)]


def flat(tree: Any) -> list[Any]:
    return [entry for branch in tree for entry in flat(branch)] if isinstance(tree, list) else [tree]


def squares(xs: Any) -> Any:
    from micrograd import mean

    return mean([x * x for x in xs])


def heat(cells: int, steps: int) -> Phrased:
    """Heat along a rod: by a comprehension, or cell by cell from the far end."""
    from micrograd import Value

    k = Value(0.3)  # up to 0.5, it spreads; beyond, and below 0, it grows without bounds

    def comprehension(x: Any) -> Any:
        for _ in range(steps):
            x = [x[0]] + [x[i] + k * (x[i - 1] - 2 * x[i] + x[i + 1]) for i in range(1, cells - 1)] + [x[-1]]
        return squares(x)

    def by_cell(x: Any) -> Any:
        for _ in range(steps):
            new = list(x)
            for i in reversed(range(1, cells - 1)):
                bend = x[i - 1] - 2 * x[i] + x[i + 1]
                new[i] = x[i] + k * bend
            x = new
        return squares(x)

    return Phrased(comprehension, by_cell, (numbers(cells),), [k])


def bodies(n: int, steps: int) -> Phrased:
    """Bodies that attract one another in a plane: one after the other, or all pairs and then all bodies."""
    masses = values(n)

    def one_by_one(places: Any, speeds: Any) -> Any:
        for _ in range(steps):
            pulls = []
            for i in range(n):
                pull = [0.0, 0.0]
                for j in range(n):
                    if i != j:
                        away = [b - a for a, b in zip(places[i], places[j], strict=True)]
                        square = away[0] * away[0] + away[1] * away[1] + 0.01
                        strength = masses[j] / (square * square.sqrt())
                        pull = [p + strength * a for p, a in zip(pull, away, strict=True)]
                pulls.append(pull)
            speeds = [[v + 0.01 * a for v, a in zip(v2, a2, strict=True)] for v2, a2 in zip(speeds, pulls, strict=True)]
            places = [
                [x + 0.01 * v for x, v in zip(x2, v2, strict=True)] for x2, v2 in zip(places, speeds, strict=True)
            ]
        return squares(flat(places))

    def all_at_once(places: Any, speeds: Any) -> Any:
        xs, ys = ([place[k] for place in places] for k in (0, 1))
        us, vs = ([speed[k] for speed in speeds] for k in (0, 1))
        pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
        for _ in range(steps):
            dxs = {(i, j): xs[j] - xs[i] for i, j in pairs}
            dys = {(i, j): ys[j] - ys[i] for i, j in pairs}
            r2s = {pair: dxs[pair] * dxs[pair] + dys[pair] * dys[pair] + 0.01 for pair in pairs}
            strengths = {(i, j): masses[j] / (r2s[i, j] * r2s[i, j].sqrt()) for i, j in pairs}
            ax, ay = [0.0] * n, [0.0] * n
            for i, j in pairs:
                ax[i] = ax[i] + strengths[i, j] * dxs[i, j]
                ay[i] = ay[i] + strengths[i, j] * dys[i, j]
            us = [u + 0.01 * a for u, a in zip(us, ax, strict=True)]
            vs = [v + 0.01 * a for v, a in zip(vs, ay, strict=True)]
            xs = [x + 0.01 * u for x, u in zip(xs, us, strict=True)]
            ys = [y + 0.01 * v for y, v in zip(ys, vs, strict=True)]
        return squares([number for place in zip(xs, ys, strict=True) for number in place])

    return Phrased(one_by_one, all_at_once, (rows(n, 2, numbers), rows(n, 2, numbers)), masses)


def lstm(width: int, steps: int) -> Phrased:
    """A recurrent network with gates: gate by gate, or cell by cell."""
    from micrograd import dot

    gates = [rows(width, 2 * width + 1) for _ in range(4)]

    def gate(g: int, i: int, x: Any, h: Any) -> Any:
        *weights, bias = gates[g][i]
        return dot(weights, [*x, *h]) + bias

    def by_gate(xs: Any) -> Any:
        h, c = [0.0] * width, [0.0] * width
        for x in xs:
            ins, forgets, outs, news = ([gate(g, i, x, h) for i in range(width)] for g in range(4))
            c = [
                f.sigmoid() * before + i.sigmoid() * new.tanh()
                for i, f, new, before in zip(ins, forgets, news, c, strict=True)
            ]
            h = [o.sigmoid() * cell.tanh() for o, cell in zip(outs, c, strict=True)]
        return squares(h)

    def by_cell(xs: Any) -> Any:
        h, c = [0.0] * width, [0.0] * width
        for x in xs:
            new_h, new_c = [], []
            for i in range(width):
                a, f, o = (gate(g, i, x, h).sigmoid() for g in range(3))
                cell = f * c[i] + a * gate(3, i, x, h).tanh()
                new_c.append(cell)
                new_h.append(o * cell.tanh())
            h, c = new_h, new_c
        return squares(h)

    return Phrased(by_gate, by_cell, (rows(steps, width, numbers),), flat(gates))


def convolutions(size: int, channels: int) -> Phrased:
    """Two convolutions of 3x3 that skip taps at the border: position by position, or tap by tap."""
    from micrograd import dot

    kernels = [[[values(9)] for _ in range(channels)], [rows(channels, 9) for _ in range(channels)]]
    taps = [(di, dj) for di in (-1, 0, 1) for dj in (-1, 0, 1)]
    inside = range(size)

    def positions(images: Any, kernel: Any) -> Any:
        def at(i: int, j: int) -> Any:
            used = [
                (image[i + di][j + dj], weight)
                for image, weights in zip(images, kernel, strict=True)
                for (di, dj), weight in zip(taps, weights, strict=True)
                if i + di in inside and j + dj in inside
            ]
            return dot(*map(list, zip(*used, strict=True))).relu()

        return [[at(i, j) for j in inside] for i in inside]

    def by_tap(images: Any, kernel: Any) -> Any:
        total: list[list[Any]] = [[0.0] * size for _ in inside]
        for image, weights in zip(images, kernel, strict=True):
            for (di, dj), weight in zip(taps, weights, strict=True):
                for i in inside:
                    for j in inside:
                        if i + di in inside and j + dj in inside:
                            total[i][j] = total[i][j] + image[i + di][j + dj] * weight
        return [[number.relu() for number in row] for row in total]

    def network(layer: Function) -> Function:
        def function(image: Any) -> Any:
            images = [image]
            for layers in kernels:
                images = [layer(images, kernel) for kernel in layers]
            return squares(flat(images))

        return function

    return Phrased(network(positions), network(by_tap), (rows(size, size, numbers),), flat(kernels))


def predators(steps: int) -> Phrased:
    """Predators and prey, by Runge and Kutta: written out, or on vectors."""

    def written_out(p: Any) -> Any:
        a, b, c, d = p
        x, y = 1.0, 0.5
        for _ in range(steps):
            k1, l1 = a * x - b * x * y, c * x * y - d * y
            x2, y2 = x + 0.005 * k1, y + 0.005 * l1
            k2, l2 = a * x2 - b * x2 * y2, c * x2 * y2 - d * y2
            x3, y3 = x + 0.005 * k2, y + 0.005 * l2
            k3, l3 = a * x3 - b * x3 * y3, c * x3 * y3 - d * y3
            x4, y4 = x + 0.01 * k3, y + 0.01 * l3
            k4, l4 = a * x4 - b * x4 * y4, c * x4 * y4 - d * y4
            x = x + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            y = y + 0.01 / 6 * (l1 + 2 * l2 + 2 * l3 + l4)
        return x * x + y * y

    def on_vectors(p: Any) -> Any:
        def change(s: Sequence[Any]) -> list[Any]:
            x, y = s
            return [p[0] * x - p[1] * x * y, p[2] * x * y - p[3] * y]

        def moved(s: Sequence[Any], k: Sequence[Any], time: float) -> list[Any]:
            return [number + time * speed for number, speed in zip(s, k, strict=True)]

        state: Any = [1.0, 0.5]
        for _ in range(steps):
            k1 = change(state)
            k2 = change(moved(state, k1, 0.005))
            k3 = change(moved(state, k2, 0.005))
            k4 = change(moved(state, k3, 0.01))
            ks = zip(k1, k2, k3, k4, strict=True)
            state = moved(state, [q + 2 * r + 2 * s + t for q, r, s, t in ks], 0.01 / 6)
        return state[0] * state[0] + state[1] * state[1]

    return Phrased(written_out, on_vectors, ([1.0, 1.1, 0.9, 1.2],), [])


def differentiated(maker: Callable[..., Phrased], derivative: str, *sizes: int) -> Phrased:
    """The derivative of a program of one argument."""
    from micrograd import functional

    first, second, example, parameters = maker(*sizes)
    of = getattr(functional, derivative)
    return Phrased(of(first), of(second), example, parameters)


def residuals(n: int) -> Phrased:
    """The misfits of a curve: point by point, or part by part."""
    times = [0.01 * i for i in range(n)]

    def by_point(p: Any) -> Any:
        return [p[0] * (-p[1] * t).exp() + p[2] * (p[3] * t + p[4]).tanh() + p[5] - t for t in times]

    def by_part(p: Any) -> Any:
        falling = [p[0] * (-p[1] * t).exp() for t in times]
        rising = [p[2] * (p[3] * t + p[4]).tanh() for t in times]
        return [a + b + p[5] - t for a, b, t in zip(falling, rising, times, strict=True)]

    return Phrased(by_point, by_part, ([1.0, 0.5, 1.0, 2.0, 0.1, 0.2],), [])


def filtered(taps: int, n: int) -> Phrased:
    """A signal through a filter: sample by sample, or tap by tap."""
    from micrograd import dot

    weights = values(taps)

    def by_sample(x: Any) -> Any:
        return squares([dot(weights, x[i : i + taps]).tanh() for i in range(n - taps + 1)])

    def by_tap(x: Any) -> Any:
        ys: list[Any] = [0.0] * (n - taps + 1)
        for k, weight in enumerate(weights):
            ys = [y + weight * x[i + k] for i, y in enumerate(ys)]
        return squares([y.tanh() for y in ys])

    return Phrased(by_sample, by_tap, (numbers(n),), weights)


def mixture(points: int, components: int) -> Phrased:
    """How likely points are under a mixture: point by point, or component by component."""
    from micrograd import sum

    shares, centres, widths = values(components), values(components), [value + 1 for value in numbers(components)]

    def by_point(x: Any) -> Any:
        totals = []
        for number in x:
            chances = []
            for share, centre, width in zip(shares, centres, widths, strict=True):
                away = (number - centre) / width
                chances.append(share.exp() * (-0.5 * away * away).exp())
            totals.append(sum(chances).log())
        return sum(totals)

    def by_component(x: Any) -> Any:
        columns = []
        for share, centre, width in zip(shares, centres, widths, strict=True):
            aways = [(number - centre) / width for number in x]
            columns.append([share.exp() * (-0.5 * away * away).exp() for away in aways])
        return sum([sum(list(chances)).log() for chances in zip(*columns, strict=True)])

    return Phrased(by_point, by_component, (numbers(points),), shares + centres)


def springs(n: int, steps: int) -> Phrased:
    """Masses between springs: the force on each mass, or the force of each spring."""
    stiffness = values(n + 1)

    def by_mass(x: Any) -> Any:
        x, v = list(x), [0.0] * n
        for _ in range(steps):
            ends = [0.0, *x, 0.0]
            v = [
                v[i] + 0.01 * (stiffness[i + 1] * (ends[i + 2] - ends[i + 1]) - stiffness[i] * (ends[i + 1] - ends[i]))
                for i in range(n)
            ]
            x = [a + 0.01 * b for a, b in zip(x, v, strict=True)]
        return squares(x)

    def by_spring(x: Any) -> Any:
        x, v = list(x), [0.0] * n
        for _ in range(steps):
            ends = [0.0, *x, 0.0]
            forces = [k * (b - a) for k, a, b in zip(stiffness, ends, ends[1:], strict=False)]
            for i in range(n):
                v[i] = v[i] + 0.01 * (forces[i + 1] - forces[i])
            for i in range(n):
                x[i] = x[i] + 0.01 * v[i]
        return squares(x)

    return Phrased(by_mass, by_spring, (numbers(n),), stiffness)


def clusters(points: int, centres: int) -> Phrased:
    """How near points are to centres, softly: point by point, or distances first."""
    from micrograd import dot, sum

    places = rows(centres, 2)

    def by_point(xs: Any) -> Any:
        total = []
        for x, y in xs:
            squared = [(x - u) * (x - u) + (y - v) * (y - v) for u, v in places]
            powers = [(-d).exp() for d in squared]
            total.append(dot(powers, squared) / sum(powers))
        return sum(total)

    def distances_first(xs: Any) -> Any:
        across = [[x - u for u, _ in places] for x, _ in xs]
        along = [[y - v for _, v in places] for _, y in xs]
        squared = [[a * a + b * b for a, b in zip(*each, strict=True)] for each in zip(across, along, strict=True)]
        powers = [[(-d).exp() for d in row] for row in squared]
        sums = [sum(row) for row in powers]
        tops = [dot(p, d) for p, d in zip(powers, squared, strict=True)]
        return sum([top / bottom for top, bottom in zip(tops, sums, strict=True)])

    return Phrased(by_point, distances_first, (rows(points, 2, numbers),), flat(places))


def arm(joints: int) -> Phrased:
    """Where an arm of many joints reaches: link by link, or from running sums."""
    from micrograd import sum

    lengths = values(joints)

    def by_link(angles: Any, x: Any, y: Any) -> Any:
        angle, across, up = 0.0, 0.0, 0.0
        for length, turn in zip(lengths, angles, strict=True):
            angle = angle + turn
            across = across + length * angle.cos()
            up = up + length * angle.sin()
        return (across - x) ** 2 + (up - y) ** 2

    def from_sums(angles: Any, x: Any, y: Any) -> Any:
        total = list(accumulate(angles, initial=0.0))[1:]
        across = [length * angle.cos() for length, angle in zip(lengths, total, strict=True)]
        up = [length * angle.sin() for length, angle in zip(lengths, total, strict=True)]
        return (sum(across) - x) ** 2 + (sum(up) - y) ** 2

    return Phrased(by_link, from_sums, (numbers(joints), 1.0, 2.0), lengths)


def powers(points: int, degree: int) -> Phrased:
    """A polynomial through points: point by point, or power by power."""
    weights = values(degree + 1)

    def by_point(x: Any, y: Any) -> Any:
        misses = []
        for number, target in zip(x, y, strict=True):
            total, power = weights[0], number
            for weight in weights[1:]:
                total = total + weight * power
                power = power * number
            misses.append(total - target)
        return squares(misses)

    def by_power(x: Any, y: Any) -> Any:
        table, totals = list(x), [weights[0] for _ in x]
        for weight in weights[1:]:
            totals = [total + weight * power for total, power in zip(totals, table, strict=True)]
            table = [power * number for power, number in zip(table, x, strict=True)]
        return squares([total - target for total, target in zip(totals, y, strict=True)])

    return Phrased(by_point, by_power, (numbers(points), numbers(points)), weights)


class Sized(NamedTuple):
    """A program, with the sizes for which it is measured, and small ones for tests."""

    make: Callable[..., Phrased]
    full: tuple[Any, ...]
    small: tuple[Any, ...]


TABLE = {
    "heat equation": Sized(heat, (50, 100), (9, 4)), "bodies in a plane": Sized(bodies, (4, 100), (4, 3)),
    "LSTM": Sized(lstm, (16, 50), (4, 6)), "two convolutions, taps skipped": Sized(convolutions, (12, 8), (5, 3)),
    "Hessian of predators and prey": Sized(differentiated, (predators, "hessian", 100), (predators, "hessian", 2)),
    "gradient of predators and prey": Sized(differentiated, (predators, "grad", 500), (predators, "grad", 8)),
    "Jacobian of residuals": Sized(differentiated, (residuals, "jacobian", 1000), (residuals, "jacobian", 12)),
}  # fmt: skip
UNTUNED = {
    "filter": Sized(filtered, (16, 400), (4, 20)), "mixture of Gaussians": Sized(mixture, (200, 5), (9, 4)),
    "springs": Sized(springs, (30, 100), (6, 5)), "soft clusters": Sized(clusters, (150, 6), (8, 4)),
    "arm of many joints": Sized(arm, (300,), (8,)), "polynomial": Sized(powers, (100, 12), (8, 5)),
}  # fmt: skip
PROGRAMS = TABLE | UNTUNED
