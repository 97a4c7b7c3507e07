"""The playground: what Python puts into it, how it trains, in Node and in a browser, and what its controls do."""

import base64
import json
import math
import random
import re
import zlib
from importlib.resources import files
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from micrograd import Value, data, fit, losses, nn, optim, viz
from micrograd.draw import network
from micrograd.draw.playground import lesson
from micrograd.draw.playground import page as playground
from micrograd.draw.playground.page import boundary, kinds_of
from tests.helpers import flat
from tests.javascript import in_node

XS, YS = data.moons(20, 0.1, rng=1)
LOGITS = losses.binary_cross_entropy_with_logits
SOURCES = files(playground.__package__)
WORKER, WRITTEN = (Path(__file__).with_name(name).read_text() for name in ("worker.js", "written.js"))


def model_of(sizes=(2, 3, 1), seed=1, **options):
    return nn.MLP(sizes[0], sizes[1:], rng=seed, **options)


def content_of(html):
    packed = re.search('<script type="text/plain" id="document">(.*?)</script>', html, re.DOTALL)[1]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def numbers_of(model):
    return [parameter.data for parameter in model.parameters()]


def mean_loss(model, xs=XS, ys=YS, loss=LOGITS):
    return sum(loss(model(x), y).data for x, y in zip(xs, ys, strict=True)) / len(xs)


# The parts without a page, in Node

SEEDS = [0, 7, 2**32 - 1, 2**32 + 5, 10**15 - 1]


def test_random_numbers_are_those_of_python(tmp_path):
    script = (SOURCES / "random.js").read_text(encoding="utf-8")
    script += f"const results = {SEEDS}.map(seed => {{ const r = new Random(seed), of = [...Array(700).keys()];"
    script += "return [r.random(), r.uniform(-2, 3), r.gauss(0, 1), r.gauss(1, 2), ...r.shuffle(of), r.random()]; });"
    for seed, found in zip(SEEDS, in_node(tmp_path, script), strict=True):
        rng = random.Random(seed)
        expected = [rng.random(), rng.uniform(-2, 3), rng.gauss(0, 1), rng.gauss(1, 2)]
        order = list(range(700))
        rng.shuffle(order)
        assert found == pytest.approx([*expected, *order, rng.random()], rel=1e-14)


def test_the_axis_of_losses_has_labels_near_both_of_its_ends(tmp_path):
    ranges = [(low / 20, low / 20 + span / 20) for low in range(-60, 20) for span in range(6, 120)]
    script = (SOURCES / "chart.js").read_text()
    script += f"const results = {json.dumps(ranges)}.map(range => lossTicks(...range, true));"
    for (low, high), ticks in zip(ranges, in_node(tmp_path, script), strict=True):
        assert (2 if high - low < 0.5 else 3) <= len(ticks) <= 6
        assert ticks[0] - low <= 0.5 * (high - low)
        assert high - ticks[-1] <= 0.5 * (high - low)


def test_labels_of_an_axis_are_exact_and_short_and_none_is_there_twice(tmp_path):
    ranges = [(low / 20, low / 20 + span / 20) for low in range(-200, 100, 3) for span in range(6, 120, 5)]
    script = (SOURCES.parent / "shell.js").read_text() + (SOURCES / "chart.js").read_text()
    script += "const labelled = ticks => [ticks, tickTexts(ticks).map(words => `: ${words}`)];"
    script += f"const results = {json.dumps(ranges)}.map(r => labelled(lossTicks(...r, true).map(x => 10 ** x)));"
    for ticks, words in in_node(tmp_path, script):
        assert [float(each[2:].replace("−", "-")) for each in words] == pytest.approx(ticks, rel=1e-9)
        assert max(map(len, words)) <= 2 + 7
        assert len({*words}) == len(words)


def test_data_sets_are_those_of_python(tmp_path):
    script = "".join((SOURCES / name).read_text() for name in ("random.js", "data.js"))
    calls = [f"{name}(7, 0.1, new Random(3))" for name in ("moons", "circles", "spirals")]
    calls += ["spirals(7, 0.1, new Random(3), 3)", "xor(4, 0, new Random(0))"]
    found = in_node(tmp_path, script + f"const results = [{', '.join(f'DATA.{call}' for call in calls)}];")
    made = [make(7, 0.1, 3) for make in (data.moons, data.circles, data.spirals)]
    for rows, (xs, ys) in zip(found, [*made, data.spirals(7, 0.1, 3, arms=3), data.xor()], strict=True):
        assert flat(rows) == pytest.approx([number for x, y in zip(xs, ys, strict=True) for number in (*x, y)])


def in_worker(tmp_path, html, call, rate=0.1, *, seed=None, batch=math.inf, decay=0.0):
    """The result of a call of worker.js, for the worker of a page."""
    content = content_of(html)
    given = {
        "rows": [[*x, y] for x, y in zip(XS, YS, strict=True)], "starts": [m["starts"] for m in content["models"]],
        "settings": {"learningRate": rate, "batchSize": batch, "weightDecay": decay}, "seed": seed,
    }  # fmt: skip
    maps = (SOURCES / "maps.js").read_text(encoding="utf-8")
    parts = f"const given = {json.dumps(given)};", WORKER, content["worker"], maps, f"const results = {call};"
    return in_node(tmp_path, "\n".join(parts))


NESTEROV = {"learning_rate": 0.05, "momentum": 0.9, "nesterov": True}


@pytest.mark.parametrize(("kind", "options", "loss", "network", "settings"), [
    (optim.SGD, {"learning_rate": 0.3}, LOGITS, {}, {}),
    (optim.SGD, {"learning_rate": 0.1, "weight_decay": 0.02}, LOGITS, {}, {"decay": 0.02}),
    (optim.SGD, NESTEROV, losses.mse_loss, {"output": "tanh"}, {}),
    (optim.Adam, {"learning_rate": 0.03}, LOGITS, {"activation": "relu"}, {}),
    (optim.AdamW, {"learning_rate": 0.03}, losses.mse_loss, {"activation": "gelu", "output": "sigmoid"}, {}),
    (None, {}, LOGITS, {}, {"seed": 7, "batch": 5}),
])  # fmt: skip
def test_a_hundred_steps_leave_the_parameters_of_fit(tmp_path, kind, options, loss, network, settings):
    """After a reset, too, whose seed is fit's rng."""
    start, model = model_of((2, 4, 2, 1), **network), model_of((2, 4, 2, 1), settings.get("seed", 1), **network)
    plain = {name: option for name, option in options.items() if name != "weight_decay"}  # which is a setting there
    html = playground.page(start, loss, XS, YS, kind and kind(start.parameters(), **plain))
    found = in_worker(tmp_path, html, "afterAHundredSteps()", plain.get("learning_rate", 0.01), **settings)
    batch = settings.get("batch", len(XS))
    fit(
        model, loss, XS, YS, optimizer=kind and kind(model.parameters(), **options), epochs=100 * batch // len(XS),
        batch_size=batch, backend="eager", progress=False, rng=settings.get("seed", 0),
    )  # fmt: skip
    assert (found["steps"], found["ok"]) == (100, True)
    assert found["parameters"] == pytest.approx(numbers_of(model), rel=1e-9, abs=1e-9)
    assert found["loss"] == pytest.approx(mean_loss(model, loss=loss), rel=1e-9)


class Network(nn.MLP):
    """A network whose layers, activation and inputs are chosen."""

    def __init__(self, hidden, activation="tanh", inputs="plain", rng=1):
        self.squares = inputs == "squares"
        super().__init__(4 if self.squares else 2, [*hidden, 1], activation, rng=rng)

    def __call__(self, x):
        return super().__call__([*x, x[0] ** 2, x[0] * x[1]] if self.squares else x)


CHOICES = {
    "hidden": {"none": [], "2": [2], "4": [4], "4-2": [4, 2], "4-4": [4, 4], "8-8": [8, 8]},
    "activation": ["tanh", "relu", "sigmoid", "linear"],
    "inputs": ["plain", "squares"],
}
FEW = CHOICES | {"activation": ["tanh", "relu"]}


def test_each_combination_of_choices_trains_as_fit_does_in_a_page_that_is_not_large(tmp_path):
    html = playground.page(Network, LOGITS, XS, YS, lambda p: optim.SGD(p, 0.3), choices=CHOICES)
    assert len(html) < 500_000
    found = in_worker(tmp_path, html, "eachModelAfterFourSteps()", 0.3, seed=7, batch=5)
    options = {"epochs": 1, "batch_size": 5, "backend": "eager", "progress": False, "rng": 7}
    for parameters, chosen in zip(found, product(*CHOICES.values()), strict=True):
        model = Network(CHOICES["hidden"][chosen[0]], *chosen[1:], rng=7)
        fit(model, LOGITS, XS, YS, optimizer=optim.SGD(model.parameters(), 0.3), **options)
        assert parameters == pytest.approx(numbers_of(model), rel=1e-9, abs=1e-12)


def plane_in_node(tmp_path, model, loss, opened, ys=YS):
    """The lines between classes in the square from -1 to 1, the map of the last card, and the margins or map of all."""
    cards = sum(map(len, network.described(model)["columns"]))
    return in_worker(tmp_path, playground.page(model, loss, XS, ys), f"plane({cards}, {opened})")


