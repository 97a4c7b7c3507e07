"""The networks: initial weights, outputs, names of parameters, and rejected arguments."""

import copy
import inspect
import math
import pickle
import random
import warnings
from collections import UserList, deque
from fractions import Fraction

import numpy as np
import pytest

import micrograd
from micrograd import Value, losses, nn, scalar
from micrograd.nn import ACTIVATIONS, MLP, Embedding, Layer, Module, Neuron
from micrograd.optim import SGD

PLAIN = {
    "tanh": math.tanh,
    "relu": lambda x: max(x, 0.0),
    "leaky_relu": lambda x: max(x, 0.01 * x),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "softplus": lambda x: math.log1p(math.exp(x)),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "silu": lambda x: x / (1 + math.exp(-x)),
    "linear": lambda x: x,
}
"""The activations on floats, written anew."""


def swish(x):
    return x * x.sigmoid()


def weights(module):
    return [p.data for name, p in module.named_parameters() if ".w." in f".{name}"]


def biases(module):
    return [p.data for name, p in module.named_parameters() if f".{name}".endswith(".b")]


class TestTheStart:
    def test_the_limit_for_two_inputs_and_four_outputs_is_exactly_one(self):
        drawn = []

        class Recorder(random.Random):
            def uniform(self, a, b):
                drawn.append((a, b))
                return super().uniform(a, b)

        Layer(2, 4, "tanh", rng=Recorder(0))
        assert drawn == [(-1.0, 1.0)] * 8

    @pytest.mark.parametrize("activation", ["tanh", "sigmoid", "softplus", "linear", swish, Value.tanh])
    def test_glorot_for_all_but_the_relus(self, activation):
        data = weights(Layer(8, 40, activation, rng=0))
        limit = math.sqrt(6 / 48)
        assert 0.98 * limit < max(data) <= limit
        assert -limit <= min(data) < -0.98 * limit

    @pytest.mark.parametrize(
        "activation", ["relu", "leaky_relu", Value.relu, Value.leaky_relu, scalar.relu, scalar.leaky_relu]
    )
    def test_he_for_the_relus(self, activation):
        data = weights(Layer(8, 40, activation, rng=0))
        limit = math.sqrt(6 / 8)
        assert 0.98 * limit < max(data) <= limit
        assert -limit <= min(data) < -0.98 * limit

    def test_the_weights_are_spread_evenly(self):
        limit = math.sqrt(6 / 200)
        data = weights(Layer(100, 100, "tanh", rng=0))
        deviation = limit / math.sqrt(3)
        assert abs(math.fsum(data) / len(data)) < 4 * deviation / math.sqrt(len(data))
        assert math.fsum(w * w for w in data) / len(data) == pytest.approx(deviation**2, rel=0.05)
        assert len(set(data)) == len(data)

    def test_a_lone_neuron_is_a_layer_of_one(self):
        assert max(map(abs, weights(Neuron(500, rng=0)))) <= math.sqrt(6 / 501)
        assert max(map(abs, weights(Neuron(500, nout=5000, rng=0)))) <= math.sqrt(6 / 5500)

    def test_each_layer_of_an_mlp_starts_by_its_own_sizes(self):
        model = MLP(2, [50, 100, 1], "relu", rng=0)
        limits = [math.sqrt(6 / 2), math.sqrt(6 / 50), math.sqrt(6 / 101)]
        for layer, limit in zip(model.layers, limits, strict=True):
            assert 0.9 * limit < max(map(abs, weights(layer))) <= limit

    def test_a_neuron_alone_is_the_only_output_of_its_layer(self):
        assert weights(Neuron(3, rng=0)) == weights(Neuron(3, nout=1, rng=0)) != weights(Neuron(3, nout=2, rng=0))

    def test_what_comes_after_the_activation_has_a_name(self):
        for make in (lambda: Neuron(2, "relu", 1), lambda: Layer(2, 2, "relu", 0)):
            with pytest.raises(TypeError, match="positional"):
                make()

    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_the_biases_start_at_zero(self, activation):
        model = MLP(3, [4, 2], activation)
        assert biases(model) == [0.0] * 6

    def test_a_seed_and_a_generator_with_that_seed_give_the_same_start(self):
        assert weights(MLP(2, [4, 1], rng=7)) == weights(MLP(2, [4, 1], rng=random.Random(7)))
        assert weights(MLP(2, [4, 1], rng=7)) != weights(MLP(2, [4, 1], rng=8))
        assert weights(Layer(2, 3, rng=0)) == weights(Layer(2, 3, rng=random.Random(0)))
        assert weights(Neuron(2, rng=0)) == weights(Neuron(2, rng=random.Random(0)))

    def test_numpys_sizes_seeds_and_generators_do_what_pythons_do(self):
        size, seed = np.int64(2), np.int64(7)
        assert weights(MLP(size, np.array([4, 1]), rng=seed)) == weights(MLP(2, [4, 1], rng=7))
        assert weights(Layer(size, size, rng=seed)) == weights(Layer(2, 2, rng=7))
        first, second = (weights(Neuron(size, rng=np.random.default_rng(7))) for _ in range(2))
        assert first == second
        assert set(map(type, first)) == {float}

    def test_a_generator_is_used_on_from_where_it_stands(self):
        rng = random.Random(7)
        assert weights(MLP(2, [4, 1], rng=rng)) != weights(MLP(2, [4, 1], rng=rng))

    def test_without_one_the_global_generator_is_used(self):
        state = random.getstate()
        try:
            random.seed(7)
            assert weights(MLP(2, [4, 1])) == weights(MLP(2, [4, 1], rng=7))
        finally:
            random.setstate(state)

    def test_with_one_the_global_generator_is_left_alone(self):
        state = random.getstate()
        MLP(2, [4, 1], rng=7)
        assert random.getstate() == state


