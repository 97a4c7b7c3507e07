"""The page of a training: its contents, and what it shows of each snapshot in a browser."""

import base64
import json
import math
import re
import sys
import zlib
from array import array

import pytest

from micrograd import Value, losses, nn, viz
from micrograd.data import moons, spirals
from micrograd.draw.training.boundary import margins, plane
from micrograd.draw.training.network import names
from micrograd.draw.training.page import COARSE, FINE, page
from micrograd.optim import SGD, Adam, cosine
from micrograd.training import fit
from micrograd.training.history import Diverged, Failure, History, Snapshot

XS, YS = moons(20, rng=1)
CROSS_ENTROPY = losses.binary_cross_entropy_with_logits


def trained(model=None, xs=XS, ys=YS, loss=CROSS_ENTROPY, **options):
    """A history and its model."""
    model = model or nn.MLP(2, [3, 1], rng=1)
    options = {"epochs": 12, "snapshots": 5, "batch_size": 5, "rng": 1, **options}
    optimizer = options.pop("optimizer", Adam(model.parameters(), 0.05))
    return fit(model, loss, xs, ys, progress=False, optimizer=optimizer, **options), model


def unpacked(html, id):
    packed = re.search(f'<script type="text/plain" id="{id}">(.*?)</script>', html)[1]
    return zlib.decompress(base64.b64decode(packed))


def document(html):
    return json.loads(unpacked(html, "document"))


def at(model, snapshot):
    """The model as it was."""
    for parameter, number in zip(model.parameters(), snapshot.parameters, strict=True):
        parameter.data = number
    return model


def points(area, n=FINE):
    shares = [i / (n - 1) for i in range(n)]
    xs = [area.left + share * (area.right - area.left) for share in shares]
    return [(x, area.bottom + share * (area.top - area.bottom)) for share in shares for x in xs]


# What is in it


def test_the_numbers_are_those_of_the_history():
    history, model = trained(validation=(XS, YS), schedule=cosine(0.05, 48))
    found = document(page(history, model, XS, YS))
    assert found["epochs"] == [snapshot.epoch for snapshot in history.snapshots] == [0, 4, 8, 12]
    for kind in ("parameters", "gradients"):
        for numbers, snapshot in zip(found[kind], history.snapshots, strict=True):
            assert numbers == pytest.approx(list(getattr(snapshot, kind)), rel=1e-4)
    first, *_, last = found["captions"]
    norm = math.hypot(*history.snapshots[-1].gradients)
    assert first == "before training, gradient norm 0"
    assert last == (
        f"epoch 12, loss {history.losses[-1]:.4g}, validation {history.validation_losses[-1]:.4g}, "
        f"learning rate {history.learning_rates[-1]:.4g}, gradient norm {norm:.3g}"
    )


def test_the_maps_are_what_the_model_and_its_units_say():
    history, model = trained(nn.MLP(2, [3, 2, 1], output="sigmoid", rng=1), loss=losses.mse_loss)
    html = page(history, model, XS, YS)
    maps = unpacked(html, "maps")
    size = FINE**2 + (2 + 3 + 2 + 1) * COARSE**2
    assert len(maps) == size * len(history.snapshots)
    area, every = plane(XS, YS), FINE // COARSE
    some = [points(area)[row * FINE + column] for row in range(0, FINE, every) for column in range(0, FINE, every)]
    for i, snapshot in enumerate(history.snapshots):
        at(model, snapshot)
        lead, units = maps[i * size :][: FINE**2], maps[i * size + FINE**2 : (i + 1) * size]
        for byte, point in zip(lead, points(area), strict=True):
            ahead = model(point).data - 0.5
            assert byte == 128 + round(127 * ahead / (0.25 + abs(ahead)))
        shown = []
        for point in some:
            hidden = model.layers[0](point)
            shown.append([*point, *[v.data for v in hidden + model.layers[1](hidden)], model(point).data])
        for k, unit in enumerate(zip(*shown, strict=True)):
            expected = [128 + round(127 * x / max(1, *map(abs, unit))) for x in unit]
            assert list(units[k * COARSE**2 : (k + 1) * COARSE**2]) == pytest.approx(expected, abs=1)


