"""What a rule, a model and a loss read besides their arguments: tracked or rejected, and never silently baked in."""

import contextvars
import ctypes
import functools
import itertools
import math
import os
import random
import sys
import time
import types
import weakref
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress

import numpy as np
import pytest

from micrograd import Backend, Value, fit, losses, nn, scalar
from micrograd.compiler.frontend.reach import LIBRARIES, Reach
from micrograd.compiler.native import toolchain
from micrograd.compiler.native.update import UpdateKernel
from micrograd.optim import SGD, Optimizer
from tests.helpers import has_compiler
from tests.trainings import Line, close

pytestmark = pytest.mark.usefixtures("cache")

EXAMPLES = [1.0, 2.0, -1.0], [1.0, 3.0, 0.5]
BACKENDS = ["python", "auto", "shards"]
SETTINGS = types.SimpleNamespace(scale=[0.5], table={"w": 1.0}, count=0)
SCALE = 1.0


def trained(backend, optimizer, model=Line, loss=losses.mse_loss, schedule=None, xs=EXAMPLES[0], **options):
    """All that training leaves."""
    model = model()
    optimizer = optimizer(model.parameters())
    rates = [] if schedule is None else [lambda step: schedule(step, model, optimizer)]
    executor = ThreadPoolExecutor(1) if backend == "shards" else None
    with executor or nullcontext():
        history = fit(
            model, loss, xs, EXAMPLES[1], epochs=12, batch_size=2, optimizer=optimizer, rng=random.Random(1),
            backend=Backend("auto", executor=executor) if executor else backend, schedule=rates[0] if rates else None,
            progress=False, **options,
        )  # fmt: skip
    left = {
        name: x for name, x in vars(optimizer).items() if isinstance(x, (int, float, list)) and name != "parameters"
    }
    return [history.losses, history.learning_rates, [p.data for p in model.parameters()], left]


class Given(Optimizer):
    """With a rule that a test gives."""

    moments = {"kept": 0.0}  # noqa: RUF012
    factor = 1.0

    def __init__(self, parameters, given):
        super().__init__(parameters, learning_rate=0.1)
        self.given, self.calls = given, 0
        self.sizes, self.array, self.nested = [0.5, 1.0], np.array([0.5, 1.0]), types.SimpleNamespace(x=1.0, calls=0)

    def rule(self):
        return self.given(self)


def counting(self):
    self.calls += 1
    return lambda x, g, kept: (x - (0.1 if self.calls < 5 else 0.01) * g, kept)


def counting_within(self):
    self.nested.calls += 1
    return lambda x, g, kept: (x - (0.1 if self.nested.calls < 5 else 0.01) * g, kept)


def counting_in_a_global(self):
    SETTINGS.count += 1
    return lambda x, g, kept: (x - (0.1 if SETTINGS.count % 12 < 5 else 0.01) * g, kept)


def counting_in_a_closure(self):
    calls = 0

    def update(x, g, kept):
        nonlocal calls
        calls += 1
        return x - 0.1 / calls * g, kept

    return update


def decaying(self):
    self.learning_rate *= 0.9
    return lambda x, g, kept: (x - self.learning_rate * g, kept)


def guarding(self):
    scale = 0.1 if max(abs(p.grad) for p in self.parameters) > 0.5 else 1.0
    return lambda x, g, kept: (x - scale * 0.1 * g, kept)


def summing(self):
    return lambda x, g, kept: (x - 0.1 * g / (1 + sum(p.grad * p.grad for p in self.parameters)), kept)


def each_its_own(self):
    sizes = iter(self.sizes)
    return lambda x, g, kept: (x - 0.1 * next(sizes) * g, kept)


def popping(self):
    sizes = list(self.sizes)
    return lambda x, g, kept: (x - 0.1 * sizes.pop() * g, kept)


def drawing(self):
    chance = random.random
    return lambda x, g, kept: (x - (0.0 if chance() < 1e-9 else 0.1) * g, kept)


def shrinking_in_place(self):
    self.array *= 0.9
    return lambda x, g, kept: (x - 0.1 * float(self.array[0]) * g, kept)


def forgetting(self):
    self.kept[0] = 0.0
    return lambda x, g, kept: (x - 0.1 * (g + 0.5 * kept), g)


