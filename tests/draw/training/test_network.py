"""A network as a picture."""

import xml.etree.ElementTree as ElementTree

import pytest

from micrograd import nn
from micrograd.draw.text import number, width
from micrograd.draw.training.network import network


def titles(svg):
    """Of a network's picture: the titles of its cards, and by its title each edge."""
    root = ElementTree.fromstring(svg)
    namespace = "{http://www.w3.org/2000/svg}"
    edges = [e for e in root.iter(f"{namespace}path") if "mg-edge" in e.get("class")]
    return [e[0].text for e in root.iter(f"{namespace}g")], {e[0].text: e for e in edges}


def test_a_network_has_a_card_for_each_unit_and_an_edge_for_each_weight():
    model = nn.MLP(3, [4, 1], rng=1)
    model.layers[0].neurons[1].w[2].data = -8.0
    model.layers[0].neurons[0].w[0].data = 0.0
    cards, edges = titles(network(model))
    assert [title.split(":")[0] for title in cards] == ["x0", "x1", "x2", *[f"h1[{i}]" for i in range(4)], "out"]
    weights = {
        f"h1[{i}].w{j}, the weight of x{j}": w for i in range(4) for j, w in enumerate(model.layers[0].neurons[i].w)
    }
    weights |= {f"out.w{i}, the weight of h1[{i}]": w for i, w in enumerate(model.layers[1].neurons[0].w)}
    assert edges.keys() == {f"{name}: {number(w.data)}" for name, w in weights.items()}
    for title, edge in edges.items():
        weight = float(title.split(": ")[1].replace("−", "-"))
        assert edge.get("class").split()[1] == ("plus" if weight > 0 else "minus" if weight else "none")
    thickest = max(edges, key=lambda title: float(edges[title].get("stroke-width")))
    assert thickest == "h1[1].w2, the weight of x2: −8"


def test_a_bias_is_in_its_card():
    model = nn.Layer(1, 6, rng=1)
    for neuron, bias in zip(model.neurons, [0.125, -1e-9, 123456.0, -1e154, float("nan"), float("inf")], strict=True):
        neuron.b.data = bias
    root = ElementTree.fromstring(network(model))
    texts = [e.text for e in root.iter() if e.get("class") == "inside"]
    assert texts == ["x0", "0.125", "−1e−9", "1.23e5", "−1e154", "nan", "inf"]


@pytest.mark.parametrize("model", [nn.Neuron(2, rng=1), nn.Layer(3, 2, rng=1), nn.MLP(64, [32, 10], rng=1)])
def test_models_of_layers_are_drawn(model):
    svg = network(model)
    assert len(svg) < 200_000
    root = ElementTree.fromstring(svg)
    assert float(root.get("width")) <= 838


def test_of_a_wide_layer_the_first_units_are_drawn_and_the_others_counted():
    svg = network(nn.MLP(64, [32, 1], rng=1))
    assert len(titles(svg)[0]) == 16 + 16 + 1
    words = ("x0 to x15 and 48 more", "h1[0] to h1[15] and 16 more", "out")
    assert all(f">{name}</text>" in svg for name in words)


def test_the_smaller_its_weight_the_fainter_an_edge_is():
    edges = titles(network(nn.MLP(16, [16], rng=1)))[1].values()
    opacities = [float(edge.get("opacity")) for edge in edges]
    assert max(opacities) == 1 > min(opacities) == 0.25


@pytest.mark.parametrize("n", [1, 6, 8, 9, 13, 14, 16])
def test_a_bias_is_shown_where_its_card_has_room_for_it(n):
    model = nn.Layer(1, n, rng=1)
    for neuron in model.neurons:
        neuron.b.data = -0.0921234
    root = ElementTree.fromstring(network(model))
    side = float(root.find(".//{*}rect").get("width"))
    [bias] = {e.text for e in root.iter() if e.get("class") == "inside" and e.text} - {"x0"} or [""]
    assert 12 * width(bias) <= side + 8
    assert bool(bias) == ("in the cards: biases" in "".join(root.itertext())) == (n < 14)