class TestTheOutput:
    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_a_neuron_is_an_activation_of_a_dot_product(self, activation):
        neuron = Neuron(2, activation, rng=0)
        neuron.b.data = 0.25
        w0, w1 = (w.data for w in neuron.w)
        for x in ([1.0, 2.0], [-3.0, -1.0]):
            expected = PLAIN[activation](w0 * x[0] + w1 * x[1] + 0.25)
            assert neuron(x).data == pytest.approx(expected, rel=1e-14)

    def test_every_activation_has_its_own_check(self):
        assert PLAIN.keys() == ACTIVATIONS.keys()

    def test_an_activation_may_be_any_function(self):
        neuron = Neuron(1, swish, rng=0)
        z = neuron.w[0].data * 2.0
        assert neuron([2.0]).data == pytest.approx(z / (1 + math.exp(-z)), rel=1e-14)

    def test_another_activation_takes_the_place_of_the_first(self, tmp_path):
        neuron = Neuron(1, "tanh", rng=0)
        neuron.activation, neuron.w[0].data = "relu", 2.0
        assert neuron([3.0]).data == 6.0
        nn.save(neuron, tmp_path / "neuron.json")
        assert nn.load(tmp_path / "neuron.json")([3.0]).data == 6.0
        neuron.activation = "sine"
        with pytest.raises(ValueError, match="unknown activation 'sine'"):
            neuron([3.0])

    def test_a_layer_gives_the_outputs_of_its_neurons(self):
        layer = Layer(2, 3, rng=0)
        outputs = layer([1.0, 2.0])
        assert isinstance(outputs, list)
        assert [o.data for o in outputs] == [neuron([1.0, 2.0]).data for neuron in layer.neurons]

    def test_one_output_is_a_value_and_not_a_list(self):
        assert isinstance(Layer(2, 1)([1.0, 2.0]), Value)
        assert isinstance(MLP(2, [3, 1])([1.0, 2.0]), Value)
        assert isinstance(MLP(2, [3, 2])([1.0, 2.0]), list)

    def test_a_hidden_layer_of_one_neuron_works(self):
        model = MLP(2, [1, 1, 2], rng=0)
        first, second, third = model.layers
        expected = third([second([first([1.0, 2.0])])])
        assert [o.data for o in model([1.0, 2.0])] == [o.data for o in expected]

    def test_the_last_layer_is_linear_unless_told(self):
        activations = [
            [layer.neurons[0].activation for layer in model.layers]
            for model in (MLP(2, [3, 4, 1]), MLP(2, [3, 4, 1], "relu", "sigmoid"), MLP(2, [1]))
        ]
        assert activations == [["tanh", "tanh", "linear"], ["relu", "relu", "sigmoid"], ["linear"]]

    @pytest.mark.parametrize("module", [Neuron(2, rng=0), Layer(2, 3, rng=0), MLP(2, [3, 1], rng=0)], ids=repr)
    def test_inputs_may_be_lists_tuples_rows_and_values(self, module):
        def data(output):
            return [o.data for o in output] if isinstance(output, list) else output.data

        expected = data(module([1.0, 2.0]))
        for x in (
            (1.0, 2.0), [1, 2], np.array([[1.0, 2.0]])[0], np.array([1, 2], dtype=np.float32),
            [Value(1.0), 2.0], [Value(1.0), Value(2.0)], np.array([Value(1.0), Value(2.0)]), range(1, 3),
        ):  # fmt: skip
            assert data(module(x)) == expected

    def test_gradients_reach_parameters_and_inputs(self):
        model = MLP(2, [3, 1], rng=0)
        x = [Value(0.5), Value(-1.0)]
        model(x).backward()
        wanted = [*model.parameters(), *x]
        h = 1e-5
        for value in wanted:
            value.data += h
            above = model(x).data
            value.data -= 2 * h
            below = model(x).data
            value.data += h
            assert value.grad == pytest.approx((above - below) / (2 * h), rel=1e-7, abs=1e-9)

    def test_a_layer_turns_numbers_into_leaves_once(self):
        outputs = Layer(2, 3)([1.0, 2.0])
        leaves = {id(leaf) for output in outputs for leaf in output._topological_order()[1]}
        assert len(leaves) == 3 * 3 + 2

    def test_a_network_learns(self):
        model = MLP(1, [1], rng=0)
        for _ in range(50):
            loss = sum((model([x]) - (2 * x + 1)) ** 2 for x in (-1.0, 0.0, 1.0))
            model.zero_grad()
            loss.backward()
            for p in model.parameters():
                p.data -= 0.1 * p.grad
        assert [p.data for p in model.parameters()] == pytest.approx([2.0, 1.0], abs=1e-3)


