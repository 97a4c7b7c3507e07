"""The drawings: their DOT text, their SVG, and the programs that convert one into the other."""

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from fractions import Fraction
from functools import partial
from itertools import combinations, pairwise

import graphviz
import pytest
from hypothesis import given
from hypothesis import strategies as st

from micrograd import Value, dot, mean, nn, viz
from micrograd import sum as total
from micrograd.draw import text
from micrograd.draw.graph import card as shape
from micrograd.draw.shell import COLOURS
from micrograd.viz import draw_dot, draw_graph, save_svg, to_svg
from tests.helpers import random_examples

dot_program = pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz's program dot is not installed")


def example():
    """(x - y) * x, with gradients."""
    x, y = Value(3.0, label="x"), Value(1.0, label="y")
    z = (x - y) * x
    z.backward()
    return z


def texts(svg):
    """The texts of a drawing."""
    return [t.text for t in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


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
    assert nodes(draw_graph(Value(2.0, label="x"))) == ([("n0", "{x|data 2}")], [])


@pytest.mark.parametrize("draw", [draw_graph, to_svg])
def test_the_drawing_is_the_same_from_run_to_run(draw):
    program = f"from micrograd import nn, viz; print(viz.{draw.__name__}(nn.MLP(2, [4, 1], rng=1)([1.0, 2.0])), end='')"
    runs = {
        subprocess.run([sys.executable, "-c", program], env={"PYTHONHASHSEED": seed, "PYTHONPATH": os.getcwd()},
                       capture_output=True, check=True, text=True).stdout
        for seed in "01"
    }  # fmt: skip
    assert runs == {draw(nn.MLP(2, [4, 1], rng=1)([1.0, 2.0]))}


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
    assert nodes(draw_graph(Value(number)))[0] == [("n0", f"{{data {text}}}")]


def test_a_derivative_of_a_derivative_is_drawn_by_its_number():
    x = Value(1.0)
    x.data, x.grad = Value(Value(2.5).data, label="inner"), Value(0.5)
    assert nodes(draw_graph(x))[0] == [("n0", "{data 2.5|grad 0.5}")]


def test_a_gradient_that_is_no_number_is_shown_as_its_text():
    x = Value(1.0)
    x.grad = None
    assert nodes(draw_graph(x))[0] == [("n0", "{data 1|grad None}")]


@dot_program
def test_a_deep_chain_below_the_limit_is_drawn():
    x = chain(lambda y, _: y.sin(), 1999)
    assert draw_dot(x).pipe().count(b'class="node"') == 2 * 2000 - 1


SAVE_SVG, SAVE_HTML = partial(save_svg, path=os.devnull), partial(viz.save_html, path=os.devnull)


@pytest.mark.parametrize(
    ("draw", "limit"),
    [(draw_graph, 2000), (draw_dot, 2000), (to_svg, 200_000), (SAVE_SVG, 200_000), (SAVE_HTML, 200_000)],
)
def test_a_graph_too_large_to_draw_is_refused_with_its_size_the_limit_and_the_remedy(draw, limit):
    told = (
        f"^the graph has {limit + 1} Values, and the limit is {limit}: draw a part of it, .* or pass limit={limit + 1}$"
    )
    with pytest.raises(ValueError, match=told):
        draw(chain(lambda y, _: -y, limit))
    x = Value(1.0) + 2.0
    draw(x, limit=3)
    with pytest.raises(ValueError, match="the graph has 3 Values, and the limit is 2: "):
        draw(x, limit=2)


def test_what_is_no_value_is_refused_by_its_type():
    for draw in (draw_graph, draw_dot, to_svg):
        with pytest.raises(TypeError, match="of type list: expected a single Value"):
            draw([Value(1.0)])


def test_the_operands_of_a_dot_are_in_pairs_and_marked():
    w, x, b = [Value(1.0, label=f"w{i}") for i in range(2)], [Value(2.0, label=f"x{i}") for i in range(2)], Value(3.0)
    b.label = "b"
    drawing = draw_graph(dot(w, x, b))
    named = {name: label[1:].split("|")[0] for name, label in nodes(drawing)[0]}
    marked = re.findall(r'(\w+) -> op_\w+ \[label="(\w+)"', drawing)
    assert [role for _, role in marked] == [named[name] for name, _ in marked] == ["w0", "x0", "w1", "x1", "b"]
    assert "label" not in draw_graph(Value(0.0, (*w, b), "dot")).split("->")[1]


def test_a_number_beside_a_value_has_no_gradient_and_before_any_backward_nothing_has():
    y = Value(3.0) * 2
    assert [label for _, label in nodes(draw_graph(y))[0]] == ["{data 3}", "{data 2}", "{data 6}", "*"]
    y.backward()
    labels = [label for _, label in nodes(draw_graph(y))[0]]
    assert labels == ["{data 3|grad 2}", "{data 2}", "{data 6|grad 1}", "*"]


@dot_program
def test_the_circles_of_all_operations_are_of_one_size():
    x = Value(0.5)
    drawing = draw_dot(total([x + 1, x.tanh(), x.sigmoid(), x.softplus()])).pipe()
    assert len(set(re.findall(r'<ellipse [^>]*rx="([\d.]+)"', drawing.decode()))) == 1


def test_the_background_of_a_drawing_is_the_page_s():
    assert 'bgcolor="transparent"' in draw_graph(example())


# Any text is safe


VISIBLE = {c: symbol for c, symbol in text.CONTROLS.items() if c != 10}
nasty = st.one_of(
    st.text(st.characters(exclude_categories=())),
    st.text(st.sampled_from('\\{}|<>" &;#nlrNGETHL\n\r\t\0abc-')),
    st.sampled_from(
        [
            '<script>alert("1")</script>',
            "&lt;",
            "&#92;n",
            "a\\",
            "\\N",
            "{",
            "<<b>x</b>>",
            "]]>",
            "-->",
            "%s",
            "| <f0>",
            'n0 [label="{x|data 3}"]\n\tn0 -> n1\n}',
            "größe 重み \u202e\u2028\ufeff\U0001f600 \ud800",
            "\u00a1" * 200,
        ]
    ),
)


@dot_program
@random_examples(2)
@given(st.lists(nasty, min_size=100, max_size=100))
def test_any_text_is_found_literally_in_the_drawing(names):
    root = Value(0.0)
    expected = ["data 0"]
    for label, operation in zip(names[::2], names[1::2], strict=True):
        root = Value(0.0, (root,), operation, label=label)
        lines = [line for name in (label, operation) for line in name.translate(VISIBLE).split("\n")]
        expected += [*lines, "data 0"]

    def words(lines):
        """The lines without their spaces, of which Graphviz drops some."""
        return sorted(filter(None, (re.sub(r"\s", "", line) for line in lines)))

    assert words(texts(draw_dot(root).pipe())) == words(expected)


def test_a_label_of_letters_is_itself_in_the_text():
    assert "{größe ∂L/∂w 重み|data 1}" in draw_graph(Value(1.0, label="größe ∂L/∂w 重み"))


def test_a_label_that_is_no_string_is_shown_as_its_text():
    x = Value(1.0)
    x.label = 3
    assert "{3|data 1}" in draw_graph(x)


# Graphviz's Digraph


def test_draw_dot_is_a_digraph_of_the_same_nodes_and_edges_as_draw_graph():
    drawing = draw_dot(example())
    assert isinstance(drawing, graphviz.Digraph)
    assert nodes(drawing.source) == nodes(draw_graph(example()))
    assert drawing.format == "svg"


def test_a_drawing_can_run_from_top_to_bottom():
    assert "rankdir=TB" in draw_dot(example(), rankdir="TB").source


@pytest.mark.parametrize(
    ("option", "name"), [({"rankdir": "XY"}, "rankdir 'XY'"), ({"format": "abc"}, "format: 'abc'")]
)
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
    written = ["x", "data 3", "grad 5", "y", "data 1", "grad -3", "data 2", "grad 3", "-", "data 6", "grad 1", "*"]
    assert sorted(texts(shown)) == sorted(texts((tmp_path / "other.svg").read_text())) == sorted(written)


@pytest.fixture
def without_dot(tmp_path_factory, monkeypatch):
    """A PATH that leads to no program."""
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("path")))


