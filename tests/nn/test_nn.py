"""The networks: initial weights, outputs, how parameters are found and copied, and files that bring a model back."""

import copy
import json
import math
import os
import pickle
import random
import struct
from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

import micrograd
from micrograd import Value, nn, scalar
from micrograd.nn import ACTIVATIONS, MLP, Embedding, Layer, Module, Neuron
from micrograd.optim import SGD
from tests.helpers import Table

MAKERS = {
    "neuron": lambda rng=1: Neuron(3, "sigmoid", rng=rng),
    "layer": lambda rng=1: Layer(2, 3, "relu", rng=rng),
    "layer of one": lambda rng=1: Layer(2, 1, "softplus", rng=rng),
    "mlp": lambda rng=1: MLP(2, [4, 3, 1], "leaky_relu", "linear", rng=rng),
    "embedding": lambda rng=1: Embedding(4, 3, rng=rng),
}
make_each = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
each_with_inputs = pytest.mark.parametrize("module", [Neuron(2, rng=0), Layer(2, 3, rng=0), MLP(2, [3, 1], rng=0)])
duplicated = pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "deepcopy", "pickle"]
)


def swish(x):
    return x * x.sigmoid()


def weights(module):
    return [p.data for name, p in module.named_parameters() if ".w." in f".{name}"]


def bits(module):
    return [struct.pack(">d", number) for number in module.state_dict().values()]


# The start


@pytest.mark.parametrize(("activation", "limit"), [
    *[(of, math.sqrt(6 / 48)) for of in ("tanh", "sigmoid", "softplus", "linear", swish, Value.tanh)],
    *[(of, math.sqrt(6 / 8)) for of in ("relu", "leaky_relu", Value.relu, scalar.leaky_relu)],
])  # fmt: skip
def test_weights_start_within_the_limit_of_glorot_or_for_the_relus_of_he(activation, limit):
    data = weights(Layer(8, 40, activation, rng=0))
    assert 0.98 * limit < max(data) <= limit
    assert -limit <= min(data) < -0.98 * limit
    assert math.fsum(w * w for w in data) / len(data) == pytest.approx(limit**2 / 3, rel=0.1)
    assert len(set(data)) == len(data)


def test_each_layer_of_an_mlp_starts_by_its_own_sizes_with_biases_of_0():
    model = MLP(2, [50, 100, 1], "relu", rng=0)
    for layer, limit in zip(model.layers, [math.sqrt(6 / 2), math.sqrt(6 / 50), math.sqrt(6 / 101)], strict=True):
        assert 0.9 * limit < max(map(abs, weights(layer))) <= limit
        assert {neuron.b.data for neuron in layer.neurons} == {0.0}


def test_the_weights_of_an_embedding_are_spread_as_those_of_pytorch():
    data = Embedding(100, 50, rng=0).state_dict().values()
    assert abs(math.fsum(data) / 5000) < 4 / math.sqrt(5000)
    assert math.fsum(w * w for w in data) / 5000 == pytest.approx(1.0, rel=0.08)
    assert len(set(data)) == 5000


@make_each
def test_a_model_follows_from_its_seed_or_a_generator_or_the_global_one(make):
    random.seed(7)
    ours = bits(make(None))
    assert ours == bits(make(7)) == bits(make(random.Random(7))) == bits(make(np.int64(7))) != bits(make(8))
    numpys = [make(np.random.default_rng(7)) for _ in range(2)]
    assert bits(numpys[0]) == bits(numpys[1])
    assert {type(p.data) for p in numpys[0].parameters()} == {float}
    state = random.getstate()
    rng = random.Random(7)
    assert bits(make(rng)) != bits(make(rng))
    assert random.getstate() == state