class TestEmbedding:
    def test_the_weights_are_spread_as_those_of_pytorch(self):
        data = Embedding(100, 50, rng=0).state_dict().values()
        assert abs(math.fsum(data) / 5000) < 4 / math.sqrt(5000)
        assert math.fsum(w * w for w in data) / 5000 == pytest.approx(1.0, rel=0.08)
        assert len(set(data)) == 5000

    def test_a_seed_and_a_generator_with_that_seed_give_the_same_start(self):
        states = [Embedding(3, 2, rng=rng).state_dict() for rng in (7, random.Random(7), np.int64(7), 8)]
        assert states[0] == states[1] == states[2] != states[3]
        assert set(map(type, Embedding(np.int64(3), 2, rng=np.random.default_rng(7)).state_dict().values())) == {float}

    @pytest.mark.parametrize("index", [2, 2.0, Value(2.0), np.int8(2), np.float32(2)], ids=repr)
    def test_an_index_chooses_a_row(self, index):
        embedding = Embedding(4, 3, rng=0)
        row = embedding(index)
        assert [v.data for v in row] == [w.data for w in embedding.w[2]]
        (row[0] * row[1] + row[2]).backward()
        a, b, _ = row
        assert [[w.grad for w in row] for row in embedding.w] == [[0] * 3, [0] * 3, [b.data, a.data, 1.0], [0] * 3]

    def test_a_row_of_one_is_a_list_all_the_same(self):
        assert [v.data for v in Embedding(1, 1, rng=0)(0)] == list(Embedding(1, 1, rng=0).state_dict().values())

    @pytest.mark.parametrize("index", [4, -1, 0.5, math.nan, Value(4.0), "0", None, [0]], ids=repr)
    def test_an_index_of_no_row_is_an_error_that_names_both(self, index):
        with pytest.raises(ValueError, match=r"the index is .*: expected a whole number from 0 to 3$"):
            Embedding(4, 3)(index)

    def test_the_parameters_are_named_by_row_and_column(self):
        embedding = Embedding(2, 3)
        assert embedding.parameters() == [w for row in embedding.w for w in row]
        assert list(embedding.state_dict()) == ["w.0.0", "w.0.1", "w.0.2", "w.1.0", "w.1.1", "w.1.2"]

    def test_compiled_the_index_is_an_argument(self, backend):
        embedding, layer = Embedding(5, 3, rng=1), Layer(3, 4, "linear", rng=2)
        parameters = [*embedding.parameters(), *layer.parameters()]

        def loss(tokens, target):
            return losses.cross_entropy(layer([a * b for a, b in zip(*map(embedding, tokens), strict=True)]), target)

        examples = [([0, 4], 1), ([3, 3], 0), ([4, 1], 3)]
        fast = micrograd.compile(loss, examples[0], parameters=parameters, backend=backend)
        eager = micrograd.mean([loss(*example) for example in examples])
        eager.backward()
        expected = [p.grad for p in parameters]
        for p in parameters:
            p.grad = 0.0
        assert fast.backward(*zip(*examples, strict=True)) == pytest.approx(eager.data, rel=1e-12)
        assert [p.grad for p in parameters] == pytest.approx(expected, rel=1e-12, abs=1e-15)
        assert [w.grad for w in embedding.w[2]] == [0.0] * 3
        with pytest.raises(ValueError, match=r"the index is 5\.0: expected a whole number from 0 to 4, in example 1"):
            fast.backward([[0, 1], [5, 0]], [1, 1])


