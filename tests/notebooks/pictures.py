"""What the notebooks show: points and what a model says of the plane around them, images, and pages."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any

ORANGE, BLUE = "#b35900", "#0b5cad"


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


def plane(xs: Sequence[Any], ys: Sequence[int], model: Callable[[Any], Any] | None = None) -> Picture:
    """Points of two classes, on the plane as the model sees it: the deeper the colour, the surer it is.

    Circles are class 0, squares class 1. The model's output is a score: above 0 it says class 1.
    """
    shades: dict[int, list[str]] = {}
    for j in range(-7, 9):
        row = [_shade(model, (i + 0.5) / 5, (j + 0.5) / 5) for i in range(-9, 14)]
        start = 0
        for i in range(1, len(row) + 1):
            if i == len(row) or row[i] != row[start]:
                shades.setdefault(row[start], []).append(f"M{start - 9} {j}h{i - start}v1h-{i - start}z")
                start = i
    shades.pop(0, None)
    marks = [
        f'<path fill="{BLUE if shade > 0 else ORANGE}" opacity="{abs(shade) / 10}" d="{"".join(squares)}"/>'
        for shade, squares in sorted(shades.items())
    ]
    for kind, colour, cap in (0, ORANGE, "round"), (1, BLUE, "square"):  # a line of no length has the form of its ends
        dots = "".join(f"M{5 * x1:.2f} {5 * x2:.2f}h0" for (x1, x2), y in zip(xs, ys, strict=True) if y == kind)
        for stroke, width in ("#fff", 0.42), (colour, 0.32):
            marks.append(f'<path stroke="{stroke}" stroke-width="{width}" stroke-linecap="{cap}" d="{dots}"/>')
    return Picture(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="-9 -9 23 16" width="460" height="320">'
        f'<g transform="scale(1 -1)">{"".join(marks)}</g></svg>'
    )


def _shade(model: Callable[[Any], Any] | None, x1: float, x2: float) -> int:
    """From -4, surely class 0, to 4, surely class 1."""
    return round(8 * model([x1, x2]).sigmoid().data) - 4 if model else 0


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
                f'fill="#777" font-family="sans-serif">{captions[k]}</text>'
            )
    width, height = min(columns, len(rows)) * wide - 1, -(-len(rows) // columns) * high
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{6 * width}" '
        f'height="{6 * height}">{"".join(parts)}</svg>'
    )
