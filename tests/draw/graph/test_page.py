"""The page that steps through a graph: its contents, and its behaviour in a real browser."""

import json
import math
import operator
import os
import re
from fractions import Fraction
from pathlib import Path

import pytest

from micrograd import Value, dot, logsumexp, losses, maximum, mean, nn, scalar, take, viz, where
from micrograd import sum as total
from micrograd.draw.graph.formulas import TEXTBOOK
from micrograd.draw.network import described
from tests.draw.graphs import expression, hostile, loss, network, neuron, recurrence, ten_thousand
from tests.operations import OPERATIONS

GRAPHS = [expression, neuron, network, loss, recurrence]
ASKED = Path(__file__).with_name("asked.js").read_text(encoding="utf-8")


def page(root, tmp_path):
    """The text of a page, and the graph in it."""
    viz.save_html(root, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    return text, json.loads(re.search(r'id="graph">(.*?)</script>', text)[1])


def values_of(root):
    """The Values in the page's order."""
    nodes, leaves = root._topological_order()
    return leaves + nodes


# What is in it


def test_the_page_of_a_small_network_is_one_file_of_70_kilobytes_that_asks_for_nothing(tmp_path):
    text, _ = page(network(), tmp_path)
    assert len(text.encode()) <= 70_000
    assert set(re.findall(r"https?://[^\"'`\s]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in text
    assert os.listdir(tmp_path) == ["page.html"]


@pytest.mark.parametrize("label", ["</script><script>alert(1)</script>", "<!--", "&amp;", "\ud800\0", "\u2028", 3])
def test_no_label_or_operation_ends_the_script_that_holds_it(tmp_path, label):
    x = Value(1.0, label=label)
    text, graph = page(Value(2.0, (x,), str(label), lambda grad: None, label=label), tmp_path)
    assert text.count("<script") == 2
    assert text.count("</script>") == 2
    assert "alert(1)</title>" not in text
    assert graph["names"] == [re.sub("[\ud800\0]", "\ufffd", str(label))] * 2


def test_the_gradients_are_those_that_backward_left_or_would_leave(tmp_path):
    root = loss()
    _, graph = page(root, tmp_path)
    assert graph["called"]
    assert graph["grad"] == [value.grad for value in values_of(root)]
    again = nn.MLP(2, [2, 1], rng=1)([Value(1.0), 2.0])
    _, graph = page(again, tmp_path)
    assert not graph["called"]
    assert not any(value.grad for value in values_of(again))
    again.backward()
    assert graph["grad"] == [value.grad for value in values_of(again)]


def test_numbers_that_json_does_not_have_are_written_as_text(tmp_path):
    x, y = Value(float("nan")), Value(Fraction(1, 3))
    z = Value(10**400, (x * float("-inf"), y), "own", lambda grad: None)
    z.backward()
    _, graph = page(z, tmp_path)
    assert graph["data"] == ["nan", "-inf", 1 / 3, "nan", "inf"]
    assert graph["exact"] == {"2": "1/3", "4": "1.000e400"}
    x.data, x.grad = None, "none"
    with pytest.raises(TypeError, match="^a page computes with floats, and None cannot become one"):
        page(x, tmp_path)


@pytest.mark.parametrize(
    ("root", "error"),
    [(lambda: Value(1.0, (Value(2.0),), "own"), NotImplementedError), (lambda: Value(0.0).sqrt(), ZeroDivisionError)],
)
def test_a_graph_without_gradients_has_no_page(tmp_path, root, error):
    with pytest.raises(error):
        page(root(), tmp_path)


def test_what_a_users_own_operation_passes_on_is_shown(tmp_path):
    x, y = Value(2.0), Value(3.0)

    def _backward(grad):
        x.grad += grad * 5
        y.grad += grad * 7

    root = Value(1.0, (x, y, x), "own", _backward)
    root.backward(2)
    text, graph = page(root, tmp_path)
    assert graph["passed"] == {"2": [10.0, 14.0, 0.0]}
    assert "const FUNCTIONS = [null];" in text


def test_formulas_are_what_the_engine_computes(tmp_path):
    x, y = Value(2.0), Value(3.0)

    def formulas(root):
        return page(root, tmp_path)[1]["operations"][-1][1:]

    assert formulas(x.tanh()) == ["tanh({0})", ["1 − {y}²"]]
    assert formulas(x * y) == ["{0} × {1}", ["{1}", "{0}"]]
    assert formulas(x / y) == ["{0} ÷ {1}", ["1 ÷ {1}", "−{y} ÷ {1}"]]
    assert formulas(x - y) == ["{0} − {1}", ["1", "−1"]]
    assert formulas(x.hypot(y)) == ["hypot({0}, {1})", ["{0} ÷ {y}", "{1} ÷ {y}"]]
    assert formulas(logsumexp([x, y])) == ["log(exp({0}) + exp({1}))", ["exp({0} − {y})", "exp({1} − {y})"]]
    assert formulas(losses.softmax([x, y])[1]) == ["exp({0} − {1})", ["{y}", "−{y}"]]
    assert formulas(losses.log_softmax([x, y])[1]) == ["{0} − {1}", ["1", "−1"]]
    assert formulas(x.floor()) == ["floor({0})", ["0"]]
    assert formulas(x**3) == ["{0}³", ["3 × {0}²", "0"]]
    assert formulas(x**-0.5) == ["{0}^(−0.5)", ["(−0.5) × {0}^(−1.5)", "0"]]
    assert formulas(-x) == ["−{0}", ["−1"]]
    assert formulas(x.relu()) == ["relu({0})", ["0 if {0} ≤ 0, otherwise 1"]]
    assert formulas(maximum(x, y))[1][0] == "0 if {0} < {1}, 1 if {0} > {1}, otherwise 0.5"
    assert formulas(maximum(x, y, x))[0] == "max({0}, {1}, {2})"
    assert formulas(dot([x], [y], 1.0)) == ["{2} + {0} × {1}", ["{1}", "{0}", "1"]]
    assert formulas(where(False, x, y)) == ["{1}", ["0", "1"]]
    assert formulas(take([x, y], 1)) == ["{0}", ["1"]]
    assert formulas(total([x] * 17)) == ["", []]


@pytest.mark.parametrize("name", TEXTBOOK)
def test_a_formula_of_a_textbook_gives_what_the_engine_computes(name):
    xs = [Value(0.75), Value(-1.5)][: 1 if name == "tanh" else 2]
    operators = {"logsumexp": lambda *xs: logsumexp(xs), "//": operator.floordiv, "%": operator.mod}
    y = operators.get(name, getattr(Value, name, None))(*xs)
    y.backward()
    formula, slopes = TEXTBOOK[name](range(len(xs)))
    spelled = [text.translate({ord("÷"): "/", ord("−"): "-", ord("²"): "**2"}) for text in (formula, *slopes)]
    numbers = [f"({x.data})" for x in xs]
    found = [eval(text.format(*numbers, y=y.data), vars(scalar)) for text in spelled]
    assert found == pytest.approx([y.data, *[x.grad for x in xs]], rel=1e-14)


@pytest.mark.parametrize("graph", [
    lambda: nn.MLP(16, [40, 40, 1], rng=1)([0.5] * 16),
    lambda: recurrence(300),
    lambda: total(Value(1.0).exp() * i if i % 2 else Value(i).tanh() for i in range(300)),
    lambda: total(Value(float(i), (Value(1.0),), f"op{i}", lambda grad: None) for i in range(40)),
])  # fmt: skip
def test_a_graph_of_any_size_unfolds_piece_by_piece_into_views_that_can_be_read(tmp_path, graph):
    root = graph()
    _, graph = page(root, tmp_path)
    found = set()
    opened = []
    for _, place, items, _ in graph["views"]:
        corners, _, width, height = graph["places"][place]
        stubs = [item[1] == "stub" for item in items]
        assert len([stub for stub in stubs if not stub]) <= 16 * 16
        assert len([x for (x, _), stub in zip(corners, stubs, strict=True) if stub and x < width / 2]) <= 16
        assert all(x + 106 * (not stub) <= width and y <= height for (x, y), stub in zip(corners, stubs, strict=True))
        found |= {value for item in items if item[1] != "stub" for value in [*item[3], *item[5]]}
        opened += [item[4] for item in items if item[4] >= 0 and item[1] != "stub"]
    assert found == set(range(len(values_of(root))))
    assert sorted(opened) == list(range(1, len(graph["views"])))
    assert len(opened) > 2


# In a browser


@pytest.fixture
def visit(opened, tmp_path):
    """A function that shows the page of a graph."""

    def visit(root, fragment="", **options):
        path = tmp_path / "visited.html"
        viz.save_html(root, path)
        tab = opened(path, fragment, **options)
        tab.evaluate(ASKED)
        return tab

    return visit


def seek(tab, words):
    """Choose the next Value whose name or operation has these words."""
    tab.fill("#wanted", words)
    tab.keyboard.press("Enter")


def number(text):
    """A number as the page writes it."""
    return float(text.replace("−", "-"))


def close(a, b, tolerance=1e-12):
    if math.isfinite(a) and math.isfinite(b):
        return abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))
    return repr(a) == repr(b)


def passes(root):
    """The gradients after each step of the backward pass, in the page's order; constants have none."""
    values = values_of(root)
    for value in values:
        value.grad = 0.0
    root.grad = 1.0
    yield [value.grad for value in values]
    for node in reversed(root._topological_order()[0]):
        node._backward(node.grad)
        yield [0.0 if value._is_constant else value.grad for value in values]


def test_gradients_from_outside_the_graph_are_kept_apart(visit):
    x = Value(3.0)
    (x * 2).backward()
    y = x * x
    (y * 5).backward()
    tab = visit(y)
    assert tab.evaluate("[G0, [...outside]]") == [[32.0, 5.0], [[0, 2.0], [1, 5.0]]]
    assert visit(x * 7).evaluate("[G0, [...outside]]") == [[39.0, 0, 1.0], [[0, 32.0], [2, 1.0]]]
    assert visit(loss()).evaluate("[...outside].map(([i, x]) => [i === root, x])") == [[True, 1.0]]


@pytest.mark.parametrize("graph", GRAPHS)
def test_every_step_by_keyboard_has_python_s_numbers(visit, graph):
    root = graph()
    tab = visit(root)
    values, nodes = values_of(root), root._topological_order()[0]
    there = tab.evaluate("asked.walk('ArrowRight')")
    assert [at for at, *_ in there] == list(range(2 * len(nodes) + 2))
    first = len(values) - len(nodes)
    for at, sentence, data, grads in there[: len(nodes) + 1]:
        assert data == [value.data if i < first + at else None for i, value in enumerate(values)]
        assert not any(grads)
        assert at == 0 or close(number(re.search(r"= (\S+)$", sentence)[1]), values[first + at - 1].data, 1e-3)
    assert there[-1][3] == [value.grad for value in values]
    for (_, sentence, _, shown), grads, node in zip(
        there[len(nodes) + 1 :], passes(root), [root, *reversed(nodes)], strict=True
    ):
        assert all(map(close, shown, grads))
        assert close(number(re.search(r"ackward.*(?:∂|grad).* = (\S+)$", sentence)[1]), node.grad, 1e-3)
    assert [at[:2] for at in tab.evaluate("asked.walk('ArrowLeft')")] == [at[:2] for at in reversed(there)]


def test_the_sentence_is_the_chain_rule_with_the_numbers_in_it(visit):
    x = Value(0.5, label="x")
    y = (x * 2).tanh()
    y.label = "y"
    y.backward()
    tab = visit(y)
    tab.keyboard.press("ArrowRight")
    assert tab.inner_text("#title") == "Forward: x × 2 = 1"
    assert tab.locator("#sentence p").all_inner_texts()[0] == "x × 2 = 0.5 × 2 = 1"
    tab.keyboard.press("ArrowRight")
    assert tab.locator("#sentence p").all_inner_texts()[0] == "y = tanh(x × 2) = tanh(1) = 0.7616"
    tab.keyboard.press("End")
    tab.keyboard.press("ArrowLeft")
    assert tab.inner_text("#title") == "Backward: ∂y/∂y = 1"
    [rule] = tab.locator("#sentence p").all_inner_texts()
    assert rule == "(x × 2).grad += 0.42 × y.grad = 0.42 × 1 = 0.42 ∂y/∂(x × 2) = 1 − y² = 1 − 0.7616² = 0.42"


def test_the_table_of_what_moves_shows_the_gradients_of_the_cards_at_every_step(visit):
    tab, so_far = visit(expression()), set()
    seek(tab, "a")
    for step in range(12):
        tab.evaluate("step => go(step)", step)
        cards = {name: (data, grad) for name, _, data, _, grad in tab.evaluate("asked.leaves()")}
        assert {name: tuple(row) for name, *row in tab.evaluate("asked.rows()")} == cards
        so_far.add(cards["a"])
        assert (cards["a"] == ("2", "4")) == (tab.locator("#its-far").all_inner_texts() == ["4"])
    assert so_far == {("2", ""), ("2", "4"), ("2", "10")}


def test_a_leaf_alone_has_the_gradient_that_backward_would_leave(visit):
    tab = visit(Value(2.0, label="a"), "#step=1")
    assert tab.inner_text("#explanation").startswith("Backward starts: a.grad = 1\n\n∂a/∂a = 1")
    summary = "1 Value, 0 operations. Play computes each number, and then, backward, each gradient."
    assert tab.inner_text("header").endswith(summary)
    assert tab.inner_text("#moved caption") == "1 parameter"


def test_a_gradient_of_0_is_thin_and_gray_and_a_constant_gets_none(visit):
    a, b = Value(2.0, label="a"), Value(5.0, label="b")
    tab = visit(maximum(a, b, 3.0), "#step=3")
    found = {name: (kind, width) for name, kind, width in tab.evaluate("asked.edges()")}
    assert found["a"] == ("edge", 0.8)
    assert found["b"] == ("edge up", pytest.approx(4.2))
    assert found["3"] == ("edge waiting", 1.2)
    assert [words for words in tab.locator(".share").all_text_contents() if words] == ["+0", "+1"]


def test_the_words_and_the_legend_at_the_start_are_about_what_there_is(visit):
    tab = visit(expression())
    assert tab.inner_text("#ahead") == "Numbers flow to the right →"
    assert "inputs are given" in tab.inner_text("#sentence")
    assert "fold" not in tab.inner_text("#details")
    tab = visit(network())
    assert tab.inner_text("#ahead").startswith("Lines are weights: blue above 0")
    assert "inputs and weights are given" in tab.inner_text("#sentence")
    assert "click its ▸ to unfold it" in tab.inner_text("#details")


def test_a_page_opens_with_its_inputs_in_sight_and_shrinks_a_little_to_show_all(visit):
    shown = "asked.leavesInSight()"
    model = nn.MLP(2, [16, 1], rng=1)
    assert visit(model([1.0, 2.0]), viewport={"width": 1200, "height": 900}).evaluate(shown) == [True, True]
    model = nn.MLP(40, [16, 1], rng=1)
    assert visit(model([1.0] * 40), viewport={"width": 1200, "height": 900}).evaluate(shown)[0]
    tab = visit(loss(), viewport={"width": 1240, "height": 900})
    assert tab.evaluate("1 < scale && scale < SMALLEST")
    assert tab.evaluate("at('drawing').scrollWidth <= at('drawing').clientWidth")


def test_large_numbers_have_commas_and_negative_ones_as_many_digits_as_positive(visit):
    tab = visit(total(Value(float(i)).exp() for i in range(700)))
    assert tab.inner_text("#status") == "step 0 of 1,403, start"
    assert tab.evaluate("[text(-0.0161, 6), text(0.0161, 6)]") == ["−0.0161", "0.0161"]


@pytest.mark.parametrize("graph", [*GRAPHS, ten_thousand, hostile])
def test_no_cards_overlap_and_no_text_leaves_its_card_whatever_is_unfolded(visit, graph):
    tab = visit(graph(), "#step=100000")
    order = tab.evaluate("all('#drawing .share, #drawing .card').map(part => part.classList[0])")
    assert order == sorted(order, reverse=True)  # no number on an edge covers a card
    for unfolded in (0, 1, 3, 20):
        tab.evaluate(f"asked.unfold({unfolded})")
        cards = tab.evaluate("asked.cards()")
        for i, ((left, top, right, bottom), texts) in enumerate(cards):
            for text in texts:
                assert left <= text[0] <= text[2] <= right
                assert top - 2 <= text[1] <= text[3] <= bottom + 2
            for (a, b, c, d), _ in cards[:i]:
                assert right <= a or c <= left or bottom <= b or d <= top


def test_hostile_labels_and_numbers_are_shown_and_never_executed(visit):
    tab = visit(hostile(), "#step=3")
    assert "<b onclick=alert(3)>{0}${1}(nan) = 1.000e400" in tab.inner_text("#sentence")
    assert "__proto__" in tab.inner_text("#title")
    seek(tab, "onerror")
    assert "</script><img src=x onerror=alert(2)> = +" in tab.inner_text("#details")
    seek(tab, "<script>")
    assert "<script>alert(1)</script>" in tab.inner_text("#details")
    assert "the page does not know how to compute <b onclick=alert(3)>{0}${1}" in tab.inner_text("#details")
    assert tab.evaluate("document.querySelectorAll('img, b[onclick]').length") == 0
    tab = visit(Value(2.0, (Value(1.0),), "constructor", lambda grad: None), "#step=1")
    assert "constructor(1) = 2" in tab.inner_text("#sentence")


def test_the_whole_of_a_name_that_is_cut_appears_where_the_mouse_is(visit):
    card = visit(Value(2.0, label="the width of the table in metres") * 3).locator(".card").first
    assert card.locator(".label").inner_html() == "the width of t…"
    assert card.locator("title").inner_html() == "the width of the table in metres"


@pytest.mark.parametrize(("scheme", "size"), [("light", (1280, 800)), ("dark", (390, 844))])
@pytest.mark.parametrize("graph", [network, loss, hostile])
def test_axe_finds_nothing_to_object_to(visit, axe, graph, scheme, size):
    tab = visit(graph(), "#step=5", color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
    tab.evaluate(axe)
    tab.click("#take")
    for card in range(2):
        assert tab.evaluate("axe.run().then(run => run.violations.map(v => [v.id, v.nodes.map(n => n.html)]))") == []
        tab.locator(".card").nth(card).click()
        tab.keyboard.press("End")
    tab.evaluate("asked.unfold(3)")
    assert tab.evaluate("axe.run().then(found => found.violations.map(v => v.id))") == []


def test_a_neuron_unfolds_in_its_place_on_a_second_click_and_folds_again(visit):
    tab = visit(network())
    card = tab.locator(".card").nth(3)
    card.click()
    assert tab.inner_text("#its-formula").startswith("tanh(h1[0].z) = tanh(")
    card.click()
    assert tab.locator(".frame .card").count() == 6
    assert tab.locator(".card").count() == 17
    assert tab.get_attribute(".frame .bar:focus", "aria-label") == "Fold h1[0]"
    tab.keyboard.press("Enter")
    assert tab.locator(".card").count() == 12
    tab.keyboard.press("Enter")
    assert tab.locator(".card").count() == 17
    tab.click("#fold")
    assert tab.locator(".card").count() == 12
    tab.click("#unfold")
    assert tab.locator(".card").count() == 17
    tab.locator(".bar .turn").click()
    assert tab.locator(".frame").count() == 0
    tab.locator(".card .turn").first.click()
    assert tab.locator(".frame").count() == 1


def test_the_examples_of_a_mean_are_shown_one_at_a_time_and_followed_step_by_step(visit):
    root = loss()
    tab = visit(root, "#step=1000")
    outputs = [square._prev[0]._prev[0] for square in root._prev]
    for i, output in enumerate(outputs):
        tab.fill("#examples input", str(i + 1))
        label = tab.locator(".card").nth(6).get_attribute("aria-label")
        assert close(number(re.search(r"dot, (\S+), gradient", label)[1]), output.data, 1e-3)
    shown = set()
    tab.locator("#drawing").focus()
    tab.keyboard.press("Home")
    for _ in range(tab.evaluate("n")):
        tab.keyboard.press("ArrowRight")
        assert tab.locator(".card.now").count() == 1
        shown.add(tab.input_value("#examples input"))
    assert shown == {"1", "2", "3", "4"}


def test_the_words_follow_the_example_that_the_reader_chooses(visit):
    root = loss()
    tab = visit(root)
    values, first = values_of(root), tab.evaluate("first")
    of_example = {i: k for i, (k, _) in tab.evaluate("[...stacks[0].examples]") if i >= first}
    tab.keyboard.press("End")
    last = tab.evaluate("step")
    tab.evaluate("choose(explained())")
    shares = set()
    for chosen in (3, 2, 4, 1):
        tab.fill("#examples input", str(chosen))
        assert tab.evaluate("step") == last  # all examples are done
        assert tab.inner_text("#title").startswith(f"Example {chosen}, backward: ")
        card = tab.evaluate("explained()")
        assert of_example[card] == chosen - 1
        assert close(number(re.search(r"= (\S+)$", tab.inner_text("#title"))[1]), values[card].grad, 1e-3)
        assert close(number(tab.inner_text("#its-gradient")), values[card].grad)
        assert tab.inner_text("#sentence").startswith("These are the gradients that backward() left.")
        shares.add(tuple(tab.locator(".share").all_text_contents()))
    assert len(shares) == 4
    for step in range(last + 1):
        for chosen in "3241":
            tab.evaluate(f"go({step})")
            tab.fill("#examples input", chosen)
            assert tab.input_value("#examples input") == chosen
            words, at = tab.inner_text("#title"), tab.evaluate("now()")
            assert words.startswith(f"Example {chosen}, ") == (at in of_example), words
            assert tab.evaluate("isDone(explained())")
    tab.fill("#wanted", "x0")
    for chosen in "1234":
        tab.keyboard.press("Enter")
        assert tab.input_value("#examples input") == chosen


def test_buttons_the_slider_and_play_step_too(visit):
    tab = visit(neuron())
    for button, step in (("forward", 1), ("last", 5), ("back", 4), ("first", 0)):
        tab.click(f"#{button}")
        assert tab.evaluate("step") == step
    tab.fill("#slider", "2")
    assert tab.evaluate("step") == 2
    tab.clock.install(time=0)
    tab.clock.pause_at(1000)  # else it would also go on by itself
    tab.click("#play")
    assert tab.inner_text("#play") == "Pause"
    tab.clock.run_for(950)
    assert tab.evaluate("step") == 3
    tab.click("#play")
    tab.clock.run_for(5000)
    assert tab.evaluate("step") == 3
    tab.click("#play")
    tab.clock.run_for(5000)
    assert (tab.evaluate("step"), tab.inner_text("#play")) == (5, "Play")
    tab.click("#play")
    assert tab.evaluate("step") == 0


def test_details_have_the_contributions_their_sum_and_the_finite_difference(visit):
    root = expression()
    a = next(value for value in values_of(root) if value.label == "a")
    tab = visit(root, "#step=11")
    seek(tab, "a")
    assert float(tab.inner_text("#its-gradient")) == a.grad == 10.0
    assert close(number(tab.inner_text("#its-difference")), a.grad, 1e-6)
    assert "made in" not in tab.inner_text("#details")
    assert tab.inner_text("#relations table").split("\n")[-3:] == ["a × b\t6", "a × a\t4", "sum\t10"]
    tab = visit(Value(0.1, label="x").exp(), "#step=2")
    seek(tab, "x")
    assert tab.inner_text("#its-difference") == f"{math.exp(0.1):.7g}"


def test_sliders_change_all_numbers_as_python_computes_them(visit):
    def build(w):
        x, y = Value(0.5, label="x"), Value(-1.5)
        w = Value(w, label="w")
        attended = dot(losses.softmax([w * x, y, w]), [1.0, w, -2.0]) + losses.log_softmax([x, w, 0.5])[1]
        return mean([dot([w, y], [x, w], 0.25).tanh() * w, (w * x).sigmoid() / (y * y), attended]).exp()

    root = build(0.75)
    root.backward()
    tab = visit(root, "#step=1000")
    seek(tab, "w")
    for field, w in (("#set", "-1.25"), ("#slide", "2"), ("#set", "0"), ("#set", "1e-3")):
        tab.fill(field, w)
        changed = build(float(w))
        changed.backward()
        assert all(map(close, tab.evaluate("V"), (value.data for value in values_of(changed))))
        assert all(map(close, tab.evaluate("G"), (value.grad for value in values_of(changed))))
    assert tab.inner_text("#its-gradient") == repr(tab.evaluate("G[chosen]"))
    tab.fill("#set", "")
    tab.click("#reset")
    assert tab.evaluate("V === V0 && G === G0")
    tab = visit(Value(1.7e308, label="x") * 0.5, "#step=1000")  # without room for a slider
    tab.locator(".card").first.click()
    assert tab.locator("#slide").count() == 0
    tab.fill("#set", "3")
    assert tab.evaluate("V[root]") == 1.5


@pytest.mark.parametrize(("build", "to", "words"), [
    (lambda x: (x * 3.0 + 1.0) / x, 0.0, "1 ÷ 0 cannot be computed"),
    (lambda x: (x * 3.0).sqrt() * 2.0, 0.0, "the derivative of sqrt(0) cannot be computed"),
    (lambda x: x.log() * 2.0, -1.0, "log(−1) cannot be computed"),
    (lambda x: x.exp() * 2.0, 1000.0, "exp(1000) cannot be computed"),
    (lambda x: x**-0.5, 0.0, "0^(−0.5) cannot be computed"),
    (lambda x: x * x * 1e100, 1e150, "1e300 × 1e100 is too large for a float. Python continues with inf"),
    (lambda x: 2.0 / x, 1e-320, "2 ÷ 1e−320 is too large for a float. Python continues with inf"),
])  # fmt: skip
def test_where_python_raises_an_error_the_page_says_so_and_shows_no_results(visit, build, to, words):
    def computed(number):
        root = build(Value(number, label="x"))
        root.label = "y"
        root.backward()
        return root

    tab = visit(computed(4.0), "#step=1000")
    seek(tab, "x")
    tab.fill("#set", str(to))
    assert words in tab.inner_text("#sentence")
    assert "These are the gradients" not in tab.inner_text("#sentence")
    tab.click("#take")
    assert words in tab.inner_text("#outcome")
    assert tab.inner_text("#effect").endswith(", now inf" if "Python continues" in words else f"an error: {words}.")
    if "Python continues" in words:
        assert tab.inner_text("#result") == "y = inf"
        assert math.isinf(computed(to).data)
        return
    with pytest.raises((ArithmeticError, ValueError)):
        computed(to)
    assert tab.inner_text("#title") == "Error"
    assert not re.search("nan|inf", tab.inner_text("main"))
    assert not any(tab.locator(".grad, .share").all_text_contents())
    seek(tab, "x")
    assert tab.inner_text("#its-gradient") == "none: Python raises an error"
    tab.click("#reset")
    assert tab.inner_text("#sentence").startswith("These are the gradients that backward() left.")


def test_nan_and_0_have_the_colour_of_neither_sign(visit):
    a = Value(0.0, label="a")
    y = a * Value(math.inf, label="b")
    y.backward()
    tab = visit(y, "#step=1000")
    looks = "() => [...document.querySelectorAll('.grad')].map(word => [word.textContent, word.className.baseVal])"
    assert tab.evaluate(looks) == [["inf", "grad plus"], ["0", "grad"], ["1", "grad plus"]]
    seek(tab, "a")
    assert tab.inner_text("#its-gradient") == "inf"
    y.grad = a.grad = math.nan
    assert ["nan", "grad"] in visit(y, "#step=1000").evaluate(looks)
    assert re.search(r'<text class="grad" [^>]*>nan<', viz.to_svg(y))


@pytest.mark.parametrize("choose", [lambda x, a: where(x > 1, x * a, a), lambda x, a: take([x * a, a], x - 2.0)])
def test_the_page_says_that_a_choice_is_fixed(visit, choose):
    x, a = Value(2.0, label="x"), Value(3.0, label="a")
    chosen = choose(x, a)
    chosen.label = "chosen"
    tab = visit(chosen * 2.0, "#step=2")
    sentence = f"Python made the choice of {chosen._op}() when the graph was built; it is fixed here."
    assert sentence in tab.inner_text("#sentence")
    for label in ("x", "chosen"):
        seek(tab, label)
        if label == "x":
            assert tab.inner_text("#fixed").startswith("where() and take() keep their choices: Python")
            tab.fill("#set", "-5")
    assert tab.inner_text("#its-choice") == "fixed: Python made it, by a condition outside the graph"
    assert tab.evaluate("V[root]") == -30.0
    tab = visit((x * a).clip(-1.0, 1.0))
    seek(tab, "x")
    assert tab.locator("#fixed").count() == 0


def test_every_operation_has_python_s_numbers_in_the_page(visit):
    results, expected = [], []
    for operation in OPERATIONS:
        points = [*operation.points, *operation.edges]
        for point in points:
            leaves = [Value(x) for x in point]
            try:
                result = operation.apply(*leaves)
                result.backward()
            except (ArithmeticError, ValueError):
                continue
            results.append(result)
            expected.append((operation.name, point, result.data, [leaf.grad for leaf in leaves]))
    root = Value(0.0, tuple(results), "own", lambda grad: None)
    tab = visit(root)
    numbers = {id(value): i for i, value in enumerate(values_of(root))}
    found = tab.evaluate("(() => { const v = forward(V0.map((x, i) => i < first ? x : 0)); return v; })()")
    for result, (name, point, data, _) in zip(results, expected, strict=True):
        assert close(found[numbers[id(result)]], data), (name, point)
    gradients = tab.evaluate(f"asked.gradientsOf({[numbers[id(result)] for result in results]})")
    for result, (name, point, _, grads) in zip(results, expected, strict=True):
        _, leaves = result._topological_order()
        for leaf in leaves:
            if not leaf._is_constant:
                assert close(gradients[numbers[id(leaf)]], leaf.grad), (name, point, grads)


@pytest.mark.parametrize("moved", [True, False])
def test_where_there_can_be_no_step_the_page_says_why_and_has_no_what_if(visit, moved):
    root = network() if moved else Value(1.0, (Value(2.0),), "own", lambda grad: None)
    for leaf in root._topological_order()[1]:
        leaf.data -= 0.1 * leaf.grad
    tab = visit(root)
    tab.locator(".card").first.click()
    assert not moved or "numbers have changed since they were used" in tab.inner_text("#details")
    assert tab.locator("#set").count() == 0
    tab.click("#take")
    why = "Numbers have changed since they were used" if moved else "does not know how to compute own"
    assert why in tab.inner_text("#outcome")


# Learning


def test_a_step_moves_the_rows_of_an_embedding_too(visit):
    table, neuron = nn.Embedding(3, 2, rng=0), nn.Neuron(2, rng=1)
    tab = visit(mean(neuron(table(i)) for i in range(3)))
    moved = [x.data for x in [*neuron.parameters(), *table.parameters()]]
    assert sorted(tab.evaluate("[...trained].map(i => V[i])")) == sorted(moved)


def test_a_step_moves_all_weights_against_their_gradients_as_python_does(visit):
    root = loss()
    values = values_of(root)
    tab = visit(root)
    model = nn.MLP(2, [4, 1], rng=1)
    parameters = model.parameters()
    assert tab.evaluate("[...trained].map(nameOf)") == described(model)["names"]
    assert [values[i].data for i in tab.evaluate("[...trained]")] == [parameter.data for parameter in parameters]
    tab.uncheck("#ask")
    tab.fill("#rate", "0.05")
    for _ in range(3):
        result = mean((model([a, b]) - float(a != b)) ** 2 for a in (0.0, 1.0) for b in (0.5, 1.0))
        model.zero_grad()
        result.backward()
        for parameter in parameters:
            parameter.data -= 0.05 * parameter.grad
        tab.click("#take")
        assert all(map(close, tab.evaluate("[...trained].map(i => V[i])"), [p.data for p in parameters]))
        before, after = map(number, re.search(r"loss (\S+) → (\S+)\.", tab.inner_text("#outcome")).groups())
        assert close(before, result.data, 1e-3)
        assert after < before
        assert "too large" not in tab.inner_text("#outcome")
    assert tab.inner_text("#outcome").startswith("Step 3: loss")
    assert tab.inner_text("#status") == "step 91 of 91, backward"
    assert close(number(tab.inner_text("#moved tbody tr:first-child td:nth-child(2)")), parameters[0].data, 1e-3)
    tab.fill("#rate", "1000")
    tab.click("#take")
    assert "too large" in tab.inner_text("#outcome")
    tab.evaluate("choose(0)")
    tab.evaluate("reset()")
    assert tab.evaluate("V === V0")
    assert tab.inner_text("#outcome") == ""


@pytest.mark.parametrize("answer", ["up", "down"])
def test_which_way_a_number_moves_is_asked_before_it_is_shown(visit, answer):
    root = expression()
    tab = visit(root)
    a = next(i for i, value in enumerate(values_of(root)) if value.label == "a")
    tab.evaluate(f"choose({a})")
    tab.click("#take")
    assert tab.inner_text("#outcome").startswith("∂L/∂a = 10. Which way will a move?")
    assert tab.evaluate("V === V0")
    tab.keyboard.press("Enter" if answer == "up" else "Tab")  # the first answer has the focus
    if answer == "down":
        tab.keyboard.press("Enter")
    verdict, step = tab.locator("#outcome p").all_inner_texts()
    rule = ": a step goes against the gradient, down. a = 2 − 0.1 × 10 = 1."
    assert verdict == {"up": "No", "down": "Right"}[answer] + rule
    assert step.startswith("Step 1: L −4 → ")
    assert tab.evaluate("document.activeElement.id") == "take"
    tab.evaluate("choose(-1)")
    tab.click("#take")
    assert "Which way will" in tab.inner_text("#outcome")


# What a reader sees of it


@pytest.mark.parametrize("size", [(1280, 800), (980, 700), (390, 844)])
def test_the_result_has_its_room_before_it_is_known(visit, size):
    root = network()
    root.label = "a_loss_of_twenty_four_let"
    tab = visit(root, viewport={"width": size[0], "height": size[1]})
    start = tab.locator("#drawing").bounding_box()
    tab.click("#last")
    assert tab.locator("#drawing").bounding_box() == start
    assert tab.locator("#result").bounding_box()["height"] < 30  # one line
    assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert tab.evaluate("at('result').scrollWidth <= at('result').clientWidth")


@pytest.mark.parametrize("size", [(1280, 720), (390, 844)])
def test_an_explanation_begins_with_the_news_and_fades_where_it_goes_on(visit, size):
    tab = visit(loss(), "#step=1000", viewport={"width": size[0], "height": size[1]})
    if size[0] > 1000:
        assert tab.is_hidden("#details")
        tab.locator(".card").last.click()  # until then, the explanation has two columns
    box, news = (tab.locator(part).bounding_box() for part in ("#explanation", "#sentence p >> nth=0"))
    assert news["y"] + news["height"] <= box["y"] + box["height"] - 40
    faded = "() => ['--top', '--bottom'].map(side => at('explanation').style.getPropertyValue(side))"
    assert tab.evaluate(faded) == ["0px", "2.5rem"]
    tab.evaluate("() => { at('explanation').scrollTop = 10000; frames.forEach(fade); }")
    assert tab.evaluate(faded) == ["2.5rem", "0px"]
    tab.click("#back")
    assert tab.evaluate("at('explanation').scrollTop") == 0


def test_on_a_projector_the_graph_of_the_demo_is_in_sight_with_nearly_all_of_its_explanations(visit):
    model, xor = nn.MLP(2, [4, 1], output="sigmoid", rng=0), [((0, 0), 0), ((0, 1), 1), ((1, 0), 1), ((1, 1), 0)]
    tab = visit(mean((model(x) - y) ** 2 for x, y in xor), viewport={"width": 1280, "height": 720})
    heights = "[...Array(end + 1).keys()].map(step => { go(step); const { scrollHeight, clientHeight } = at(ID); "
    heights += "return scrollHeight - clientHeight; })"
    assert not any(tab.evaluate(heights.replace("ID", "'drawing'")))
    assert sum(map(bool, tab.evaluate(heights.replace("ID", "'explanation'")))) <= 2  # of 100


def test_on_a_phone_details_appear_over_the_page_beside_their_card_and_the_output_is_in_view(visit):
    tab = visit(loss(), "#step=1000", viewport={"width": 390, "height": 844}, has_touch=True)
    card = tab.locator(".card").last
    card.scroll_into_view_if_needed()
    card.tap()
    sheet, box = tab.locator("#details").bounding_box(), card.bounding_box()
    assert 0.54 * 844 <= sheet["y"] == 844 - sheet["height"]
    assert tab.evaluate("getComputedStyle(at('details')).maskImage") == "none"  # no text shows through
    assert tab.evaluate("all('input').every(part => parseFloat(getComputedStyle(part).fontSize) >= 16)")  # no zoom
    assert box["y"] + box["height"] <= sheet["y"]
    result = tab.locator("#result").bounding_box()
    assert 0 <= result["y"] < sheet["y"]
    assert 0 <= result["x"] <= result["x"] + result["width"] <= 390
    assert tab.locator(".controls").bounding_box()["width"] == 390  # no part of the graph shows beside them
    for _ in range(4):
        tab.keyboard.press("Shift+Tab")
    assert tab.evaluate("document.activeElement.getBoundingClientRect().left >= 0")
    tab.tap("#close")
    assert tab.inner_text("#details") == "Click a card for its details; click its ▸ to unfold it."
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
