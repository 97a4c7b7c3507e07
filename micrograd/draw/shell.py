"""The shell of all pages: one HTML file with the theme, the controls and the script that they share."""

import base64
import re
import zlib
from html import escape
from importlib.resources import files

from micrograd.draw.theme import COLOURS, GRAPH_COLOURS, variables


def page(
    package: str, *, title: str, summary: str, main: str, data: str, style: str = "", script: str = "",
    has_controls: bool = True, has_workers: bool = False,
) -> str:  # fmt: skip
    """A page as HTML that works offline: a title and a summary as text, controls, `main` and `data` as HTML below them.

    The `page.css` and `page.js` of the package follow the style and script given, and these those of the shell. A page
    has controls if there is more than one position to move through, and workers if its scripts start Web Workers.
    """
    return read(__package__, "shell.html").format(
        title=escape(title),
        summary=escape(summary),
        workers="; worker-src blob:" if has_workers else "",
        style=variables(":root", COLOURS | GRAPH_COLOURS) + read(__package__, "shell.css") + style
        + read(package, "page.css"),
        controls=read(__package__, "controls.html") if has_controls else "",
        main=main,
        data=data,
        script=f"{read(__package__, 'shell.js')}{script}\n{read(package, 'page.js')}",
    )  # fmt: skip


def packed(id: str, content: bytes) -> str:
    """Data in a page, compressed, which `unpacked` in maps.js reads."""
    return f'<script type="text/plain" id="{id}">{base64.b64encode(zlib.compress(content, 9)).decode()}</script>\n'


def read(package: str, name: str) -> str:
    """A file of a package, without indentation."""
    return re.sub(r"\n\s+", "\n", (files(package) / name).read_text(encoding="utf-8"))