@pytest.mark.usefixtures("without_dot")
def test_where_it_is_not_installed_the_drawing_is_that_of_to_svg(tmp_path):
    drawing, svg = draw_dot(example(), rankdir="TB"), to_svg(example())
    assert drawing._repr_mimebundle_() == {"image/svg+xml": svg}
    assert drawing.pipe() == svg.encode()
    assert drawing.render(filename="name", directory=tmp_path) == str(tmp_path / "name.svg")
    assert drawing.render(outfile=tmp_path / "other.svg") == str(tmp_path / "other.svg")
    assert (tmp_path / "name.svg").read_text() == (tmp_path / "other.svg").read_text() == svg
    assert (tmp_path / "name").read_text() == drawing.source
    for draw in (
        lambda: drawing.pipe("png"),
        lambda: drawing.render(tmp_path / "name", format="png"),
        lambda: drawing.render(outfile=tmp_path / "name.png"),
    ):
        with pytest.raises(RuntimeError, match="make sure the Graphviz executables are on your systems' PATH"):
            draw()


def chain(step, n):
    y, x = Value(1.0), Value(2.0)
    for _ in range(n):
        y = step(y, x)
    return y


def test_a_value_that_is_used_in_every_step_of_a_long_computation_is_drawn_in_haste():
    assert "nslimit" in draw_graph(chain(lambda y, x: y * 0.5 + x, 75))
    assert "nslimit" not in draw_graph(chain(lambda y, x: y.sin(), 300))


