"""The README keeps its word: its Python runs, and its test command is the one that CI runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    """The (line number, source) of each fenced block of this language."""
    fence = re.compile(rf"^```{language}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [(README.count("\n", 0, match.start(1)), match[1]) for match in fence.finditer(README)]


def test_the_python_of_the_readme_runs_from_top_to_bottom_and_prints_what_its_comments_say(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert blocks("python")
    namespace = {"__name__": "__main__"}
    for line, source in blocks("python"):
        padded = "\n" * line + source  # so that a failure names the line in the README
        exec(compile(padded, "README.md", "exec"), namespace)
        expected = re.findall(r"^ *print\(.*\)  # (.*)$", source, re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == expected, f"in the block at line {line + 1}"


def test_the_python_of_the_readme_can_be_pasted_into_an_interpreter(tmp_path):
    pasted = "\n".join(source for _, source in blocks("python")) + "\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-q", "-i", "-c", "import sys; sys.ps1 = sys.ps2 = ''"]
    done = subprocess.run(command, input=pasted, cwd=tmp_path, env=environment, capture_output=True, text=True)
    expected = [
        comment
        for _, source in blocks("python")
        for comment in re.findall(r"^ *print\(.*\)  # (.*)$", source, re.MULTILINE)
    ]
    assert [line for line in done.stdout.splitlines() if line in expected] == expected
    assert "Error" not in done.stderr


def test_every_block_of_the_readme_says_its_language():
    fences = re.findall(r"^```(.*)$", README, re.MULTILINE)
    assert len(fences) % 2 == 0
    assert all(fences[0::2])
    assert not any(fences[1::2])


def test_ci_runs_the_test_command_of_the_readme():
    [command] = [line for _, source in blocks("sh") for line in source.splitlines() if "pytest" in line]
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_ci_makes_the_reference_by_the_command_of_the_readme():
    [command] = re.findall(r"&& (pdoc [^`]+)`", README)
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_files_the_readme_links_to_exist():
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", README)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_each_figure_of_speed_is_on_the_page_that_is_measured():
    page = (ROOT / "tests" / "benchmarks" / "README.md").read_text(encoding="utf-8")
    section = README.partition("\n## How fast\n")[2].partition("\n## ")[0]
    figures = re.findall(r"(?<=\| )[\d.,]+(?= \|)|[\d.]+(?= times\b)", section)
    assert len(figures) > 10
    assert [figure for figure in figures if f"| {figure} |" not in page] == []