def clearing(self):
    for parameter in self.parameters:
        parameter.grad = 0.0
    return lambda x, g, kept: (x - 0.1 * g, kept)


def halving(self):
    for parameter in self.parameters:
        parameter.data *= 0.5
    return lambda x, g, kept: (x - 0.1 * g, kept)


def restarting(self):
    if self.steps == 3:
        self.kept = [5.0] * len(self.parameters)
    return lambda x, g, kept: (x - 0.1 * (g + 0.01 * kept), kept)


def restarting_again(self):
    self.kept = [5.0] * len(self.parameters)
    return lambda x, g, kept: (x - 0.1 * (g + 0.01 * kept), kept + 1.0)


def writing(self):
    rate = 0.2 if f"{self.steps}" == "0" else 0.1
    return lambda x, g, kept: (x - rate * g, kept)


def writing_a_gradient(self):
    return lambda x, g, kept: (x - (0.1 if "." in str(g) else 0.2) * g, kept)


def catching(self):
    def update(x, g, kept):
        try:
            return x - (0.1 if g > 0 else 0.2) * g, kept
        except Exception:
            return x - 0.3 * g, kept

    return update


def catching_a_lookup(self):
    def update(x, g, kept):
        try:
            return x - {0.0: 0.1}[g] * g, kept
        except Exception as error:
            return x - (0.1 if isinstance(error, KeyError) else 0.2) * g, kept

    return update


def resetting_steps(self):
    if getattr(self, "calls", 0) == 0:
        self.steps = 3
    return lambda x, g, kept: (x - 0.1 * scalar.where(self.steps > 2, 1.0, 0.5) * g, kept)


REFUSED = {
    counting: "changes Given.calls",
    counting_within: "changes Given.nested.calls",
    counting_in_a_global: "changes SETTINGS.count",
    counting_in_a_closure: "changes calls",
    decaying: "self.learning_rate *= 0.9",
    guarding: "scale = 0.1 if max",
    summing: "depends on all parameters, gradients or moments",
    each_its_own: "reaches the iterator sizes",
    popping: "changes sizes",
    drawing: "changes random.random.__self__",
    shrinking_in_place: "changes Given.array",
    forgetting: "changes Given.kept",
    restarting: "if self.steps == 3",
    restarting_again: "changes Given.kept",
    writing: "this writes a traced number as text",
    writing_a_gradient: "this writes a traced number as text",
    catching: "if g > 0",
    catching_a_lookup: "a set or a dict looks up a number by its value",
    clearing: "this assigns the grad of a parameter",
    halving: "this assigns the data of a parameter",
    resetting_steps: "changes Given.steps",
}


@pytest.mark.parametrize("given", REFUSED)
def test_a_rule_that_a_trace_cannot_follow_trains_as_it_does_eager_or_is_refused(given, caplog):
    random.seed(1)
    eager = trained("eager", lambda p: Given(p, given))
    for backend in BACKENDS:
        toolchain.warn_once.cache_clear()
        caplog.clear()
        SETTINGS.count = 0
        assert close(eager, trained(backend, lambda p: Given(p, given))), backend
        assert (REFUSED[given] in caplog.text) is (backend != "python" and has_compiler())
    if has_compiler():
        with pytest.raises(TypeError) as caught:
            trained("c", lambda p: Given(p, given))
        assert REFUSED[given] in str(caught.value)


def shrinking(step, model, optimizer):
    optimizer.array[0] = 0.5**step
    return 0.1


def nesting(step, model, optimizer):
    optimizer.nested.x = 0.5**step
    return 0.1


def of_the_class(step, model, optimizer):
    Given.factor = 0.5**step
    return 0.1


def of_the_module(step, model, optimizer):
    global SCALE
    SCALE = 0.5**step
    return 0.1


def of_another_module(step, model, optimizer):
    toolchain.scale = 0.5**step
    return 0.1


def in_a_list(step, model, optimizer):
    SETTINGS.scale[0] = 0.5**step
    return 0.1


