"""What the notebooks show: curves, slopes in a graph, images, and points in a plane coloured by what a model says."""

import math
from base64 import b64encode
from collections.abc import Callable, Sequence
from itertools import count, groupby, pairwise
from typing import Any

try:
    from .checks.answers import reached
except ImportError:  # in a notebook beside it
    from checks.answers import reached

CELL = 20  # the side of a square of the grid, in units of half a pixel
ORANGE, BLUE, GREY = "#c8660a", "#2a7fd4", "#808080"  # on white and on black
TEXT = f'fill="{GREY}" font-family="sans-serif" text-anchor="middle"'


class Picture(str):
    """An SVG that shows itself in a notebook."""

    def __repr__(self) -> str:
        return "a picture"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        image = b64encode(self.encode()).decode()  # JupyterLab hides SVG that it does not trust
        html = f'<img alt="{self!r}" src="data:image/svg+xml;base64,{image}">'
        return {"text/html": html, "text/plain": repr(self)}


class Page:
    """A file of HTML that shows itself in a notebook, in a frame."""

    def __init__(self, path: str, height: int = 640) -> None:
        self.path, self.height = path, height

    def __repr__(self) -> str:
        return f"see {self.path}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        frame = f'<iframe src="{self.path}" width="100%" height="{self.height}" style="border:0"></iframe>'
        link = f'<a href="{self.path}" target="_blank">{self.path} in a tab of its own</a>'
        return {"text/html": f"{frame}\n<p>{link}</p>", "text/plain": repr(self)}


def plane(
    xs: Sequence[Any],
    ys: Sequence[int],
    model: Callable[[Any], Any] | None = None,
    *,
    others: tuple[Sequence[Any], Sequence[int]] = ((), ()),
    lines: Sequence[Sequence[float]] = (),
) -> Picture:
    """Points of two classes, on the plane as the model sees it: the deeper the colour, the surer it is.

    Circles are class 0, squares class 1, and those of `others` are hollow. The model's output is a score: above 0 it
    says class 1, and a line is drawn where it is 0. Each of the `lines` is a neuron's (w1, w2, b): it is where
    w1 * x1 + w2 * x2 + b is 0, with an arrow to the side where that is positive.
    """
    size, places = 1 if len(xs) > 10 else 2, ((-0.8, 1.3, 0), (5, 1.3, 1), (-0.8, -4.7, 1))
    marks, axes = list[str](), f'<path stroke="{GREY}" stroke-width="0.05" d="M-9 0h23M0 -7v17"/>'
    texts = [f'<text x="{x}" y="{y}" font-size="0.8" {TEXT}>{n}</text>' for x, y, n in places]
    if model:
        scores = [[model([x / 10, y / 10]).data for x in range(-18, 29)] for y in range(-14, 21)]
        for colour, sign in (ORANGE, -1), (BLUE, 1):
            for share in 0.65, 0.9:
                area, _ = _above([[sign * score for score in row] for row in scores], math.log(share / (1 - share)))
                marks.append(f'<path fill="{colour}" opacity="0.2" d="{area}"/>')
        _, border = _above(scores, 0.0)
        for colour, width in ("#fff", 9), ("#1f2328", 4):  # with a white rim, to be seen on dark pages too
            style = f'stroke="{colour}" stroke-width="{width}" stroke-linecap="round"'
            marks.append(f'<path class="line" {style} d="{border}"/>')
        marks = [f'<g transform="translate(-9 -7) scale({1 / (2 * CELL)})">{"".join(marks)}</g>']
    marks.append(axes)
    for (points, classes), hollow in ((xs, ys), False), (others, True):
        for kind, colour, cap in ((0, ORANGE, "round"), (1, BLUE, "square")):  # a line of 0.01 has the form of its ends
            dots = "".join(
                f"M{5 * x1:.2f} {5 * x2:.2f}h.01" for (x1, x2), y in zip(points, classes, strict=True) if y == kind
            )
            for stroke, width in ((colour, 0.34), ("#fff", 0.22)) if hollow else (("#fff", 0.42), (colour, 0.32)):
                style = f'stroke="{stroke}" stroke-width="{size * width:g}" stroke-linecap="{cap}"'
                marks += [f'<path {style} d="{dots}"/>'] * bool(dots)
    marks += [_line(*(float(getattr(number, "data", number)) for number in line)) for line in lines]
    return Picture(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="-9 -10 23 17" width="460" height="340">'
        f'<g transform="scale(1 -1)">{"".join(marks)}</g>{"".join(texts)}</svg>'
    )


