"""Curves as text and as SVG, and matplotlib's plots of training."""

import io
import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from micrograd import Value, compile, nn
from micrograd.data import xor
from micrograd.draw.training.charts import curves
from micrograd.training import History
from micrograd.training.history import Failure
from micrograd.viz import plot_boundary, plot_history, sparkline

SVG = "{http://www.w3.org/2000/svg}"
NUMBERS = [
    [], [0.0], [0.0, 0.0], [1.0], [1.0, 1.001], [1e-300, 1e300], [5e-324, 1e-323], [5.0, 900.0],
    [-1e9, 3.0], [-1e17], [0.1] * 3,
]  # fmt: skip


# A line of text


@pytest.mark.parametrize(("numbers", "width", "line"), [
    ([1000.0, 100.0, 10.0, 1.0], 60, "█▆▃▁"), ([3.0, 2.0, 1.0, 0.0], 60, "█▆▃▁"), ([0.0, -7.0], 60, "█▁"),
    ([2.0, 2.0], 60, "▁▁"), ([], 60, ""), ([0, 0, 7, 7, 0, 7, 0, 7], 4, "▁█▅▅"), ([1.0] * 1001, 60, "▁" * 60),
    ([4.0, math.nan, 2.0, math.inf, 1.0], 60, "█x▅x▁"), ([math.nan], 60, "x"),
])  # fmt: skip
def test_a_sparkline_is_logarithmic_if_possible_averages_many_numbers_and_marks_infinite_ones_with_an_x(
    numbers, width, line
):
    assert sparkline(numbers, width=width) == line


@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "ascii", "latin-1", None])
def test_a_sparkline_has_blocks_where_they_can_be_written_and_ascii_elsewhere(encoding):
    assert sparkline(range(8), encoding=encoding) == ("▁▂▃▄▅▆▇█" if encoding in ("utf-8", "gbk") else "_.:-=+*#")
    assert sparkline(range(8)) == "▁▂▃▄▅▆▇█"


@pytest.mark.parametrize("numbers", list(filter(None, NUMBERS)))
def test_numbers_of_any_size_have_a_sparkline(numbers):
    line = sparkline(numbers)
    assert len(line) == len(numbers)
    assert line[numbers.index(min(numbers))] == "▁"
    assert len(set(line)) == len(set(numbers))
    assert set(sparkline(numbers * 50, width=7)) <= set("▁▂▃▄▅▆▇█")


# The curves of a history


def parts(svg, name):
    root = ElementTree.fromstring(svg)
    return [e for e in root.iter() if name in e.get("class", "").split()], [e.text for e in root.iter(f"{SVG}text")]


def points(path):
    return [tuple(map(float, point.split())) for point in path.get("d").replace("M", "L").split("L")[1:]]


def drawn(losses, epochs=None, **of_history):
    """The points of the curve, and the texts of its chart."""
    svg = curves(History(losses, **of_history), "caption", len(losses) if epochs is None else epochs)
    [line], texts = parts(svg, "mg-line0")
    return points(line), texts


def test_each_loss_is_at_its_epoch_on_a_logarithmic_axis_if_all_are_above_0():
    (_, y1), (x2, y2), (x3, y3) = drawn([100.0, 10.0, 1.0], epochs=4)[0]
    assert 0 < y3 - y2 == pytest.approx(y2 - y1, abs=0.2)
    assert x3 - x2 == pytest.approx((496 - 63) / 4, abs=0.2)
    texts = drawn([100.0, 10.0, 1.0], epochs=4)[1]
    assert {"caption", "loss 1", "1", "10", "100", "epoch; losses on a logarithmic scale"} <= set(texts)
    (_, y1), (_, y2), (_, y3) = drawn([2.0, 1.0, 0.0])[0]
    assert 0 < y3 - y2 == pytest.approx(y2 - y1, abs=0.2)
    assert "epoch" in drawn([2.0, 1.0, 0.0])[1]


def test_a_curve_has_a_gap_where_a_loss_is_not_finite():
    svg = curves(History([2.0, math.nan, 1.0, 3.0, math.inf]), "", 5)
    [line], texts = parts(svg, "mg-line0")
    assert line.get("d").count("M") == 2
    assert "loss 3" in texts
    assert not parts(curves(History([math.nan]), "", 1), "mg-line0")[0][0].get("d")


