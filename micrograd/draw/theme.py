"""The colours of all drawings and pages, for light and for dark.

Positive numbers are blue and negative ones orange, which readers tell apart who see no red, no green or no blue; a
sign is never told by its colour alone. Text has a contrast of at least 4.5 to 1 with its background.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files

_KNOWN = json.loads((files(__package__) / "colours.json").read_text(encoding="utf-8"))

COLOURS: dict[str, list[str]] = _KNOWN["pages"]
"""The colours of charts, networks and pages, in light and in dark."""

GRAPH_COLOURS: dict[str, list[str]] = _KNOWN["graphs"]
"""The further colours of a graph: its cards, the edges of positive and negative numbers, and the current step."""

CLASSES: list[list[str]] = _KNOWN["classes"]
"""For each class of examples: the colour of its marks, in light and in dark, and of the area where it is predicted.

The shades of the first three differ in brightness too.
"""

CHART_STYLE = (files(__package__) / "charts.css").read_text(encoding="utf-8")
"""The rules of the charts and the network, for colours that are variables."""


def variables(selector: str, colours: Mapping[str, Sequence[str]] = COLOURS) -> str:
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