READING = {
    shrinking: lambda self: lambda x, g, kept: (x - self.learning_rate * float(self.array[0]) * g, kept),
    nesting: lambda self: lambda x, g, kept: (x - self.learning_rate * self.nested.x * g, kept),
    of_the_class: lambda self: lambda x, g, kept: (x - self.learning_rate * self.factor * g, kept),
    of_the_module: lambda self: lambda x, g, kept: (x - self.learning_rate * SCALE * g, kept),
    of_another_module: lambda self: lambda x, g, kept: (x - self.learning_rate * toolchain.scale * g, kept),
    in_a_list: lambda self: lambda x, g, kept: (x - self.learning_rate * SETTINGS.scale[0] * g, kept),
}


@pytest.mark.parametrize("schedule", READING)
def test_an_option_that_changes_in_place_counts_from_the_next_step_on(schedule, monkeypatch):
    monkeypatch.setattr(toolchain, "scale", 1.0, raising=False)
    eager, *others = [
        trained(backend, lambda p: Given(p, READING[schedule]), schedule=schedule)
        for backend in ["eager", *BACKENDS, *["c"] * has_compiler()]
    ]
    for other in others:
        assert close(eager, other)


class Named(type):
    scale = 1.0


class WithMeta(metaclass=Named):
    pass


class Static:
    scale = 1.0

    @staticmethod
    def of_module():
        return STATE.scale

    @property
    def of_box(self):
        return BOX.scale


STATE = types.ModuleType("micrograd_tests_state")
STATE.scale = 1.0
BOX, HIDDEN, OCTET, DOUBLE = Static(), {"scale": 1.0}, bytearray([1]), ctypes.c_double(1.0)
CONTEXT = contextvars.ContextVar("CONTEXT", default=1.0)
REFERENCE, PROXY, WEAK = weakref.ref(BOX), weakref.proxy(BOX), weakref.WeakValueDictionary(box=BOX)
VIEW, READ_ONLY = HIDDEN.values(), types.MappingProxyType(HIDDEN)
PARTIAL, ITEMS = functools.partial(max, [1.0]), [1.0]
LENGTH = ITEMS.__len__


def importing(self):
    import micrograd_tests_state

    return micrograd_tests_state.scale


def importing_a_name(self):
    from micrograd_tests_state import scale

    return scale


@functools.wraps(math.sqrt)
def wrapping_one_of_a_library(self):
    return BOX.scale


def within_closure(state=STATE):
    return lambda self: state.scale


FOLLOWED = {
    importing: "",
    importing_a_name: "",
    within_closure(): "",
    wrapping_one_of_a_library: "",
    lambda self: STATE.scale: "",
    lambda self: PARTIAL(): "",
    lambda self: LENGTH(): "",
    lambda self: BOX.of_module(): "",
    lambda self: BOX.of_box: "",
    lambda self: WithMeta.scale: "",
    lambda self: READ_ONLY["scale"]: "",
    lambda self: getattr(STATE, "scale"): "reaches getattr in",  # noqa: B009
    lambda self: vars(STATE)["sc" + "ale"]: "reaches vars in",
    lambda self: globals()["STATE"].scale: "reaches globals in",
    lambda self: __import__("micrograd_tests_state").scale: "reaches __import__ in",
    lambda self: self.module.scale: "reaches the module Given.module",
    lambda self: float(os.getenv("MICROGRAD_SCALE")): "reaches getenv in",
    lambda self: CONTEXT.get(): "reaches the ContextVar CONTEXT",
    lambda self: REFERENCE().scale: "reaches the ReferenceType REFERENCE",
    lambda self: PROXY.scale: "reaches the ProxyType PROXY",
    lambda self: WEAK["box"].scale: "reaches the KeyedRef WEAK.data['box']",
    lambda self: next(iter(VIEW)): "reaches the dict_values VIEW",
    lambda self: OCTET[0]: "reaches the bytearray OCTET",
    lambda self: DOUBLE.value: "reaches the c_double DOUBLE",
    lambda self: 2.0 if self.parameters[0].label else 1.0: "reaches label in",
}


