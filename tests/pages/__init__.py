"""The README and its pages, read by tests: their code blocks, and what these say they print."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted(HERE.glob("*.md"))]

BLOCK = re.compile(r"(?:^`(?P<file>[\w.]+)`\n\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
"""A fenced block, after the name of its file if it is to be saved in one."""


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """The line number and the text of each block of this language that has no file name."""
    text = page.read_text(encoding="utf-8")
    found = [block for block in BLOCK.finditer(text) if block["language"] == language and not block["file"]]
    return [(text.count("\n", 0, block.start("text")), block["text"]) for block in found]


def printed(source: str) -> list[str]:
    """The lines that a block prints, according to the comments after its prints."""
    return re.findall(r"^ *print\(.*\)  # (.*)$", source, re.MULTILINE)


def run(page: Path, namespace: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """Run the page's Python from top to bottom; yield the line number and the text of each block after it has run."""
    for line, source in blocks(page, "python"):
        padded = "\n" * line + source  # so that a failure names the line in the page
        exec(compile(padded, page.name, "exec"), namespace)
        yield line + 1, source
