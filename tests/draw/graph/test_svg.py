"""The folded drawing as SVG."""

import re
import xml.etree.ElementTree as ElementTree
from fractions import Fraction
from itertools import combinations, pairwise

import pytest
from hypothesis import given

from micrograd import Value, dot, mean, nn
from micrograd import sum as total
from micrograd.draw import text
from micrograd.draw.graph import card as shape
from micrograd.draw.graph.drawn import SIGNS
from micrograd.viz import draw_graph, to_svg
from tests.draw.graphs import TEXTS, VISIBLE, chain, example, expression, hostile, loss, network, recurrence
from tests.helpers import random_examples

SVG = "{http://www.w3.org/2000/svg}"


def boxes(drawing):
    """The cards of a drawing: their kind, place and size, and the texts in them, with place and anchor."""
    found = []
    for g in ElementTree.fromstring(drawing).iter(f"{SVG}g"):
        x, y = map(float, re.findall(r"[\d.]+", g.get("transform")))
        rect = g.findall(f"{SVG}rect")[-1]
        width, height = float(rect.get("width")), float(rect.get("height"))
        found.append((g.get("class"), x, y, width, height, g.findall(f"{SVG}text")))
    return found


def cards(root):
    """What is written in each card."""
    return [[t.text for t in words if t.text] for *_, words in boxes(to_svg(root))]


def sides(word):
    """Where a text begins and ends."""
    length = text.width(word.text or "") * shape.SIZES[word.get("class").split()[0]]
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
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height
        for word in words:
            left, right = sides(word)
            assert 2 <= left <= right <= w - 2
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
    assert list(map(" ".join, cards(example()))) == ["x 3 grad 5", "y 1 grad −3", "− 2 grad 3", "× 6 grad 1"]


def test_a_neuron_that_is_written_out_is_one_card_too_unless_its_parts_have_names():
    w, x, b = [Value(0.5), Value(-2.0)], [Value(1.0, label="x1"), Value(2.0, label="x2")], Value(0.25)
    expected = [["x1", "1"], ["x2", "2"], ["out", "tanh", "−0.997", "0.5", "w0", "−2", "w1", "0.25", "b"]]
    assert cards((w[0] * x[0] + x[1] * w[1] + b).tanh()) != expected  # of two leaves the first is the weight
    assert cards(sum((wi * xi for wi, xi in zip(w, x, strict=True)), b).tanh()) == expected
    assert cards((b + (w[0] * x[0] + w[1] * x[1])).tanh()) == expected
    assert len(cards((w[0] * x[0] + w[1] * x[1]).tanh())) == 3
    named = w[0] * x[0]
    named.label = "w1x1"
    product = w[0] * x[0]
    for root in named + w[1] * x[1], product + b, product + b + w[1] * x[1] + b, product + x[1] * x[1]:
        assert len(cards(root.tanh())) >= 5


def test_what_is_used_again_or_named_or_of_the_user_s_own_making_is_no_part_of_a_neuron():
    w, x = [Value(0.5)], [Value(1.0)]
    used, named = dot(w, x), dot(w, x)
    named.label = "n"
    own = Value(1.0, (dot(w, x),), "own")
    for root in (used * used.tanh(), named.tanh(), own, dot(w, x).tanh().exp()):
        assert len(cards(root)) == 3 + (root._op == "*")
    assert len(cards(Value(1.0, (*w, *x, *x), "dot"))) == 3
    a, y = Value(2.0, label="a").exp(), Value(3.0, label="y")  # what is computed, or stands on both sides, is no weight
    assert [words[0] for words in cards(dot([a], [y]))] == ["a", "exp", "out"]
    assert len(cards(dot([a], [a.exp()], a))) == 4
    assert len(cards(dot([*x, y], [*x, y]))) == 3


def test_a_number_beside_an_operation_is_written_into_it_and_has_no_gradient():
    x = Value(3.0)
    y = (2 - (x * 4) ** 2) / 8
    y.backward()
    assert [words[0] for words in cards(y)] == ["3", "× 4", "^ 2", "2 −", "÷ 8"]
    assert ["2.5"] in cards(total([x, 2.5, x + 1]))


@pytest.mark.parametrize(("number", "in_full", "shown"), [
    (-0.000123456, "−0.0001235", "−0.00012"), (-1.23456e-300, "−1.235e−300", "−1e−300"), (1.5e7, "1.5e7", "1.5e7"),
    (Fraction(-1, 3), "−1/3", "−1/3"), (Fraction(-123456, 654321), "−41152/218107", "−0.1887"),
    (Fraction(-1, 10**4000), "−1e−4000", "−1e−4000"), (123456, "123456", "123456"), (2.0, "2", "2"),
    (float("nan"), "nan", "nan"), (float("-inf"), "−inf", "−inf"), (10**400, "1.000e400", "1.0e400"),
])  # fmt: skip
def test_numbers_have_four_digits_or_on_cards_as_many_as_there_is_room_for(number, in_full, shown):
    assert (text.number(number), text.number(number, 7)) == (in_full, shown)
    assert f"data {in_full}}}" in draw_graph(Value(number))


def test_a_mean_or_sum_of_examples_is_drawn_as_a_stack_with_the_first_on_top_also_inside_another():
    svg = to_svg(loss())
    assert [words[:2] for words in cards(loss())][-3:] == [["− 1", "−1.128"], ["^ 2", "1.272"], ["loss", "mean of 4"]]
    assert len(boxes(svg)) == 10
    assert svg.count("<rect") == 3 * 9 + 1
    assert len(cards(total(loss() * 1.0 for _ in range(3)))) == 12
    w = Value(2.0, label="w")
    root = mean(total((w * x) ** 2 for x in (Value(i + j), Value(1.0), Value(j))) for i, j in ((1, 2), (3, 4)))
    assert [words[0] for words in cards(root)] == ["w", "3", "×", "^ 2", "sum of 3", "mean of 2"]