@pytest.mark.parametrize("number", range(len(FOLLOWED)))
def test_a_number_that_a_rule_gets_in_a_roundabout_way_is_followed_or_refused(number, monkeypatch, caplog):
    read, refused = list(FOLLOWED.items())[number]
    monkeypatch.setitem(sys.modules, STATE.__name__, STATE)

    def rule(self):
        scale = read(self)
        return lambda x, g, kept: (x - self.learning_rate * scale * g, kept)

    def schedule(step, model, optimizer):
        scale = 2.0 if step > 3 else 1.0
        STATE.scale = BOX.scale = Named.scale = HIDDEN["scale"] = DOUBLE.value = scale
        OCTET[0] = int(scale)
        PARTIAL.__setstate__((max, ([scale],), {}, None))
        ITEMS[:] = [1.0] * int(scale)
        CONTEXT.set(scale)
        monkeypatch.setenv("MICROGRAD_SCALE", str(scale))
        model.w.label = "twice" if scale > 1 else ""
        return 0.1

    def optimizer(parameters):
        made = Given(parameters, rule)
        if "Given.module" in refused:
            made.module = STATE
        return made

    schedule(0, Line(), None)
    toolchain.warn_once.cache_clear()
    eager, other = [trained(backend, optimizer, schedule=schedule) for backend in ("eager", "auto")]
    assert close(eager, other)
    if has_compiler():
        assert (refused or "reaches") in caplog.text if refused else not caplog.text


def test_values_of_a_module_that_the_model_imports_are_read_at_each_step(monkeypatch):
    module = types.ModuleType("micrograd_tests_gain")
    module.gain = Value(1.0)
    monkeypatch.setitem(sys.modules, module.__name__, module)

    class Importing(Line):
        def __call__(self, x):
            with suppress(ImportError):
                import micrograd_tests_nothing  # noqa: F401
            from micrograd_tests_gain import gain

            return super().__call__(x) * gain

    def schedule(step, model, optimizer):
        module.gain.data = 0.7**step
        return 0.1

    eager, *others = [
        trained(backend, lambda p: SGD(p, 0.1), Importing, schedule=schedule)
        for backend in ["eager", *BACKENDS, *["c"] * has_compiler()]
    ]
    for other in others:
        assert close(eager, other)


KEPT = {
    "np.ma": lambda: np.ma.array([1.0], mask=[False]),
    "dtype": lambda: np.dtype("U1000"),
    "system": random.SystemRandom,
    "file": lambda: open(os.devnull),  # noqa: SIM115
    "mpmath": lambda: pytest.importorskip("mpmath").mp,
    "torch": lambda: pytest.importorskip("torch").zeros(2),
    "generator": lambda: pytest.importorskip("torch").Generator(),
    "np.generator": lambda: np.random.default_rng(1),
}


@pytest.mark.parametrize("name", KEPT)
def test_an_optimizer_is_as_it_was_whatever_it_holds(name):
    held = KEPT[name]()
    loaded = {*sys.modules}

    def optimizer(parameters):
        made = Given(parameters, lambda self: lambda x, g, kept: (x - self.learning_rate * g, kept))
        made.held = held
        return made

    eager, other = [trained(backend, optimizer) for backend in ("eager", "auto")]
    assert close(eager, other)
    assert {module.partition(".")[0] for module in {*sys.modules} - loaded} <= LIBRARIES


class Annealed(Line):
    """With a Value that is not learned."""

    def __init__(self, alpha=1.0):
        super().__init__()
        self.alpha = [Value(alpha)]

    def parameters(self):
        return [self.w, self.b]

    def __call__(self, x):
        return super().__call__(x) * self.alpha[0] + self.alpha[0].data


def annealing(step, model, optimizer):
    model.alpha[0].data = 0.7**step
    return 0.1


def replacing(step, model, optimizer):
    model.alpha[0] = Value(0.7**step)
    return 0.1


ALPHA = Value(0.5)


def annealing_the_loss(step, model, optimizer):
    ALPHA.data = 0.7**step
    return 0.1


@pytest.mark.parametrize("validation", [None, ([1.0, 3.0], [2.0, 2.0])])
def test_a_value_that_is_no_parameter_is_followed(validation):
    for schedule, loss in (annealing, losses.mse_loss), (annealing_the_loss, lambda p, y: ALPHA * (p - y) ** 2):
        eager, *others = [
            trained(backend, lambda p: SGD(p, 0.1), Annealed, loss, schedule, validation=validation)
            for backend in ["eager", *BACKENDS, *["c"] * has_compiler()]
        ]
        for other in others:
            assert close(eager, other)


