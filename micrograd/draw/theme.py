"""The colours of all drawings and pages, for light and for dark.

Positive numbers are blue and negative ones orange, which readers tell apart who see no red, no green or no blue; a
sign is never told by its colour alone. Text has a contrast of at least 4.5 to 1 with its background.
"""

from collections.abc import Mapping
from importlib.resources import files

COLOURS = {
    "paper": ("#ffffff", "#0d1117"),
    "card": ("#f6f8fa", "#161b22"),
    "ink": ("#1f2328", "#e6edf3"),
    "soft": ("#57606a", "#9da7b3"),
    "grid": ("#d8dee4", "#30363d"),
    "line": ("#8c959f", "#6e7681"),
    "plus": ("#0550ae", "#79c0ff"),
    "minus": ("#9a3c00", "#ffa657"),
    "alarm": ("#b3003c", "#ff8fab"),
}
"""The colours of charts, networks and pages, in light and in dark."""

GRAPH_COLOURS = {
    "node": ("#ffffff", "#161b22"),
    "leaf": ("#eef6ff", "#12233a"),
    "root": ("#eafbee", "#10281a"),
    "up": ("#2f74d0", "#4f8fe6"),
    "down": ("#c05a10", "#d9772b"),
    "now": ("#bf8700", "#d29922"),
}
"""The further colours of a graph: its cards, the edges of positive and negative numbers, and the current step."""

CLASSES = (
    ("#9a3c00", "#ffa657", "#fad9b8", "#85551c"),
    ("#0550ae", "#79c0ff", "#98c3f3", "#153a63"),
    ("#3d3d3d", "#d0d0d0", "#cccccc", "#45494f"),
    ("#6a5b00", "#e8d44d", "#f1e59b", "#57500f"),
    ("#005f4b", "#5fd0b0", "#b5e2d3", "#0f4f41"),
    ("#71368f", "#d5a6ee", "#dfc9ee", "#4c2a60"),
)
"""For each class of examples: the colour of its marks, in light and in dark, and of the area where it is predicted.

The shades of the first three differ in brightness too.
"""

CHART_STYLE = (files(__package__) / "charts.css").read_text(encoding="utf-8")
"""The rules of the charts and the network, for colours that are variables."""


def is_dark(red: float, green: float, blue: float, alpha: float = 1.0) -> bool:
    """Whether a colour, with parts from 0 to 1, is dark on white paper."""
    return alpha * (1 - 0.299 * red - 0.587 * green - 0.114 * blue) > 0.5


def variables(selector: str, colours: Mapping[str, tuple[str, str]] = COLOURS) -> str:
    """The colours as CSS variables of a selector: light or dark as the reader prefers, and light on paper."""
    pairs = [*colours.items()]
    for i, (ink, dark_ink, shade, dark_shade) in enumerate(CLASSES):
        pairs += [(f"class{i}", (ink, dark_ink)), (f"shade{i}", (shade, dark_shade))]
    light, dark = (";".join(f"--{name}:{pair[i]}" for name, pair in pairs) for i in (0, 1))
    return f"{selector}{{{light}}}\n@media screen and (prefers-color-scheme:dark){{{selector}{{{dark}}}}}\n"


def standalone(svg: str) -> str:
    """An SVG element with its own colours and background, to be shown anywhere."""
    head, rest = svg.split(">", 1)
    rules = "\n".join(f".mg-alone {rule}" for rule in CHART_STYLE.splitlines())
    head = head.replace('class="', 'class="mg-alone ')
    paper = '<rect class="mg-paper" width="100%" height="100%" rx="6"/>'
    return f"{head}><style>{variables('.mg-alone')}{rules}</style>{paper}{rest}"
