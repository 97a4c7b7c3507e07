"""What people import: every drawing from one place, Graphviz's Digraph, and files."""

import inspect
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from functools import partial
from html import unescape

import graphviz
import pytest
from hypothesis import given
from hypothesis import strategies as st

from micrograd import Value, nn, viz
from micrograd.draw.graph.drawn import SIGNS
from micrograd.viz import draw_dot, draw_graph, save_svg, to_svg
from tests.draw.graphs import TEXTS, VISIBLE, example, loss, network, recurrence
from tests.helpers import random_examples

dot_program = pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz's program dot is not installed")
SAVE_SVG, SAVE_HTML = partial(save_svg, path=os.devnull), partial(viz.save_html, path=os.devnull)


def texts(svg):
    """The texts of a drawing."""
    return [t.text for t in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def words(*lines):
    """The words of some lines, sorted."""
    return sorted(word for line in lines for word in (line or "").split())


def test_the_drawing_is_the_same_from_run_to_run():
    program = "from micrograd import nn, viz; print(viz.to_svg(nn.MLP(2, [4, 1], rng=1)([1.0, 2.0])), end='')"
    runs = {
        subprocess.run([sys.executable, "-c", program], env={"PYTHONHASHSEED": seed, "PYTHONPATH": os.getcwd()},
                       capture_output=True, check=True, text=True).stdout
        for seed in "01"
    }  # fmt: skip
    assert runs == {to_svg(nn.MLP(2, [4, 1], rng=1)([1.0, 2.0]))}


@pytest.mark.parametrize(
    ("draw", "limit"),
    [(draw_graph, 2000), (draw_dot, None), (to_svg, 200_000), (SAVE_SVG, 200_000), (SAVE_HTML, 200_000)],
)
def test_a_graph_too_large_to_draw_is_refused_with_its_size_the_limit_and_the_remedy(draw, limit):
    assert inspect.signature(draw).parameters["limit"].default == limit
    with pytest.raises(TypeError, match="of type list: expected a single Value"):
        draw([Value(1.0)])
    x = Value(1.0) + 2.0
    draw(x, limit=3)
    message = "^the graph has 3 Values, and the limit is 2: draw a part of it, .* or pass limit=3$"
    with pytest.raises(ValueError, match=message):
        draw(x, limit=2)


# Graphviz's Digraph


def test_draw_dot_is_a_digraph_of_the_cards_of_to_svg_or_of_the_nodes_and_edges_of_draw_graph():
    drawing = draw_dot(loss())
    assert isinstance(drawing, graphviz.Digraph)
    assert (drawing.format, repr(drawing)[:21]) == ("svg", "<a drawing: notebooks")
    assert drawing.source.count("[label=") == to_svg(loss()).count("<g class=")
    edges = re.findall(r"(?<=\tc[01] -> )c4:(\w+:\w) \[penwidth=(\S+) color=\"#c05a10\" style=dashed\]", drawing.source)
    assert edges == [("p0:w", "0.818"), ("p1:w", "0.996")]
    assert drawing.source.count(" penwidth=1.8 tooltip") == 9
    assert re.search(r"rankdir=TB.*c0 -> c4 \[", draw_dot(loss(), rankdir="TB").source, re.DOTALL)
    assert "".join(draw_dot(example(), folded=False).body) in draw_graph(example())


def test_a_large_graph_has_a_limit_of_its_own_where_every_value_is_drawn():
    root = nn.MLP(50, [50, 1], rng=1)([1.0] * 50)
    assert draw_dot(root).source.count("[label=") < 60
    with pytest.raises(ValueError, match="and the limit is 2000"):
        draw_dot(root, folded=False)
    assert draw_dot(root, folded=False, limit=10_000).source.count("data") > 2000


@pytest.mark.parametrize(("option", "name"), [({"rankdir": "X"}, "rankdir 'X'"), ({"format": "abc"}, "format: 'abc'")])
def test_an_unknown_option_is_refused_by_its_name(option, name):
    with pytest.raises(ValueError, match=name):
        draw_dot(example(), **option)


@dot_program
@pytest.mark.parametrize("format", ["svg", "png", "pdf"])
def test_graphviz_draws_where_it_is_installed(format, tmp_path):
    drawing = draw_dot(example(), format)
    drawn = drawing.pipe()
    assert drawing.render(filename="name", directory=tmp_path) == str(tmp_path / f"name.{format}")
    assert (tmp_path / f"name.{format}").read_bytes() == drawn or format == "pdf"  # which holds the time
    assert (tmp_path / "name").read_text() == drawing.source
    drawing.render(outfile=tmp_path / "other.svg")
    [shown] = drawing._repr_mimebundle_().values()
    for svg in shown, (tmp_path / "other.svg").read_text():
        assert words(*texts(svg)) == words(*texts(to_svg(example())))


@pytest.fixture
def without_dot(tmp_path_factory, monkeypatch):
    """A PATH that leads to no program."""
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("path")))