def set_to(model, numbers):
    for parameter, number in zip(model.parameters(), numbers, strict=True):
        parameter.data = float(number)
    return model


def test_lines_between_three_classes_are_exact_on_the_sides_of_cells_and_meet_in_one_point(tmp_path):
    model = set_to(nn.MLP(2, [3]), [1, 0, -0.25, -1, 0.3, 0, 0, 1, -0.2])
    lines, *_ = plane_in_node(tmp_path, model, losses.cross_entropy, "3, [0, 1, 2], 0")
    ends = [tuple(round(x, 9) for x in end) for line in lines for end in line]
    assert not [end for end in ends if ends.count(end) == 1 and max(map(abs, end)) < 1]  # none ends within the square
    [center] = {end for end in ends if ends.count(end) == 3}
    for x, y in {*ends} - {center}:
        third, second, first = sorted([x - 0.25, -x + 0.3 * y, y - 0.2])
        assert first == pytest.approx(second, abs=1e-6)
        assert third < first


def test_the_line_of_a_saturated_unit_is_straight(tmp_path):
    model = set_to(model_of((2, 1, 1)), [300, -120, 7, 5, 0])
    lines, *_ = plane_in_node(tmp_path, model, LOGITS, "1, [0, 1], 0")
    assert len(lines) > 20
    for x, y in (end for line in lines for end in line):
        assert abs(300 * x - 120 * y + 7) / math.hypot(300, 120) < 0.003  # half a pixel


def test_the_card_of_an_output_has_the_colours_of_the_plane_beside_it(tmp_path):
    """A byte above 128 is blue: there the class is predicted, whether its threshold is 0 or 1/2."""
    model = set_to(model_of((2, 1, 1)), [1, 1, 0, 3, 1])
    _, card, plane = plane_in_node(tmp_path, model, losses.mse_loss, "1, [], 0", [0.3 * i for i in range(20)])
    assert card == plane
    assert max(card) == 255
    _, card, margins = plane_in_node(tmp_path, model_of(output="sigmoid"), losses.mse_loss, "1, [0, 1], 0.5")
    assert all((byte - 128) * margin >= 0 for byte, margin in zip(card, margins, strict=True))
    assert {byte > 128 for byte in card} == {True, False}


# What Python puts into the page


class Own(nn.Module):
    """A model of a user's own, with an embedding, a layer and a Value of which only its number is known."""

    def __init__(self, seed=1):
        rng = random.Random(seed)
        self.table = nn.Embedding(3, 2, rng=rng)
        self.neuron = nn.Neuron(2, "relu", rng=rng)
        self.scale = Value(1.5)

    def __repr__(self):
        return "</title><script>alert(1)</script>"

    def __call__(self, x):
        return self.neuron(self.table(x[0])) * self.scale


@pytest.mark.parametrize(("loss", "kinds", "at"), [
    (losses.mse_loss, [0, 1], 0.5), (LOGITS, [0, 1], 0.0), (losses.hinge_loss, [-1, 1], 0.0),
    (losses.mse_loss, [2, 5], 3.5), (losses.cross_entropy, [0, 1, 2], 1.5),
])  # fmt: skip
def test_the_boundary_is_where_both_classes_cost_the_same(loss, kinds, at):
    assert boundary(loss, kinds) == at


@pytest.mark.parametrize(("targets", "outputs", "kinds"), [
    ([0, 1, 1], 1, [0, 1]), ([-1.0, 1.0], 1, [-1.0, 1.0]), ([0.1, 0.2, 0.3], 1, []), ([0, 2, 1], 3, [0, 1, 2]),
    ([0, 3], 3, None), ([[0.0, 1.0], [1.0, 1.0]], 1, None),
])  # fmt: skip
def test_targets_are_classes_or_heights_or_not_for_the_plane(targets, outputs, kinds):
    assert kinds_of([flat(target) for target in targets], outputs) == kinds


def save(tmp_path, model=None, loss=LOGITS, xs=XS, ys=YS, **options):
    path = tmp_path / "playground.html"
    viz.save_playground(model_of() if model is None else model, loss, xs, ys, path, **options)
    return path


class Plain:
    """A model that is not a Module."""

    def __init__(self):
        self.layers, self.scale = [nn.Layer(2, 2, rng=1), nn.Neuron(2, rng=1)], Value(0.5)

    def parameters(self):
        return [*self.layers[0].parameters(), *self.layers[1].parameters(), self.scale]

    def __call__(self, x):
        return self.layers[1](self.layers[0](x)) * self.scale


def test_the_input_that_a_model_keeps_is_not_a_parameter():
    class Keeping(nn.MLP):
        def __call__(self, x):
            self.input = x
            return super().__call__(x)

    [kept], [plain] = (
        content_of(playground.page(kind(2, [2, 1], rng=1), LOGITS, XS, YS))["models"] for kind in (Keeping, nn.MLP)
    )
    assert (kept["names"], kept["units"]) == (plain["names"], plain["units"])


def test_arrays_and_a_model_that_is_not_a_module_work_and_reset_draws_its_neurons_anew(tmp_path):
    html = save(tmp_path, Plain(), losses.mse_loss, np.array(XS), np.array(YS)).read_text()
    assert "<title>Playground: Plain</title>" in html
    [model] = content_of(html)["models"]
    limits = [math.sqrt(6 / (2 + fan_out)) for fan_out in (2, 1)]
    assert model["starts"] == [*[limits[0], limits[0], 0] * 2, limits[1], limits[1], 0, None]


def test_a_page_of_500_weights_has_less_than_200_kilobytes(tmp_path):
    assert save(tmp_path, model_of((2, 20, 20, 1))).stat().st_size < 200_000


def test_what_cannot_be_played_with_is_refused(tmp_path, monkeypatch):
    sgd, empty = optim.SGD(model_of().parameters(), 0.1), SimpleNamespace(__call__=abs, parameters=list)
    for arguments, kind, message in [
        ({"model": empty}, ValueError, "has 0 parameters: a playground trains from 1 to 20,000"),
        ({"model": model_of((2, 200, 200))}, ValueError, "has 40,800 parameters: a playground trains from 1 to 20,000"),
        ({"model": {"a": model_of(), "b": 3}}, TypeError, "^model 'b' is 3: expected a Module"),
        ({"model": lambda hidden: model_of()}, TypeError, "^model is <fun.*: expected a Module.* with choices=..., a"),
        ({"model": nn.MLP}, TypeError, "^model is <class .*: expected a Module with __call__ or, together with choi"),
        ({"xs": [], "ys": []}, ValueError, "xs is empty: expected at least one example"),
        ({"ys": YS[1:]}, ValueError, "xs and ys must have the same length"),
        ({"xs": [*XS[1:], [1.0, math.nan]]}, ValueError, r"^example 19 is \(\[1.0, nan\], .*: a playground needs fini"),
        ({"xs": [*XS[1:], [1.0]]}, ValueError, "example 19 is .*, equally many in each example"),
        ({"ys": ["a"] * 20, "loss": losses.mse_loss}, ValueError, r"example 0 is .*'a'\): a playground needs finite"),
        ({"ys": [2, *YS[1:]]}, ValueError, r"ys\[0\] is 2: binary_cross_entropy_with_logits expects"),
        ({"validation": ([[1.0]], [1])}, ValueError, r"^validation example 0 is \(\[1.0\], 1\): "),
        ({"validation": XS}, ValueError, r"^validation is \[.*: expected a pair \(xs, ys\) of inputs and targets"),
        ({"optimizer": sgd}, ValueError, "the optimizer has other parameters than the function"),
        ({"optimizer": sgd, "model": {"a": model_of()}}, TypeError, r"^optimizer is SGD\(.*: expected a function that"),
        ({"loss": lambda p, y: [p]}, TypeError, "an optimizer needs a single Value"),
        ({"optimizer": "adam"}, TypeError, r"optimizer is 'adam': expected .*partial\(optim.SGD, learning_rate=0.1\)"),
        ({"optimizer": list}, TypeError, "optimizer is <class 'list'>: expected an Optimizer, or a function"),
    ]:
        with pytest.raises(kind, match=message):
            save(tmp_path, **arguments)
    monkeypatch.setattr(playground, "NUMBERS", 59)
    with pytest.raises(ValueError, match="the examples hold 60 numbers: a playground holds 59, so give 19 examples or"):
        save(tmp_path)
    with pytest.raises(ValueError, match="name the file 'page.html'"):
        viz.save_playground(model_of(), LOGITS, XS, YS, tmp_path / "page.pdf")
    assert [*tmp_path.iterdir()] == []


ASK = {"text": "Will it learn?", "answers": ["yes", "no"]}