def test_a_curve_of_many_epochs_keeps_the_peaks_and_is_small():
    numbers = [1.0] * 100_000
    numbers[77_777] = 1000.0
    svg = curves(History(numbers), "", 100_000)
    [line], _ = parts(svg, "mg-line0")
    xs = {y: x for x, y in points(line)}
    assert xs[min(xs)] == pytest.approx(63 + (496 - 63) * 0.77778, abs=0.1)
    assert len(svg) < 15_000


def test_names_at_the_ends_of_lines_do_not_overlap():
    svg = curves(History([1.0, 2.0], [1.0, 2.001]), "", 2)
    ends = [float(e.get("y")) for kind in ("mg-name0", "mg-name1") for e in parts(svg, kind)[0]]
    assert abs(ends[0] - ends[1]) >= 15


@pytest.mark.parametrize(("epoch", "anchor"), [(1, "start"), (9.5, "end")])
def test_a_failure_is_marked_within_the_chart(epoch, anchor):
    svg = curves(History([1.0], failure=Failure(epoch, "the loss is <inf>", "")), "", 5)
    [mark], _ = parts(svg, "mg-alarm")
    assert (mark.text, mark.get("text-anchor")) == ("the loss is <inf>", anchor)
    assert 63 - 4 <= float(mark.get("x")) <= 496 + 4


@pytest.mark.parametrize("numbers", NUMBERS)
def test_numbers_lie_within_the_chart_and_its_axis_has_some_round_ones(numbers):
    assert all(62 <= x <= 496 and 36 <= y <= 204 for x, y in drawn(numbers)[0])
    texts = parts(curves(History(numbers), "", len(numbers)), "mg-soft")[0]
    labels = [float(e.text.replace("−", "-")) for e in texts if e.get("text-anchor") == "end"]
    assert 1 < len(labels) < 9
    assert labels == sorted(set(labels))


# matplotlib


def test_a_history_is_plotted_with_its_losses(pyplot):
    history = History([1.0, 0.5, 0.25], [2.0, 0.75, 1.0], [0.1] * 3)
    ax = plot_history(history)
    loss, validation = ax.get_lines()
    assert list(loss.get_xdata()) == [1, 2, 3]
    assert list(loss.get_ydata()) == history.losses
    assert list(validation.get_ydata()) == history.validation_losses
    assert ax.get_yscale() == "log"
    assert plot_history(History([1.0, 0.0])).get_yscale() == "linear"
    assert plot_history(History()).get_lines()[0].get_xdata().size == 0


def test_the_ticks_of_a_plot_are_whole_epochs(pyplot):
    for n in (1, 2, 3, 5, 10):
        ax = plot_history(History([1.0 / (i + 1) for i in range(n)]))
        ax.figure.canvas.draw()
        assert all(tick == int(tick) for tick in ax.get_xticks())


def test_a_loss_that_is_not_finite_leaves_a_gap(pyplot):
    ax = plot_history(History([1e3, math.nan, math.inf, 2.0]))
    ax.figure.savefig(io.BytesIO(), format="svg")
    assert np.isfinite(ax.get_lines()[0].get_ydata()).tolist() == [True, False, False, True]


def test_plots_are_drawn_in_the_axes_that_are_given(pyplot):
    _, (left, right) = pyplot.subplots(1, 2)
    assert plot_history(History([1.0]), left) is left
    assert plot_boundary(nn.MLP(2, [2, 1], rng=1), *xor(), right) is right
    assert len(pyplot.get_fignums()) == 1


# The boundary between classes


def colour_at(ax, x, y):
    """The colour of the region that a point lies in."""
    found = [c for c in ax.collections if hasattr(c, "levels") and c.get_facecolor().size]
    [at] = [c for c in found if any(path.contains_point((x, y)) for path in c.get_paths())]
    return tuple(at.get_facecolor()[0])