@pytest.mark.usefixtures("without_dot")
@pytest.mark.parametrize("folded", [True, False])
def test_where_it_is_not_installed_the_drawing_is_that_of_to_svg(tmp_path, folded):
    drawing, svg = draw_dot(example(), rankdir="TB", folded=folded), to_svg(example(), folded=folded)
    assert drawing._repr_mimebundle_() == {"image/svg+xml": svg}
    assert drawing.pipe() == svg.encode()
    for draw in (lambda: drawing.pipe("png"), lambda: drawing.render(tmp_path / "name")):
        with pytest.raises(RuntimeError, match="make sure the Graphviz executables are on your systems' PATH"):
            draw()


@dot_program
@random_examples(2)
@given(st.lists(TEXTS, min_size=100, max_size=100))
def test_any_text_is_found_literally_in_the_drawing(names):
    root = Value(0.0)
    expected = ["data 0"]
    for label, operation in zip(names[::2], names[1::2], strict=True):
        root = Value(0.0, (root,), operation, label=label)
        shown = label, SIGNS.get(operation, operation)
        lines = [line for name in shown for line in name.translate(VISIBLE).split("\n")]
        expected += [*lines, "data 0"]
    assert words(*texts(draw_dot(root, folded=False).pipe())) == words(*expected)
    assert words(*texts(draw_dot(root).pipe())) == words(*texts(to_svg(root)))


@dot_program
@pytest.mark.parametrize("root", [network, loss, recurrence])
def test_cards_say_the_same_with_graphviz_and_without(root):
    drawing, svg = draw_dot(root()).pipe().decode(), to_svg(root())
    assert words(*texts(drawing)) == words(*texts(svg))
    patterns = {'a xlink:title="(.*?)"': drawing, "(?s)<g [^>]*><title>(.*?)</title>": svg}
    titles = [sorted(map(unescape, re.findall(pattern, text))) for pattern, text in patterns.items()]
    assert titles[0] == titles[1]  # where the pointer rests


# Files


def test_save_svg_writes_the_drawing_and_nothing_else(tmp_path):
    (tmp_path / "a.svg").write_text("before")
    save_svg(example(), tmp_path / "a.svg")
    save_svg(example(), str(tmp_path / "b.svg"))
    assert (tmp_path / "a.svg").read_text() == (tmp_path / "b.svg").read_text() == to_svg(example())
    assert sorted(os.listdir(tmp_path)) == ["a.svg", "b.svg"]


@pytest.mark.parametrize(("save", "name", "remedy"), [
    (save_svg, "y.png", r"SVG: name the file 'y.svg', not 'y.png'; .*draw_dot\(root, 'png'\).*outfile='y.png'"),
    (viz.save_html, "y.svg", "HTML: name the file 'y.html', not 'y.svg'$"),
])  # fmt: skip
def test_the_name_of_a_file_decides_its_kind_and_swapped_arguments_are_an_error(tmp_path, save, name, remedy):
    with pytest.raises(ValueError, match=remedy):
        save(example(), tmp_path / name)
    expected = r"^path is Value\(.*: expected the name of a file, such as 'drawing.(svg|html)'$"
    with pytest.raises(TypeError, match=expected):
        save(tmp_path / name, example())
    assert os.listdir(tmp_path) == []