@pytest.mark.parametrize(("options", "kind", "message"), [
    ({"choices": {"hidden": []}}, ValueError, r"choices\['hidden'\] is \[\]: expected a dict of labels and values"),
    ({"choices": {"hidden": "4"}}, ValueError, "is '4': expected a dict"),
    ({"choices": {"hidden": {"0": [0]}}}, ValueError, "nout is 0"),
    ({"choices": {"hiden": {"4": [4]}}}, TypeError, "argument 'hiden'"),
    ({"model": model_of()}, TypeError, r"^model is MLP\(.*\): with choices, expected a class or a function that makes"),
    ({"choices": None, "lesson": [{**ASK, "choice": {"hidden": "4"}}]}, ValueError, "hidden='4': expected no ch"),
])  # fmt: skip
def test_choices_and_lessons_that_cannot_be_are_refused_by_name(tmp_path, options, kind, message):
    with pytest.raises(kind, match=message):
        save(tmp_path, **{"model": Network if options.get("choices", FEW) else model_of(), "choices": FEW, **options})


TWO = "expected a list of at least two texts, all different"


@pytest.mark.parametrize(("part", "message"), [
    ({"hint": "no"}, r"\[0\] has an unknown key 'hint': expected text, answers, after"),
    ({"text": ""}, r"\[0\] has text='': expected the text of the question"),
    ({"answers": ["yes"]}, rf"answers=\['yes'\]: {TWO}"),
    ({"answers": "Yes"}, f"answers='Yes': {TWO}"), ({"answers": ["a", "a"]}, TWO), ({"answers": [1, 2]}, TWO),
    ({"text": 3}, "text=3: expected the text"), ({"after": 3}, "after=3: expected a text"),
    ({"steps": 0}, "steps=0: expected a whole number from 1 to 1,000,000"),
    ({"choice": {"hidden": "5"}}, "chooses hidden='5': expected 'none', '2', '4'"),
    ({"choice": {"hidden": [4]}}, r"chooses hidden=\[4\]: expected 'none', '2', '4'"),
    ({"choice": "4"}, "choice='4': expected a dict"), ({"choice": {"hiden": "4"}}, "hiden='4': expected 'hidden', 'ac"),
    ({"rate": -1}, "rate=-1: expected a number from 0 to 1,000,000"),
    ({"rate": "0.1"}, "rate='0.1': expected a number"), ({"rate": math.inf}, "rate=inf: expected a number"),
    ({"decay": math.nan}, "decay=nan: expected a number"), ({"batch": True}, "batch=True: expected a whole number"),
    ({"batch": 0}, "batch=0: expected a whole number, 1 or greater, or 'all'"),
    ({"data": "yinyang"}, "data='yinyang': expected one of yours, xor, moons, circles, spirals"),
    ({"data": ["moons"]}, r"data=\['moons'\]: expected one of yours"),
    ({"data": "moons", "noise": 5}, "noise=5: expected a number from 0 to 0.5"),
    ({"data": "moons", "n": 0}, "n=0: expected a whole number from 1 to 10,000"),
    ({"data": "moons", "n": 2.5}, "n=2.5: expected a whole number"),
    ({"noise": 0.1}, r"\[0\] sets noise or n without data: give data, too, one of yours"),
    ({"seed": -1}, "seed=-1: expected a whole number from 0 to 999,999,999,999,999"),
])  # fmt: skip
def test_parts_of_a_lesson_that_cannot_be_are_refused_with_what_is_expected(part, message):
    with pytest.raises(ValueError, match=rf"^lesson.*{message}"):
        lesson.checked([{**ASK, **part}], FEW)