def test_graphviz_is_imported_only_when_it_is_needed():
    program = (
        "import sys; from micrograd import Value, viz; viz.draw_graph(Value(1.0)); viz.to_svg(Value(1.0))\n"
        "assert 'graphviz' not in sys.modules"
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
        raise OSError(28, "disk full")

    (tmp_path / "a.svg").write_text("before")
    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OSError, match="disk full"):
        save_svg(example(), tmp_path / "a.svg")
    assert os.listdir(tmp_path) == ["a.svg"]
    assert (tmp_path / "a.svg").read_text() == "before"


@pytest.mark.parametrize(
    ("save", "name", "remedy"),
    [
        (save_svg, "y.png", r"SVG: name the file 'y.svg', not 'y.png'; .*draw_dot\(root, 'png'\).*outfile='y.png'"),
        (viz.save_html, "y.svg", "HTML: name the file 'y.html', not 'y.svg'$"),
    ],
)
def test_a_file_is_of_the_kind_that_its_name_says(tmp_path, save, name, remedy):
    with pytest.raises(ValueError, match=remedy):
        save(example(), tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_the_name_of_a_file_may_end_in_capitals_or_not_at_all(tmp_path):
    for name in ("y.SVG", "y", "y_0.01"):
        save_svg(example(), tmp_path / name)
    viz.save_html(example(), tmp_path / "y.htm")


def test_lines_of_the_largest_numbers_are_as_thick_as_any():
    huge = [Value(1.7e308), Value(-1e308)]
    result = dot(huge, [Value(1e-300), Value(1e-305)], Value(0.5)).tanh()
    result.backward()
    assert not re.search(r'stroke-width="(inf|nan)"', to_svg(result))
    assert 'stroke-width="2.8"' in to_svg(result)


def test_save_svg_writes_through_a_symbolic_link(tmp_path):
    (tmp_path / "link.svg").symlink_to(tmp_path / "file.svg")
    save_svg(example(), tmp_path / "link.svg")
    assert (tmp_path / "link.svg").is_symlink()
    assert (tmp_path / "file.svg").read_text() == to_svg(example())


# The folded drawing

SVG = "{http://www.w3.org/2000/svg}"


def network(nin=3, nouts=(4, 4, 1)):
    """The prediction of a network with labelled inputs, after `backward()`."""
    model = nn.MLP(nin, nouts, output="tanh", rng=1)
    prediction = model([Value(float(i + 1), label=f"x{i + 1}") for i in range(nin)])
    prediction.label = "prediction"
    prediction.backward()
    return prediction


def loss(n=4):
    """The mean squared error of a network over some examples, after `backward()`."""
    model = nn.MLP(2, [4, 1], rng=1)
    result = mean((model([i / n, i % 2]) - float(i)) ** 2 for i in range(n))
    result.backward()
    return result


def recurrence(n=100):
    """h = sin(w h) + u x, with an x for each step."""
    w, u, h = Value(0.9, label="w"), Value(0.5, label="u"), Value(0.0, label="h0")
    for i in range(n):
        h = (w * h).sin() + u * Value(0.1 * i, label=f"x{i}")
    h.backward()
    return h


def hostile():
    """Labels, operations and numbers that no drawing expects."""
    x, y = Value(float("nan"), label="<script>alert(1)</script>"), Value(Fraction(1, 3), label='重み\x00\ud800"&]]>')
    z = x * Value(float("-inf"), label="W" * 200) + y
    z.label = "</script><img src=x>"
    return Value(10**400, (z * Fraction(1, 10**7),), "<b>cube", lambda grad: None)


def boxes(drawing):
    """The cards of a drawing: their kind, place and size, and the texts in them, with place and anchor."""
    found = []
    for g in ElementTree.fromstring(drawing).iter(f"{SVG}g"):
        x, y = map(float, re.findall(r"[\d.]+", g.get("transform")))
        rect = g.findall(f"{SVG}rect")[-1]
        found.append(
            (g.get("class"), x, y, float(rect.get("width")), float(rect.get("height")), g.findall(f"{SVG}text"))
        )
    return found


def cards(root):
    """What is written in each card."""
    return [[t.text for t in words if t.text] for *_, words in boxes(to_svg(root))]


def sides(word):
    """Where a text begins and ends."""
    length = float(word.get("textLength") or text.width(word.text or "") * shape.SIZES[word.get("class").split()[0]])
    at = float(word.get("x"))
    return (at - length, at) if word.get("text-anchor") else (at, at + length)


@pytest.mark.parametrize("root", [example, network, loss, recurrence, hostile, lambda: Value(1.0)])
def test_boxes_do_not_overlap_and_hold_their_texts_in_any_font(root):
    root = root()
    svg = to_svg(root)
    width, height = (float(ElementTree.fromstring(svg).get(side)) for side in ("width", "height"))
    found = boxes(svg)
    assert found
    for _, x, y, w, h, words in found:
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
        for word in words:
            left, right = sides(word)
            assert left >= 2
            assert right <= w - 2
            assert 10 <= float(word.get("y")) <= h - 3
        rows = sorted((float(word.get("y")), *sides(word)) for word in words)
        assert all(right <= left for (y1, _, right), (y2, left, _) in pairwise(rows) if y1 == y2)
    for (_, x1, y1, w1, h1, _), (_, x2, y2, w2, h2, _) in combinations(found, 2):
        assert x1 + w1 <= x2 or x2 + w2 <= x1 or y1 + h1 <= y2 or y2 + h2 <= y1


def test_a_neuron_is_one_card_with_its_weights_and_bias_and_an_expression_is_as_it_is():
    w, b, x = [Value(0.5), Value(-2.0)], Value(0.25), [Value(1.0, label="x1"), Value(2.0, label="x2")]
    rows = ["0.5", "w0", "−2", "w1"]
    assert cards(dot(w, x, b).tanh()) == [["x1", "1"], ["x2", "2"], ["out", "tanh", "−0.997", *rows, "0.25", "b"]]
    assert cards(dot(w, x).exp()) == [["x1", "1"], ["x2", "2"], ["out", "exp", "0.0302", *rows]]
    assert cards(example()) == [
        ["x", "3", "grad", "5"],
        ["y", "1", "grad", "−3"],
        ["−", "2", "grad", "3"],
        ["×", "6", "grad", "1"],
    ]


def test_a_neuron_that_is_written_out_is_one_card_too_unless_its_parts_have_names():
    w, x, b = [Value(0.5), Value(-2.0)], [Value(1.0, label="x1"), Value(2.0, label="x2")], Value(0.25)
    expected = [["x1", "1"], ["x2", "2"], ["out", "tanh", "−0.997", "0.5", "w0", "−2", "w1", "0.25", "b"]]
    assert cards((w[0] * x[0] + x[1] * w[1] + b).tanh()) != expected  # of two leaves the first is the weight
    assert cards(sum((wi * xi for wi, xi in zip(w, x, strict=True)), b).tanh()) == expected
    assert cards((b + (w[0] * x[0] + w[1] * x[1])).tanh()) == expected
    assert len(cards((w[0] * x[0] + w[1] * x[1]).tanh())) == 3
    named = w[0] * x[0]
    named.label = "w1x1"
    for total_of in (
        named + w[1] * x[1],
        w[0] * x[0] + b,
        w[0] * x[0] + b + w[1] * x[1] + b,
        w[0] * x[0] + x[1] * x[1],
    ):
        assert len(cards(total_of.tanh())) >= 5


def test_what_is_used_again_or_named_or_of_the_user_s_own_making_is_no_part_of_a_neuron():
    w, x = [Value(0.5)], [Value(1.0)]
    used, named = dot(w, x), dot(w, x)
    named.label = "n"
    own = Value(1.0, (dot(w, x),), "own")
    for root in (used * used.tanh(), named.tanh(), own, dot(w, x).tanh().exp()):
        assert len(cards(root)) == 3 + (root._op == "*")
    assert len(cards(Value(1.0, (*w, *x, *x), "dot"))) == 3


def test_a_factor_that_is_no_leaf_is_no_weight():
    a, x, y = Value(2.0, label="a").exp(), Value(3.0, label="x"), Value(4.0)
    assert [words[0] for words in cards(dot([a], [x]))] == ["a", "exp", "out"]
    assert len(cards(dot([a], [a.exp()], a))) == 4
    assert len(cards(dot([x, y], [x, y]))) == 3


def test_a_number_beside_an_operation_is_written_into_it_and_has_no_gradient():
    x = Value(3.0)
    y = (2 - (x * 4) ** 2) / 8
    y.backward()
    assert [words[0] for words in cards(y)] == ["3", "× 4", "** 2", "2 −", "÷ 8"]
    assert ["2.5"] in cards(total([x, 2.5, x + 1]))


def test_of_the_examples_of_a_mean_or_sum_the_first_is_drawn_as_a_stack():
    svg = to_svg(loss())
    assert [words[0] for words in cards(loss())][-3:] == ["− 0", "** 2", "mean of 4"]
    assert len(boxes(svg)) == 10
    assert svg.count("<rect") == 3 * 9 + 1
    assert len(cards(total(loss() * 1.0 for _ in range(3)))) == 12


def test_examples_that_are_not_alike_or_share_what_they_compute_are_drawn_as_they_are():
    x, y = Value(1.0), Value(2.0)
    shared = (x * y).exp()
    assert len(cards(total([x.exp(), y.sin()]))) == 5
    assert len(cards(total([shared.tanh(), shared.exp().log()]))) == 8
    assert len(cards(total([shared.tanh(), shared.tanh() + x]))) == 8
    assert len(cards(total([x.exp() * x.sin(), x.exp() * y.sin()]))) == 9
    assert len(cards(total([shared.exp().tanh(), shared.exp().tanh()]))) == 7
    assert len(cards(total([x, y]))) == 3
    inner = x.exp()
    assert len(cards(total([inner.tanh(), y.exp().tanh()]) * inner)) == 8


def test_examples_of_examples_are_stacks_of_stacks():
    w = Value(2.0, label="w")
    root = mean(total((w * x) ** 2 for x in (Value(i + j), Value(1.0), Value(j))) for i, j in ((1, 2), (3, 4)))
    assert [words[0] for words in cards(root)] == ["w", "3", "×", "** 2", "sum of 3", "mean of 2"]


def test_mlp_3_4_4_1_is_twelve_cards_in_the_width_of_a_column_of_text():
    svg = to_svg(network())
    assert len(boxes(svg)) == 12
    assert float(ElementTree.fromstring(svg).get("width")) <= 838
    assert [words[-1] for words in cards(network())].count("b") == 9


def test_before_any_backward_no_gradient_is_drawn():
    assert cards(Value(2.0, label="x") * 3) == [["x", "2"], ["× 3", "6"]]


def test_weights_have_their_sign_as_colour_and_as_dashes_and_their_size_as_thickness():
    x = [Value(1.0) for _ in range(3)]

    def drawn(*weights):
        return re.findall(r'<path class="(.*?)" stroke-width="(.*?)"', to_svg(dot(map(Value, weights), x, 1.0)))

    assert drawn(0.5, -2.0, float("nan")) == [("edge up", "1.3"), ("edge down", "2.8"), ("edge", "1.2")]
    assert drawn(0.0, 0, Fraction(0)) == [("edge up", "1.2")] * 3
    assert drawn(1, float("-inf"), 1.0) == [("edge up", "2.8"), ("edge down", "1.2"), ("edge up", "2.8")]
    huge = Value(1.0, (Value(10**400), Value(2.0), Value(0.0)), "dot", dot([1], [1])._backward)
    assert '<path class="edge up" stroke-width="1.2"' in to_svg(huge)
    style = ElementTree.fromstring(to_svg(x[0])).find(f"{SVG}style").text
    assert re.search(r"\.down\{[^}]*stroke-dasharray", style)
    assert "prefers-color-scheme:dark" in style


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return sum(k * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4)
               for k, c in zip((0.2126, 0.7152, 0.0722), parts, strict=True))  # fmt: skip


