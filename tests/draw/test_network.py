"""The units of a network, and the picture of a model."""

import re

import pytest

from micrograd import Value, nn
from micrograd.draw.graph.svg import to_svg
from micrograd.draw.network import at_zero, described


class Wrapped(nn.Module):
    def __init__(self, part):
        self.part = part

    def __call__(self, words):
        return self.part([len(word) for word in words])


MLP = nn.MLP(3, [2, 1], rng=1)


@pytest.mark.parametrize(("model", "units"), [
    (MLP, ["x0 x1 x2", "h1[0] h1[1]", "out"]), (Wrapped(MLP), ["x0 x1 x2", "h1[0] h1[1]", "out"]),
    (nn.Layer(1, 3, "relu", rng=1), ["x0", "out[0] out[1] out[2]"]), (nn.Neuron(2, rng=1), ["x0 x1", "out"]),
])  # fmt: skip
def test_a_model_of_layers_has_a_picture_of_its_units_at_inputs_of_0(model, units):
    assert list(map(" ".join, described(model)["columns"])) == units
    picture = model._repr_mimebundle_()["image/svg+xml"]
    assert picture == to_svg(at_zero(model))
    assert sorted(re.findall(r'class="label"[^>]*>([^<]*)<', picture)) == sorted(" ".join(units).split())
    assert all(parameter.grad == 0 for parameter in model.parameters())


def test_the_parameters_are_named_after_their_units():
    hidden = [f"h1[{i}].{w}" for i in range(2) for w in ("w0", "w1", "w2", "b")]
    assert described(MLP)["names"] == [*hidden, "out.w0", "out.w1", "out.b"]


def test_several_outputs_share_a_card_and_large_layers_are_drawn_in_part_and_large_models_not_at_all():
    assert ">2 outputs</text>" in to_svg(at_zero(nn.MLP(2, [3, 2], rng=1)))
    assert "tanh: 25 more" in nn.MLP(64, [32, 10], rng=1)._repr_mimebundle_()["image/svg+xml"]
    assert nn.MLP(200, [100, 1], rng=1)._repr_mimebundle_().keys() == {"text/plain"}


def test_other_models_have_no_picture():
    tied = nn.Neuron(2, rng=1)
    tied.w[1] = tied.w[0] * 2
    both = Wrapped(nn.Neuron(2, rng=1))
    both.scale = Value(1.0)
    scaled = nn.MLP(2, [2, 1], rng=1)
    scaled.layers.insert(1, both)
    for model in (tied, both, nn.Embedding(3, 2, rng=1), scaled):
        assert at_zero(model) is None
        assert model._repr_mimebundle_().keys() == {"text/plain"}