def test_of_several_classes_each_has_a_map_of_its_lead():
    xs, ys = spirals(30, rng=1, arms=3)
    history, model = trained(nn.MLP(2, [4, 3], rng=1), xs, ys, losses.cross_entropy, snapshots=2)
    html = page(history, model, xs, ys)
    maps = unpacked(html, "maps")
    assert document(html)["maps"]["leads"] == 3
    outputs = [[v.data for v in model(point)] for point in points(plane(xs, ys))]
    last = maps[len(maps) // 2 :]
    for k, lead in enumerate(margins(outputs, 0.0)):
        signs = [(byte > 128) - (byte < 128) for byte in last[k * FINE**2 : (k + 1) * FINE**2]]
        assert all(sign in (0, math.copysign(1, x)) for sign, x in zip(signs, lead, strict=True))
    assert [len(examples) for _, _, examples in document(html)["maps"]["classes"]] == [10, 10, 10]


def test_the_model_is_left_as_it_is():
    history, model = trained()
    before = [(p.data, p.grad) for p in model.parameters()]
    page(history, model, XS, YS)
    assert [(p.data, p.grad) for p in model.parameters()] == before


@pytest.mark.parametrize("model", [nn.Neuron(2, "tanh", rng=1), nn.Layer(2, 1, "tanh", rng=1)])
def test_a_neuron_and_a_layer_have_pages_too(model):
    history, _ = trained(model)
    html = page(history, model, XS, YS)
    assert document(html)["maps"].items() >= {"leads": 1, "fine": FINE, "coarse": COARSE}.items()
    assert len(unpacked(html, "maps")) == (FINE**2 + 3 * COARSE**2) * len(history.snapshots)


def test_of_a_wide_layer_only_the_units_with_a_card_have_maps():
    history, model = trained(nn.MLP(2, [20, 18], rng=1), loss=lambda p, y: p[0] ** 2, snapshots=2)
    html = page(history, model, XS, [y % 2 for y in YS])
    assert len(unpacked(html, "maps")) == 2 * (18 * FINE**2 + (2 + 16 + 16) * COARSE**2)
    assert len(document(html)["units"]) == 2 + 16 + 16
    assert [len(names) for names in document(html)["columns"]] == [2, 20, 18]


class Own(nn.Module):
    """A model of a user's own, which cannot be compiled, and has a name that no page may run."""

    def __init__(self):
        self.parts = {"<script>alert(1)</script>": Value(1.0)}

    def __repr__(self):
        return "Own</title><script>alert(2)</script>"

    def __call__(self, x):
        [w] = self.parameters()
        return w * x[0] if x[1] > 0 else w


def test_a_model_of_a_users_own_has_the_plane_and_the_table():
    history, model = trained(Own())
    html = page(history, model, XS, YS)
    assert "alert(" not in html.replace("&lt;script&gt;alert(", "")
    assert document(html)["names"] == ["parts.<script>alert(1)</script>"]
    assert document(html)["maps"]
    assert "mg-network" not in html.split("</style>")[1].split("<script")[0]
    assert len(unpacked(html, "maps")) == FINE**2 * len(history.snapshots)


def test_where_the_model_says_nothing_the_map_has_a_0():
    class Log(nn.Module):
        def __init__(self):
            self.w = Value(1.0)

        def __call__(self, x):
            return (x[0] * self.w).log()

    html = page(History([1.0]), Log(), [[-1.0, 0.0], [1.0, 1.0]], [0, 1])
    maps = unpacked(html, "maps")
    assert maps[0] == 0
    assert maps[FINE - 1] > 128


@pytest.mark.parametrize(
    "coordinates", [(1e17, 1e17), (1e17, 1e17 + 16), (1.7e308, -1.7e308), (5e-324, 0.0), (5e-324, 5e-324)]
)
def test_examples_of_any_size_lie_within_their_plane(coordinates):
    xs = [[coordinate, float(i)] for i, coordinate in enumerate(coordinates)]
    html = page(History([1.0]), nn.MLP(2, [2, 1], rng=1), xs, [0, 1])
    marks = [example for _, _, examples in document(html)["maps"]["classes"] for example in examples]
    assert len(marks) == 2
    assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y, _ in marks)