class Table(UserList):
    """What pandas has: its items are names, and it has two dimensions."""

    ndim = 2


DUPLICATES = [copy.copy, copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))]


class TestParameters:
    def test_their_names_are_their_paths_in_a_fixed_order(self):
        assert [name for name, _ in MLP(2, [2, 1]).named_parameters()] == [
            "layers.0.neurons.0.w.0", "layers.0.neurons.0.w.1", "layers.0.neurons.0.b",
            "layers.0.neurons.1.w.0", "layers.0.neurons.1.w.1", "layers.0.neurons.1.b",
            "layers.1.neurons.0.w.0", "layers.1.neurons.0.w.1", "layers.1.neurons.0.b",
        ]  # fmt: skip

    def test_parameters_are_those_named(self):
        model = MLP(3, [4, 2])
        assert [id(p) for p in model.parameters()] == [id(p) for _, p in model.named_parameters()]
        assert len(model.parameters()) == 3 * 4 + 4 + 4 * 2 + 2

    def test_a_module_of_your_own_finds_what_it_holds(self):
        class Mixture(Module):
            def __init__(self):
                self.name = "mixture"
                self.scale = Value(1.0)
                self.experts = [[Neuron(1)], (Layer(1, 1), [Value(2.0), 3.0, None])]
                self.head = Neuron(1)
                self.options = {"rate": Value(4.0), 7: [Neuron(1)], None: "no parameter"}

        assert [name for name, _ in Mixture().named_parameters()] == [
            "scale", "experts.0.0.w.0", "experts.0.0.b", "experts.1.0.neurons.0.w.0", "experts.1.0.neurons.0.b",
            "experts.1.1.0", "head.w.0", "head.b", "options.rate", "options.7.0.w.0", "options.7.0.b",
        ]  # fmt: skip

    def test_two_parameters_of_one_name_have_no_state(self):
        model = Module()
        model.heads = {1: Value(1.0), "1": Value(2.0)}
        assert len(model.parameters()) == 2
        for use in (model.state_dict, lambda: model.load_state_dict({"heads.1": 3.0})):
            with pytest.raises(ValueError, match=r"two parameters have the name heads\.1: change a key"):
                use()

    def test_what_was_computed_is_no_parameter(self):
        class Keeping(Module):
            def __init__(self):
                self.first, self.second = Layer(2, 2, rng=1), Layer(2, 1, rng=2)

            def __call__(self, x):
                self.hidden = self.first(x)
                self.by_name = {"out": (self.second(self.hidden),)}
                self.out = self.by_name["out"][0]
                return self.out

        model = Keeping()
        state = model.state_dict()
        model([1.0, 2.0]).backward()
        assert model.state_dict() == state
        model.load_state_dict(state)
        SGD(model.parameters(), 0.1).step()
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model.first))):
            assert not vars(twin).keys() & {"hidden", "by_name", "out"}
        assert copy.deepcopy(model)([1.0, 2.0]).data == model([1.0, 2.0]).data

    @pytest.mark.filterwarnings("ignore:some Values in mixed")
    @pytest.mark.filterwarnings("ignore:some Values in array")
    @pytest.mark.parametrize("duplicate", DUPLICATES, ids=["copy", "deepcopy", "pickle"])
    def test_a_copy_keeps_the_parameters_that_stand_beside_what_was_computed(self, duplicate):
        w, b, child = Value(3.0), Value(4.0), Neuron(1, rng=1)
        model = Module()
        model.s = {"w": w, "rates": [1.0], "only": []}
        model.s["out"] = w * 2
        model.s["itself"] = model.s
        model.mixed = [w, (b, w * b), deque([b, w * b]), child]
        model.array = np.array([[w, w * w], [b, 1.0]])
        model.number = {"steps": 3, "last": w * b}
        model.gone = {"a": w * w, "b": [w * b, np.array(w * b, dtype=object)]}
        before = model.s["out"], model.mixed[1][1], model.array[0, 1]
        twin = duplicate(model)
        assert (model.s["out"], model.mixed[1][1], model.array[0, 1]) == before
        assert twin.state_dict() == model.state_dict()
        assert twin.s == {"w": w, "rates": [1.0], "only": [], "out": None, "itself": twin.s}
        assert twin.s["itself"] is twin.s
        assert (twin.mixed[0], twin.mixed[1][0], twin.mixed[2][0]) == (twin.s["w"], twin.array[1, 0], b)
        assert twin.mixed[0] is twin.s["w"] is twin.array[0, 0]
        assert twin.mixed[1][0] is twin.mixed[2][0] is twin.array[1, 0]
        assert (twin.mixed[1][1], twin.mixed[2][1], twin.array[0, 1]) == (None, None, None)
        assert twin.number == {"steps": 3, "last": None}
        assert not hasattr(twin, "gone")

    @pytest.mark.parametrize("duplicate", DUPLICATES, ids=["copy", "deepcopy", "pickle"])
    def test_a_list_may_hold_itself_and_an_array_may_have_no_dimensions(self, duplicate):
        model = Module()
        model.w = [Value(1.0)]
        model.w.append(model.w)
        model.b = np.array(Value(2.0), dtype=object)
        assert model.state_dict() == {"w.0": 1.0, "b.0": 2.0}
        twin = duplicate(model)
        assert twin.w[1] is twin.w
        assert twin.state_dict() == model.state_dict()

    def test_a_deque_is_a_list_and_a_set_is_none(self):
        model = Module()
        model.w, model.numbers, model.empty = deque([Value(1.0), Value(2.0)]), {1.0, 2.0}, frozenset()
        with warnings.catch_warnings(action="error"):
            assert model.state_dict() == {"w.0": 1.0, "w.1": 2.0}
        for unordered in ({Value(3.0)}, frozenset([Neuron(1)])):
            model.head = {"s": unordered}
            with pytest.warns(UserWarning, match=r"the Values in head\.s are not parameters, .*: keep them in a list"):
                assert len(model.parameters()) == 2

    def test_an_attribute_that_loses_its_parameters_is_a_warning(self):
        neuron = Neuron(2, rng=1)
        message = r"Neuron\.b was a parameter, but a Value computed from it is not one: .* assign to its data"
        with pytest.warns(UserWarning, match=message):
            neuron.b = neuron.b - 0.1
        assert neuron.b == -0.1
        with pytest.warns(UserWarning, match=r"Neuron\.w was a parameter"):
            neuron.w = [(w + w) - 0.1 * w.grad for w in neuron.w]

    def test_a_state_may_become_what_is_computed_from_it_and_from_parameters(self):
        model = Module()
        model.w, model.rate = Value(2.0), 0.1
        with warnings.catch_warnings(action="error"):
            model.state = Value(0.0)
            model.state = (model.w * 3 + model.state).tanh()
            model.state = 2 * model.state
            model.rate = model.rate * Value(2.0)
            model.w = Value(3.0)
            model.w.data -= 0.1
            model.w = [1.0, Neuron(1), []]
        assert len(model.parameters()) == 2

    def test_a_list_that_loses_a_parameter_is_a_warning(self):
        neuron = Neuron(2, rng=1)
        neuron.w[1] = neuron.w[1] - 0.1
        with pytest.warns(
            UserWarning, match=r"some Values in w are parameters, .* assign to its data, as in `w\[0\]\.data"
        ):
            assert len(neuron.parameters()) == 2

    def test_a_module_may_know_its_parent(self):
        model = Module()
        model.child = Module()
        model.child.parent, model.child.w = model, Value(1.0)
        model.all = [model.child]
        model.all.append(model.all)
        assert [name for name, _ in model.named_parameters()] == ["child.w"]

    def test_what_is_shared_by_many_is_walked_once(self):
        class Parts(list):
            def __iter__(self):
                looks.append(self)
                return super().__iter__()

        looks = []
        top = bottom = Neuron(1)
        for _ in range(20):
            below, top = top, Module()
            top.parts = Parts([below, below])
        assert len(top.parameters()) == len(bottom.parameters()) == 2
        assert len(looks) == 20

    def test_a_chain_of_modules_may_be_long(self):
        top = bottom = Neuron(1)
        for _ in range(2000):
            below, top = top, Module()
            top.next = below
        assert top.parameters() == bottom.parameters()

    def test_an_empty_module_has_none(self):
        assert Module().parameters() == []
        Module().zero_grad()

    def test_what_is_shared_is_named_once(self):
        model = Module()
        model.encoder = model.decoder = Neuron(2)
        model.bias = model.encoder.b
        assert [name for name, _ in model.named_parameters()] == ["encoder.w.0", "encoder.w.1", "encoder.b"]

    def test_values_that_are_equal_are_not_the_same(self):
        model = Module()
        model.a, model.b = Value(1.0), Value(1.0)
        assert len(model.parameters()) == 2

    def test_zero_grad_sets_all_gradients_to_zero(self):
        model = MLP(2, [3, 1])
        model([1.0, 2.0]).backward()
        assert any(p.grad for p in model.parameters())
        model.zero_grad()
        assert [p.grad for p in model.parameters()] == [0.0] * 13

    def test_zero_grad_keeps_fractions_exact(self):
        model = Module()
        model.w = Value(Fraction(1, 3))
        for _ in range(2):
            model.zero_grad()
            (model.w * Fraction(1, 7)).backward()
        assert (model.w.grad, type(model.w.grad)) == (Fraction(1, 7), Fraction)

    @pytest.mark.parametrize(
        "duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"]
    )
    @pytest.mark.parametrize("activation", [*ACTIVATIONS, swish], ids=lambda a: a if isinstance(a, str) else "swish")
    def test_a_network_is_copied_whole(self, duplicate, activation):
        model = MLP(2, [3, 2], activation, rng=0)
        model.tied = model.layers[0].neurons[0].b
        sum(model([1.0, 2.0])).backward()
        twin = duplicate(model)
        assert [o.data for o in twin([0.5, -1.0])] == [o.data for o in model([0.5, -1.0])]
        assert [(n, p.data, p.grad) for n, p in twin.named_parameters()] == [
            (n, p.data, p.grad) for n, p in model.named_parameters()
        ]
        assert twin.tied is twin.layers[0].neurons[0].b
        assert not {id(p) for p in twin.parameters()} & {id(p) for p in model.parameters()}