class Iterating(Annealed):
    """With an iterator, which cannot be followed, before its Values."""

    def __init__(self):
        self.numbers = iter([1.0])
        super().__init__()


def test_values_are_found_behind_what_cannot_be_followed():
    eager, *others = [
        trained(backend, lambda p: SGD(p, 0.1), Iterating, schedule=annealing) for backend in ["eager", *BACKENDS]
    ]
    for other in others:
        assert close(eager, other)


class Frozen(nn.Module):
    """Rows of a table and a layer that are not learned, below one that is."""

    def __init__(self):
        self.table, self.below, self.above = (
            nn.Embedding(4, 2, rng=1),
            nn.Layer(2, 3, "tanh", rng=2),
            nn.Neuron(3, rng=3),
        )

    def parameters(self):
        return self.above.parameters()

    def __call__(self, x):
        return self.above(self.below(self.table(x * x)))


def thawing(step, model, optimizer):
    model.below.parameters()[step % 5].data += 0.25
    model.table.parameters()[step % 8].data -= 0.25
    return 0.1


@pytest.mark.parametrize("schedule", [None, thawing])
def test_frozen_layers_are_read_at_each_step(schedule):
    inputs = [1.0, -1.0, 0.0]
    eager, *others = [
        trained(backend, lambda p: SGD(p, 0.1), Frozen, schedule=schedule, xs=inputs)
        for backend in ["eager", *BACKENDS, *["c"] * has_compiler()]
    ]
    for other in others:
        assert close(eager, other)


def test_what_compiled_code_does_not_follow_is_said(caplog):
    trained("python", lambda p: SGD(p, 0.1), Annealed, schedule=replacing)
    words = "model.alpha has changed, but compiled code still uses its old value: if the model or the loss reads it"
    assert [words in message for message in caplog.messages] == [True]
    caplog.clear()
    trained("eager", lambda p: SGD(p, 0.1), Annealed, schedule=replacing)
    trained("python", lambda p: SGD(p, 0.1), Annealed, schedule=annealing)
    assert not caplog.messages


class Slotted:
    __slots__ = ("later", "x")

    def __init__(self):
        self.x = 1.0


class Gained(Value):
    __slots__ = ("gain",)


class Curried(functools.partial):
    __slots__ = ("gain",)


class Base:
    inherited = 1.0


class OtherBase:
    pass


class Derived(Base):
    pass


class Key:
    """Something that a dict can look up."""

    x = 1.0


class OtherKey(Key):
    pass


class Measured(float):
    """A number with attributes."""


class Holder(Derived):
    """Something of every kind."""

    def __init__(self):
        self.number, self.text = 1.0, "a"
        self.list, self.tuple, self.set, self.deque = [1.0], ([1.0],), {"a"}, deque([1.0])
        self.dict, self.counts = {"a": {"b": 1.0}, "d": 2.0}, Counter("a")
        self.array, self.buffer, self.objects = np.array([1.0]), array("d", [1.0]), np.array([Value(1.0)], object)
        self.default, self.key, self.measured = defaultdict(list), Key(), Measured(1.0)
        self.keys, self.ordered = {self.key: 1.0}, OrderedDict(a=1.0, b=2.0)
        self.zero, self.strided = np.array(1.0), np.ones((3, 2))[:, 0]
        self.listed, self.neuron = Listed(), nn.Neuron(1, rng=1)
        self.slotted, self.random, self.partial = Slotted(), random.Random(1), functools.partial(max, [1.0])
        self.value, self.node, self.log = Value(1.0), Value(1.0) + 1.0, toolchain.log
        self.function, self.method, self.itself = closed([1.0]), self.list.append, self
        self.gained, self.curried, self.table = Gained(1.0), Curried(max, [1.0]), np.ones((2, 3))
        self.gained.gain = self.gained.unit = self.curried.gain = 1.0


class Listed:
    """An array of numbers that has no bytes."""

    x = 1.0

    def tolist(self):
        return [self.x]


def closed(x):
    def function(y=SETTINGS.table):
        return x, later, toolchain.scale, SCALE, y

    if not x:
        later = 1
    return function


