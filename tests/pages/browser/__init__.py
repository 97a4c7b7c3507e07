"""The course in a browser: Python runs in the page, as Pyodide, with the files of the checkout.

    python -m tests.pages.browser

builds a directory of pages and serves it at http://localhost:8000. npm downloads Pyodide, once; from then on nothing
comes from outside. What is built may be put on any web server, too: `--build DIRECTORY` builds it there and ends.
"""

import html
import json
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[2]
NOTEBOOKS = sorted((CHECKOUT / "tests" / "notebooks").glob("[0-9]*.ipynb"))
PYODIDE = "314.0.8"
SCRIPT = "text/javascript"
PARTS = (
    *("micrograd/**/*", "tests/__init__.py", "tests/notebooks/**/*.py", "tests/notebooks/reader.json"),
    *("tests/pages/__init__.py", "tests/pages/cells.py", "tests/examples/__init__.py", "tests/examples/names.py"),
)
"""What Python finds in the browser, of the checkout: the whole package, since it reads files of many kinds, and of the
notebooks' directory what the cells import, since students leave pages there."""
FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip")
"""What a page loads of Pyodide."""


def pyodide(directory: Path | None = None, version: str = PYODIDE) -> Path:
    """The path of Pyodide in the directory, by default the user's cache. Raises RuntimeError as `npm` does."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "micrograd"
    return npm("Pyodide", version, directory or cache / f"pyodide-{version}")


def npm(name: str, version: str, directory: Path, *options: str) -> Path:
    """The path of a package in the directory; npm installs it if it is not there.

    It appears there whole, since another process may look for it, or install it, at the same time.

    Raises RuntimeError if there is no npm, or it cannot install it.
    """
    modules = directory / "node_modules"
    if not modules.exists():
        program = shutil.which("npm")
        if program is None:
            raise RuntimeError(f"{name} is installed by npm, which comes with Node.js: install that, and try again")
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory) as apart:
            install = [program, "install", "--no-audit", "--no-fund", *options, f"--prefix={apart}"]
            done = subprocess.run([*install, f"{name.lower()}@{version}"], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"npm cannot install {name} {version}: {done.stderr[-500:]}")
            with suppress(OSError):  # the other process has done it
                Path(apart, "node_modules").rename(modules)
    return modules / name.lower()


def build(directory: Path, installed: Path) -> None:
    """Write everything into a directory: a page for each notebook that needs no NumPy, the glossary, what they load."""
    (directory / "pyodide").mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copy(installed / name, directory / "pyodide")
    for name in ("page.js", "page.css", "worker.js"):
        shutil.copy(HERE / name, directory)
    with zipfile.ZipFile(directory / "checkout.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for part in PARTS:
            for file in sorted(CHECKOUT.glob(part)):
                if file.is_file() and file.parent.name != "__pycache__":
                    archive.write(file, file.relative_to(CHECKOUT))
    texts = {path.name: path.read_text(encoding="utf-8") for path in NOTEBOOKS}
    here = {name: json.loads(text) for name, text in texts.items() if "import numpy" not in text}
    glossary = CHECKOUT / "tests" / "notebooks" / "glossary.md"
    lines = glossary.read_text(encoding="utf-8").splitlines(keepends=True)
    here |= {f"solutions/part_{name[0]}.py": _solutions(name[0]) for name in [*here]}
    here[glossary.name] = {"cells": [{"cell_type": "markdown", "source": lines}]}
    for name, notebook in here.items():
        (directory / _address(name)).write_text(page(name, notebook, here.keys()), encoding="utf-8")
    shutil.copy((directory / min(here)).with_suffix(".html"), directory / "index.html")


def _solutions(part: str) -> Any:
    """The solutions of a part, as a notebook of one cell."""
    source = (CHECKOUT / "tests" / "notebooks" / "solutions" / f"part_{part}.py").read_text(encoding="utf-8")
    cells = [("markdown", f"# Solutions of part {part}"), ("code", source.rstrip())]
    return {"cells": [{"cell_type": kind, "source": [text]} for kind, text in cells]}


def _address(target: str) -> str:
    """The file of the page that a notebook's link leads to."""
    return Path(target).with_suffix(".html").name