class TestErrors:
    @pytest.mark.parametrize("module", [Neuron(2), Layer(2, 3), MLP(2, [3, 1])], ids=repr)
    @pytest.mark.parametrize("x", [{0.0: 1.0, 1.0: 2.0}, {0.0, 1.0}, frozenset([0.0, 1.0])], ids=repr)
    def test_a_dict_or_a_set_is_no_list_of_inputs(self, module, x):
        with pytest.raises(TypeError, match=f"^x is of type {type(x).__name__}: expected a list of 2 inputs$"):
            module(x)
        assert module({"a": 0.5, "b": 1.0}.values()) is not None

    @pytest.mark.parametrize("sizes", [{3, 1}, {3: 1}])
    def test_the_sizes_of_layers_are_in_order(self, sizes):
        with pytest.raises(
            TypeError, match=f"nouts is of type {type(sizes).__name__}: expected the size of each layer"
        ):
            MLP(2, sizes)

    @pytest.mark.parametrize("module", [Neuron(2), Layer(2, 3), MLP(2, [3, 1])], ids=repr)
    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_many_inputs_name_what_takes_them(self, module, n):
        X = [[0.5, float(i)] for i in range(n)]
        for rows in (X, tuple(X), np.array(X), Table(["a", "b"]), [np.array(x) for x in X]):
            with pytest.raises(TypeError) as caught:
                module(rows)
            assert str(caught.value) == (
                f"{module!r} takes one list of 2 inputs, not many: for the rows of a table X, write "
                "[model(x) for x in X] or list(map(model, X))"
            )
        assert len(list(map(module, X))) == len([module(x) for x in X]) == n

    def test_the_name_that_pytorch_has_for_a_call_is_refused_with_ours(self):
        class Ours(Module):
            def forward(self, x):
                return x

        with pytest.raises(
            TypeError, match=r"^Ours is a Module without a __call__: rename its forward\(\) to __call__$"
        ):
            Ours()(1.0)
        with pytest.raises(TypeError, match="^Module is a Module without a __call__: define one to call it$"):
            Module()(1.0)
        with pytest.raises(
            AttributeError, match=r"^'MLP' object has no attribute 'forward': call the Module itself, as"
        ):
            MLP(2, [1]).forward([1.0, 2.0])
        with pytest.raises(AttributeError, match="^'MLP' object has no attribute 'layer'$") as caught:
            _ = MLP(2, [1]).layer
        assert (caught.value.name, type(caught.value.obj)) == ("layer", MLP)
        model = Module()
        model.forward = Neuron(1)
        assert model.forward([1.0]).data == Neuron.__call__(model.forward, [1.0]).data

    @pytest.mark.parametrize("size", [0, -1, 2.0, "3", None])
    @pytest.mark.parametrize(
        ("name", "make"),
        [
            ("nin", lambda size: Neuron(size)),
            ("nin", lambda size: Layer(size, 2)),
            ("nout", lambda size: Layer(2, size)),
            ("nin", lambda size: MLP(size, [2, 1])),
            ("nout", lambda size: MLP(2, [2, size])),
            ("n", lambda size: Embedding(size, 2)),
            ("size", lambda size: Embedding(2, size)),
        ],
        ids=["Neuron", "Layer nin", "Layer nout", "MLP nin", "MLP nouts", "Embedding n", "Embedding size"],
    )
    def test_a_size_below_one_says_what_was_expected(self, name, make, size):
        with pytest.raises(ValueError) as caught:
            make(size)
        assert str(caught.value) == f"{name} is {size!r}: expected an int, 1 or greater"

    def test_an_mlp_without_layers_says_what_was_expected(self):
        with pytest.raises(ValueError, match=r"nouts is \[\]: expected the size of each layer, such as \[16, 1\]"):
            MLP(2, [])

    @pytest.mark.parametrize(
        "make",
        [
            lambda name: Neuron(2, name),
            lambda name: Layer(2, 2, name),
            lambda name: MLP(2, [2, 1], name),
            lambda name: MLP(2, [2, 1], output=name),
        ],
        ids=["Neuron", "Layer", "MLP", "MLP output"],
    )
    @pytest.mark.parametrize("name", ["rellu", "Tanh", "", None, 3])
    def test_an_unknown_activation_lists_the_known(self, make, name):
        with pytest.raises(ValueError) as caught:
            make(name)
        assert str(caught.value) == (
            f"unknown activation {name!r}: expected a function, or one of tanh, relu, leaky_relu, sigmoid, softplus, "
            "gelu, silu, linear"
        )

    @pytest.mark.parametrize(
        "make",
        [
            lambda rng: Neuron(2, "rellu", rng=rng),
            lambda rng: Layer(2, 2, "rellu", rng=rng),
            lambda rng: Layer(0, 2, rng=rng),
            lambda rng: MLP(2, [2, 0], rng=rng),
            lambda rng: MLP(2, [2, 1], output="rellu", rng=rng),
            lambda rng: Embedding(2, 0, rng=rng),
        ],
    )
    def test_what_is_refused_draws_no_random_numbers(self, make):
        rng = random.Random(0)
        state = rng.getstate()
        with pytest.raises(ValueError):
            make(rng)
        assert rng.getstate() == state

    @pytest.mark.parametrize("module", [Neuron(2), Layer(2, 3), MLP(2, [3, 1])], ids=repr)
    @pytest.mark.parametrize("x", [[], [1.0], [1.0, 2.0, 3.0], np.ones(3)], ids=len)
    def test_the_wrong_number_of_inputs_says_what_was_expected(self, module, x):
        with pytest.raises(ValueError) as caught:
            module(x)
        assert str(caught.value) == f"{module!r} takes 2 inputs, not {len(x)}"

    @pytest.mark.parametrize("module", [Neuron(2), Layer(2, 3), MLP(2, [3, 1])], ids=repr)
    @pytest.mark.parametrize("x", [1.0, Value(1.0), None, iter([1.0, 2.0]), "ab", np.array(1.0)], ids=type)
    def test_inputs_that_are_no_list_say_what_was_expected(self, module, x):
        with pytest.raises(TypeError) as caught:
            module(x)
        came = "a single number" if isinstance(x, (float, Value)) else repr(x)
        assert str(caught.value) == f"{module!r} takes a list of 2 inputs, not {came}"

    @pytest.mark.parametrize("backend", ["eager", "python"])
    def test_an_input_too_many_or_bare_is_told_in_the_same_words_by_every_backend(self, backend):
        neuron = Neuron(1)
        for xs, said in (([[1.0, 2.0]], "takes 1 input, not 2"), ([1.0], "list of 1 input, not a single number")):
            with pytest.raises((TypeError, ValueError), match=said):
                micrograd.fit(neuron, losses.mse_loss, xs, [1.0], epochs=1, progress=False, backend=backend)

    @pytest.mark.parametrize("module", [Neuron(2), Layer(2, 3), MLP(2, [3, 1])], ids=repr)
    @pytest.mark.parametrize("x", [["1", "2"], [None, 1.0], [1.0, np.array([1.0])]], ids=repr)
    def test_inputs_that_are_no_numbers_are_named(self, module, x):
        with pytest.raises(TypeError, match="a Value holds a number"):
            module(x)
        assert [p.grad for p in module.parameters()] == [0.0] * len(module.parameters())


