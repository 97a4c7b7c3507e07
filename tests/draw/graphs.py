"""Graphs to draw."""

import math
from fractions import Fraction

from hypothesis import strategies as st

from micrograd import Value, dot, mean, nn
from micrograd.draw import text


def expression():
    """The expression of the lecture, and x * x."""
    a, b, c, f = (Value(x, label=name) for x, name in ((2.0, "a"), (-3.0, "b"), (10.0, "c"), (-2.0, "f")))
    result = (a * b + c) * f + a * a
    result.label = "L"
    result.backward()
    return result


def neuron():
    """tanh(w x + b)."""
    result = dot([Value(-3.0), Value(1.0)], [Value(2.0, label="x1"), Value(0.0, label="x2")], Value(6.88)).tanh()
    result.backward()
    return result


def network():
    """The prediction of an MLP 3-4-4-1."""
    model = nn.MLP(3, [4, 4, 1], output="tanh", rng=1)
    for name, parameter in model.named_parameters():
        parameter.label = name
    prediction = model([Value(float(i), label=f"x{i}") for i in (1, 2, 3)])
    prediction.label = "prediction"
    prediction.backward()
    return prediction


def loss():
    """The mean squared error over four examples."""
    model = nn.MLP(2, [4, 1], rng=1)
    result = mean((model([a, b]) - float(a != b)) ** 2 for a in (0.0, 1.0) for b in (0.5, 1.0))
    result.label = "loss"
    result.backward()
    return result


def recurrence(n=30):
    """h = tanh(w h + u x), so many times."""
    w, u, h = Value(0.9, label="w"), Value(0.5, label="u"), Value(0.1, label="h")
    for i in range(n):
        h = (w * h + u * Value(math.sin(i), label=f"x{i}")).tanh()
    h.backward()
    return h


def ten_thousand():
    """A tree of 10,000 Values."""
    values = [Value(math.sin(i)) for i in range(3400)]
    for i in range(0, 6798, 2):
        values.append((values[i] * values[i + 1]).sin())
    values[-1].backward()
    return values[-1]


def hostile():
    """Labels, operations and numbers that no page expects."""
    x, y = Value(float("nan"), label="<script>alert(1)</script>"), Value(Fraction(1, 3), label="ﷺ重み\x00\ud800\"'&]]>")
    z = x * Value(float("inf"), label="W" * 300) + y
    z.label = "</script><img src=x onerror=alert(2)>"
    root = Value(10**400, (z,), "<b onclick=alert(3)>{0}${1}", lambda grad: None, label="__proto__")
    root.backward()
    return root


def chain(step, n, y=None):
    y, x = y or Value(1.0), Value(2.0)
    for _ in range(n):
        y = step(y, x)
    return y


def example():
    """(x - y) * x, with gradients."""
    x, y = Value(3.0, label="x"), Value(1.0, label="y")
    z = (x - y) * x
    z.backward()
    return z


VISIBLE = {c: symbol for c, symbol in text.CONTROLS.items() if c != 10}
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=())),
    st.text(st.sampled_from('\\{}|<>" &;#nlrNGETHL\n\r\t\0abc-')),
    st.sampled_from(
        [
            '<script>alert("1")</script>', "&lt;", "&#92;n", "a\\", "\\N", "{", "<<b>x</b>>", "]]>", "-->", "%s",
            "| <f0>", 'n0 [label="{x|data 3}"]\n\tn0 -> n1\n}', "größe 重み \u202e\u2028\ufeff\U0001f600 \ud800",
            "\u00a1" * 200,
        ]
    ),
)  # fmt: skip
"""Labels and operations that look like DOT or HTML."""
