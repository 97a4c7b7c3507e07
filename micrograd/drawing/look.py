"""The colours of charts, networks and the page of a training, for light and for dark.

What is positive is blue and what is negative orange, which readers tell apart who see no red, no green or no blue; a
sign is never told by its colour alone. Text keeps a contrast of 4.5 to 1 with what it stands on.
"""

LOOK = {
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
"""The colours, in light and in dark."""

CLASSES = (
    ("#9a3c00", "#ffa657", "#fad9b8", "#85551c"),
    ("#0550ae", "#79c0ff", "#98c3f3", "#153a63"),
    ("#3d3d3d", "#d0d0d0", "#cccccc", "#45494f"),
    ("#6a5b00", "#e8d44d", "#f1e59b", "#57500f"),
    ("#005f4b", "#5fd0b0", "#b5e2d3", "#0f4f41"),
    ("#71368f", "#d5a6ee", "#dfc9ee", "#4c2a60"),
)
"""Of each class of examples: the colour of its marks, in light and in dark, and of where the model says it.

The shades of the first three differ in brightness too.
"""

DRAWN = """\
text{font:12px "Segoe UI",Roboto,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif;fill:var(--ink)}
.mg-paper{fill:var(--paper)}
.mg-soft{fill:var(--soft)}
.mg-grid{stroke:var(--grid);fill:none}
.mg-line{stroke-width:2;stroke-linejoin:round;fill:none}
.mg-line0{stroke:var(--plus)}
.mg-name0{fill:var(--plus)}
.mg-line1{stroke:var(--minus);stroke-dasharray:6 4}
.mg-name1{fill:var(--minus)}
.mg-mark{stroke:var(--alarm);stroke-width:1.5;stroke-dasharray:2 3;fill:none}
.mg-alarm{fill:var(--alarm)}
.mg-edge{fill:none}
.mg-edge.plus{stroke:var(--plus)}
.mg-edge.minus{stroke:var(--minus);stroke-dasharray:5 4}
.mg-edge.none{stroke:var(--line);stroke-dasharray:1 5}
.mg-card{fill:var(--card);stroke:var(--line)}
"""


def variables(selector: str) -> str:
    """The colours as variables of CSS, for what the selector finds: as the reader prefers, and light on paper."""
    pairs = [*LOOK.items()]
    for i, (ink, dark_ink, shade, dark_shade) in enumerate(CLASSES):
        pairs += [(f"class{i}", (ink, dark_ink)), (f"shade{i}", (shade, dark_shade))]
    light, dark = (";".join(f"--{name}:{colours[i]}" for name, colours in pairs) for i in (0, 1))
    return f"{selector}{{{light}}}\n@media screen and (prefers-color-scheme:dark){{{selector}{{{dark}}}}}\n"


def alone(svg: str) -> str:
    """An SVG element with its own colours and background, to be shown anywhere."""
    head, rest = svg.split(">", 1)
    rules = "\n".join(f".mg-alone {rule}" for rule in DRAWN.splitlines())
    head = head.replace('class="', 'class="mg-alone ')
    paper = '<rect class="mg-paper" width="100%" height="100%" rx="6"/>'
    return f"{head}><style>{variables('.mg-alone')}{rules}</style>{paper}{rest}"
