"""The README keeps its promises: it is short, its commands are those of CI, and its pictures are up to date."""

import re

from tests import pictures
from tests.pages import README, ROOT, blocks

TEXT = README.read_text(encoding="utf-8")
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_it_is_a_first_page():
    assert len(TEXT.splitlines()) <= 220


def test_ci_runs_the_test_command_of_the_readme():
    [command] = [line for _, source in blocks(README, "sh") for line in source.splitlines() if "pytest" in line]
    assert command in CI


def test_ci_makes_the_reference_by_the_command_of_the_readme():
    [command] = re.findall(r"&& (pdoc [^`]+)`", TEXT)
    assert command in CI


def test_its_pictures_are_what_its_code_draws():
    for name, drawn in pictures.draw().items():
        assert f"(tests/pictures/{name}.svg)" in TEXT
        stored = (pictures.HERE / f"{name}.svg").read_text(encoding="utf-8")
        assert stored == drawn, f"{name}.svg is stale: python -m tests.pictures"