def _line(w1: float, w2: float, b: float) -> str:
    """The line where w1 * x1 + w2 * x2 + b is 0, through the point next to the middle, with an arrow to its side."""
    size = math.hypot(w1, w2)
    n1, n2 = w1 / size, w2 / size
    off = (n1 * 0.5 + n2 * 0.2) + b / size
    x, y = 5 * (0.5 - off * n1), 5 * (0.2 - off * n2)
    path = f"M{x - 30 * n2:.2f} {y + 30 * n1:.2f}L{x + 30 * n2:.2f} {y - 30 * n1:.2f}M{x:.2f} {y:.2f}l{n1:.2f} {n2:.2f}"
    head = f"l{-0.35 * n1 - 0.25 * n2:.2f} {-0.35 * n2 + 0.25 * n1:.2f}m{0.5 * n2:.2f} {-0.5 * n1:.2f}"
    back = f"l{0.35 * n1 - 0.25 * n2:.2f} {0.35 * n2 + 0.25 * n1:.2f}"
    return f'<path stroke="{GREY}" stroke-width="0.12" fill="none" d="{path}{head}{back}"/>'


def _above(scores: Sequence[Sequence[float]], least: float) -> tuple[str, str]:
    """Where the scores of a grid are above the least: a path of this area, and a path of its border.

    Between the corners of a square of the grid, the scores are taken to be linear (marching squares).
    """
    area, border = "", ""
    for y, rows in zip(count(step=CELL), pairwise(scores)):
        columns = [*zip(*rows, strict=True)]
        for x, ((a, d), (b, c)) in zip(count(step=CELL), pairwise(columns)):
            corners = [(x, y, a), (x + CELL, y, b), (x + CELL, y + CELL, c), (x, y + CELL, d)]
            inside, crossings = [], []
            for (x1, y1, score1), (x2, y2, score2) in pairwise([*corners, corners[0]]):
                if score1 > least:
                    inside.append(f"{x1} {y1}")
                if (score1 > least) != (score2 > least):
                    share = (least - score1) / (score2 - score1)
                    crossings.append(f"{x1 + share * (x2 - x1):.0f} {y1 + share * (y2 - y1):.0f}")
                    inside.append(crossings[-1])
            if crossings:
                area += f"M{'L'.join(inside)}"
                border += "".join(f"M{start}L{end}" for start, end in zip(crossings[::2], crossings[1::2], strict=True))
        start = 0
        for whole, run in groupby(min(a, b, c, d) > least for (a, d), (b, c) in pairwise(columns)):
            length = CELL * len([*run])
            area += f"M{start} {y}h{length}v{CELL}h-{length}" * whole
            start += length
    return area, border


def images(rows: Sequence[Sequence[float]], captions: Sequence[object] = (), columns: int = 10) -> Picture:
    """Square images of pixels from 0 to 1, dark on light, each with its caption below."""
    side = round(len(rows[0]) ** 0.5)
    wide, high = side + 1, side + (3 if captions else 1)
    parts = []
    for k, pixels in enumerate(rows):
        x, y = k % columns * wide, k // columns * high
        inks: dict[int, str] = {}
        for i, pixel in enumerate(pixels):
            if ink := round(8 * pixel):
                inks[ink] = f"{inks.get(ink, '')}M{x + i % side} {y + i // side}h1v1h-1z"
        parts.append(f'<path fill="#eee" d="M{x} {y}h{side}v{side}h-{side}z"/>')
        parts += [f'<path fill="#123" opacity="{ink / 8}" d="{squares}"/>' for ink, squares in sorted(inks.items())]
        if captions:
            parts.append(
                f'<text x="{x + side / 2}" y="{y + side + 1.8}" text-anchor="middle" font-size="1.8" '
                f'fill="{GREY}" font-family="sans-serif">{captions[k]}</text>'
            )
    width, height = min(columns, len(rows)) * wide - 1, -(-len(rows) // columns) * high
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{6 * width}" '
        f'height="{6 * height}">{"".join(parts)}</svg>'
    )