@pytest.mark.parametrize(("make", "error", "message"), [
    *[(lambda nin=nin: Neuron(nin), ValueError, f"nin is {nin!r}: expected an int, 1 or") for nin in (0, 2.0, "3")],
    (lambda: Layer(2, 0), ValueError, "nout is 0: expected an int, 1 or greater"),
    (lambda: Neuron(2, fan_out=-1), ValueError, "fan_out is -1: expected an int, 1 or greater"),
    (lambda: MLP(2, [2, -1]), ValueError, "nout is -1: expected an int, 1 or greater"),
    (lambda: MLP(2, []), ValueError, r"nouts is \[\]: expected inputs and layers, as in MLP\(3, \[4, 4, 1\]\)"),
    (lambda: MLP(2, 4), ValueError, "nin is 2, nouts is 4: expected inputs and layers"),
    (lambda: MLP([3, 4, 1]), ValueError, r"nin is \[3, 4, 1\], nouts is \(\): expected inputs and layers"),
    (lambda: Neuron(2, "rellu"), ValueError, "unknown activation 'rellu': expected a function, or one of tanh, "),
    (lambda: MLP(2, [2, 1], output="Tanh"), ValueError, "unknown activation 'Tanh'"),
    (lambda: MLP(2, [1], ""), ValueError, "unknown activation ''"),
    (lambda: MLP(2, [2, 3], output="softmax"), ValueError, "'softmax': leave it out, since cross_entropy takes logits"),
    (lambda: Embedding(0, 2), ValueError, "n is 0: expected an int, 1 or greater"),
    (lambda: Embedding(2, 0), ValueError, "size is 0: expected an int, 1 or greater"),
    (lambda: MLP(3, [4, 1], activation=math.tanh), TypeError, r"^float\(v\), math.exp.* would lose the gradient"),
    (lambda: Neuron(3, None), ValueError, "unknown activation None: expected a function, or one of"),
    (lambda: Neuron(2, "relu", 1), TypeError, "positional"),
])  # fmt: skip
def test_a_network_that_could_not_compute_is_refused_when_it_is_made(make, error, message):
    with pytest.raises(error, match=message):
        make()


# The output


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_neuron_is_an_activation_of_a_dot_product(activation):
    on_floats = scalar.FUNCTIONS.get(activation, float)  # linear is the number itself
    neuron = Neuron(2, activation, rng=0)
    neuron.b.data = 0.25
    w0, w1 = (w.data for w in neuron.w)
    for x in ([1.0, 2.0], [-3.0, -1.0]):
        expected = on_floats(w0 * x[0] + w1 * x[1] + 0.25)
        assert neuron(x).data == pytest.approx(expected, rel=1e-14)


def test_an_activation_may_be_any_function_and_another_one_later():
    neuron = Neuron(1, swish, rng=0)
    z = neuron.w[0].data * 2.0
    assert neuron([2.0]).data == pytest.approx(z / (1 + math.exp(-z)), rel=1e-14)
    neuron.activation, neuron.w[0].data = "relu", 2.0
    assert neuron([3.0]).data == 6.0
    neuron.activation = "sine"
    with pytest.raises(ValueError, match="unknown activation 'sine'"):
        neuron([3.0])


def test_a_layer_returns_the_outputs_of_its_neurons_or_a_single_output_without_a_list():
    layer = Layer(2, 3, rng=0)
    assert [o.data for o in layer([1.0, 2.0])] == [neuron([1.0, 2.0]).data for neuron in layer.neurons]
    narrow = MLP(2, [1, 1, 2], rng=0)  # with a single output between layers
    first, second, third = narrow.layers
    assert [o.data for o in narrow([1.0, 2.0])] == [o.data for o in third([second([first([1.0, 2.0])])])]
    assert isinstance(Layer(2, 1)([1.0, 2.0]), Value)
    assert isinstance(MLP(2, [3, 1])([1.0, 2.0]), Value)
    assert isinstance(MLP(2, [3, 2])([1.0, 2.0]), list)
    leaves = {id(leaf) for output in layer([1.0, 2.0]) for leaf in output._topological_order()[1]}
    assert len(leaves) == 3 * 3 + 2  # each input becomes a leaf once


@each_with_inputs
def test_inputs_may_be_lists_tuples_rows_and_values(module):
    def data(output):
        return [o.data for o in output] if isinstance(output, list) else output.data

    expected = data(module([1.0, 2.0]))
    for x in (
        (1.0, 2.0), [1, 2], np.array([[1.0, 2.0]])[0], np.array([1, 2], dtype=np.float32), [Value(1.0), 2.0],
        [Value(1.0), Value(2.0)], np.array([Value(1.0), Value(2.0)]), range(1, 3), {"a": 1.0, "b": 2.0}.values(),
    ):  # fmt: skip
        assert data(module(x)) == expected


