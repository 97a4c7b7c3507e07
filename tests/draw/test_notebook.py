"""What notebooks show for models and histories, and for a training run while it runs."""

import base64
import re
import sys
import types
import xml.etree.ElementTree as ElementTree

import pytest

from micrograd import Value, nn, viz
from micrograd.data import moons
from micrograd.draw import notebook as displays
from micrograd.draw.shell import COLOURS
from micrograd.losses import binary_cross_entropy_with_logits as cross_entropy
from micrograd.training import History, fit

XS, YS = moons(12, rng=1)


def bundle(thing):
    """What an object shows, whose drawing is XML and whose text is text."""
    found = thing._repr_mimebundle_(include=None, exclude=None)
    assert found["text/plain"]
    if "image/svg+xml" in found:
        ElementTree.fromstring(found["image/svg+xml"])
        image = ElementTree.fromstring(found.pop("text/html").replace('">', '"/>'))
        assert image.get("alt") == found["text/plain"].split("\n")[0]
        kind, encoded = image.get("src").split(",")
        assert kind == "data:image/svg+xml;base64"
        assert base64.b64decode(encoded).decode() == found["image/svg+xml"]
    assert "text/html" not in found
    return found


# Values


def test_a_value_shows_the_graph_that_leads_to_it():
    x = Value(2.0, label="x")
    y = x * 3
    assert bundle(y) == {"text/plain": "Value(data=6.0, grad=0.0)", "image/svg+xml": viz.to_svg(y)}
    assert bundle(x) == {"text/plain": "Value(data=2.0, grad=0.0, label='x')"}


@pytest.mark.parametrize("thing", [Value(2.0) * 3, nn.MLP(2, [1], rng=1), History([1.0, 0.5], [2.0, 1.0], [0.1] * 2)])
def test_a_display_needs_no_css_variables_which_some_programs_that_show_svg_do_not_know(thing):
    svg = bundle(thing)["image/svg+xml"]
    assert "var(" not in svg
    light, dark = (COLOURS["plus"][theme] for theme in (0, 1))
    assert svg.index(light) < svg.index("@media screen and (prefers-color-scheme:dark){") < svg.index(dark)


def test_no_label_leaves_the_text_of_an_image():
    image = (Value(1.0) * 2)._repr_mimebundle_()["text/html"]
    assert image.startswith('<img alt="Value(data=2.0, grad=0.0)" src="data:image/svg+xml;base64,')
    hostile = Value(1.0) * 2
    hostile.label = '"><script>alert(1)</script>'
    assert "<script" not in hostile._repr_mimebundle_()["text/html"]


def test_a_value_that_cannot_be_drawn_has_its_text(monkeypatch):
    def draw(*args, **options):
        raise RuntimeError("no program for drawing is installed")

    monkeypatch.setattr("micrograd.draw.notebook.to_svg", draw)
    assert bundle(Value(2.0) * 3) == {"text/plain": "Value(data=6.0, grad=0.0)"}
    monkeypatch.undo()
    monkeypatch.setattr(displays, "MOST", 4)
    assert bundle(Value(2.0) + 1 + 1) == {"text/plain": "Value(data=4.0, grad=0.0)"}


# Models and histories


def test_text_is_always_there_and_tells_the_parameters():
    assert bundle(nn.MLP(2, [1], rng=1))["text/plain"] == "MLP(2 -> 1 linear, 3 parameters)"
    assert bundle(nn.Neuron(2, rng=1))["text/plain"] == "Neuron(2, tanh), 3 parameters"
    assert bundle(nn.Embedding(3, 2, rng=1)) == {"text/plain": "Embedding(3, 2), 6 parameters"}
    one = nn.Module()
    one.w = Value(1.0)
    assert bundle(one)["text/plain"] == "Module(1 parameter)"


def test_a_model_whose_parameters_are_a_generator_has_its_picture():
    class Network(nn.MLP):
        def parameters(self):
            yield from super().parameters()

    shown = bundle(Network(2, [1], rng=1))
    assert shown["text/plain"] == "MLP(2 -> 1 linear, 3 parameters)"
    assert shown["image/svg+xml"] == bundle(nn.MLP(2, [1], rng=1))["image/svg+xml"]


def test_a_history_shows_its_curves_and_its_outcome():
    shown = bundle(History([1.0, 0.5, 0.25], [2.0, 0.75, 1.0], [0.1] * 3, interrupted=True))
    first, second = shown["text/plain"].split("\n")
    assert first == "3 epochs, loss 1 to 0.25, lowest validation loss 0.75 in epoch 2, interrupted"
    assert second == "█▅▁"
    assert "mg-line1" in shown["image/svg+xml"]
    assert first in shown["image/svg+xml"]
    assert bundle(History([1.0]))["text/plain"] == "1 epoch, loss 1 to 1\n▁"
    assert bundle(History()) == {"text/plain": "0 epochs"}


# A training run while it runs


class Notebook(types.ModuleType):
    """What IPython is to a program that it runs: displays, and how often each was updated."""

    def __init__(self, kernel=True, error=None):
        super().__init__("IPython")
        self.shown = []
        self.updates = 0
        self.shell = shell = types.SimpleNamespace(kernel=object() if kernel else None, execution_count=1)

        def update(bundle, raw):
            self.updates += 1
            self.shown[-1] = bundle

        def display(bundle, raw, display_id):
            if error:
                raise error
            self.shown.append(bundle)
            return types.SimpleNamespace(update=update)

        self.get_ipython = lambda: shell
        self.display = types.SimpleNamespace(display=display)


@pytest.fixture
def notebook(monkeypatch):
    def installed(**options):
        notebook = Notebook(**options)
        monkeypatch.setitem(sys.modules, "IPython", notebook)
        return notebook

    return installed


def train(**options):
    return fit(nn.MLP(2, [2, 1], rng=1), cross_entropy, XS, YS, epochs=30, rng=1, **options)


def test_in_a_notebook_one_display_is_updated_in_place(notebook, monkeypatch, capsys):
    clock = iter(range(10_000))
    monkeypatch.setattr("micrograd.training.progress.time.monotonic", lambda: next(clock))
    notebook = notebook()
    history = train()
    [shown] = notebook.shown
    assert notebook.updates == 30 - 1  # after each step but the first, which makes it
    assert re.search(r"  in \d+:\d\d$", shown["text/plain"])
    assert history._repr_mimebundle_() == {"text/plain": history.summary()}  # no second curve
    notebook.shell.execution_count += 1
    assert "image/svg+xml" in bundle(history)
    assert shown["text/plain"].startswith(f"epoch 30/30  loss {history.losses[-1]:.4g}  ")
    [line] = [e for e in ElementTree.fromstring(shown["image/svg+xml"]).iter() if "mg-line0" in e.get("class", "")]
    assert line.get("d").count("L") == 29
    assert capsys.readouterr() == ("", "")


def test_progress_goes_to_a_given_stream_even_in_a_notebook_and_to_stderr_in_ipython_on_a_terminal(notebook, capsys):
    inside = notebook().shown
    train(progress=sys.stdout)
    train(progress=False)
    terminal = notebook(kernel=False).shown
    train()
    assert inside == terminal == []
    assert [text[:10] for text in capsys.readouterr()] == ["epoch 1/30"] * 2


def test_a_display_that_fails_does_not_end_the_training(notebook):
    notebook(error=RuntimeError("the frontend has gone"))
    assert len(train().losses) == 30


def test_without_ipython_there_is_no_display():
    assert displays.live(History(), 1) is None