def curve(f: Callable[[float], float], slope: Callable[[float], float], low: float = -4, high: float = 4) -> Picture:
    """A function with a tangent that moves along it, and the slope of the tangent."""
    plot = _Plot([low + (high - low) * i / 100 for i in range(101)], f)
    stops = [low + (high - low) * i / 16 for i in range(1, 16)]
    stops += stops[-2:0:-1]
    frames = []
    steep = plot.tall / plot.wide * (high - low) / (plot.top - plot.bottom)  # how steep a slope of 1 is drawn
    for k, x in enumerate(stops):
        rise = slope(x)
        reach = 0.12 * (high - low) / math.hypot(1, steep * rise)
        ends = plot.path([(x - reach, f(x) - reach * rise), (x + reach, f(x) + reach * rise)])
        text = f'<text x="230" y="30" font-size="17" {TEXT}>at x = {x:.1f}, the slope is {rise:.3f}</text>'
        shown = ";".join("1" if i == k else "0" for i in range(len(stops)))
        moving = f'<animate attributeName="opacity" calcMode="discrete" dur="{0.7 * len(stops):.0f}s" '
        frames.append(
            f'<g opacity="{int(x == 0)}">{moving}repeatCount="indefinite" values="{shown}"/>'
            f'<path d="{ends}" stroke="{ORANGE}" stroke-width="4" stroke-linecap="round"/>{plot.dot(x, f(x))}{text}</g>'
        )
    return plot.picture("".join(frames))


def descent(loss: Callable[[float], float], steps: Sequence[float], low: float, high: float) -> Picture:
    """The loss over one weight, and where the weight has been, with an arrow for each step."""
    low, high = min(low, *steps), max(high, *steps)
    plot = _Plot([low + (high - low) * i / 100 for i in range(101)], loss)
    way = plot.path([(w, loss(w)) for w in steps])
    dots = "".join(plot.dot(w, loss(w)) for w in steps)
    halves = [((a, loss(a)), ((a + b) / 2, (loss(a) + loss(b)) / 2)) for a, b in pairwise(steps)]
    arrows = "".join(f'<path d="{plot.path(half)}" marker-end="url(#head)"/>' for half in halves)
    head = '<marker id="head" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    return plot.picture(
        f'{head}<path d="M1 1L7 4L1 7" fill="none" stroke="{ORANGE}"/></marker>{arrows}'
        f'<path d="{way}" fill="none" stroke="{ORANGE}" stroke-dasharray="3 3"/>{dots}'
    )