@each_with_inputs
@pytest.mark.parametrize(("x", "error", "message"), [
    ([], ValueError, r"not of lengths 2 and 0|takes a list of length 2, such as \[0.0, 0.0\], not \[\]$"),
    ([1.0, 2.0, 3.0], ValueError, r"not of lengths 2 and 3|not \[1.0, 2.0, 3.0\]$"),
    (np.ones(3), ValueError, r"not of lengths 2 and 3|not \[1.0, 1.0, 1.0\]$"),
    (np.ones((3, 2)), ValueError, r"not of lengths 2 and 3|\]\]; for a batch, write \[model\(x\) for x in xs\]$"),
    ({0.0: 1.0, 1.0: 2.0}, TypeError, "is of type dict: expected a list"),
    ({0.0, 1.0}, TypeError, "is of type set: expected a list"),
    ([2.0, "1.5"], TypeError, r"^(x\[1\]: )?a Value holds a number .*, not str: '1.5'"),
    ([["1"], 2.0], TypeError, r"^(x\[0\]\[0\]: a|a) Value holds a number .*, not (str: '1'|list)"),
    (1.0, (TypeError, ValueError), "was given 1.0|, not 1.0$"),
    (Table([[1.0, 3.0]] * 2), (TypeError, ValueError), r"ndarray|not \[\[1.0, 3.0\], .* for x in xs.to_numpy\(\)\]$"),
])  # fmt: skip
def test_inputs_that_do_not_fit_say_what_was_expected(module, x, error, message):
    with pytest.raises(error, match=message):
        module(x)


def test_a_network_reads_well_and_says_its_size():
    assert repr(MLP(2, [16, 16, 1], "relu")) == "MLP(2 -> 16 relu -> 16 relu -> 1 linear, 337 parameters)"
    assert repr(MLP(2, [3, 1])) == "MLP(2 -> 3 tanh -> 1 linear, 13 parameters)"
    assert repr(MLP(2, [3, 1], swish, "sigmoid")) == "MLP(2 -> 3 swish -> 1 sigmoid, 13 parameters)"
    small = MLP(1, [1])
    small.layers[0].neurons[0].b = Value(0.0).detach()
    assert repr(small) == "MLP(1 -> 1 linear, 1 parameter)"
    small.layers.append(Module())
    assert repr(small) == "MLP(layers.0: Layer(1 -> 1, linear), layers.1: Module, 1 parameter)"
    assert repr(Layer(2, 4)) == "Layer(2 -> 4, tanh)"
    assert [repr(Neuron(2, of)) for of in ("relu", Value.tanh)] == ["Neuron(2, relu)", "Neuron(2, tanh)"]
    assert repr(Embedding(27, 16)) == "Embedding(27, 16)"


def test_a_module_of_your_own_shows_the_modules_in_it_by_their_paths():
    class Net(Module):
        def __init__(self):
            self.scale, self.layers, self.me = Value(1.0), [Layer(2, 3), Layer(3, 1)], self

    inside = "layers.0: Layer(2 -> 3, tanh), layers.1: Layer(3 -> 1, tanh), me: Net, 14 parameters"
    assert repr(Net()) == f"Net({inside})"
    one = Module()
    one.weight = Value(1.0)
    assert [repr(module) for module in (Module(), one)] == ["Module(0 parameters)", "Module(1 parameter)"]


def test_the_text_of_a_module_is_short_however_many_modules_it_holds_and_whatever_these_hold():
    class Unit(Module):
        def __init__(self, others):
            self.others = others

        def parameters(self):
            yield Value(0.0)

    units = []
    units.extend(Unit(units) for _ in range(20))
    shown = ", ".join(f"others.{i}: Unit" for i in range(12))
    assert repr(units[0]) == f"Unit({shown}, ..., 0 parameters)"


@pytest.mark.parametrize("index", [2, 2.0, Value(2.0), np.int8(2), np.float32(2)], ids=repr)
def test_an_index_chooses_a_row(index):
    embedding = Embedding(4, 3, rng=0)
    row = embedding(index)
    assert [v.data for v in row] == [w.data for w in embedding.w[2]]
    (row[0] * row[1] + row[2]).backward()
    a, b, _ = row
    assert [[w.grad for w in row] for row in embedding.w] == [[0] * 3, [0] * 3, [b.data, a.data, 1.0], [0] * 3]
    assert len(Embedding(1, 1)(0)) == 1  # a list all the same