@pytest.mark.parametrize("sigmoid", [False, True])
def test_a_boundary_is_where_the_class_changes(pyplot, sigmoid):
    def model(x):
        y = x[0] - 0.25
        return Value(1.0) * (y.sigmoid() if sigmoid else y)

    ax = plot_boundary(model, [[0.0, 0.0], [1.0, 1.0]], [0, 1])
    assert colour_at(ax, 0.2, 0.0) == colour_at(ax, -0.1, 1.0) != colour_at(ax, 0.3, 0.0)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1"]
    moved = plot_boundary(model, [[0.0, 0.0], [1.0, 1.0]], [-1, 1], at=model([Value(0.7)]).data)
    assert colour_at(moved, 0.2, 0.0) == colour_at(moved, 0.6, 0.0) != colour_at(moved, 0.8, 0.0)


def test_the_largest_of_several_outputs_gives_the_class(pyplot):
    ax = plot_boundary(lambda x: [x[0], x[1], 0.5 - x[0]], [[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]], [2, 1, 0])
    assert len({colour_at(ax, 1.0, 0.2), colour_at(ax, 0.2, 1.0), colour_at(ax, 0.0, 0.1)}) == 3
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1", "2"]


def test_a_model_that_cannot_be_compiled_is_called_point_by_point(pyplot):
    def branching(x):
        return [Value(0.0), 1.0] if x[1] > 0 else (x[0] + 10, x[1])

    ax = plot_boundary(branching, [[0.0, -1.0], [3.0, 1.0]], [0, 1])
    assert colour_at(ax, 1.0, 0.5) != colour_at(ax, 1.0, -0.5)


def test_a_compiled_function_is_called_on_all_points_at_once(pyplot):
    asked = []
    plot_boundary(compile(lambda x: asked.append(x) or x[0], ([0.0, 0.0],), backend="python"), *xor())
    assert 0 < len(asked) < 10


@pytest.mark.parametrize("between", [lambda output: output, lambda output: output if output > 0 else -output])
def test_what_a_model_keeps_from_a_plot_is_neither_a_parameter_nor_a_traced_number(pyplot, between):
    class Keeping(nn.Neuron):
        mean = 0.0

        def __call__(self, x):
            self.input, self.mean = x, self.mean + x[0].data
            return between(super().__call__(x))

    model = Keeping(2, rng=1)
    plot_boundary(model, *xor())
    assert (len(model.parameters()), type(model.mean)) == (3, float)


@pytest.mark.parametrize("error", [ValueError, TypeError, IndexError])
def test_an_error_of_the_model_is_passed_on(pyplot, error):
    def wrong(x):
        if x[0] > 0.9:
            raise error("of the user")
        return x[0]

    with pytest.raises(error, match="^of the user$"):
        plot_boundary(wrong, *xor())
    with pytest.raises(ValueError, match="takes a list of length 3"):
        plot_boundary(nn.MLP(3, [1], rng=1), *xor())


@pytest.mark.parametrize(("xs", "ys", "message"), [
    ([], [], "xs is empty"),
    ([[1.0, 2.0, 3.0]], [0], r"example 0 is \(\[1.0, 2.0, 3.0\], 0\): a decision boundary needs exa"),
    ([[1.0, 2.0], [1.0, math.nan]], [0, 1], r"example 1 is \(\[1.0, nan\], 1\)"),
    ([1.0], [0], r"example 0 is \(1.0, 0\)"),
    ([[1.0, 2.0]], ["a"], "example 0 is .* 'a'"),
    ([[1.0, 2.0]], [0, 1], "not 1 and 2"),
])  # fmt: skip
def test_a_boundary_needs_two_inputs_and_a_target(xs, ys, message):
    with pytest.raises(ValueError, match=message):
        plot_boundary(lambda x: x[0], xs, ys)


def test_a_plot_surrounds_the_examples_and_has_no_line_if_the_class_is_the_same_everywhere(pyplot):
    ax = plot_boundary(lambda x: x[1] + 10.0, [[7.0, 0.0], [7.0, 1.0]], [0, 1])
    assert (ax.get_xlim(), ax.get_ylim()) == ((6.0, 8.0), (-0.15, 1.15))
    assert colour_at(ax, 6.5, 0.5) == colour_at(ax, 7.5, 1.0)
