"""The plot of what a model says around its examples."""

import math

import pytest

from micrograd import Value, nn
from micrograd.data import xor
from micrograd.viz import plot_boundary


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


def test_of_several_outputs_the_largest_is_the_class(pyplot):
    ax = plot_boundary(lambda x: [x[0], x[1], 0.5 - x[0]], [[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]], [2, 1, 0])
    assert len({colour_at(ax, 1.0, 0.2), colour_at(ax, 0.2, 1.0), colour_at(ax, 0.0, 0.1)}) == 3
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1", "2"]


def test_a_model_that_cannot_be_compiled_is_asked_point_by_point(pyplot):
    def branching(x):
        return [Value(0.0), 1.0] if x[1] > 0 else (x[0] + 10, x[1])

    ax = plot_boundary(branching, [[0.0, -1.0], [3.0, 1.0]], [0, 1])
    assert colour_at(ax, 1.0, 0.5) != colour_at(ax, 1.0, -0.5)


@pytest.mark.parametrize("error", [ValueError, TypeError, IndexError])
def test_an_error_of_the_models_own_comes_out(pyplot, error):
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
def test_a_boundary_is_of_two_inputs_and_a_target(xs, ys, message):
    with pytest.raises(ValueError, match=message):
        plot_boundary(lambda x: x[0], xs, ys)


def test_a_boundary_is_drawn_where_the_examples_lie_and_is_no_line_where_one_class_is_predicted_everywhere(pyplot):
    ax = plot_boundary(lambda x: x[1] + 10.0, [[7.0, 0.0], [7.0, 1.0]], [0, 1])
    assert (ax.get_xlim(), ax.get_ylim()) == ((6.0, 8.0), (-0.15, 1.15))
    assert colour_at(ax, 6.5, 0.5) == colour_at(ax, 7.5, 1.0)
