"""What the tests of plots share."""

import pytest


@pytest.fixture
def pyplot(monkeypatch):
    """matplotlib without a window, and boundaries on a coarse grid."""
    monkeypatch.setattr("micrograd.draw.training.charts.FINE", 40)
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")