@pytest.mark.parametrize("theme", [0, 1])
def test_texts_contrast_with_their_cards_and_edges_with_any_page(theme):
    def contrast(a, b):
        low, high = sorted((luminance(a), luminance(b)))
        return (high + 0.05) / (low + 0.05)

    colours = {name: pair[theme] for name, pair in COLOURS.items()}
    for text_colour in ("ink", "soft", "plus", "minus"):
        for card in ("node", "leaf", "root"):
            assert contrast(colours[text_colour], colours[card]) >= 4.5
    for line in ("line", "up", "down"):
        assert contrast(colours[line], ("#ffffff", "#0d1117")[theme]) >= 3


def test_a_graph_of_any_size_is_a_drawing_that_can_be_read():
    for root in (
        recurrence(1000),
        nn.MLP(100, [50, 30, 1])([0.0] * 100),
        total(Value(1.0).exp() * i for i in range(99)),
    ):
        assert 1 < len(boxes(to_svg(root))) <= 2 * 16 * 16
        assert float(ElementTree.fromstring(to_svg(root)).get("width")) < 3000


def test_a_card_says_in_full_what_it_stands_for_where_the_pointer_rests():
    titles = [t.text for t in ElementTree.fromstring(to_svg(example())).iter(f"{SVG}title")]
    assert titles[0] == "The graph that leads to a Value: 4 Values, 2 operations"
    assert titles[1:] == ["x: data 3, grad 5", "y: data 1, grad -3", "-: data 2, grad 3", "*: data 6, grad 1"]


