"""The colours of charts, networks and the page of a training, for light and for dark.

What is positive is blue and what is negative orange, which readers tell apart who see no red, no green or no blue; a
sign is never told by its colour alone. Text keeps a contrast of 4.5 to 1 with what it stands on.
"""

LIGHT = {
    "paper": "#ffffff", "card": "#f6f8fa", "ink": "#1f2328", "soft": "#57606a", "grid": "#d8dee4", "edge": "#8c959f",
    "positive": "#0b5cad", "negative": "#a34f00", "alarm": "#b3003c", "focus": "#0b5cad",
    "high": "#a9cdf2", "low": "#f5c9a0",
}  # fmt: skip
DARK = {
    "paper": "#14171c", "card": "#1d2229", "ink": "#e8edf2", "soft": "#a7b1bc", "grid": "#343b44", "edge": "#7d8794",
    "positive": "#7cb8f7", "negative": "#f2a65a", "alarm": "#ff8fab", "focus": "#7cb8f7",
    "high": "#1f4c7a", "low": "#74471a",
}  # fmt: skip
DRAWN = """\
text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;fill:var(--ink)}
.mg-paper{fill:var(--paper)}
.mg-soft{fill:var(--soft)}
.mg-grid{stroke:var(--grid);fill:none}
.mg-line{stroke-width:2;stroke-linejoin:round;fill:none}
.mg-line0{stroke:var(--positive)}
.mg-name0{fill:var(--positive)}
.mg-line1{stroke:var(--negative);stroke-dasharray:6 4}
.mg-name1{fill:var(--negative)}
.mg-mark{stroke:var(--alarm);stroke-dasharray:2 3;fill:none}
.mg-alarm{fill:var(--alarm)}
.mg-edge{fill:none;stroke-linecap:round}
.mg-edge.plus{stroke:var(--positive)}
.mg-edge.minus{stroke:var(--negative);stroke-dasharray:5 4}
.mg-edge.none{stroke:var(--edge);stroke-dasharray:1 5}
.mg-card{fill:var(--card);stroke:var(--edge)}
"""


def variables(selector: str) -> str:
    """The colours as variables of CSS, for what the selector finds: as the reader prefers, and light on paper."""
    light, dark = (";".join(f"--{name}:{colour}" for name, colour in colours.items()) for colours in (LIGHT, DARK))
    return (
        f"{selector}{{color-scheme:light dark;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{{selector}{{{dark}}}}}\n"
    )


def alone(svg: str) -> str:
    """An SVG element with its own colours and background, to be shown anywhere."""
    head, rest = svg.split(">", 1)
    rules = "\n".join(f".mg-alone {rule}" for rule in DRAWN.splitlines())
    head = head.replace('class="', 'class="mg-alone ')
    paper = '<rect class="mg-paper" width="100%" height="100%" rx="6"/>'
    return f"{head}><style>{variables('.mg-alone')}{rules}</style>{paper}{rest}"