@pytest.mark.parametrize("number", [sys.float_info.max, -sys.float_info.max, 5e-324, math.nan, math.inf, 1e17])
def test_numbers_of_any_size_have_a_page(number):
    model = nn.MLP(2, [2, 1], rng=1)
    numbers = array("d", [number] * 9)
    history = History([number] * 2, [number] * 2, [abs(number)] * 2, snapshots=[Snapshot(2, numbers, numbers)])
    found = document(page(history, model, XS, YS))
    known = {"NaN": math.nan, "Infinity": math.inf}
    shown = [known.get(x, x) for x in found["parameters"][0]]
    assert shown == [pytest.approx(number, rel=1e-4, nan_ok=True)] * 9


def test_without_snapshots_it_shows_the_model_as_it_is_now():
    history, model = trained(snapshots=None)
    html = page(history, model, XS, YS)
    assert document(html)["parameters"] == [pytest.approx([p.data for p in model.parameters()], rel=1e-4)]
    assert document(html)["epochs"] == [12]
    assert 'id="slider"' not in html


@pytest.mark.parametrize("model", [None, lambda x: x, nn.Module()])
def test_without_a_model_of_parameters_it_has_the_curves_alone(model):
    html = page(History([1.0, 0.5]), model, XS, YS)
    assert html.count('class="mg-chart"') == 1
    assert [document(html)[kind] for kind in ("parameters", "maps", "names")] == [[], None, []]


def test_examples_of_more_than_two_inputs_have_no_plane():
    model = nn.MLP(3, [2, 1], rng=1)
    assert document(page(History([1.0]), model, [[1.0, 2.0, 3.0]], [0]))["maps"] is None
    assert document(page(History([1.0]), model))["maps"] is None


def test_the_learning_rate_has_a_chart_where_it_changes():
    assert page(History([1.0, 2.0], learning_rates=[0.1, 0.1])).count('class="mg-chart"') == 1
    assert page(History([1.0, 2.0], learning_rates=[0.1, 0.2])).count('class="mg-chart"') == 2


def test_many_parameters_have_no_table():
    assert len(document(page(History([1.0]), nn.MLP(3, [2, 1], rng=1)))["names"]) == 11
    assert document(page(History([1.0]), nn.MLP(20, [30, 1], rng=1)))["names"] == []


def test_it_asks_for_no_other_file_and_is_not_large(tmp_path):
    history, model = trained(nn.MLP(2, [8, 8, 1], rng=1), epochs=60, snapshots=50)
    viz.save_training(history, tmp_path / "page.html", model, XS, YS)
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert html == page(history, model, XS, YS)
    assert len(html) < 300_000
    assert "default-src 'none'" in html
    links = re.findall(r"(?:https?:)?//[\w.]+", re.sub(r'<script type="text/plain".*?</script>', "", html))
    assert set(links) <= {"http://www.w3.org"}  # which names SVG, and is not asked for


def failed(message="the loss is inf in epoch 2", origin="*(1e+200, 1e+200) is inf", parameters=(0, 3)):
    """A training that ended in the second epoch, with gradients that are not finite."""
    _, model = trained(snapshots=None)
    n = len(model.parameters())
    bad = array("d", [math.inf, -math.inf, math.nan] + [1e-7] * (n - 3))
    numbers = array("d", [p.data for p in model.parameters()])
    history = History([2.0], snapshots=[Snapshot(0, numbers, array("d", bytes(8 * n))), Snapshot(1.5, numbers, bad)])
    history.failure = Failure(1.5, "the loss is inf", message, origin, list(parameters))
    return history, model


