"""What all drawings and pages share: the colours, for light and for dark, and the HTML around a page.

Positive numbers are blue and negative ones orange: readers who see no red, no green or no blue can tell them apart; no
sign is shown by colour alone. Text has a contrast of at least 4.5 to 1 with its background.
"""

import json
import re
from collections.abc import Iterable
from html import escape
from importlib.resources import files


def read(package: str, name: str) -> str:
    """A file of a package, without indentation, and without lines that are comments of a script."""
    return re.sub(r"^\s*(//.*\n\s*)*", "", (files(package) / name).read_text(encoding="utf-8"), flags=re.MULTILINE)


_KNOWN = json.loads(read(__package__, "colours.json"))

COLOURS: dict[str, list[str]] = _KNOWN["colours"]  # each in light and in dark
# Of each class of examples: its marks in light and in dark, then the area where it is predicted. The shades of the
# first three differ in brightness too.
CLASSES: list[list[str]] = _KNOWN["classes"]
CHART_STYLE = read(__package__, "charts.css")  # the rules of charts and networks, for colours that are variables


def variables(selector: str) -> str:
    """The colours as CSS variables of a selector: light or dark as the reader prefers, and light on paper."""
    pairs = [*COLOURS.items()]
    for i, (ink, dark_ink, shade, dark_shade) in enumerate(CLASSES):
        pairs += [(f"class{i}", [ink, dark_ink]), (f"shade{i}", [shade, dark_shade])]
    light, dark = (";".join(f"--{name}:{pair[i]}" for name, pair in pairs) for i in (0, 1))
    return f"{selector}{{{light}}}\n@media screen and (prefers-color-scheme:dark){{{selector}{{{dark}}}}}\n"


def themed(scope: str, rules: str) -> str:
    """Rules of CSS, one a line, for what is within a selector, since a drawing may be a part of a larger page.

    The colours are written out, light ones first: some programs that show SVG do not support variables.
    """

    def written(lines: Iterable[str], theme: int) -> str:
        css = "".join(f"{scope} {line}" for line in lines)
        return re.sub(r"var\(--(\w+)\)", lambda name: COLOURS[name[1]][theme], css)

    lines = rules.splitlines()
    dark = written([line for line in lines if "var(" in line], 1)
    return f"{written(lines, 0)}@media screen and (prefers-color-scheme:dark){{{dark}}}"


def standalone(svg: str) -> str:
    """An SVG element with its own colours and background, to be shown anywhere."""
    head, rest = svg.replace('class="', 'class="mg-alone ', 1).split(">", 1)
    paper = '<rect class="mg-paper" width="100%" height="100%" rx="6"/>'
    return f"{head}><style>{themed('.mg-alone', CHART_STYLE)}</style>{paper}{rest}"


def page(
    package: str, *, title: str, summary: str, data: str, style: str, scripts: Iterable[str], code: str = "",
    **words: object,
) -> str:  # fmt: skip
    """A page as HTML that works offline: a title and a summary, `page.html` of the package with its words, and `data`.

    The styles are the shell's, then `style`, then `page.css` of the package; the scripts are the shell's, then `code`,
    then the package's, by their names.
    """
    own = "\n".join(read(package, f"{name}.js") for name in scripts)
    return read(__package__, "shell.html").format(
        title=escape(title),
        summary=escape(summary),
        style=f"{variables(':root')}{read(__package__, 'shell.css')}{style}{read(package, 'page.css')}",
        main=read(package, "page.html").format(**words),
        data=data,
        script=f"{read(__package__, 'shell.js')}{code}\n{own}",
    )