CHANGES = {
    "holder.number": lambda h: setattr(h, "number", 2.0),
    "holder.new": lambda h: setattr(h, "new", 2.0),
    "holder.text": lambda h: delattr(h, "text"),
    "holder.list": lambda h: h.list.append(1.0),
    "holder.tuple[0]": lambda h: h.tuple[0].clear(),
    "holder.set": lambda h: h.set.add("b"),
    "holder.deque": lambda h: h.deque.append(1.0),
    "holder.dict['a']['b']": lambda h: h.dict["a"].update(b=2.0),
    "holder.dict['c']": lambda h: h.dict.update(c=2.0),
    "holder.default.default_factory": lambda h: setattr(h.default, "default_factory", dict),
    "holder.key.x": lambda h: setattr(h.key, "x", 2.0),
    "holder.key.__class__": lambda h: setattr(h.key, "__class__", OtherKey),
    "holder.measured.unit": lambda h: setattr(h.measured, "unit", "m"),
    "holder.dict": lambda h: h.dict.update(a=h.dict.pop("a")),
    "holder.ordered": lambda h: h.ordered.move_to_end("a"),
    "holder.counts['a']": lambda h: h.counts.update("a"),
    "holder.array": lambda h: h.array.fill(2.0),
    "holder.buffer": lambda h: h.buffer.__setitem__(0, 2.0),
    "holder.zero": lambda h: h.zero.fill(2.0),
    "holder.slotted.x": lambda h: setattr(h.slotted, "x", 2.0),
    "holder.slotted.later": lambda h: setattr(h.slotted, "later", 2.0),
    "holder.random": lambda h: h.random.random(),
    "holder.partial.args[0]": lambda h: h.partial.args[0].clear(),
    "holder.value.data": lambda h: setattr(h.value, "data", 2.0),
    "holder.gained.gain": lambda h: setattr(h.gained, "gain", 2.0),
    "holder.gained.unit": lambda h: setattr(h.gained, "unit", 2.0),
    "holder.curried.gain": lambda h: setattr(h.curried, "gain", 2.0),
    "holder.table.shape": lambda h: setattr(h.table, "shape", (3, 2)),
    "holder.objects.shape": lambda h: setattr(h.objects, "shape", (1, 1)),
    "holder.node.data": lambda h: setattr(h.node, "data", 3.0),
    "holder.objects[0].data": lambda h: setattr(h.objects[0], "data", 2.0),
    "holder.function.called": lambda h: setattr(h.function, "called", 1.0),
    "holder.function.__defaults__": lambda h: setattr(h.function, "__defaults__", None),
    "x": lambda h: setattr(h.function.__closure__[1], "cell_contents", 2.0),
    "toolchain.scale": lambda h: setattr(toolchain, "scale", 2.0),
    "SCALE": lambda h: globals().update(SCALE=2.0),
    "Base.inherited": lambda h: setattr(Base, "inherited", 2.0),
    "Derived.__bases__": lambda h: setattr(Derived, "__bases__", (OtherBase,)),
    "Neuron.__call__": lambda h: setattr(nn.Neuron, "__call__", lambda self, x: 1.0),
    "Holder.new": lambda h: setattr(Holder, "new", 2.0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_named_and_set_back(name, monkeypatch):
    monkeypatch.setattr(toolchain, "scale", 1.0, raising=False)
    holder = Holder()
    reach = Reach({"holder": holder})
    assert reach.changed() == ""
    CHANGES[name](holder)
    assert reach.changed() == name
    reach.restore()
    assert reach.changed() == ""
    assert {holder.value, holder.objects[0]} <= set(reach.values)
    assert holder.node not in reach.values


def test_a_change_that_cannot_be_set_back_is_named_all_the_same():
    holder = Holder()
    changes = {
        "holder.strided": lambda: holder.strided.fill(2.0),
        "holder.listed.x": lambda: setattr(holder.listed, "x", 2.0),
    }
    for name, change in changes.items():
        reach = Reach({"holder": holder})
        change()
        assert reach.changed() == name
        reach.restore()


def test_attributes_besides_and_numbers_of_values_and_arrays_do_not_count():
    holder = Holder()
    reach = Reach({"holder": holder}, ["number"], numbers=False)
    holder.number, holder.value.data, holder.objects[0].data, holder.array[0] = 2.0, 2.0, 2.0, 2.0
    assert reach.changed() == ""


def test_iterators_are_found():
    roots = {"count": itertools.count(), "list": [iter([])]}
    assert Reach(roots).unfollowed == ["the iterator count"]  # where it ends
    assert Reach(roots, partly=True).unfollowed == [
        "the iterator count",
        "the iterator list[0]",
    ]


def test_modules_within_modules_are_followed_only_so_far():
    assert Reach({"separator": lambda: os.path.os.path.os.path.sep}).changed() == ""


def test_a_rule_that_gives_another_number_each_time_is_refused():
    message = "the rule of Given is not the same"
    with pytest.raises(TypeError, match=f"{message} each time: in C it may depend only on"):
        UpdateKernel(
            Given([Value(1.0)], lambda self: (lambda n: lambda x, g, kept: (x - n * g, kept))(time.perf_counter()))
        )
    with pytest.raises(TypeError, match=f"{message} for each parameter: in C it may depend only on"):
        UpdateKernel(Given([Value(1.0)], lambda self: lambda x, g, kept: (x - time.perf_counter() * g, kept)))


class Raising:
    """Whatever reads it fails, now or later."""

    broken = True

    @property
    def __dict__(self):
        if self.broken:
            raise RuntimeError("not now")
        return {}


def test_what_cannot_be_read_is_not_followed():
    raising = Raising()
    assert Reach({"raising": raising}).unfollowed == ["the Raising raising"]
    raising.__class__.broken = False
    reach = Reach({"list": [raising]})
    assert not reach.unfollowed
    Place = type(reach._places[0])
    numbers = iter([[1.0]])
    assert Place("numbers", "{}", lambda: next(numbers), lambda before: None).changed() == "numbers"


def test_masked_arrays_are_read_below_their_masks():
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    reach = Reach({"constant": np.ma.masked, "masked": masked})
    assert not reach.changed()
    masked.data[1] = 3.0
    assert reach.changed() == "masked"


def test_the_import_of_a_function_with_many_names_is_found():
    lines = [f"        later.a{i}" for i in range(300)]
    spoiled = "\n".join(["def function(x):", "    if x:", *lines, "        import zlib", "    return zlib"])
    space = {}
    exec(spoiled, space)
    assert not Reach({"function": space["function"]}).unfollowed


def test_what_is_imported_later_has_changed_unless_the_walk_is_thorough(monkeypatch, tmp_path):
    (tmp_path / "micrograd_tests_later.py").write_text("scale = 1.0")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "micrograd_tests_later", raising=False)

    def function():
        from micrograd_tests_later import scale

        return scale

    reach = Reach({"function": function}, thorough=False)
    assert "micrograd_tests_later" not in sys.modules
    function()
    assert reach.changed() == "the imports of function"
    reach.restore()
    del sys.modules["micrograd_tests_later"]
    reach = Reach({"function": function})
    sys.modules["micrograd_tests_later"].scale = 2.0
    assert reach.changed().endswith("scale")


def test_a_walk_that_need_not_be_thorough_ends_after_many_objects(monkeypatch):
    monkeypatch.setattr("micrograd.compiler.frontend.reach.MANY", 10)
    lists = [[[]] for _ in range(10)]
    assert Reach({"lists": lists}, thorough=False).unfollowed == ["too many objects, as lists[9]"]
    assert not Reach({"lists": lists}).unfollowed


def test_attributes_of_keys_and_elements_count():
    key = Key()
    reach = Reach({"keys": {key: 1.0}})
    key.x = 2.0
    assert reach.changed().endswith(".x")


def test_what_cannot_be_set_back_does_not_keep_the_rest_from_it():
    holder = Holder()
    reach = Reach({"read_only": READ_ONLY, "frozen": Refusing, "holder": holder})
    Refusing.x = 2.0
    holder.number = 2.0
    Meta.refuses = True
    reach.restore()
    Meta.refuses = False
    assert (Refusing.x, holder.number) == (2.0, 1.0)


class Meta(type):
    """Of a class whose attributes cannot be set at times."""

    refuses = False

    def __setattr__(cls, name, x):
        if Meta.refuses and cls is not Meta:
            raise AttributeError(name)
        super().__setattr__(name, x)


class Refusing(metaclass=Meta):
    x = 1.0