# Parameters


def test_their_names_are_their_paths_in_a_fixed_order():
    model = MLP(2, [2, 1])
    assert [name for name, _ in model.named_parameters()] == [
        "layers.0.neurons.0.w.0", "layers.0.neurons.0.w.1", "layers.0.neurons.0.b",
        "layers.0.neurons.1.w.0", "layers.0.neurons.1.w.1", "layers.0.neurons.1.b",
        "layers.1.neurons.0.w.0", "layers.1.neurons.0.w.1", "layers.1.neurons.0.b",
    ]  # fmt: skip
    assert [id(p) for p in model.parameters()] == [id(p) for _, p in model.named_parameters()]
    assert list(Embedding(2, 2).state_dict()) == ["w.0.0", "w.0.1", "w.1.0", "w.1.1"]


def test_a_module_of_your_own_finds_what_it_holds():
    class Mixture(Module):
        def __init__(self):
            self.name, self.numbers, self.unordered = "mixture", np.array([1, 2]), {1.0, Value(9.0)}
            self.scale, self.one, self.start = Value(1.0), *micrograd.promote(1.0), Value(0.0).detach()
            self.experts = [[Neuron(1)], (Layer(1, 1), [Value(2.0), 3.0, None])]
            self.head = Neuron(1)
            self.options = {"rate": Value(4.0), 7: [Neuron(1)], None: "no parameter"}
            self.queue = deque([Value(5.0)])
            self.array, self.bias = np.array([[Value(6.0), Value(7.0)]]), np.array(Value(8.0), dtype=object)

    assert [name for name, _ in Mixture().named_parameters()] == [
        "scale", "experts.0.0.w.0", "experts.0.0.b", "experts.1.0.neurons.0.w.0", "experts.1.0.neurons.0.b",
        "experts.1.1.0", "head.w.0", "head.b", "options.rate", "options.7.0.w.0", "options.7.0.b", "queue.0",
        "array.0.0", "array.0.1", "bias.0",
    ]  # fmt: skip
    assert Module().parameters() == []


def test_what_is_shared_is_named_once_and_equal_values_are_not_the_same():
    model = Module()
    model.encoder = model.decoder = Neuron(2)
    model.bias = model.encoder.b
    model.parent, model.all = model, [model.encoder]
    model.all.append(model.all)
    model.one, model.other = Value(1.0), Value(1.0)
    names = [name for name, _ in model.named_parameters()]
    assert names == ["encoder.w.0", "encoder.w.1", "encoder.b", "one", "other"]


def test_two_parameters_of_one_name_are_refused():
    model = Module()
    model.table = {1: Value(1.0), "1": Value(2.0)}
    for call in model.state_dict, lambda: model.load_state_dict({"table.1": 3.0}):
        with pytest.raises(ValueError, match=r"two parameters are named 'table\.1': rename an attribute or a key"):
            call()
    assert len(model.parameters()) == 2


def test_a_chain_of_modules_may_be_long_and_parts_shared_by_many_are_walked_once():
    top = bottom = Neuron(1)
    for _ in range(2000):
        below, top = top, Module()
        top.parts = [below, below]
    assert top.parameters() == bottom.parameters()


def test_zero_grad_sets_all_gradients_to_zero_and_keeps_fractions_exact():
    model = MLP(2, [3, 1])
    model.scale = Value(Fraction(1, 3))
    for _ in range(2):
        model.zero_grad()
        assert [p.grad for p in model.parameters()] == [0.0] * 14
        model([1.0, 2.0]).backward()
        (model.scale * Fraction(1, 7)).backward()
        assert all(p.grad for p in model.layers[1].parameters())
    assert (model.scale.grad, type(model.scale.grad)) == (Fraction(1, 7), Fraction)


def test_a_state_goes_into_a_module_of_the_same_shape_and_is_a_copy():
    model, other = MLP(2, [3, 1], rng=1), MLP(2, [3, 1], rng=2)
    state = model.state_dict()
    assert state == {name: p.data for name, p in model.named_parameters()}
    parameters = other.parameters()
    other.load_state_dict(state)
    assert bits(other) == bits(model)
    assert all(a is b for a, b in zip(other.parameters(), parameters, strict=True))
    other.parameters()[0].data = 5.0
    assert state == model.state_dict()
    model.load_state_dict(dict.fromkeys(state, Fraction(1, 3)))
    assert set(model.state_dict().values()) == {Fraction(1, 3)}


