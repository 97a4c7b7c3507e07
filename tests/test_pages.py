"""The pages beside the README keep their word: what they tell to save and to run says what they say it does."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = Path(__file__).parent / "pages"
CHECKOUT = PAGES.parents[1]
BLOCK = re.compile(r"(?:^`(?P<file>[\w.]+)`\n\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def follow(page, directory):
    """Do what the page tells in a directory; pairs of what it says is printed, and what is."""
    (directory / "python").symlink_to(sys.executable)
    settings = {
        "env": {
            **os.environ,
            "PATH": f"{directory}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(CHECKOUT),
            "XDG_CACHE_HOME": str(directory / "cache"),
        },
        "cwd": directory,
        "capture_output": True,
        "text": True,
        "timeout": 120,
    }
    done = None
    for block in BLOCK.finditer(page):
        if block["file"]:
            (directory / block["file"]).write_text(block["text"], encoding="utf-8")
        elif block["language"] == "sh":
            done = subprocess.run(["sh", "-ec", block["text"]], **settings)
            assert (done.returncode, done.stderr) == (0, ""), block["text"]
        elif block["language"] == "text":
            yield block["text"], done.stdout


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc here")
def test_the_way_from_training_to_a_microcontroller_can_be_gone_as_it_stands(tmp_path):
    page = (PAGES / "microcontroller.md").read_text(encoding="utf-8")
    said = list(follow(page, tmp_path))
    assert len(said) == 3
    assert [printed for _, printed in said] == [expected for expected, _ in said]
    [loop] = [block["text"] for block in BLOCK.finditer(page) if block["text"].startswith("for (")]
    written = (tmp_path / "model.c").read_text(encoding="utf-8")
    assert loop.split() == re.search(r"for \(.*?\n\s+\}", written, re.DOTALL)[0].split()


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_the_files_it_links_to_exist(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
