"""The example invents names like those in a file or in the package, and learns the same with every backend."""

import sys

import pytest

from micrograd import fit
from tests.examples import names
from tests.helpers import refusal

NAMES = "Ann 3.5\nbo\n\nEve\nCy\nann\nIda Ann\nBo\n"


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Makes the network a small one; a function that writes a file and gives the options that name it."""
    for name, number in (("WIDTH", 4), ("HEADS", 2), ("CONTEXT", 4)):
        monkeypatch.setattr(names, name, number)

    def options(text, steps):
        file = tmp_path / "names.txt"
        file.write_text(text, encoding="utf-8")
        return ["--file", str(file), "--steps", str(steps)]

    return options


@pytest.fixture
def trained(monkeypatch):
    """The losses and the weights of each training that the example does."""
    found = []

    def recorded(model, *arguments, **options):
        history = fit(model, *arguments, **options)
        found.append((history.losses, [p.data for p in model.parameters()]))
        return history

    monkeypatch.setattr(names, "fit", recorded)
    return found


def test_every_backend_learns_the_same_from_names_of_several_lengths(small, trained, backend, capsys):
    outputs = []
    for kind in ("eager", backend):
        names.main([*small(NAMES, 30), "--backend", kind])
        outputs.append(capsys.readouterr().out)
    (losses, weights), (compiled_losses, compiled_weights) = trained
    assert compiled_losses == pytest.approx(losses, rel=1e-9)
    assert compiled_weights == pytest.approx(weights, rel=1e-9, abs=1e-12)
    assert outputs[0] == outputs[1]
    first, *invented = outputs[0].splitlines()
    assert first == "5 names, an alphabet of 10 letters, 296 weights"
    assert len(invented) == 20
    assert set("".join(invented)) <= set("anboevcyid")


@pytest.mark.parametrize(("seen", "invented"), [("ab", "ab"), ("abcdefgh", "abcd")])
def test_one_name_leads_to_no_other_and_is_cut_to_the_context(small, capsys, seen, invented):
    names.main(small(f"{seen}\n", 100))
    assert capsys.readouterr().out.splitlines()[1:] == [invented] * 20


def test_a_seed_gives_the_same_names_again(small, capsys):
    outputs = []
    for seed in "112":
        names.main([*small(NAMES, 5), "--seed", seed])
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]


def test_the_names_of_the_package_are_first_names(capsys):
    pytest.importorskip("names")
    names.main(["--steps", "1"])
    assert capsys.readouterr().out.startswith("5,163 names, an alphabet of 26 letters, 4,192 weights\n")
    assert {"MARY", "JAMES"} <= {line.split()[0] for line in names.lines(None)}


def test_what_cannot_be_read_is_named(monkeypatch, tmp_path, capsys):
    assert "no such file" in refusal(names.main, capsys, "--file", str(tmp_path / "none")).lower()
    (tmp_path / "picture").write_bytes(b"\x89PNG")
    assert "utf-8" in refusal(names.main, capsys, "--file", str(tmp_path / "picture"))
    (tmp_path / "blank").write_text("\n \n")
    assert "blank has no names" in refusal(names.main, capsys, "--file", str(tmp_path / "blank"))
    monkeypatch.setitem(sys.modules, "names", None)
    assert "pip install names, or use --file" in refusal(names.main, capsys)