def test_a_failure_is_told_with_its_origin_and_marked_in_the_curve():
    history, model = failed()
    html = page(history, model, XS, YS)
    assert "the loss is inf in epoch 2. Where it began: *(1e+200, 1e+200) is inf." in html
    assert '<text class="mg-alarm"' in html
    assert document(html)["gradients"][1][:4] == ["Infinity", "-Infinity", "NaN", 1e-07]
    assert document(html)["bad"] == [0, 3]
    assert "Where it began" not in page(failed(origin="")[0], model)


def test_a_training_that_really_diverges_has_a_page():
    model = nn.MLP(2, [4, 1], activation="relu", rng=1)
    with pytest.raises(Diverged) as caught:
        trained(model, loss=losses.mse_loss, epochs=500, optimizer=SGD(model.parameters(), 1.9))
    history = caught.value.history
    html = page(history, model, XS, YS)
    assert document(html)["epochs"][-1] == pytest.approx(history.failure.epoch, rel=1e-4)
    assert "ended as the loss is inf" in html


def test_snapshots_of_another_model_are_refused():
    history, _ = trained()
    with pytest.raises(
        ValueError, match=r"the snapshots have 13 parameters, but the model has 3: give the model that was"
    ):
        page(history, nn.Neuron(2))


def test_examples_without_their_targets_are_refused():
    with pytest.raises(ValueError, match="not 20 and 19"):
        page(History([1.0]), nn.Neuron(2), XS, YS[:-1])
    with pytest.raises(TypeError, match="of type list: expected the History"):
        viz.save_training([1.0], "never.html")


# What a browser shows


@pytest.fixture
def shown(opened, tmp_path):
    """A function that shows the page of a training."""

    def shown(history, *arguments, fragment="", **options):
        path = tmp_path / "page.html"
        viz.save_training(history, path, *arguments)
        tab = opened(path, fragment, **options)
        tab.wait_for_selector("html[data-ready]", state="attached")
        return tab

    return shown


def number(text):
    return float(text.replace("\N{MINUS SIGN}", "-").replace("Infinity", "inf"))