class TestReprs:
    def test_a_network_reads_well_and_says_its_size(self):
        assert repr(MLP(2, [16, 16, 1], "relu")) == "MLP(2 -> 16 relu -> 16 relu -> 1 linear, 337 parameters)"
        assert repr(MLP(3, [1], output="sigmoid")) == "MLP(3 -> 1 sigmoid, 4 parameters)"
        assert repr(Layer(2, 4)) == "Layer(2 -> 4, tanh)"
        assert repr(Neuron(2, "relu")) == "Neuron(2, relu)"
        assert repr(Embedding(27, 16)) == "Embedding(27, 16)"
        assert str(MLP(2, [1])) == repr(MLP(2, [1]))

    def test_a_function_is_shown_by_its_name(self):
        assert repr(MLP(2, [3, 1], swish)) == "MLP(2 -> 3 swish -> 1 linear, 13 parameters)"
        assert repr(Neuron(2, Value.tanh)) == "Neuron(2, tanh)"

    def test_one_without_a_name_by_its_own_repr(self):
        class Scaled:
            def __call__(self, x):
                return x * 2

            def __repr__(self):
                return "Scaled()"

        assert repr(Neuron(2, Scaled())) == "Neuron(2, Scaled())"


@pytest.mark.parametrize("name", nn.__all__)
def test_every_public_class_says_what_it_is(name):
    if inspect.isclass(getattr(nn, name)):
        assert getattr(nn, name).__doc__


def test_arrays_of_values_are_parameters_too():
    class Linear(Module):
        def __init__(self):
            self.weight = np.array([[Value(1.0), Value(2.0)]])
            self.shape = np.array([1, 2])  # no parameter

    assert [(name, p.data) for name, p in Linear().named_parameters()] == [("weight.0.0", 1.0), ("weight.0.1", 2.0)]
