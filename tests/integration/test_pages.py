"""The README and its pages keep their promises: their code runs and prints what they say, and their links lead on."""

import ast
import importlib.util
import inspect
import os
import re
import shutil
import subprocess
import sys
import textwrap
from codeop import compile_command

import pytest

from micrograd import Value, reductions
from tests.pages import BLOCK, HERE, PAGES, README, ROOT, blocks, printed, run

PYTHON = [page for page in PAGES if blocks(page, "python")]
COURSE = [page for kind in ("md", "ipynb") for page in sorted((ROOT / "tests" / "notebooks").glob(f"*.{kind}"))]
COMMANDS = [page for page in PAGES if any(block["file"] for block in BLOCK.finditer(page.read_text(encoding="utf-8")))]


def name(page):
    return page.stem


def follow(page, directory):
    """Do what the page tells in a directory; pairs of what it says is printed, and what is."""
    (directory / "python").symlink_to(sys.executable)
    search = f"{directory}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": search, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(directory / "cache")}
    settings = {"env": os.environ | own, "cwd": directory, "capture_output": True, "text": True, "timeout": 120}
    done = None
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["file"]:
            (directory / block["file"]).write_text(block["text"], encoding="utf-8")
        elif block["language"] == "sh":
            done = subprocess.run(["sh", "-ec", block["text"]], **settings)
            assert (done.returncode, done.stderr) == (0, ""), block["text"]
        elif block["language"] == "text":
            yield block["text"], done.stdout


@pytest.mark.usefixtures("no_kinds")
@pytest.mark.parametrize("page", PYTHON, ids=name)
def test_the_python_of_a_page_runs_from_top_to_bottom_and_prints_what_its_comments_say(
    page, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for line, source in run(page, {"__name__": "__main__"}):
        said = capsys.readouterr().out.splitlines()
        if "import torch" in source and not importlib.util.find_spec("torch"):
            assert said[0].startswith("skipped: ")
        else:
            assert said == printed(source), f"in the block at line {line}"


@pytest.mark.parametrize("page", [page for page in PYTHON if page.stem != "executors"], ids=name)
def test_the_python_of_a_page_can_be_pasted_into_an_interpreter(page):
    """An interpreter that reads it line by line finds the same statements as one that reads all of it."""
    source = "\n".join(source for _, source in blocks(page, "python")) + "\n"
    statements, lines = [], []
    for line in [*source.splitlines(), ""]:
        lines.append(line)
        if compile_command("\n".join(lines)):  # which raises SyntaxError for what cannot go on
            statements += ast.parse("\n".join(lines)).body
            lines = []
    assert lines == []
    assert list(map(ast.dump, statements)) == list(map(ast.dump, ast.parse(source).body))


@pytest.mark.parametrize("page", COMMANDS, ids=name)
def test_the_commands_of_a_page_print_what_it_says(page, tmp_path):
    for program in ("gcc", "node"):
        is_called = any(re.search(rf"^{program} ", text, re.MULTILINE) for _, text in blocks(page, "sh"))
        if is_called and not shutil.which(program):
            pytest.skip(f"there is no {program} here")
    said = list(follow(page, tmp_path))
    assert said
    assert [output for _, output in said] == [expected for expected, _ in said]
    if (tmp_path / "model.c").exists():
        [loop] = [source for _, source in blocks(page, "c")]
        written = (tmp_path / "model.c").read_text(encoding="utf-8")
        assert loop.split() == re.search(r"for \(.*?\n\s+\}", written, re.DOTALL)[0].split()


def test_the_page_about_compiling_shows_a_source_and_a_kernel_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page, namespace = HERE / "compile.md", {"__name__": "__main__"}
    source, *_ = [namespace["fast"].source for _ in run(page, namespace)]
    shown = [text for _, text in blocks(page, "py")]
    loop = r"\ndef backward\(.*?\[x0, x1, x2\] = x\n(.*?) *outputs\.append"
    body = re.search(loop, source, re.DOTALL)[1]
    assert textwrap.dedent(body).splitlines() == shown[0].splitlines()
    assert [text.strip() for text in shown if text.startswith("for i in 16:")] == [namespace["ir"].strip()]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_says_its_language(page):
    fences = re.findall(r"^```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(fences) % 2 == 0
    assert all(fences[0::2])
    assert not any(fences[1::2])


@pytest.mark.parametrize("page", [*PAGES, *COURSE], ids=name)
def test_the_files_it_links_to_exist(page):
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES[1:], ids=name)
def test_the_readme_leads_to_each_page(page):
    assert f"(tests/pages/{page.name})" in README.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [README, HERE / "speed.md"], ids=name)
def test_each_figure_of_speed_is_on_the_page_that_is_measured(page):
    measured = (ROOT / "tests" / "benchmarks" / "README.md").read_text(encoding="utf-8")
    section = page.read_text(encoding="utf-8").rpartition("How fast\n")[2]
    figures = re.findall(r"(?<=\| )[\d.,]+(?= \|)|[\d.]+(?= times\b)", section)
    assert len(figures) > 10
    assert [figure for figure in figures if f"| {figure} |" not in measured] == []


def test_each_function_the_readme_names_is_a_method():
    [named] = re.findall(r"such as ([^.]*?)\. Functions", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(re.findall(r"`(\w+)`", named)) > 5
    assert all(hasattr(Value, function) for function in re.findall(r"`(\w+)`", named))


def test_the_tour_shows_each_stage_and_the_c_as_they_are():
    page, namespace = HERE / "tour.md", {"__name__": "__main__"}
    for _ in run(page, namespace):
        pass
    fast, (closure, *shown) = namespace["fast"], [text for _, text in blocks(page, "py")]
    assert all(line in inspect.getsource(reductions.dot) for line in closure.splitlines())
    assert shown == [fast.stages[name] for name in ("trace", "level blocks", "fuse", "storage", "jam")]
    [(_, c)] = blocks(page, "c")
    assert textwrap.indent(c, "    ") in fast.c_source
    assert page.read_text(encoding="utf-8").count("\n") <= 300