@pytest.mark.parametrize(("change", "error", "message"), [
    (lambda state: state.pop("b"), ValueError, r"missing: \['b'\], unknown: \[\]"),
    (lambda state: state.update(c=1.0), ValueError, r"missing: \[\], unknown: \['c'\]"),
    (lambda state: state.update({5: 1.0, "c": 1.0}), ValueError, r"unknown: \[5, 'c'\]"),
    (lambda state: state.clear(), ValueError, r"missing: \['b', 'w.0', 'w.1'\], unknown: \[\]$"),
    (lambda state: state.update(dict.fromkeys(range(99), 1.0)), ValueError, r"unknown: \[0, 1, 10, 11, .*, \.\.\.\]$"),
    (lambda state: state.update(b="1.0"), TypeError, "^b: a Value holds a number"),
    (lambda state: state.update(b=[1.0]), TypeError, "^b: a Value holds a number"),
])  # fmt: skip
def test_a_state_that_does_not_fit_changes_nothing(change, error, message):
    model = Neuron(2, rng=1)
    before = model.state_dict()
    state = Neuron(2, rng=2).state_dict()
    change(state)
    with pytest.raises(error, match=message):
        model.load_state_dict(state)
    with pytest.raises(TypeError, match=r"state is None: expected a dict, as state_dict\(\) returns it"):
        model.load_state_dict(None)
    assert model.state_dict() == before


# Copies


class Keeping(Module):
    """Keeps what it computes."""

    def __init__(self):
        self.first, self.second = Layer(2, 2, rng=1), Layer(2, 1, rng=2)
        self.log, self.by_name = [], {"head": Neuron(1, rng=3), "steps": 3}

    def __call__(self, x):
        self.hidden = self.first(x)
        self.by_name |= {"out": (self.second(self.hidden),), "itself": self.by_name}
        self.mixed = [self.first.neurons[0].b, self.hidden[0], deque(self.hidden), np.array(self.hidden)]
        return self.by_name["out"][0]


@duplicated
def test_what_was_computed_is_no_parameter_and_a_constant_in_copies(duplicate):
    model = Keeping()
    state = model.state_dict()
    model([1.0, 2.0]).backward()
    assert model.state_dict() == state
    SGD(model.parameters(), 0.1).step()
    twin = duplicate(model)
    assert twin.state_dict() == model.state_dict() != state
    assert twin.hidden == model.hidden
    assert twin.by_name.keys() == model.by_name.keys()
    assert twin.by_name["itself"] is twin.by_name
    assert twin.by_name["out"] == model.by_name["out"]
    assert twin.mixed[0] is twin.first.neurons[0].b
    assert [id(v) for part in twin.mixed[2:] for v in part] == [id(v) for v in twin.hidden] * 2
    assert [v._prev for v in (*twin.hidden, *twin.by_name["out"])] == [()] * 3
    assert [v._prev == () for v in model.hidden] == [False, False]
    assert bool({*map(id, twin.parameters())} & {*map(id, model.parameters())}) == (duplicate is copy.copy)
    assert [p.grad for p in twin.parameters()] == [p.grad for p in model.parameters()]
    assert twin([1.0, 2.0]).data == model([1.0, 2.0]).data
    assert (twin.log is model.log) == (duplicate is copy.copy)
    assert (twin.by_name["head"] is model.by_name["head"]) == (duplicate is copy.copy)


@duplicated
def test_what_was_computed_in_a_derivative_that_has_ended_is_a_constant_in_copies(duplicate):
    model = Keeping()
    for derivative in micrograd.grad(model), micrograd.hessian(model):
        derivative([1.0, 2.0])
        twin = duplicate(model)
        assert [v.data for v in twin.hidden] == [scalar.innermost(v) for v in model.hidden]
        assert {(type(v), v._prev, v._is_constant) for v in twin.hidden} == {(Value, (), True)}


class Input(Keeping):
    """Keeps its input."""

    def __call__(self, x):
        self.input = x
        return super().__call__(x)