def test_a_lesson_is_a_list_of_dicts_with_text_and_answers_and_data_for_a_plane():
    for given, message in [
        ("hello", "^lesson is 'hello': expected a list of dicts"),
        (ASK, "^lesson is .*: expected a list of dicts"),
        (["hello"], r"^lesson\[0\] is 'hello': expected a dict"),
        ([ASK, {"text": "Will it?"}], r"^lesson\[1\] has answers=None: expected a list of at least two"),
        ([{"answers": ["a", "b"]}], r"^lesson\[0\] has text=None: expected"),
        ([{**ASK, "data": "xor"}], r"^lesson\[0\] sets data: expected inputs of two numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            lesson.checked(given, {}, is_plane=False)


@pytest.mark.parametrize("batch", ["all", math.inf, "Infinity"])
def test_a_batch_of_all_is_written_as_in_the_address(batch):
    assert lesson.checked([{**ASK, "batch": batch}], {})[0]["batch"] == "Infinity"
    assert lesson.checked([{**ASK, "n": np.int64(5), "data": "xor"}], {})[0]["n"] == 5


# The page


@pytest.fixture
def shown(tmp_path, opened):
    """A function that writes a page and opens it."""

    def shown(*arguments, fragment="", browser=None, **options):
        return ready(opened(save(tmp_path, *arguments, **options), fragment, **(browser or {})))

    return shown


def ready(tab):
    tab.wait_for_selector("html[data-ready]")
    drawn(tab)
    return tab


def drawn(tab):
    """Wait until the page shows what it has computed, in its next frame: on a busy machine, that may take a while."""
    tab.evaluate("new Promise(requestAnimationFrame)")


def status(tab):
    return tab.inner_text("#status")


def until(tab, condition):
    """Wait until it is true: `wait_for_function` evaluates text in the page, which its policy forbids."""
    for _ in range(1200):
        if tab.evaluate(condition):
            return
        tab.wait_for_timeout(50)
    pytest.fail(condition)


def has_status(tab, words):
    until(tab, f"document.querySelector('#status').textContent.startsWith('{words}')")


def after(tab, script):
    """What a script with micrograd returns, once the page shows what the script did."""
    found = tab.evaluate(f"async () => {{ {script} }}")
    drawn(tab)
    return found


def refused(tab, script):
    """The error of a script."""
    return after(tab, f"try {{ {script} }} catch (error) {{ return String(error); }}")


PARAMETERS = "return [...micrograd.parameters()];"


def test_reset_draws_what_the_layers_draw_and_scripts_can_set_all(shown):
    tab = shown(model_of())
    assert after(tab, f"await micrograd.step(); await micrograd.reset(7); {PARAMETERS}") == numbers_of(model_of(seed=7))
    assert tab.input_value("#seed") == "7"
    assert after(tab, f"await micrograd.reset(); {PARAMETERS}") == numbers_of(model_of())
    assert after(tab, f"await micrograd.setParameters(new Float64Array(13).fill(0.5)); {PARAMETERS}") == [0.5] * 13
    settings = "micrograd.learningRate = 0.125; micrograd.batchSize = 7;"
    assert after(tab, f"{settings} return [micrograd.learningRate, micrograd.batchSize];") == [0.125, 7]
    assert tab.input_value("#rate") == "0.125"
    before = after(tab, PARAMETERS)
    for wrong in (
        "micrograd.learningRate = NaN", "micrograd.batchSize = 0", "await micrograd.setParameters([1])",
        "await micrograd.setParameters(Array(13).fill(NaN))", "await micrograd.setWeight('out.w1', 'x')",
        "await micrograd.setWeight('out.w1')", "await micrograd.train('x')", "await micrograd.train(-5)",
        "await micrograd.reset(-1)", "await micrograd.reset(1.5)", "await micrograd.reset('a')",
        "await micrograd.choose({hidden: '4'})",
    ):  # fmt: skip
        assert refused(tab, wrong).startswith("RangeError: "), wrong
    assert after(tab, PARAMETERS) == before


def test_buttons_and_keys_train_step_and_reset(shown):
    tab = shown(validation=(XS, [1 - y for y in YS]))
    right = sum((model_of()(x) > 0) == y for x, y in zip(XS, YS, strict=True)) * 5
    words = re.findall(r" (\w+) [\d.]+, (\d+)% correct", status(tab))
    assert words == [("loss", f"{right}"), ("validation", f"{100 - right}")]
    tab.click("#forward")
    has_status(tab, "Step 1 ")
    tab.click("h1")
    tab.keyboard.press("ArrowRight")
    has_status(tab, "Step 2 ")
    tab.keyboard.press(" ")
    assert tab.inner_text("#play") == "Pause"
    until(tab, "parseInt(document.querySelector('#status b').textContent) > 10")
    tab.click("#play")
    assert tab.inner_text("#play") == "Train"
    tab.select_option("#speed", "Infinity")
    tab.click("#play")
    until(tab, "parseInt(document.querySelector('#status b').textContent) > 500")
    tab.keyboard.press("Home")
    has_status(tab, "Step 0 ")
    assert after(tab, PARAMETERS) == numbers_of(model_of())
    tab.click("#dice")  # whatever seed the model was made with
    until(tab, f"micrograd.parameters()[0] !== {numbers_of(model_of())[0]!r}")
    seed = tab.input_value("#seed")
    assert after(tab, PARAMETERS) == numbers_of(model_of(seed=int(seed)))
    tab.fill("#seed", "a seed")
    tab.press("#seed", "Enter")
    assert "A seed is a whole number" in tab.inner_text("#notice")
    assert tab.input_value("#seed") == seed  # still the seed of the weights


def test_only_all_examples_are_100_percent(shown):
    xs, ys = [[1.0]] * 150 + [[-1.0]] * 149 + [[1.0]], [1] * 150 + [0] * 150
    tab = shown(nn.Neuron(1, "linear", rng=1), xs=xs, ys=ys)
    for parameters, percent in (("[1, 0]", 99), ("[-1, 0]", 1), ("[0, 0]", 50)):
        after(tab, f"await micrograd.setParameters({parameters});")
        assert f" {percent}% correct" in status(tab)


def test_new_weights_for_a_model_without_layers_say_that_its_parameters_stay(shown):
    tab = shown(Own(), losses.mse_loss, [[0], [1]], [0.0, 1.0])
    tab.click("#dice")
    tab.wait_for_selector("#notice:not([hidden])")
    words = "1 of 10 parameters are in no neuron and no embedding: they keep the numbers from Python."
    assert tab.inner_text("#notice") == words
    tab.fill("#seed", "")
    tab.click("#first")
    tab.wait_for_selector("#notice", state="hidden")


def test_a_training_that_diverges_pauses_and_says_what_to_do(shown):
    tab = shown(model_of(activation="relu"), losses.mse_loss, optimizer=lambda p: optim.SGD(p, 1e9))
    tab.click("#play")
    tab.wait_for_selector("#notice:not([hidden])")
    assert "no longer finite: lower the learning rate, and press Reset" in tab.inner_text("#notice")
    assert (tab.inner_text("#play"), tab.get_attribute("#play", "aria-disabled")) == ("Train", "true")
    tab.click("#first")
    tab.wait_for_selector("#notice", state="hidden")
    until(tab, "Number.isFinite(micrograd.loss())")


def test_points_of_the_losses_are_as_many_steps_apart_however_fast_it_trained(shown):
    tab = shown()
    after(tab, "await micrograd.train(10); await micrograd.train(90); await micrograd.train(700);")
    xs = [float(x) for x in re.findall(r"[ML]([\d.]+)", tab.get_attribute("#chart .mg-line", "d"))]
    assert len({round((b - a) * 800 / (xs[-1] - xs[0])) for a, b in pairwise(xs[:-1])}) == 1


def count_of(tab):
    return int(tab.inner_text("#n-is"))


def place(tab, x, y):
    """Where shares of the plane's frame are on the screen."""
    box = tab.locator("#plane").bounding_box()
    size = box["width"] - 44
    return box["x"] + 36 + size * x, box["y"] + 4 + size * (1 - y)


def test_points_are_added_moved_and_removed_by_mouse(shown):
    tab = shown(xs=data.xor()[0], ys=data.xor()[1])
    before = tab.evaluate("micrograd.loss()")
    tab.click("#tools label:nth-of-type(2)")
    tab.mouse.click(*place(tab, 0.5, 0.5))
    until(tab, f"micrograd.loss() !== {before}")
    assert count_of(tab) == 5
    assert tab.locator("[aria-pressed=true]").count() == 0  # no data set any more
    added = tab.evaluate("micrograd.loss()")
    tab.mouse.move(*place(tab, 0.5, 0.5))
    tab.mouse.down()
    tab.mouse.move(*place(tab, 0.7, 0.2))
    tab.mouse.up()
    until(tab, f"micrograd.loss() !== {added}")
    assert count_of(tab) == 5
    until(tab, "document.querySelector('#where').textContent.includes('output')")
    tab.click("#tools label:last-of-type")
    tab.mouse.click(*place(tab, 0.4, 0.4))  # where there is none
    tab.mouse.click(*place(tab, 0.7, 0.2))
    until(tab, f"Math.abs(micrograd.loss() - {before}) < 1e-12")
    assert count_of(tab) == 4
    tab.mouse.move(0, 0)
    assert tab.inner_text("#where").startswith("Shading")


NO_ZOOM = "all('input,select').every(part => parseFloat(getComputedStyle(part).fontSize) >= 16)"  # on iPhones


def test_a_finger_on_the_plane_scrolls_the_page_moves_a_point_or_adds_one(shown):
    look = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    tab = shown(xs=data.xor()[0], ys=data.xor()[1], browser=look)
    send = tab.context.new_cdp_session(tab).send
    assert tab.evaluate(NO_ZOOM)

    def swipe(by, condition):
        x, y = place(tab, 0.5, 0.5)
        for kind, shares in (("touchStart", [0]), *(("touchMove", [k / 8]) for k in range(1, 9)), ("touchEnd", [])):
            points = [{"x": x, "y": y + by * share} for share in shares]
            send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        until(tab, condition)
        until(tab, "new Promise((done, _, y = scrollY) => setTimeout(() => done(scrollY === y), 100))")
        return [count_of(tab), tab.evaluate("scrollY"), tab.evaluate("micrograd.loss()")]

    loss = tab.evaluate("micrograd.loss()")
    n, scrolled, same = swipe(-120, "scrollY > 0")
    assert (n, scrolled > 0, same) == (4, True, loss)
    n, there, added = swipe(0, f"micrograd.loss() !== {loss}")
    assert (n, there, added != loss) == (5, scrolled, True)
    n, there, moved = swipe(60, f"micrograd.loss() !== {added}")
    assert (n, there, moved != added) == (5, scrolled, True)


def test_points_are_added_moved_and_removed_by_keys(shown):
    tab = shown(xs=data.xor()[0], ys=data.xor()[1])
    before = tab.evaluate("micrograd.loss()")
    plane = tab.locator("#plane")
    plane.focus()
    for key in ("ArrowUp", "Shift+ArrowLeft", "Enter"):
        plane.press(key)
    assert count_of(tab) == 5
    for key in ("m", "ArrowDown", "ArrowRight", "m", "x"):
        plane.press(key)
    until(tab, "document.querySelector('#where').textContent.includes('x0 0.3')")
    plane.press("Delete")
    assert count_of(tab) == 4
    until(tab, f"Math.abs(micrograd.loss() - {before}) < 1e-12")
    plane.press("Delete")  # where there is none
    assert count_of(tab) == 4
    plane.press(" ")
    assert tab.inner_text("#play") == "Train"  # which needs the focus elsewhere


def test_data_sets_come_at_a_click_with_noise_and_as_many_points_as_wanted(shown):
    tab = shown(validation=(XS, YS))
    for code in "data.moons(100, 0.1, rng=0)", "data.xor()", "data.spirals(100, 0.02, rng=0)":
        tab.click(f"[data-name={re.match(r'data.([a-z]+)', code)[1]}]")
        assert tab.inner_text("#code") == code
        until(tab, f"find('#legend').textContent.includes('validation') === {str('xor' not in code).lower()}")
    tab.click("[data-name=circles]")
    assert [tab.get_by_role("slider", name=name).count() for name in ("Noise", "Points")] == [1, 1]
    move = "const slider = document.querySelector('#' + id); slider.value = x; slider.oninput();"
    tab.evaluate(f"for (const [id, x] of [['n', 50], ['noise', 0.3]]) {{ {move} }}")
    assert tab.inner_text("#code") == "data.circles(50, 0.3, rng=0)"
    expected = mean_loss(model_of(), *data.circles(50, 0.3, rng=0))
    until(tab, f"Math.abs(micrograd.loss() - {expected}) < 1e-9")
    assert tab.inner_text("#noise-is") == "0.30"
    tab.locator("#plane").press("Enter")
    assert (count_of(tab), tab.inner_text("#code")) == (51, "")
    tab.evaluate(f"for (const [id, x] of [['noise', 0.2]]) {{ {move} }}")
    assert (count_of(tab), tab.inner_text("#code")) == (50, "data.circles(50, 0.2, rng=0)")  # the same data set
    tab.click("[data-name=yours]")
    assert (count_of(tab), tab.inner_text("#noise-is")) == (20, "0.00 added")
    tab.evaluate("document.querySelector('#noise').value = 0.2; document.querySelector('#noise').oninput()")
    assert count_of(tab) == 20


def test_the_plane_says_which_height_has_the_full_colour(shown):
    tab = shown(model_of(), losses.mse_loss, XS, [0.1 * i - 1.5 for i in range(20)])
    assert "Blue: the output is above 0, in full colour at 1.5; orange, striped: below." in tab.inner_text("#where")


def test_units_show_what_they_see_and_their_weights(shown):
    model = model_of()
    name = network.described(model)["columns"][1][1]
    tab = shown(model)
    unit = tab.locator(".unit").nth(3)
    unit.hover()
    until(tab, f"document.querySelector('#sees').textContent === 'What {name} sees'")
    unit.click()
    tab.mouse.move(0, 0)
    until(tab, f"document.querySelector('#sees').textContent === 'What {name} sees'")
    assert tab.inner_text("#where").startswith(f"Blue: {name} is above 0; orange, striped: below. ")
    tab.wait_for_selector("#unit tr")
    assert tab.locator("#unit th").all_inner_texts() == ["weight of x0", "weight of x1", "bias"]
    numbers = [f"{w.data:.4g}".replace("-", "−") for w in model.layers[0].neurons[1].w] + ["0"]
    assert [place.input_value() for place in tab.locator("#unit input").all()] == numbers
    unit.press("Enter")
    until(tab, """document.querySelector('#sees').textContent === "The model's output" """)
    tab.click("summary")
    until(tab, "document.querySelectorAll('#parameters tr').length === 13")
    assert tab.locator("#parameters tr").last.bounding_box()["x"] > 300  # they are in columns


class Cut(nn.MLP):
    """A network in which the unit h1[1] is 0."""

    def __call__(self, x):
        return self.layers[1]([h * (i != 1) for i, h in enumerate(self.layers[0](x))])


@pytest.mark.parametrize("rule", [lambda p: optim.Adam(p, 0.03), lambda p: optim.SGD(p, 0.3, momentum=0.9)])
def test_around_a_unit_that_is_off_and_a_weight_that_is_held_the_others_learn_as_in_python(shown, rule):
    model = Cut(2, [4, 1], activation="sigmoid", rng=1)
    tab = shown(nn.MLP(2, [4, 1], activation="sigmoid", rng=1), optimizer=rule)
    held, first = model.layers[0].neurons[0].w[1], numbers_of(model)
    assert after(tab, "return micrograd.switchOff('h1[1]');") == pytest.approx(mean_loss(model))
    after(tab, "await micrograd.setWeight('h1[0].w1', 2.5); await micrograd.hold('h1[0].w1');")
    held.data, optimizer = 2.5, rule(model.parameters())
    for _ in range(40):
        optimizer.zero_grad()
        (sum(LOGITS(model(x), y) for x, y in zip(XS, YS, strict=True)) / 20).backward()
        held.grad = 0.0
        optimizer.step()
    expected = numbers_of(model)
    names = network.described(model)["names"]
    own = [i for i, name in enumerate(names) if name.startswith("h1[1]") or name == "out.w1"]
    assert [expected[i] for i in own] == [first[i] for i in own]
    off = [0.0 if name == "out.w1" else x for name, x in zip(names, expected, strict=True)]
    assert after(tab, f"await micrograd.train(40); {PARAMETERS}") == pytest.approx(off, rel=1e-9, abs=1e-12)
    on = after(tab, f"await micrograd.switchOn('h1[1]'); {PARAMETERS}")
    assert on == pytest.approx(expected, rel=1e-9, abs=1e-12)
    first[1] = 2.5
    assert after(tab, f"await micrograd.reset(); {PARAMETERS}") == first
    assert tab.inner_text("#history") == "Step 0: h1[0].w1 is held at 2.5. Let it learn"
    after(tab, "await micrograd.release('h1[0].w1'); await micrograd.step();")
    assert after(tab, PARAMETERS)[1] != 2.5
    for wrong in ("switchOff('out')", "switchOn('h9[0]')", "hold('h1[0].w9')", "setWeight('no', 1)"):
        assert refused(tab, f"await micrograd.{wrong}").startswith(f"RangeError: {wrong.split(chr(39))[1]} is not a ")
    words = "before the output: expected x0, x1, h1[0], h1[1], h1[2], h1[3]"
    assert refused(tab, "await micrograd.switchOff('out')").endswith(words)


def test_units_are_switched_off_and_weights_dragged_and_held_and_the_history_tells_and_undoes_it(shown):
    tab = shown(model_of((2, 2, 1)))
    first = after(tab, PARAMETERS)
    unit, history = tab.locator(".unit").nth(3), tab.locator("#history li")
    unit.click()
    tab.click("text=Switch off")
    until(tab, "document.querySelectorAll('.unit.off').length === 1")
    assert unit.get_attribute("aria-label") == "h1[1], off"
    after(tab, "await micrograd.train(30);")
    assert history.all_inner_texts() == ["Step 0: h1[1] is off. Switch on"]
    history.locator("button").click()
    until(tab, "document.querySelectorAll('.unit.off').length === 0")
    assert history.all_inner_texts() == ["Step 30: h1[1] is on again.", "Step 0: h1[1] is off."]
    assert after(tab, PARAMETERS)[3:6] == first[3:6]
    number = tab.locator("#unit input").first
    number.fill("−1.5")
    number.press("Enter")
    until(tab, "micrograd.parameters()[3] === -1.5")
    number.fill("much")
    number.press("Enter")
    assert tab.inner_text("#notice") == "A weight is a number."
    after(tab, "await micrograd.train(5);")
    assert after(tab, PARAMETERS)[3] == -1.5
    tab.locator("#unit td button").first.click()
    until(tab, "document.querySelector('#history').textContent.includes('Step 35: h1[1].w0 learns again.')")
    a, b = (tab.locator(".unit").nth(i).bounding_box() for i in (0, 2))
    x, y = (a["x"] + a["width"] + b["x"]) / 2, a["y"] + a["height"] / 2  # on the edge of h1[0].w0
    tab.mouse.move(x, y)
    assert "h1[0].w0" in tab.get_attribute("#network", "title")
    before = after(tab, PARAMETERS)[0]
    tab.mouse.down()
    tab.mouse.move(x, y - 30)
    tab.mouse.move(x, y - 40)
    tab.mouse.up()
    until(tab, f"Math.abs(micrograd.parameters()[0] - {before + 1}) < 1e-9")
    assert tab.locator(".pin[visibility=visible]").count() == 1
    after(tab, "await micrograd.train(5);")
    assert after(tab, PARAMETERS)[0] == pytest.approx(before + 1)
    assert sum("h1[0].w0" in line for line in history.all_inner_texts()) == 1
    tab.mouse.click(x, y)
    until(tab, "document.querySelectorAll('.pin[visibility=visible]').length === 0")
    tab.mouse.click(5, 5)
    assert history.first.inner_text() == "Step 40: h1[0].w0 learns again."


def test_while_it_trains_the_history_can_be_undone_and_it_pauses_once_there_are_no_points(shown):
    tab = shown(xs=[[0.0, 0.0], [1.0, 1.0]], ys=[0, 1])
    after(tab, "await micrograd.hold('out.w0');")
    tab.click("#play")
    tab.click("#history button", delay=100)  # some frames
    until(tab, "document.querySelector('#history').textContent.includes('learns again')")
    assert tab.evaluate("document.querySelector('#status').ariaLive") == "off"
    tab.click("#tools label:last-of-type")
    for share in (0.15 / 1.3, 1.15 / 1.3):
        tab.mouse.click(*place(tab, share, share))
    tab.wait_for_selector("#notice:not([hidden])")
    assert tab.inner_text("#notice").startswith("There is nothing to learn from")
    assert tab.inner_text("#play") == "Train"


def test_a_held_weight_that_a_script_sets_is_held_at_its_new_number(shown):
    tab = shown()
    after(tab, "await micrograd.hold('h1[1].w1'); await micrograd.train(3); await micrograd.setWeight('h1[1].w1', 2);")
    assert tab.locator("#history li").all_inner_texts() == ["Step 3: h1[1].w1 is held at 2. Let it learn"]
    loss = after(tab, "return micrograd.setParameters(micrograd.parameters().fill(4));")
    assert loss == tab.evaluate("micrograd.loss()")
    assert tab.locator("#history li").all_inner_texts() == ["Step 3: h1[1].w1 is held at 4. Let it learn"]
    after(tab, "await micrograd.release('h1[1].w1'); await micrograd.setWeight('h1[1].w1', 3);")
    assert tab.locator("#history li").all_inner_texts() == ["Step 3: h1[1].w1 learns again."]


def saved(tab, path):
    with tab.expect_download() as download:
        tab.click("#save")
    download.value.save_as(path)
    return json.loads(path.read_text())


def test_saved_models_are_read_by_load_or_are_their_parameters(shown, tmp_path):
    tab, path = shown(), tmp_path / "model.json"
    after(tab, "await micrograd.train(10);")
    saved(tab, path)
    assert numbers_of(nn.load(path)) == after(tab, PARAMETERS)
    assert "nn.load can read" in tab.inner_text("footer")
    for make, kind in ((lambda: Network([2]), "state dict"), (Plain, "parameters")):
        tab, model = shown(make(), losses.mse_loss), make()
        assert f"downloads the {kind}, as JSON" in tab.inner_text("footer")
        assert saved(tab, path) == (model.state_dict() if kind == "state dict" else numbers_of(model))


def test_a_chosen_weight_decay_comes_on_top_of_what_the_optimizer_has(shown):
    decays = {"0": None, "0.01": optim.AdamW, "0.5": lambda p: optim.SGD(p, weight_decay=0.5)}
    for decay, optimizer in decays.items():
        tab = shown(optimizer=optimizer)
        assert tab.inner_text("label:has(#decay) span") == "Weight decay" + f" on top of {decay}" * (decay != "0")


def test_a_link_restores_seed_settings_and_data(shown, tmp_path, opened):
    tab = shown({"one": model_of(), "&two=": model_of((2, 5, 1))})
    tab.click("[data-name=moons]")
    tab.click("#choices label:nth-of-type(2)")
    until(tab, "micrograd.parameters().length === 21")
    tab.select_option("#rate", "0.3")
    tab.select_option("#batch", "10")
    held = "await micrograd.hold('out.w0'); await micrograd.setWeight('out.w0', 2.5);"
    parameters = after(tab, f"await micrograd.reset(7); {held} await micrograd.switchOff('h1[1]'); {PARAMETERS}")
    tab.click("#link")
    until(tab, "location.hash.length > 1")
    fragment, loss = tab.evaluate("[location.hash, micrograd.loss()]")
    after(tab, "await micrograd.train(3);")
    tab.click("#link")
    tab.wait_for_timeout(200)
    assert status(tab).startswith("Step 3 ")  # a link changes nothing on the page
    tab.evaluate(f"location.hash = {json.dumps(fragment.replace('seed=7', 'seed=8'))}")
    until(tab, "document.querySelector('#seed').value === '8'")
    again = ready(opened(tmp_path / "playground.html", fragment))
    assert again.evaluate("[micrograd.learningRate, micrograd.batchSize, micrograd.loss()]") == [0.3, 10, loss]
    assert again.input_value("#seed") == "7"
    assert after(again, PARAMETERS) == parameters
    assert "out.w0 is held at 2.5" in again.inner_text("#history")
    hostile = "#rate=-1&batch=x&decay=&data=constructor&model=none&seed=-1&noise=9&held=out.w0%3Dx&off=out"
    other = ready(opened(tmp_path / "playground.html", hostile))
    assert (other.evaluate("micrograd.learningRate"), other.inner_text("#history")) == (0.01, "")


def test_a_link_takes_along_the_points_that_the_reader_edits(shown, tmp_path, opened):
    tab = shown(validation=data.moons(10, 0.1, rng=2))
    tab.click("[data-name=circles]")
    tab.locator("#plane").focus()
    for key in ("Enter", "Shift+ArrowLeft", "Enter", "Shift+ArrowUp", "Shift+ArrowUp", "Enter"):
        tab.keyboard.press(key)
    assert count_of(tab) == 103
    after(tab, "await micrograd.step();")
    tab.click("#link")
    fragment = tab.evaluate("location.hash")
    assert len(fragment) < 3000
    again = ready(opened(tmp_path / "playground.html", fragment))
    assert count_of(again) == 103
    first, validation = re.search(r"loss (.*) · validation (.*)", status(again)).groups()
    after(tab, "await micrograd.reset();")
    assert f"loss {first} · validation {validation}" in status(tab)
    assert again.is_hidden("#notice")
    again.click("#link")
    assert again.evaluate("location.hash") == fragment
    for points in ("0_1", "0_1_7", "0_1_x", "0_Infinity_1"):
        tab = shown(fragment=f"#points={points}")
        assert tab.inner_text("#notice") == f"The address has settings that this page cannot apply: points={points}."
        assert count_of(tab) == 20


def test_a_link_with_settings_that_cannot_be_applied_says_so(shown):
    tab = shown(Network, choices=FEW, fragment="#rate=abc&hidden=99&data=foo&batch=5&embed")
    words = "The address has settings that this page cannot apply: rate=abc, hidden=99, data=foo."
    assert tab.inner_text("#notice") == words
    assert tab.evaluate("micrograd.batchSize") == 5
    tab.evaluate("location.hash = '#rate=0.3&activation=relu&data=moons&noise=0.2&n=30&seed=3'")
    until(tab, "document.querySelector('#seed').value === '3'")
    drawn(tab)
    assert tab.is_hidden("#notice")


def test_layers_units_and_activations_are_chosen_by_clicks_keys_and_scripts(shown, tmp_path, opened):
    tab = shown(Network, choices=FEW, optimizer=lambda p: optim.SGD(p, 0.1))
    assert tab.locator(".unit").count() == 2 + 1
    assert tab.is_disabled("[name='choice of activation'] >> nth=0")  # without hidden layers, it changes nothing
    for click, expected in (
        ("more layers", "1 layer, 2 units"),
        ("fewer units of layer 1", "1 layer, 2 units"),
        ("more units of layer 1", "1 layer, 4 units"),
        ("more layers", "2 layers, 4 units, 2 units"),
        ("more units of layer 2", "2 layers, 4 units, 4 units"),
    ):
        tab.locator(f'[aria-label="{click}"]').press("Enter")
        until(tab, f"document.activeElement.getAttribute('aria-label') === '{click}'")
        assert ", ".join(tab.locator(".stepper output:visible").all_inner_texts()) == expected
        assert tab.is_visible("#notice") == (click == "fewer units of layer 1")
    assert "has networks with hidden none, 2, 4, 4-2, 4-4, 8-8. For others, " in tab.locator("#notice").text_content()
    assert tab.is_enabled("[name='choice of activation'] >> nth=0")
    tab.click("text=squares")
    tab.click("text=relu")
    until(tab, "document.querySelector('#network-name').textContent.includes('4 -> 4 relu -> 4 relu')")
    assert tab.locator(".caption:visible").all_inner_texts()[:4] == ["x0", "x1", "x0²", "x0 × x1"]
    model = Network([4, 4], "relu", "squares")
    assert after(tab, PARAMETERS) == numbers_of(model)
    fit(model, LOGITS, XS, YS, optimizer=optim.SGD(model.parameters(), 0.1), epochs=70, backend="auto", progress=False)
    found = after(tab, f"await micrograd.train(70); {PARAMETERS}")
    assert found == pytest.approx(numbers_of(model), rel=1e-9, abs=1e-12)
    tab.click("#link")
    until(tab, "location.hash.includes('hidden=4-4&activation=relu&inputs=squares')")
    again = ready(opened(tmp_path / "playground.html", tab.evaluate("location.hash")))
    assert after(again, "return micrograd.parameters().length;") == 45
    loss = after(tab, "return [await micrograd.choose({hidden: 'none', inputs: 'plain'}), micrograd.loss()];")
    assert loss == [pytest.approx(mean_loss(Network([])))] * 2
    assert after(tab, "return micrograd.choices.hidden;") == list(CHOICES["hidden"])
    for wrong in ("{hidden: '5'}", "{width: '4'}"):
        assert refused(tab, f"await micrograd.choose({wrong})").startswith("RangeError: there is no choice")
    tab.reload()
    ready(tab)
    calls = "choose({hidden: '4'})", "train(3)", "switchOff('h1[3]')", "hold('out.w1')"
    others = "choose({hidden: '4-4'})", "release('out.w1')"
    after(tab, f"await Promise.all([{', '.join(f'micrograd.{call}' for call in (*calls, *others))}]);")
    assert tab.inner_text("#history") == ""  # it was not held in this network
    chosen = "await micrograd.choose({hidden: '2'}); await micrograd.reset(9); await micrograd.choose({hidden: '8-8'});"
    assert after(tab, f"{chosen} {PARAMETERS}") == numbers_of(Network([8, 8], "relu", "squares", 9))
    assert tab.input_value("#seed") == "9"
    after(tab, "await micrograd.choose({hidden: '4'});")
    assert (status(tab)[:7], tab.input_value("#seed")) == ("Step 3 ", "")  # as it was trained
    first, second = tab.locator("#history li").all_inner_texts()
    assert re.fullmatch(r"Step 3: out.w1 is held at [−.\d]+\. Let it learn", first)
    assert second == "Step 3: h1[3] is off. Switch on"


def test_an_optimizer_is_chosen_with_its_learning_rate_and_trains_as_in_python(shown, tmp_path, opened):
    rules = {"SGD": lambda p: optim.SGD(p, 0.3), "Adam": optim.Adam}
    tab = shown(Network, choices={"hidden": CHOICES["hidden"], "optimizer": rules})
    after(tab, "await micrograd.choose({hidden: '2'}); await micrograd.train(5);")
    tab.click("text=Adam")
    until(tab, "micrograd.learningRate === 0.001")
    assert tab.inner_text("#rule") == "Learning rate of Adam"
    for setting in ("", "micrograd.learningRate = 0.1;"):  # another network keeps it
        found = after(tab, f"{setting} await micrograd.choose({{hidden: '2'}}); await micrograd.reset(); {PARAMETERS}")
        rate, model = 0.1 if setting else 0.001, Network([2])
        assert found == numbers_of(model)
        rule = optim.Adam(model.parameters(), rate)
        fit(model, LOGITS, XS, YS, optimizer=rule, epochs=9, backend="eager", progress=False)
        found = after(tab, f"await micrograd.train(9); {PARAMETERS}")
        assert found == pytest.approx(numbers_of(model), rel=1e-9, abs=1e-12)
        after(tab, "await micrograd.choose({hidden: '4'});")
        assert tab.evaluate("micrograd.learningRate") == rate
    tab.click("#link")
    again = ready(opened(tmp_path / "playground.html", tab.evaluate("location.hash")))
    until(again, "document.querySelector('#rule').textContent.includes('Adam') && micrograd.learningRate === 0.1")
    after(tab, "await micrograd.choose({optimizer: 'SGD'});")
    assert tab.evaluate("micrograd.learningRate") == 0.3


def test_a_lesson_asks_before_it_lets_the_page_train(shown):
    parts = [
        {**ASK, "choice": {"hidden": "4"}, "rate": 0.5, "data": "xor", "after": "<b>It does.</b>", "steps": 400},
        {**ASK, "choice": {"hidden": "4", "activation": "relu"}, "data": "circles", "noise": 0.2, "n": 30, "seed": 7},
    ]
    tab = shown(Network, choices=FEW, lesson=parts)
    styles = "[...document.querySelectorAll('#lesson button')].map(button => getComputedStyle(button))"
    looks = [["0.4", "default"], ["1", "pointer"]]  # Back leads nowhere yet
    assert tab.evaluate(f"{styles}.map(style => [style.opacity, style.cursor])") == looks
    assert (count_of(tab), tab.evaluate("micrograd.learningRate"), tab.locator(".unit").count()) == (4, 0.5, 2 + 4 + 1)
    buttons = "[...document.querySelectorAll('#play,#forward')].map(b => [b.ariaDisabled, getComputedStyle(b).opacity])"
    assert tab.evaluate(buttons) == [["true", "0.4"]] * 2
    assert "You can change" not in tab.inner_text("body")
    tab.press("#play", "Enter")
    assert "Answer the question first" in tab.inner_text("#notice")
    tab.press("#forward", "Enter")
    assert status(tab).startswith("Step 0 ")
    tab.locator("#lesson input").first.press(" ")
    tab.locator("#lesson input").first.press("ArrowRight")
    assert tab.evaluate("document.activeElement.parentNode.textContent") == "no"
    assert tab.evaluate(buttons) == [["false", "1"]] * 2
    tab.click("#forward")
    has_status(tab, "Step 1 ")
    assert "You said" not in tab.inner_text("#lesson")
    tab.click("#play")
    tab.click("#play")
    assert 'You said "no." <b>It does.</b>' in tab.inner_text("#lesson")
    assert tab.is_disabled("#lesson input >> nth=0")
    tab.click("text=Next")
    until(tab, "document.querySelector('#lesson').textContent.includes('2 of 2')")
    until(tab, "document.querySelector('#seed').value === '7'")
    assert count_of(tab) == 30
    assert after(tab, f"await micrograd.choose({{}}); {PARAMETERS}") == numbers_of(Network([4], "relu", rng=7))
    tab.press("#forward", "Enter")
    assert "Answer the question first" in tab.inner_text("#notice")
    tab.select_option("#speed", "Infinity")
    back = "[...document.querySelectorAll('#lesson button')].find(button => button.textContent === 'Back')"
    tab.evaluate(f"{back}.click(); document.querySelector('#play').click();")  # before the part is open
    until(tab, "document.querySelector('#lesson').textContent.includes('1 of 2')")
    until(tab, """document.querySelector('#lesson').textContent.includes('You said "no." <b>')""")
    has_status(tab, "Step 400 ")
    assert tab.inner_text("#play") == "Train"


def test_each_part_of_a_lesson_starts_from_how_the_page_opens(shown):
    ask = {**ASK, "answers": ["Yes.", "no"], "after": "So."}
    settings = {"rate": 3, "batch": 5, "decay": 0.1, "data": "moons", "n": 50, "noise": 0.4, "seed": 7}
    parts = [{**ask, "choice": {"hidden": "4", "activation": "relu"}, **settings}, ask]
    tab = shown(Network, choices=FEW, lesson=parts)
    opening = "[location.hash, micrograd.batchSize, micrograd.learningRate, document.querySelector('#decay').value]"
    for script in ("micrograd.train(1)", "micrograd.step()"):
        assert "Answer the question first" in refused(tab, f"await {script}")
    tab.click("text=Yes.")
    held = "await micrograd.hold('out.w0'); await micrograd.setWeight('out.w0', 9); await micrograd.switchOff('h1[1]');"
    after(tab, f"{held} await micrograd.choose({{hidden: '2'}}); {held} await micrograd.train(200);")
    assert 'You said "Yes." So.' in tab.inner_text("#lesson")
    tab.click("#play")
    tab.click("text=Next")
    until(tab, "document.querySelector('#code').textContent === '' && micrograd.batchSize === Infinity")
    until(tab, f"micrograd.parameters().length === {len(numbers_of(Network([])))}")
    assert tab.evaluate(opening) == ["", math.inf, 0.01, "0"]
    assert tab.is_enabled("#lesson input >> nth=0")
    assert (count_of(tab), tab.input_value("#seed"), tab.inner_text("#play")) == (20, "", "Train")
    assert tab.locator("#chart .mg-line").count() == 1
    for size, activation in ((4, "relu"), (2, "tanh")):
        after(tab, f"await micrograd.choose({{hidden: '{size}', activation: '{activation}'}});")
        assert after(tab, PARAMETERS) == numbers_of(Network([size], activation))
        assert (status(tab)[:7], tab.inner_text("#history")) == ("Step 0 ", "")
    assert tab.locator("#chart .mg-line").count() == 1


EMBEDDED = {"viewport": {"width": 640, "height": 400}}
EXTENT = "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"


def test_embedded_it_shows_the_whole_name_of_the_network(shown):
    models = {"one": model_of((2, 4, 1), output="sigmoid"), "two": model_of()}
    tab = shown(models, losses.mse_loss, fragment="#embed", browser=EMBEDDED)
    narrow = shown(models, losses.mse_loss, fragment="#embed", browser={"viewport": {"width": 390, "height": 400}})
    button, words = (narrow.locator(place).bounding_box() for place in ("#play", "#status"))
    assert button["x"] + button["width"] <= words["x"]
    assert tab.inner_text("#network-name") == "MLP(2 -> 4 tanh -> 1 sigmoid, 17 parameters)"
    name = "e => [e.scrollWidth <= e.clientWidth, getComputedStyle(e).overflow]"
    assert tab.locator("#network-name").evaluate(name) == [True, "visible"]
    assert tab.evaluate(EXTENT) == [640, 400]


@pytest.mark.parametrize("is_plane", [True, False])
def test_embedded_it_has_no_scroll_bar_and_only_what_matters(shown, is_plane):
    if is_plane:
        tab = shown(Network, choices=FEW, fragment="#embed&hidden=8-8&inputs=squares", browser=EMBEDDED)
    else:
        xs = [[random.uniform(-1, 1) for _ in range(4)] for _ in range(40)]
        ys = [0, 1, 2, 1] * 10
        tab = shown(model_of((4, 8, 3)), losses.cross_entropy, xs, ys, fragment="#embed", browser=EMBEDDED)
    assert tab.evaluate(EXTENT) == [640, 400]
    places = ["#first", "#play", ".unit >> nth=-1", "#plane" if is_plane else "#table"]
    assert tab.evaluate("[...document.querySelectorAll('.wide')].every(e => e.scrollWidth <= e.clientWidth)")
    assert [tab.is_visible(place) for place in [*places, "#speed", "#chart", "#choices"]] == [True] * 4 + [False] * 3
    box = tab.locator(places[2]).bounding_box()
    assert box["y"] + box["height"] <= 400
    tab.click("#play")
    until(tab, "parseInt(document.querySelector('#status b').textContent) > 5")


def test_models_are_chosen_and_compared(shown):
    models = {"one neuron": nn.Neuron(2, "linear", rng=1), "2-3-1": model_of()}
    tab = shown(models, optimizer=lambda p: optim.Adam(p, 0.03))
    after(tab, "await micrograd.train(20);")
    tab.click("text=2-3-1")
    until(tab, "micrograd.parameters().length === 13")
    after(tab, "await micrograd.train(30);")
    tab.wait_for_selector("#chart .soft")
    assert status(tab).startswith("Step 30 ")
    assert tab.inner_text("#rule") == "Learning rate of Adam"
    assert tab.get_attribute("#chart svg", "aria-label").startswith("one neuron: 0.")
    assert tab.locator(".unit").count() == 2 + 3 + 1
    tab.click("[data-name=circles]")
    until(tab, "!document.querySelector('#chart .soft')")  # its losses are on other examples


def test_long_numbers_along_the_axis_of_the_plane_have_room(shown):
    tab = shown(xs=[[x, y / 1000] for x, y in XS])
    tab.evaluate(WRITTEN)
    tab.set_viewport_size({"width": 800, "height": 700})
    until(tab, "lefts.length > 1")
    assert min(tab.evaluate("lefts")) >= 0


ROOM = "[...document.querySelectorAll('.inside')].map(x => x.parentNode.clientWidth - x.getBoundingClientRect().width)"


def test_on_narrower_paper_edges_still_lead_from_card_to_card(shown):
    tab = shown(model_of())
    cards, edges = tab.evaluate("""(find("#network").style.width = "250px", [".unit", "#network path"].map(
        (parts) => all(parts).map((part) => part.getBoundingClientRect()).map(({ left, right }) => [left, right])))""")
    assert sorted({right for _, right in cards[:-1]}) == pytest.approx(sorted({left for left, _ in edges}), abs=0.5)


@pytest.mark.parametrize("width", [360, 420, 1280])
def test_biases_fit_their_cards_in_deep_networks_on_small_screens(shown, width):
    xs, browser = [[x] for x, _ in XS], {"viewport": {"width": width, "height": 700}}
    tab = shown(model_of((1, 3, 3, 3, 1)), losses.mse_loss, xs, [x for _, x in XS], browser=browser)
    for bias in (-0.012345, -9.87654e-5, -123456.7):
        after(tab, f"await micrograd.setParameters(micrograd.parameters().fill({bias}));")
        assert min(tab.evaluate(ROOM)) >= 0


def test_other_inputs_have_a_table_of_predictions(shown):
    rng = random.Random(1)
    xs = [[rng.uniform(-1, 1) for _ in range(20)] for _ in range(25)]
    model = model_of((20, 4, 3))
    tab = shown(model, losses.cross_entropy, xs, [i % 3 for i in range(25)])
    assert (tab.locator("#table tr").count(), tab.inner_text("#rows")) == (20, "the first 20 of 25 examples")
    right = sum(max(range(3), key=[v.data for v in model(x)].__getitem__) == i % 3 for i, x in enumerate(xs))
    assert f"{4 * right}% correct" in status(tab)
    assert min(tab.evaluate(ROOM)) >= 0
    assert tab.locator(".inside").all_inner_texts()[16:] == ["0"] * 7  # biases, after the inputs
    assert not tab.is_visible("#plane")
    said = [max(range(3), key=[v.data for v in model(x)].__getitem__) for x in xs[:20]]
    assert [int(cell.split()[0]) for cell in tab.locator("#table td:last-child").all_inner_texts()] == said
    tab.click("#forward")
    has_status(tab, "Step 1 ")
    tab.emulate_media(media="print")
    tab.set_viewport_size({"width": 740, "height": 1000})
    assert tab.evaluate("find('.output .wide').scrollWidth <= find('.output .wide').clientWidth")
    tab = shown(Own(), losses.mse_loss, [[0], [1], [2]], [0.12345, -0.12345, 2.0])
    targets = tab.locator("#table td:nth-child(2)")
    assert [text.strip() for text in targets.all_inner_texts()] == ["0.1235", "−0.1235", "2"]
    assert {text[0] for text in targets.all_text_contents()} == {"−"}  # in sight, or the room for it
    assert not tab.is_visible("#network")


def test_the_output_over_one_input_is_a_line_among_the_examples(shown):
    model = nn.Neuron(1, "linear", rng=1)
    tab = shown(model, losses.mse_loss, [[-1.0], [0.0], [2.0]], [-1.0, 0.5, 2.0], validation=([[1.0]], [1.0]))
    centres = "[...document.querySelectorAll('#curve circle')].map(c => [+c.getAttribute('cx'), +c.getAttribute('cy')])"
    line = "document.querySelector('#curve .mg-line').getAttribute('d').slice(1).split('L').map(at => at.split(' '))"

    def gaps(parameters):  # from each point down to the line
        after(tab, f"await micrograd.setParameters({parameters});")
        xs, ys = np.array(tab.evaluate(line), float).T
        return [float(np.interp(x, xs, ys) - y) for x, y in tab.evaluate(centres)]

    held, first, middle, last = gaps([1, 0])
    assert [held, first, last] == pytest.approx([0, 0, 0], abs=0.2)
    assert middle > 10
    held, first, middle, last = gaps([0, 0.5])
    assert middle == pytest.approx(0, abs=0.2)
    assert first < -10 < 10 < held < last
    assert "points are examples, hollow ones validation data." in tab.inner_text("#rows")
    assert shown(model, LOGITS, [[0.0], [1.0]], [0, 1]).locator("#curve svg").count() == 0


def test_a_prediction_is_a_class_with_its_probability_in_the_table_and_at_the_pointer(shown):
    def said(outputs, target):
        k = outputs.index(max(outputs))
        share = 100 / sum(math.exp(x - outputs[k]) for x in outputs)
        return f"{k}{'' if k == target else ' ✗'} {min(99, round(share))}%"

    xs, ys, model = [[*x, *x] for x in XS], [*YS[:5], *[1 - y for y in YS[5:]]], model_of((4, 3, 1))
    tab = shown(model, xs=xs, ys=ys)
    expected = [said([0.0, model(x).data], y) for x, y in zip(xs, ys, strict=True)]
    assert {" ✗" in words for words in expected} == {True, False}
    assert tab.locator("#table td:last-child").all_inner_texts() == expected
    model = model_of((2, 3))
    tab = shown(model, losses.cross_entropy, ys=[0, 1, 2, 1] * 5)
    tab.mouse.move(*place(tab, 0.2, 0.3))
    until(tab, "document.querySelector('#where').textContent.includes('output')")
    found = re.fullmatch(r"x0 (.*), x1 (.*): output .*, so (\d+%) for class (\d)", tab.inner_text("#where"))
    x0, x1, *words = (word.replace("−", "-") for word in found.groups())
    assert said([x.data for x in model([float(x0), float(x1)])], int(words[1])) == " ".join(words[::-1])
    tab = shown(model_of(output="sigmoid"), losses.mse_loss)
    tab.mouse.move(*place(tab, 0.2, 0.3))
    until(tab, "/output .*, so class [01]$/.test(document.querySelector('#where').textContent)")


def test_no_label_becomes_a_script(shown):
    evil = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    tab = shown({evil: Own(), "b": Own()}, losses.mse_loss, [[0], [1]], [0.0, 1.0])
    assert evil in tab.inner_text("#choices")
    tab = shown(Own(), losses.mse_loss, [[0], [1]], [0.0, 1.0])
    assert tab.title() == "Playground: </title><script>alert(1)</script>"
    lesson = [{"text": evil, "answers": [evil, "no"], "after": evil}]
    tab = shown(Own, losses.mse_loss, [[0], [1]], [0.0, 1.0], choices={"seed": {evil: 1, "b": 2}}, lesson=lesson)
    assert evil in tab.inner_text("#choices")
    assert tab.inner_text("#lesson").count(evil) == 2


def is_in_sight(tab, selector):
    box = f"document.querySelector({selector!r}).getBoundingClientRect()"
    on_top = f"document.elementFromPoint({box}.x + 5, ({box}.top + {box}.bottom) / 2)?.closest({selector!r})"
    return tab.evaluate(f"{box}.top >= 0 && {box}.bottom <= innerHeight && !!{on_top}")


@pytest.mark.parametrize(("size", "places"), [
    ((360, 740), ["#play", "#status", "#plane"]),
    ((768, 1024), ["#play", "#plane", "#network", "#chart", "#dice"]),
    ((1280, 720), ["#play", "#plane", "#network", "#chart"]),
])  # fmt: skip
def test_what_train_moves_is_in_sight_beside_train_and_so_is_every_notice(shown, size, places):
    tab = shown(Network, choices=FEW, browser={"viewport": dict(zip(("width", "height"), size, strict=True))})
    assert [is_in_sight(tab, place) for place in places] == [True] * len(places)
    tab.click("#link")  # at the end of the page
    assert [is_in_sight(tab, place) for place in ("#play", "#notice", "#link")] == [True] * 3
    for _ in range(20):  # the controls never cover the focused element
        tab.keyboard.press("Shift+Tab")
        assert is_in_sight(tab, "label:has(:focus), :focus:not(label *)")
    for choices in FEW, FEW | {"hidden": {"16": [16], "none": []}}:
        tab = shown(Network, lesson=[ASK], choices=choices, browser={"viewport": {"width": 1280, "height": 720}})
        assert [is_in_sight(tab, place) for place in ("#plane", "#legend span")] == [True] * 2


def test_forced_colours_outline_what_is_chosen_and_pages_print_on_light_paper(shown):
    tab = shown(Network, choices=FEW, browser={"color_scheme": "dark", "forced_colors": "active"})
    chips = "all('.models label, .tools label, .sets button').map(chip => [chip, getComputedStyle(chip).outlineStyle])"
    marked = "([chip, style]) => [chip.matches('[aria-pressed=true], :has(:checked)'), style === 'solid']"
    assert {*map(tuple, tab.evaluate(f"{chips}.map({marked})"))} == {(True, True), (False, False)}
    tab.emulate_media(media="print")
    until(tab, "colours.paper[0] === 255")
    assert min(tab.evaluate("[...find('#plane').getContext('2d').getImageData(60, 60, 1, 1).data]")) > 120


@pytest.mark.parametrize(("scheme", "size"), [("light", (1280, 800)), ("dark", (390, 844))])
def test_axe_finds_nothing_and_nothing_is_cut_off(shown, axe, scheme, size):
    look = {"color_scheme": scheme, "viewport": {"width": size[0], "height": size[1]}, "bypass_csp": True}
    table = (nn.MLP(3, [2, 2], rng=1), losses.cross_entropy, [[0.0, 1.0, 2.0]] * 3, [0, 1, 1])
    taught = {"choices": FEW, "lesson": [ASK]}
    two = {"one": model_of(), "two": nn.Neuron(2, "linear", rng=1)}
    for arguments, options in (((two,), {}), (table, {}), ((Network,), taught)):
        tab = shown(*arguments, browser=look, **options)
        if "lesson" in options:
            tab.click("#lesson label")
        after(tab, "await micrograd.train(30); await micrograd.switchOff('x0');")
        tab.click("summary")
        tab.click(".unit >> nth=2")
        tab.evaluate("document.querySelector('#link').click()")
        tab.evaluate(axe)
        assert tab.evaluate("axe.run().then(run => run.violations.map(v => [v.id, v.nodes.map(n => n.html)]))") == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