def assert_shows(tab, model, snapshot, told):
    """The page shows the numbers of this snapshot."""
    assert tab.inner_text("#status") == told
    cells = tab.evaluate(
        "[...document.querySelectorAll('#parameters tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    expected = zip(names(model), snapshot.parameters, snapshot.gradients, strict=True)
    for (name, data, grad), (expected_name, parameter, gradient) in zip(cells, expected, strict=True):
        assert name == expected_name
        assert [number(data), number(grad)] == pytest.approx([parameter, gradient], rel=1e-3, abs=1e-300, nan_ok=True)
    edges = tab.evaluate(
        "[...document.querySelectorAll('[data-weight]')].map(e => [+e.dataset.weight, e.classList[1]])"
    )
    assert edges
    for i, kind in edges:
        x = snapshot.parameters[i]
        assert kind == ("plus" if x > 0 else "minus" if x < 0 else "none")


def test_every_snapshot_is_shown_by_keyboard_with_pythons_numbers(shown):
    history, model = trained(validation=(XS, YS))
    told = document(page(history, model, XS, YS))["captions"]
    tab = shown(history, model, XS, YS)
    last = len(told) - 1
    assert_shows(tab, model, history.snapshots[last], told[last])
    tab.keyboard.press("Home")
    for i, snapshot in enumerate(history.snapshots):
        assert_shows(tab, model, snapshot, told[i])
        assert tab.input_value("#slider") == str(i)
        assert tab.get_attribute("#slider", "aria-valuetext") == told[i]
        assert tab.url.endswith(f"#snapshot={i}")
        tab.keyboard.press("ArrowRight")
    assert_shows(tab, model, history.snapshots[last], told[last])
    tab.keyboard.press("ArrowLeft")
    assert_shows(tab, model, history.snapshots[last - 1], told[last - 1])
    tab.keyboard.press("End")
    assert_shows(tab, model, history.snapshots[last], told[last])


def test_buttons_the_slider_the_chart_and_the_address_lead_to_snapshots(shown):
    history, model = trained()
    tab = shown(history, model, XS, YS, fragment="#snapshot=1")

    def at():
        return int(tab.input_value("#slider"))

    assert at() == 1
    for button, expected in (("#forward", 2), ("#last", 3), ("#last", 3), ("#back", 2), ("#first", 0), ("#back", 0)):
        tab.click(button)
        assert at() == expected
    tab.focus("#slider")
    tab.keyboard.press("ArrowRight")
    assert tab.inner_text("#status").startswith("epoch 4")
    tab.evaluate("location.hash = 'snapshot=3'")
    tab.wait_for_function("document.querySelector('#slider').value === '3'")
    chart = tab.locator(".mg-chart").first
    box = chart.bounding_box()
    chart.click(position={"x": box["width"] * 65 / 640, "y": 100})
    assert at() == 0


def test_play_goes_through_all_and_rests_at_the_end(shown):
    history, model = trained()
    tab = shown(history, model, XS, YS)
    tab.clock.install(time=0)
    tab.clock.pause_at(1)  # or real time passes beside what the test lets pass
    tab.click("#play")
    assert tab.input_value("#slider") == "0"
    assert tab.inner_text("#play") == "Pause"
    tab.clock.run_for(5000)
    assert tab.input_value("#slider") == "3"
    assert tab.inner_text("#play") == "Play"
    tab.keyboard.press("Tab")
    tab.click("#play")
    tab.click("#play")
    tab.clock.run_for(5000)
    assert tab.input_value("#slider") == "0"


def test_play_is_slow_for_who_wants_little_motion(shown):
    history, model = trained()
    tab = shown(history, model, XS, YS, reduced_motion="reduce")
    tab.clock.install(time=0)
    tab.clock.pause_at(1)  # or real time passes beside what the test lets pass
    tab.click("#play")
    tab.clock.run_for(600)
    assert tab.input_value("#slider") == "0"
    tab.clock.run_for(1000)
    assert tab.input_value("#slider") == "1"


PIXELS = """async ([selector, n]) => {
    const image = new Image();
    image.src = document.querySelector(selector).getAttribute("href");
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = n;
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const data = context.getImageData(0, 0, n, n).data;
    return Array.from({ length: n * n }, (_, i) => [...data.slice(4 * i, 4 * i + 3)]);
}"""


def test_shades_and_border_are_where_the_model_changes_its_mind(shown):
    history, model = trained()
    tab = shown(history, model, XS, YS)
    area = plane(XS, YS)
    for i in (0, len(history.snapshots) - 1):
        tab.keyboard.press("Home" if i == 0 else "End")
        n = 3 * FINE
        pixels = tab.evaluate(PIXELS, ["#plane image", n])
        says = [at(model, history.snapshots[i])(point).data for point in points(area, n)]
        from_below = [pixel for start in range(n**2 - n, -1, -n) for pixel in pixels[start : start + n]]
        for (red, _, blue), x in zip(from_below, says, strict=True):
            assert abs(x) < 1e-2 or (blue > red) == (x > 0)
        path = tab.get_attribute("#plane path", "d")
        strokes = [tuple(map(float, point.split())) for point in re.findall(r"[ML]([\d.]+ [\d.]+)", path)]
        assert strokes
        for x, y in strokes[:: max(1, len(strokes) // 20)]:
            point = (
                area.left + (area.right - area.left) * (x - 40) / 300,
                area.bottom + (area.top - area.bottom) * (308 - y) / 300,
            )
            assert abs(model(point).data) < 0.05


def test_examples_are_marked_where_they_lie_and_by_their_class(shown):
    history, model = trained()
    tab = shown(history, model, XS, YS)
    area = plane(XS, YS)
    marks = tab.evaluate(
        """[...document.querySelectorAll(".mark:has(title)")].map(mark => [
            mark.textContent, mark.getAttribute("style").slice(-2, -1),
            mark.getAttribute("transform").match(/[\\d.]+/g),
        ])"""
    )
    expected = sorted(zip(YS, XS, strict=True), key=lambda example: example[0])
    for (told, kind, (x, y)), (target, (across, up)) in zip(marks, expected, strict=True):
        assert (told, kind) == (f"({across:.4g}, {up:.4g}): target {target:g}", str(int(target)))
        assert float(x) == pytest.approx(40 + 300 * (across - area.left) / (area.right - area.left), abs=0.1)
        assert float(y) == pytest.approx(308 - 300 * (up - area.bottom) / (area.top - area.bottom), abs=0.1)
    assert {"x0", "x1", "target 0", "target 1"} <= set(tab.locator("#plane-part text").all_text_contents())


def test_parts_without_content_are_hidden(shown):
    parts = ["#plane-part", "#network-part", "#unit", "#parameters-part"]
    history, model = trained()
    tab = shown(history, model, XS, YS)
    assert all(tab.locator(part).is_visible() for part in parts)
    tab = shown(History([1.0]))
    assert not any(tab.locator(part).is_visible() for part in parts)


def test_cards_are_blue_above_0_and_orange_with_stripes_below(shown):
    history, model = trained()
    tab = shown(history, model, XS, YS)
    n = 3 * COARSE
    pixels = tab.evaluate(PIXELS, ["[data-unit='0'] image", n])  # of the first input, from left to right
    area = plane(XS, YS)
    zero = n * -area.left / (area.right - area.left)
    row = pixels[n * n // 2 : n * n // 2 + n]
    assert all(blue > red for red, _, blue in row[int(zero) + 4 :])
    assert all(red > blue for red, _, blue in row[: int(zero) - 4])
    far = [sum(pixel) for pixel in row]
    assert far[-10:] == sorted(far[-10:], reverse=True)
    assert far[:10] != sorted(far[:10])


def test_a_card_shows_its_units_numbers_and_edges(shown):
    history, model = trained()
    tab = shown(history, model, XS, YS)
    tab.focus("[data-unit='3']")
    tab.keyboard.press("Enter")
    rows = tab.evaluate("[...document.querySelectorAll('#unit tr')].map(r => [...r.cells].map(c => c.textContent))")
    neuron = model.layers[0].neurons[1]
    assert [row[0] for row in rows] == ["parameter", "h1[1].w0, of x0", "h1[1].w1, of x1", "h1[1].b"]
    assert [number(row[1]) for row in rows[1:]] == pytest.approx([p.data for p in (*neuron.w, neuron.b)], rel=1e-3)
    assert tab.get_attribute("[data-unit='3']", "aria-pressed") == "true"
    assert tab.locator(".mg-edge.near").count() == 2 + 1
    assert tab.inner_text("#unit caption") == "h1[1], epoch 12"
    tab.keyboard.press(" ")
    assert tab.get_attribute("[data-unit='3']", "aria-pressed") == "false"
    assert "Click a neuron" in tab.inner_text("#unit")
    tab.click("[data-unit='0']")
    assert tab.inner_text("#unit") == "x0, epoch 12"


def test_edges_show_gradients_where_asked_for(shown):
    history, model = trained()
    tab = shown(history, model, XS, YS)
    tab.check("input[value=gradients]")
    gradients = history.snapshots[-1].gradients
    edges = tab.evaluate(
        "[...document.querySelectorAll('[data-weight]')].map(e => [+e.dataset.weight, e.classList[1]])"
    )
    assert all(kind == ("plus" if gradients[i] > 0 else "minus") for i, kind in edges)


def test_a_failure_is_marked_at_its_units(shown):
    history, model = failed()
    tab = shown(history, model, XS, YS)
    assert tab.locator(".failure").count() == 1
    assert tab.evaluate("[...document.querySelectorAll('[data-unit].bad')].map(e => e.dataset.unit)") == ["2", "3"]
    assert tab.locator("[data-unit='2'] .alert").text_content() == "!"
    tab.check("input[value=gradients]")
    assert tab.locator(".mg-edge.bad").count() == 2
    tab.click("#first")
    assert tab.locator("[data-unit].bad").count() == 0


@pytest.mark.parametrize("width", [320, 360, 1200])
def test_nothing_overflows(shown, width):
    xs, ys = spirals(60, rng=1, arms=5)
    history, model = trained(nn.MLP(2, [16, 5], rng=1), xs, ys, losses.cross_entropy, schedule=cosine(0.05, 144))
    history.validation_losses = [8.888e-08] * 12
    tab = shown(history, model, xs, ys, viewport={"width": width, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    outside = tab.evaluate(
        """[...document.querySelectorAll("svg text")].filter((text) => {
            const a = text.getBoundingClientRect(), b = text.ownerSVGElement.getBoundingClientRect();
            const across = a.left < b.left - 1 || a.right > b.right + 1;
            return a.width && (across || a.top < b.top - 1 || a.bottom > b.bottom + 1);
        }).map((text) => text.textContent)"""
    )
    assert outside == []


def test_biases_fit_into_their_cards(shown):
    model = nn.MLP(3, [8, 1], rng=1)
    for neuron, number in zip(
        model.layers[0].neurons, [-99.994, 123456.0, -1e-9, -1e154, 3.0, 0.0, -99.5, 1e5], strict=True
    ):
        neuron.b.data = number
    tab = shown(History([1.0]), model)
    boxes = tab.evaluate(
        """[...document.querySelectorAll("[data-unit]")].map((unit) =>
            [unit.querySelector(".inside"), unit.querySelector("rect")].map((e) => e.getBoundingClientRect().width))"""
    )
    assert all(text <= card for text, card in boxes)
    texts = tab.evaluate("[...document.querySelectorAll('.inside')].map((text) => text.textContent)")
    assert texts == ["", "", "", "-99.99", "1e5", "0.00", "-1e154", "3.00", "0.00", "-99.50", "1e5", "0.00"]


def test_a_deep_network_scrolls_rather_than_become_illegible(shown):
    tab = shown(History([1.0]), nn.MLP(2, [4] * 10 + [1], rng=1), viewport={"width": 800, "height": 600})
    picture = tab.locator(".mg-network")
    assert picture.bounding_box()["width"] >= 0.75 * float(picture.get_attribute("width"))
    assert tab.evaluate("document.documentElement.scrollWidth") <= 800


@pytest.mark.parametrize("width", [320, 390])
def test_on_a_phone_the_whole_chart_is_in_view_and_its_text_can_be_read(shown, width):
    history, model = trained(validation=(XS, YS))
    tab = shown(history, model, XS, YS, viewport={"width": width, "height": 844})
    box = tab.locator(".mg-narrow").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert box["width"] >= 0.8 * 350  # of the size at which text has 12 pixels
    assert not tab.locator(".mg-chart:not(.mg-narrow)").is_visible()
    assert tab.locator(".mg-narrow .mg-name1").text_content().startswith("validation ")
    tab.locator(".mg-narrow").click(position={"x": 66 * box["width"] / 350, "y": 100})
    assert tab.input_value("#slider") == "0"


def test_dark_and_light_have_colours_of_their_own(shown):
    history, model = trained()
    grounds = [
        shown(history, model, XS, YS, color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert grounds == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]


@pytest.mark.parametrize(("scheme", "size"), [("light", (1280, 800)), ("dark", (1280, 800)), ("dark", (390, 844))])
def test_axe_finds_nothing(shown, axe, scheme, size):
    window = {"width": size[0], "height": size[1]}
    for history, model in (trained(), failed()):
        tab = shown(history, model, XS, YS, color_scheme=scheme, viewport=window, bypass_csp=True)
        tab.click("[data-unit='3']")
        tab.click("summary")
        tab.evaluate(axe)
        assert (
            tab.evaluate("axe.run().then(found => found.violations.map(v => [v.id, v.nodes.map(n => n.html)]))") == []
        )
