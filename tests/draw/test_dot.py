"""The graph as DOT text."""

import re

from micrograd import Value
from micrograd.viz import draw_graph
from tests.draw.graphs import chain, example


def nodes(source):
    """The labels and the edges of DOT text, in order."""
    return re.findall(r'\t(\w+) \[label="(.*?)"', source), re.findall(r"\t(\w+) -> (\w+)", source)


def test_a_value_is_a_record_and_an_operation_a_circle_between_its_operands_and_its_result():
    labels, edges = nodes(draw_graph(example()))
    assert labels == [
        ("n0", "{x|data 3|grad 5}"), ("n1", "{y|data 1|grad −3}"),
        ("n2", "{data 2|grad 3}"), ("op_n2", "−"), ("n3", "{data 6|grad 1}"), ("op_n3", "×"),
    ]  # fmt: skip
    assert edges == [
        ("n0", "op_n2"), ("n1", "op_n2"), ("op_n2", "n2"), ("n2", "op_n3"), ("n0", "op_n3"), ("op_n3", "n3"),
    ]  # fmt: skip
    assert 'shape="record"' in draw_graph(example())
    assert draw_graph(example()).count("shape=circle") == 2
    assert 'rankdir="LR"' in draw_graph(example())


def test_a_leaf_alone_is_drawn_and_equal_numbers_are_two_nodes():
    assert len(nodes(draw_graph(Value(1.0) + Value(1.0)))[0]) == 4
    assert nodes(draw_graph(Value(2.0, label="x"))) == ([("n0", "{x|data 2}")], [])


def test_a_number_beside_a_value_has_no_gradient_and_before_any_backward_nothing_has():
    y = Value(3.0) * 2
    assert [label for _, label in nodes(draw_graph(y))[0]] == ["{data 3}", "{data 2}", "{data 6}", "×"]
    y.backward()
    assert [label for _, label in nodes(draw_graph(y))[0]] == ["{data 3|grad 2}", "{data 2}", "{data 6|grad 1}", "×"]


def test_many_values_are_drawn_in_haste():
    assert "nslimit" in draw_graph(chain(lambda y, x: y * 0.5 + x, 75))
    assert "nslimit" not in draw_graph(chain(lambda y, x: y.sin(), 100))