@pytest.mark.parametrize("use", [
    lambda model: micrograd.grad(model)([1.0, 2.0]),
    lambda model: micrograd.jvp(lambda x: micrograd.grad(model)(x)[0])([1.0, 2.0], [1.0, 0.0]),
    lambda model: micrograd.gradcheck(model, ([1.0, 2.0],)),
    lambda model: micrograd.compile(model, ([1.0, 2.0],)),
])  # fmt: skip
def test_the_input_that_a_module_keeps_is_no_parameter(use):
    model = Input()
    names = [*model.state_dict()]
    use(model)
    assert [*model.state_dict()] == names


@dataclass
class Record(Module):
    """Equal to others, and so without a hash."""

    scale: Value
    head: Neuron
    names: list[str] = field(default_factory=list)

    def __call__(self, x):
        self.last = self.scale * self.head(x)
        return self.last


class Slotted(Module):
    """Attributes with and without a place in the dict."""

    __slots__ = ("__hidden", "w")

    def __init__(self):
        self.w, self.__hidden, self.other = [Value(2.0)], Value(3.0), Value(4.0)

    def __call__(self, x):
        return self.w[0] * x[0] + self.__hidden * self.other


@duplicated
@pytest.mark.parametrize(("model", "names"), [
    (Record(Value(2.0), Neuron(1, rng=1), ["a"]), ["scale", "head.w.0", "head.b"]),
    (Slotted(), ["other", "_Slotted__hidden", "w.0"]),
])  # fmt: skip
def test_a_dataclass_or_one_with_slots_is_as_any_other(duplicate, model, names):
    parent = Module()
    parent.parts = [model, 1.0]
    output = model([0.5])
    twin = duplicate(parent).parts[0]
    assert sorted(name for name, _ in twin.named_parameters()) == sorted(names)
    assert twin([0.5]).data == output.data
    assert getattr(twin, "names", ["a"]) == ["a"]


# Files


@make_each
def test_a_model_comes_back_to_the_last_bit(tmp_path, make):
    model = make()
    model.parameters()[0].data, model.parameters()[-1].data = 5e-324, 3  # which equals a float
    random.seed(1)
    expected = random.random()
    random.seed(1)
    nn.save(model, tmp_path / "model.json")
    loaded = nn.load(str(tmp_path / "model.json"))
    assert random.random() == expected
    assert type(loaded) is type(model)
    assert repr(loaded) == repr(model)
    assert bits(loaded) == bits(model)
    x = 2 if isinstance(model, nn.Embedding) else [0.3, -0.7, 1.1][: len(getattr(model, "w", "12"))]
    assert repr(loaded(x)) == repr(model(x))


def test_a_file_of_version_1_stays_readable(tmp_path):
    """What this version has written, letter for letter: never change it, add another for the next version."""
    path = tmp_path / "model.json"
    path.write_text(
        '{"format": "micrograd", "version": 1, "content": {"type": "MLP", "layers": [{"type": "Layer", "neurons": '
        '[{"type": "Neuron", "activation": "tanh", "w": [0.1, -2.0], "b": 1e-300}, '
        '{"type": "Neuron", "activation": "relu", "w": [0.5, 1.0], "b": 3.0}]}]}}\n'
    )
    model = nn.load(path)
    assert [repr(neuron) for neuron in model.layers[0].neurons] == ["Neuron(2, tanh)", "Neuron(2, relu)"]
    assert list(model.state_dict().values()) == [0.1, -2.0, 1e-300, 0.5, 1.0, 3.0]
    content = path.read_bytes()
    nn.save(model, os.fsencode(path))
    assert path.read_bytes() == content
    path.write_bytes(content.replace(b"3.0", b"3"))
    assert type(nn.load(path).layers[0].neurons[1].b.data) is float


def altered(change):
    model = nn.MLP(2, [2, 1], rng=1)
    change(model.layers)
    return model


Imposter = type("MLP", (nn.MLP,), {})