@random_examples(20)
@given(nasty, nasty)
def test_any_text_is_found_literally_in_the_folded_drawing(name, operation):
    root = Value(0.0, (Value(0.0, label=name),), operation, label="")
    titles = [t.text for t in ElementTree.fromstring(to_svg(root)).iter(f"{SVG}title")]
    name, operation = (t.translate({c: s for c, s in text.CONTROLS.items() if c != 10}) for t in (name, operation))
    assert titles[1:] == [
        f"{name or 'leaf'}: data 0",
        f"{operation or 'leaf'}: data 0",
    ]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (-0.000123456, "−0.0001"),
        (-1.23456e-300, "−1e−300"),
        (1.5e7, "1.5e7"),
        (Fraction(-1, 3), "−1/3"),
        (Fraction(-123456, 654321), "−0.1887"),
        (Fraction(-1, 10**4000), "−1e−4000"),
        (123456, "123456"),
    ],
)
def test_numbers_on_cards_have_as_many_digits_as_there_is_room_for(number, shown):
    assert text.number(number, 7) == shown


@pytest.mark.parametrize("save", [save_svg, viz.save_html])
def test_a_path_in_the_place_of_what_is_drawn_is_refused(save, tmp_path):
    with pytest.raises(TypeError):
        save(str(tmp_path / "drawing"), Value(1.0))


def test_gradients_of_an_earlier_pass_are_not_shown_as_those_of_a_new_graph():
    x = Value(2.0, label="x")
    (x * 3).backward()
    again = x * 4
    assert cards(again) == [["x", "2"], ["× 4", "8"]]
    assert "grad" not in draw_graph(again)
    again.backward()
    assert cards(again) == [["x", "2", "grad", "7"], ["× 4", "8", "grad", "1"]]
    assert "grad 7" in draw_graph(again)