def test_weights_have_their_sign_as_colour_and_as_dashes_and_their_size_as_thickness():
    x = [Value(1.0) for _ in range(3)]

    def drawn(*weights):
        return re.findall(r'<path class="(.*?)" stroke-width="(.*?)"', to_svg(dot(map(Value, weights), x, 1.0)))

    assert drawn(0.5, -2.0, float("nan")) == [("edge up", "1.3"), ("edge down", "2.8"), ("edge", "1.2")]
    assert drawn(0.0, 0, Fraction(0)) == [("edge up", "1.2")] * 3
    assert drawn(1, float("-inf"), 1.0) == [("edge up", "2.8"), ("edge down", "1.2"), ("edge up", "2.8")]
    assert drawn(1.7e308, -1e308, 1e-300) == [("edge up", "2.8"), ("edge down", "1.98"), ("edge up", "0.8")]
    huge = Value(1.0, (Value(10**400), Value(2.0), Value(0.0)), "dot", dot([1], [1])._backward)
    assert '<path class="edge up" stroke-width="1.2"' in to_svg(huge)
    style = ElementTree.fromstring(to_svg(x[0])).find(f"{SVG}style").text
    assert re.search(r"\.down\{[^}]*stroke-dasharray", style)
    assert "prefers-color-scheme:dark" in style


def test_a_graph_of_any_size_is_a_drawing_that_can_be_read():
    network = nn.MLP(100, [50, 30, 1])
    for root in recurrence(1000), network([0.0] * 100), total(Value(1.0).exp() * i for i in range(99)):
        assert 1 < len(boxes(to_svg(root))) <= 2 * 16 * 16
        assert float(ElementTree.fromstring(to_svg(root)).get("width")) < 3000


def test_a_long_chain_shows_its_first_input_and_its_last_result_with_their_numbers():
    root = chain(lambda y, _: y.sin(), 120, Value(0.25, label="x"))
    first, *groups, last = cards(root)
    assert (first, last) == (["x", "0.25"], ["sin", f"{root.data:.4g}"])
    assert [words[0] for words in groups] == ["operations"] * 11


def test_a_wide_layer_shows_a_few_units_and_their_weights_and_how_many_more_there_are():
    svg = to_svg(nn.MLP(32, [48, 1], rng=1)([1.0] * 32))
    found = [[t.text for t in words] for *_, words in boxes(svg)]
    assert [words[0] for words in found[8:-1]] == [*(f"h1[{i}]" for i in range(7)), "tanh: 41 more"]
    assert found[7] == ["25 more inputs", "25 Values"]
    assert len(re.findall(r"edge (?:up|down)", svg)) == 7 * 7 + 7
    assert svg.count('class="edge"') == 7 + 7 + 1 + 1  # one for many weights
    kinds = ("sin", "cos", "tan", "exp", "sinh", "cosh", "tanh", "atan", "relu")
    root = total(getattr(Value(1.0), kind)() * 2.5 ** (i + 1) for kind in kinds for i in range(2))
    assert [f"{kind}: 2" for kind in kinds] == [words[0] for words in cards(root) if words[0].endswith(": 2")]


@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize("root", [expression, network, loss, recurrence])
def test_an_edge_passes_cards_at_one_height_and_never_through_them(root, folded):
    svg = to_svg(root(), folded=folded)
    found = boxes(svg)
    for path in re.findall(r'class="edge.*? d="(.*?)m-4', svg):
        *passed, _ = re.findall(r"C[\d ]* (\d+) (\d+)(?:H(\d+))?", path)
        assert len(passed) <= 1
        for left, level, right in [tuple(map(float, ends)) for ends in passed]:
            assert not any(x < right and left < x + w and y < level < y + h for _, x, y, w, h, _ in found)


def test_a_card_says_in_full_what_it_stands_for_where_the_pointer_rests():
    titles = [t.text for t in ElementTree.fromstring(to_svg(example())).iter(f"{SVG}title")]
    assert titles[0] == "The graph that leads to a Value: 4 Values, 2 operations"
    assert titles[1:] == ["x: data 3, grad 5", "y: data 1, grad −3", "−: data 2, grad 3", "×: data 6, grad 1"]
    *_, many = ElementTree.fromstring(to_svg(nn.Neuron(50, rng=1)([1.0] * 50))).iter(f"{SVG}title")
    names = [line.split(":")[0] for line in many.text.split("\n")]
    assert names == ["out = tanh", "out.z = dot", "out.b", *(f"out.w{i}" for i in range(49, 12, -1)), "and 13 more"]


def test_gradients_of_an_earlier_pass_are_not_shown_as_those_of_a_new_graph():
    x = Value(2.0, label="x")
    (x * 3).backward()
    again = x * 4
    assert cards(again) == [["x", "2"], ["× 4", "8"]]
    assert "grad" not in draw_graph(again)
    again.backward()
    assert cards(again) == [["x", "2", "grad", "7"], ["× 4", "8", "grad", "1"]]
    assert "grad 7" in draw_graph(again)


@random_examples(20)
@given(TEXTS, TEXTS)
def test_any_text_is_found_literally_in_the_folded_drawing(name, operation):
    root = Value(0.0, (Value(0.0, label=name),), operation, label="")
    titles = [t.text for t in ElementTree.fromstring(to_svg(root)).iter(f"{SVG}title")]
    name, operation = (t.translate(VISIBLE) for t in (name, SIGNS.get(operation, operation)))
    assert titles[1:] == [f"{name or 'leaf'}: data 0", f"{operation or 'leaf'}: data 0"]