class _Plot:
    """A curve with its axes, on 460 by 260 pixels."""

    wide, tall = 400, 190

    def __init__(self, xs: Sequence[float], f: Callable[[float], float]) -> None:
        self.points = [(x, f(x)) for x in xs]
        self.left, self.right = xs[0], xs[-1]
        self.bottom, self.top = min(y for _, y in self.points), max(y for _, y in self.points)

    def place(self, x: float, y: float) -> tuple[float, float]:
        across, up = (x - self.left) / (self.right - self.left), (y - self.bottom) / (self.top - self.bottom)
        return 40 + self.wide * across, 45 + self.tall * (1 - up)

    def path(self, points: Sequence[tuple[float, float]]) -> str:
        return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in (self.place(*point) for point in points))

    def dot(self, x: float, y: float) -> str:
        across, down = self.place(x, y)
        return f'<circle cx="{across:.1f}" cy="{down:.1f}" r="4" fill="{ORANGE}"/>'

    def picture(self, marks: str) -> Picture:
        """The curve below these marks."""
        zero_x, zero_y = self.place(min(max(0, self.left), self.right), min(max(0, self.bottom), self.top))
        axes = f'<path d="M40 {zero_y:.1f}h400M{zero_x:.1f} 45v190" stroke="{GREY}" opacity="0.6"/>'
        numbers = "".join(
            f'<text x="{x:.0f}" y="{y:.0f}" font-size="12" {TEXT}>{number:.3g}</text>'
            for number, x, y in [
                (self.left, 40, 252), (self.right, 440, 252),
                (round(self.bottom, 2), 20, 239), (round(self.top, 2), 20, 49),
            ]
        )  # fmt: skip
        line = f'<path d="{self.path(self.points)}" fill="none" stroke="{BLUE}" stroke-width="2.5"/>'
        return Picture(
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 460 260" width="460" height="260">'
            f"{axes}{numbers}{line}{marks}</svg>"
        )


def slopes(result: Any, names: dict[str, Any]) -> Picture:
    """The graph of a result: each edge shows its slope, and each named node its gradient after `backward`.

    The gradient of a node is the sum over all its paths to the result of the products of their slopes.
    """
    order = [*reached(result).values()]
    columns = {id(node): 0 for node in order}
    for node in order:
        columns[id(node)] = max((columns[id(operand)] + 1 for operand in node._prev), default=0)
    last = max(columns.values())
    rows: dict[int, list[Any]] = {}
    for node in order:
        rows.setdefault(columns[id(node)], []).append(node)
    tall = max(map(len, rows.values()))
    places = {
        id(node): (60 + 160 * column, 50 + 100 * (i + (tall - len(nodes)) / 2))
        for column, nodes in rows.items()
        for i, node in enumerate(nodes)
    }
    called = {id(node): name for name, node in names.items()}
    edges, texts = [], []
    for node in order:
        for operand, slope in _slopes(node):
            (x0, y0), (x1, y1) = places[id(operand)], places[id(node)]
            bend = 60 if columns[id(node)] - columns[id(operand)] > 1 else 0  # around the columns between
            edges.append(f"M{x0} {y0}Q{(x0 + x1) / 2} {(y0 + y1) / 2 - 2 * bend} {x1} {y1}")
            x, y = (x0 + x1) / 2, (y0 + y1) / 2 - bend - 6
            texts.append(
                f'<text x="{x:.0f}" y="{y:.0f}" font-size="17" {TEXT} style="fill:{ORANGE}">{slope:.3g}</text>'
            )
    for node in order:
        x, y = places[id(node)]
        name = called.get(id(node)) or getattr(node, "_op", "")
        name += ", " if name else ""
        texts.append(
            f'<circle cx="{x}" cy="{y}" r="24" fill="{BLUE}"/><text x="{x}" y="{y + 6}" font-size="17" '
            f'{TEXT} style="fill:#fff">{node.data:.3g}</text>'
            f'<text x="{x}" y="{y + 42}" font-size="14" {TEXT}>{name}gradient {node.grad:.3g}</text>'
        )
    width, height = 120 + 160 * last, 110 + 100 * (tall - 1)
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-20 -40 {width + 40} {height + 40}" width="{width + 40}" '
        f'height="{height + 40}"><path d="{"".join(edges)}" fill="none" stroke="{GREY}" stroke-width="1.5"/>'
        f"{''.join(texts)}</svg>"
    )


def _slopes(node: Any) -> list[tuple[Any, float]]:
    """Each operand of a node with the slope along its edge: the gradient it gets if the node's gradient is 1."""
    operands = list({id(operand): operand for operand in node._prev}.values())
    kept = [operand.grad for operand in operands]
    for operand in operands:
        operand.grad = 0.0
    if operands:
        node._backward(1.0)
    found = [(operand, operand.grad) for operand in operands]
    for operand, grad in zip(operands, kept, strict=True):
        operand.grad = grad
    return found
