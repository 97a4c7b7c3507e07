"""What one training compiles serves the next one of the same model, unless something that was traced has changed."""

import copy
import gc
import pickle
import random
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from micrograd import Backend, Value, dot, losses, nn, optim
from micrograd.compiler import TraceError
from micrograd.compiler.function import Function
from micrograd.training.fit import fit

XS, YS = [[0.5, -1.0], [1.5, 2.0], [-0.5, 0.25]], [1.0, 0.0, -1.0]
SCALE = 1.0


class Line(nn.Module):
    """A line through the points, with what tests change."""

    power = 1.0

    def __init__(self) -> None:
        self.w = [Value(0.5), Value(-0.25)]
        self.b = Value(0.125)
        self.slope = 2.0
        self.table = {"offset": 0.25}

    def __call__(self, x: Any) -> Any:
        return (dot(self.w, x, self.b) * self.slope + self.table["offset"]) * self.power * SCALE


def squared(prediction: Any, y: Any) -> Any:
    """A loss."""
    return (prediction - y) ** 2


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The shapes of the arguments of all that is traced."""
    shapes: list[Any] = []
    trace = Function._traced

    def counted(self: Function, of: Any) -> Any:
        shapes.append(of)
        return trace(self, of)

    monkeypatch.setattr(Function, "_traced", counted)
    return shapes


def train(model: Any, loss: Any = squared, xs: Any = XS, ys: Any = YS, **options: Any) -> list[float]:
    """The losses of two epochs, from the same weights each time."""
    for i, parameter in enumerate(model.parameters()):
        parameter.data = 0.5 - 0.25 * i
    options = {"backend": "python", **options}
    optimizer = optim.SGD(model.parameters(), learning_rate=0.01)
    return fit(model, loss, xs, ys, epochs=2, optimizer=optimizer, rng=1, progress=False, **options).losses


def check(model: Any, loss: Any = squared, **options: Any) -> None:
    """That a training has the losses of the engine."""
    assert train(model, loss, **options) == pytest.approx(train(model, loss, backend="eager"), rel=1e-12)


@pytest.mark.parametrize("backend", ["python", "auto"])
def test_a_model_is_traced_once(traced: list[Any], backend: str) -> None:
    model = Line()
    for _ in range(3):
        check(model, backend=backend)
    assert len(traced) == 1


def test_weights_may_be_drawn_again_and_optimizers_differ(traced: list[Any]) -> None:
    model = nn.MLP(2, [3, 1], activation="tanh")
    train(model, losses.mse_loss)
    for parameter in model.parameters():
        parameter.data = random.uniform(-1, 1)
    fit(model, losses.mse_loss, XS, YS, epochs=1, optimizer=optim.Adam(model.parameters()), backend="c", progress=False)
    fit(model, losses.mse_loss, XS, YS, epochs=1, backend="c", progress=False)
    assert len(traced) == 2  # one for each backend


def test_examples_of_another_shape_are_traced_besides(traced: list[Any]) -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            self.w = Value(0.5)

        def __call__(self, xs: Any) -> Any:
            return sum(xs) * self.w

    model = Sum()
    train(model)
    longer = [[1.0, 2.0, 3.0], [1.0, 2.0]], [1.0, 0.0]
    for _ in range(2):
        train(model, squared, *longer)
    assert [shapes[0] for shapes in traced] == [(2,), (3,)]


def set_scale(model: Line) -> None:
    """Change a global that the model names."""
    globals()["SCALE"] = 3.0


CHANGES: dict[str, Callable[[Line], Any]] = {
    "an attribute": lambda model: setattr(model, "slope", 3.0),
    "an item": lambda model: model.table.update(offset=1.0),
    "a parameter replaced": lambda model: model.w.__setitem__(0, Value(0.5)),
    "a parameter removed": lambda model: setattr(model, "b", 0.5),
    "a constant": lambda model: setattr(model, "slope", Value(4.0)),
    "an attribute of the class": lambda model: setattr(Line, "power", 2.0),
    "a method": lambda model: setattr(Line, "__call__", lambda self, x: dot(self.w, x, self.b) * self.slope),
    "a global": set_scale,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_model_that_has_changed_is_traced_again(
    name: str, traced: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for thing, attribute in ((Line, "power"), (Line, "__call__")):
        monkeypatch.setattr(thing, attribute, getattr(thing, attribute))  # which sets it back
    monkeypatch.setitem(globals(), "SCALE", SCALE)
    model = Line()
    check(model)
    CHANGES[name](model)
    check(model)
    assert len(traced) == 2


def test_an_activation_and_a_layer_that_are_replaced_are_traced_again(traced: list[Any]) -> None:
    model = nn.MLP(2, [3, 1], activation="tanh")
    check(model, losses.mse_loss)
    model.layers[0] = nn.Layer(2, 3, activation="relu")
    check(model, losses.mse_loss)
    model.layers[0].neurons[1].activation = "sigmoid"
    check(model, losses.mse_loss)
    assert len(traced) == 3


def test_what_the_loss_can_read_may_not_change(traced: list[Any]) -> None:
    state = SimpleNamespace(weight=2.0, frozen=Value(1.5), table=[1.0, 2.0])

    def loss(prediction: Any, y: Any) -> Any:
        return (prediction - y) ** 2 * state.weight * state.frozen * state.table[1]

    model = Line()
    for change in (
        lambda: None,
        lambda: vars(state).update(weight=3.0),
        lambda: setattr(state.frozen, "data", 0.5),
        lambda: state.table.__setitem__(1, 5.0),
    ):
        change()
        check(model, loss)
        check(model, loss)
    assert len(traced) == 4


def test_numbers_in_an_array_may_not_change(traced: list[Any]) -> None:
    numpy = pytest.importorskip("numpy")
    weights = numpy.array([1.0, 2.0])

    def loss(prediction: Any, y: Any) -> Any:
        return (prediction - y) ** 2 * float(weights[1])

    model = Line()
    check(model, loss)
    weights[1] = 7.0
    check(model, loss)
    assert len(traced) == 2


def test_a_loss_that_is_made_again_is_the_same_if_it_can_read_the_same(traced: list[Any]) -> None:
    def weighted(weight: Any) -> Callable[[Any, Any], Any]:
        return lambda prediction, y: (prediction - y) ** 2 * weight

    class Estimator:
        def __init__(self) -> None:
            self.model = Line()

        def loss(self, prediction: Any, y: Any) -> Any:
            return squared(prediction, y)

    estimator, weight, model = Estimator(), 2.5, Line()
    for _ in range(2):
        check(estimator.model, estimator.loss)
        check(model, weighted(weight))
    assert len(traced) == 2
    check(model, weighted(3.5))
    check(model, squared)
    check(model, Estimator().loss)
    assert len(traced) == 5


def test_a_model_that_draws_random_numbers_or_reads_an_iterator_is_traced_each_time(traced: list[Any]) -> None:
    rng, numbers = random.Random(1), iter(range(1, 100))
    model = Line()
    for _ in range(2):
        train(model, lambda prediction, y: squared(prediction, y) * rng.random())
    assert len(traced) == 2
    for _ in range(2):
        train(model, lambda prediction, y: squared(prediction, y) * next(numbers))
    assert len(traced) == 4


def test_other_options_compile_again(traced: list[Any]) -> None:
    model = Line()
    for backend in ("python", "auto", "c", Backend("c", precision="single")):
        train(model, backend=backend)
    assert len(traced) == 4


class Slotted:
    """A model whose attributes are fixed."""

    __slots__ = ("w",)

    def __init__(self) -> None:
        self.w = Value(0.5)

    def parameters(self) -> list[Value]:
        return [self.w]

    def __call__(self, x: Any) -> Any:
        return self.w * x[0]


def test_a_model_that_takes_no_attributes_keeps_nothing(traced: list[Any]) -> None:
    model = Slotted()
    for _ in range(2):
        check(model)
    assert len(traced) == 2


def test_copies_begin_without_it_and_it_goes_with_the_model(traced: list[Any]) -> None:
    model = nn.MLP(2, [1])
    names = set(model.state_dict())
    train(model, losses.mse_loss)
    assert set(model.state_dict()) == names
    for other in copy.deepcopy(model), pickle.loads(pickle.dumps(model)):
        check(other, losses.mse_loss)
    assert len(traced) == 3
    of_model = weakref.ref(model)
    del model
    gc.collect()
    assert of_model() is None


def test_what_reaches_too_much_is_traced_each_time(traced: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("micrograd.compiler.frontend.reach.MANY", 10)
    model, things = Line(), [[i] for i in range(20)]
    for _ in range(2):
        check(model, lambda prediction, y: squared(prediction, y) * len(things))
    assert len(traced) == 2


def test_a_layer_that_a_user_patches_is_traced_again(traced: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model, call = nn.MLP(2, [1]), nn.Neuron.__call__
    check(model, losses.mse_loss)
    monkeypatch.setattr(nn.Neuron, "__call__", lambda self, x: call(self, x) * 2.0)
    check(model, losses.mse_loss)
    assert len(traced) == 2


class Mean(Line):
    """It subtracts a running mean, which it keeps as `keep` says."""

    def __init__(self, keep: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.keep, self.mean, self.means, self.state = keep, 0.0, [0.0], Value(0.0)

    def __call__(self, x: Any) -> Any:
        return dot(self.w, x[:2], self.b) - self.keep(self, x[0])


def in_attribute(model: Mean, x: Any) -> Any:
    model.mean = 0.5 * model.mean + 0.5 * x
    return model.mean


def in_attribute_as_number(model: Mean, x: Any) -> Any:
    model.mean = 0.5 * model.mean + 0.5 * getattr(x, "data", x)
    return model.mean


def in_list(model: Mean, x: Any) -> Any:
    model.means.append(0.5 * model.means[-1] + 0.5 * x)
    return model.means[-1]


def in_new_object(model: Mean, x: Any) -> Any:
    model.mean = SimpleNamespace(of=0.5 * getattr(model.mean, "of", 0.0) + 0.5 * x)
    return model.mean.of


def in_new_dict(model: Mean, x: Any) -> Any:
    before = model.mean["a"] if isinstance(model.mean, dict) else 0.0
    model.mean = {1: 0.0, "a": 0.5 * before + 0.5 * x}
    return model.mean["a"]


def in_value(model: Mean, x: Any) -> Any:
    model.state.data = 0.5 * model.state.data + 0.5 * getattr(x, "data", x)
    return model.state.data


def in_another_thread(model: Mean, x: Any) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: model.w[0] * x).result()


@pytest.mark.parametrize("xs", [XS, [*XS, [1.0, 2.0, 3.0]]], ids=["one shape", "two shapes"])
@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (
            in_attribute,
            r'test_compiled\.py:\d+, `model\.mean = 0\.5 .*: this reads a number that was kept.*with backend="eager"$',
        ),
        (in_attribute_as_number, r"`model\.mean = .*: this reads a number that was kept from an earlier call"),
        (in_list, r"`model\.means\.append\(.*: this reads a number that was kept from an earlier call"),
        (in_new_object, "this reads a number that was kept from an earlier call"),
        (in_new_dict, "this reads a number that was kept from an earlier call"),
        (in_value, r"^the function assigns to the data of parameter 3, which compiled code cannot do"),
        (in_another_thread, r"test_compiled\.py:.*another thread computes with traced numbers"),
    ],
)
def test_what_compiled_code_would_not_do_is_an_error_and_leaves_the_model_as_it_was(
    keep: Any, message: str, xs: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model, ys = Mean(keep), [*YS, 1.0][: len(xs)]
    for _ in range(2):  # the second one finds no code of the first
        with pytest.raises(TraceError, match=message):
            train(model, xs=xs, ys=ys)
        assert (model.mean, model.means, type(model.state.data)) == (0.0, [0.0], float)
    losses = train(model, xs=xs, ys=ys, backend="auto")
    assert "training eagerly, since the model cannot be compiled" in caplog.text
    assert losses == train(Mean(keep), xs=xs, ys=ys, backend="eager")


def test_what_a_model_stores_and_does_not_read_is_no_error(traced: list[Any]) -> None:
    """Such as activations to look at: they are those of before the training."""

    def shown(model: Mean, x: Any) -> Any:
        model.means = [x]
        return 0.5 * x

    model = Mean(shown)
    losses = train(model)
    assert model.means == [0.0]
    assert losses == pytest.approx(train(Mean(shown), backend="eager"), rel=1e-12)
    assert len(traced) == 2  # one of them to see that it does not read what the other has left
    assert train(model) == losses
    assert len(traced) == 2


def test_what_is_made_at_the_first_call_stays(traced: list[Any]) -> None:
    def lazily(model: Mean, x: Any) -> Any:
        if model.mean == 0.0:
            model.mean = SimpleNamespace(factors=[0.5], of=random.random())
        model.means, model.last = [x], SimpleNamespace(activation=x)
        return x * model.mean.factors[0] * model.mean.of

    model = Mean(lazily)
    random.seed(1)
    losses = train(model)
    assert model.mean.factors == [0.5]
    assert model.means == [0.0]
    assert not hasattr(model, "last")
    random.seed(1)
    assert losses == pytest.approx(train(Mean(lazily), backend="eager"), rel=1e-12)


def test_values_that_are_stored_in_or_set_before_they_are_read_are_no_error() -> None:
    def shown(model: Mean, x: Any) -> Any:
        model.state.data = getattr(x, "data", x)
        return 0.5 * x

    def first_set(model: Mean, x: Any) -> Any:
        model.state.data = 0.5
        model.w[0].data = model.w[0].data * 1.0
        return model.state * x

    for keep in shown, first_set:
        assert train(Mean(keep)) == pytest.approx(train(Mean(keep), backend="eager"), rel=1e-12)


def test_an_array_of_objects_is_set_back() -> None:
    numpy = pytest.importorskip("numpy")

    def in_array(model: Mean, x: Any) -> Any:
        result = 0.5 * model.mean[0]
        model.mean[0] = x
        return result

    model = Mean(in_array)
    model.mean = numpy.zeros(2, dtype=object)
    with pytest.raises(TraceError, match="this reads a number that was kept"):
        train(model)
    assert model.mean.tolist() == [0, 0]


def test_what_only_the_second_call_cannot_do_is_told_at_its_line(caplog: pytest.LogCaptureFixture) -> None:
    def logged(model: Mean, x: Any) -> Any:
        text = f"{model.mean:.2f}"
        model.mean = x
        return x * len(text)

    with pytest.raises(TraceError, match=r"test_compiled\.py:\d+, `text = .*: this reads a number that was kept"):
        train(Mean(logged))


def test_a_failed_training_leaves_no_code_that_the_next_one_uses() -> None:
    model = Mean(in_attribute)
    with pytest.raises(TypeError):
        fit(model, squared, XS, YS, validation=(XS, [None] * 3), backend="python", progress=False)
    assert model.mean == 0.0
    with pytest.raises(TraceError, match="this reads a number that was kept"):
        train(model)


def test_the_second_trace_draws_no_random_numbers() -> None:
    def noisy(model: Mean, x: Any) -> Any:
        model.means = [x]
        return x * random.random()

    random.seed(1)
    drawn = random.random(), random.random()
    random.seed(1)
    train(Mean(noisy))
    assert random.random() == drawn[1]


def test_a_number_that_is_set_back_within_the_function_is_no_error() -> None:
    def rounded(model: Mean, x: Any) -> Any:
        before, model.w[0].data = model.w[0].data, 0.25
        result = model.w[0] * x
        model.w[0].data = before
        return result

    assert train(Mean(rounded)) == pytest.approx(train(Mean(rounded), backend="eager"), rel=1e-12)