def page(name: str, notebook: Any, known: Collection[str]) -> str:
    """A notebook as a page that also contains it, for download; links to known notebooks lead to their pages."""
    cells = [_cell(cell["cell_type"], "".join(cell["source"]), known) for cell in notebook["cells"]]
    title = notebook["cells"][0]["source"][0].strip("# \n")
    parts = {"TITLE": html.escape(title), "CELLS": "\n".join(cells), "NAME": Path(name).name}
    parts["NOTEBOOK"] = json.dumps(notebook).replace("</", "<\\/")  # else </script> in a cell ends it
    template = (HERE / "page.html").read_text(encoding="utf-8")
    return re.sub("|".join(parts), lambda part: parts[part[0]], template)


def _cell(kind: str, source: str, known: Collection[str]) -> str:
    if kind == "markdown":
        return markdown(source, known)
    rows = source.count("\n") + 1
    as_typed = 'spellcheck="false" autocapitalize="off" autocorrect="off"'  # not corrected by a phone
    return (
        f'<div class="cell"><textarea rows="{rows}" {as_typed} aria-label="Python">\n'
        f'{html.escape(source)}</textarea><button type="button">Run</button><div class="output" aria-live="polite">'
        "</div></div>"
    )


def markdown(text: str, known: Collection[str]) -> str:
    """The Markdown that the notebooks are written in as HTML: headings, lists, tables, paragraphs."""
    return "\n".join(_block(block, known) for block in text.split("\n\n") if block.strip())


def _block(block: str, known: Collection[str]) -> str:
    if re.fullmatch(r"<details><summary>[^<]*</summary>|</details>", block.strip()):
        return block.strip()
    lines = block.strip("\n").split("\n")
    if heading := re.match(r"(#+) (.*)$", block):
        level = len(heading[1])
        return f"<h{level}>{_inline(heading[2], known)}</h{level}>"
    if lines[0].startswith("| "):
        rows = [[_inline(part.strip(), known) for part in line.strip("| ").split(" | ")] for line in lines]
        head, body = "".join(f"<th>{part}</th>" for part in rows[0]), rows[2:]
        found = "".join(f"<tr>{''.join(f'<td>{part}</td>' for part in row)}</tr>" for row in body)
        return f"<table><tr>{head}</tr>{found}</table>"
    for mark, kind in (r"- ", "ul"), (r"\d+\. ", "ol"):
        if re.match(mark, block):
            items = re.split(rf"^{mark}", block, flags=re.MULTILINE)[1:]
            return f"<{kind}>{''.join(f'<li>{_inline(item, known)}</li>' for item in items)}</{kind}>"
    return f"<p>{_inline(block, known)}</p>"


def _inline(text: str, known: Collection[str]) -> str:
    """Code, links, bold and italic text within a line."""

    def link(found: re.Match[str]) -> str:
        words, target = found[1], found[2]
        if target in known:
            target = _address(target)
        if target.endswith(".html") or "://" in target:
            return f'<a href="{target}">{words}</a>'
        return f"{words} (which a browser cannot run)" if target.endswith(".ipynb") else words

    codes = re.findall(r"`([^`]+)`", text)
    text = html.escape(re.sub(r"`[^`]+`", "\0", text), quote=False)
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text, flags=re.DOTALL)
    text = re.sub(r"\*(.+?)\*", r"<em>\1</em>", text, flags=re.DOTALL)
    text = re.sub(r"\[([^\]]+)\]\(([^)]+)\)", link, text)
    for code in codes:
        text = text.replace("\0", f"<code>{html.escape(code, quote=False)}</code>", 1)
    return text


class Handler(SimpleHTTPRequestHandler):
    """Serves the files of a directory without a word, and JavaScript as what it is on every system."""

    extensions_map: ClassVar = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": SCRIPT, ".js": SCRIPT}

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def server(directory: Path, port: int) -> ThreadingHTTPServer:
    """A server for this computer alone, which has yet to be started."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(Handler, directory=os.fspath(directory)))