@pytest.mark.parametrize(("model", "message"), [
    (Imposter(2, [1]), "nn.save cannot write this MLP: model is .*: expected Neuron, Layer, MLP or Embedding; "),
    ("model.json", r"model is 'model.json': expected a Module, as in save\(model, 'model.json'\)"),
    (nn.Module(), "cannot write this Module: model is .*: expected Neuron, Layer, MLP or Embedding"),
    (nn.Neuron(2, lambda x: x), "model.activation is <function.*expected a name from ACTIVATIONS"),
    (altered(lambda layers: layers.append(layers)), "recursion"),
    (altered(lambda layers: layers.append(Imposter(1, [1]))), r"model.layers.2 is .*: expected a Layer"),
    (altered(lambda layers: layers.clear()), r"model.layers is \[\]: expected a list"),
    (altered(lambda layers: setattr(layers[0], "scale", Value(1.0))), "parts of your own"),
    (altered(lambda layers: setattr(layers[0].neurons[0], "b", Value(1.0).detach())), "constants or huge"),
    (altered(lambda layers: layers[1].neurons.append(layers[1].neurons[0])), "shared parts"),
    (altered(lambda layers: setattr(layers[0].neurons[0].b, "data", math.nan)), "0.b is nan: expected a finite"),
    (altered(lambda layers: setattr(layers[0].neurons[0].b, "data", -math.inf)), "-inf: expected a finite"),
    (altered(lambda layers: setattr(layers[0].neurons[0].b, "data", Fraction(1, 2))), "Fraction.*finite float"),
    (altered(lambda layers: setattr(layers[0].neurons[0].b, "data", 2**53 + 1)), "huge ints"),
    (altered(lambda layers: setattr(layers[0].neurons[0].b, "data", 10**400)), "too large"),
])  # fmt: skip
def test_what_could_not_be_loaded_as_it_was_is_not_saved(tmp_path, model, message):
    path = tmp_path / "model.json"
    path.write_text("the old file")
    with pytest.raises(TypeError if "save\\(" in message else ValueError, match=message):
        nn.save(model, path)
    assert path.read_text() == "the old file"
    assert os.listdir(tmp_path) == [path.name]


NEURON = {"type": "Neuron", "activation": "tanh", "w": [1.0, 2.0], "b": 0.5}


def neuron(**changes):
    """A document of one neuron, with changes."""
    return document({**NEURON, **changes})


def document(content, **changes):
    return json.dumps({"format": "micrograd", "version": 1, "content": content, **changes})


@pytest.mark.parametrize(("text", "message"), [
    ("", "Expecting value"), ("null", "not written by nn.save"),
    (document(None, format="other"), "not written by nn.save"),
    (document(None, version=2), "not written by nn.save of this version"), (neuron() + "{}", "Extra data"),
    ("[" * 200_000, "recursion|overflow"), (document(None), "model is None: expected Neuron, Layer, MLP or Embedding"),
    (neuron(type="os.system"), "expected Neuron, Layer, MLP or Embedding"),
    (neuron(nin=10**9), "expected Neuron, Layer, MLP or Embedding"),
    (document({"type": "MLP", "layers": []}), r"model.layers is \[\]: expected a list"),
    (document({"type": "MLP", "layers": [{"type": "MLP", "layers": []}]}), "layers.0 is .*: expected a Layer"),
    (neuron(activation="__import__"), "activation is '__import__': expected a name from ACTIVATIONS"),
    (neuron(w=[1.0, "x" * 100_000]), "model.w.1 is 'xxx.*: expected a finite float"),
    (neuron(b=True), "model.b is True: expected a finite float"), (neuron().replace("0.5", "1e999"), "model.b is inf"),
    (neuron().replace("0.5", "9" * 100_000), "model.b is inf"),
    (document({"type": "Embedding", "w": [[1.0], [None]]}), "model.w.1.0 is None: expected a finite float"),
])  # fmt: skip
def test_a_damaged_foreign_or_hostile_file_is_refused_by_name(tmp_path, text, message):
    path = tmp_path / "model.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        nn.load(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))


def test_a_file_that_is_no_text_is_refused_by_name_and_a_missing_one_is_an_oserror(tmp_path):
    path = tmp_path / "model.json"
    with pytest.raises(FileNotFoundError):
        nn.load(path)
    with pytest.raises(TypeError, match="bool"):  # which would be the standard output
        nn.load(True)
    for foreign in (b"\xff\xfe{}", b"\x80\x04\x95", neuron().encode("utf-16")):
        path.write_bytes(foreign)
        with pytest.raises(ValueError, match=r"model\.json does not hold a model"):
            nn.load(path)
