"""What several files of tests use: programs and graphs to compile, what the engine computes, how close numbers are."""

import functools
import itertools
import os
import random
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress

import numpy
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import micrograd
from micrograd import Value, logsumexp, losses, mean, take
from micrograd.compiler import CompilerError
from micrograd.compiler.native import toolchain
from micrograd.nn import MLP
from tests.operations import OPERATIONS


def has_compiler():
    """Whether there is a C compiler here."""
    try:
        toolchain.find_compiler(os.environ.get("CC"), os.environ.get("PATH"))
    except CompilerError:
        return False
    return True


def wait_until(condition):
    """Wait for another thread or process, for two minutes at most."""
    for _ in range(12_000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("what another thread or process should do has not happened")


@contextmanager
def ctrl_c(delay):
    """Press Ctrl-C after that many seconds, as a real signal, unless the block is over before."""
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        signal.setitimer(signal.ITIMER_REAL, max(delay, 1e-6))
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupt_while(work, delay):
    """Repeat the work until Ctrl-C, so many seconds after the first begins, raises KeyboardInterrupt in it."""
    with suppress(KeyboardInterrupt), ctrl_c(delay):
        while True:
            work()


def ctrl_c_at_each_moment(*modules):
    """Blocks that Ctrl-C interrupts, each a moment later than the last, until it comes too late.

    Python looks for Ctrl-C at these moments: when a function of these modules begins, and when a function in C that it
    called returns, unless that is `__enter__`: interrupted there, Python 3.14 never releases the lock of a `with`.
    """
    for moment in itertools.count():
        left = moment

        def press(frame, event, function):
            nonlocal left
            is_moment = event in ("call", "c_return") and getattr(function, "__name__", "") != "__enter__"
            left -= is_moment and frame.f_globals["__name__"].startswith(modules)
            if left < 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

        @contextmanager
        def pressed(press=press):
            with suppress(KeyboardInterrupt):
                sys.setprofile(press)
                try:
                    yield
                finally:
                    sys.setprofile(None)

        yield pressed()
        if left >= 0:
            assert moment > 3
            return


def refusal(main, capsys, *options):
    """The last line of what a command says of options that it does not accept."""
    with pytest.raises(SystemExit) as end:
        main(list(options))
    assert end.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


needs_compiler = pytest.mark.skipif(not has_compiler(), reason="there is no C compiler here")


def random_examples(n, **options):
    """Settings for a random test: the same examples in every run, TIMES as many if the environment says so."""
    times = int(os.environ.get("TIMES", "1"))
    return settings(derandomize=True, deadline=None, database=None, max_examples=n * times, **options)


every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)


def each_point(edges=False):
    """Tests of every operation at the points where it is smooth, or at its edges, too."""
    rows = [(operation, point) for operation in OPERATIONS for point in operation.points + operation.edges * edges]
    ids = [f"{operation.name} at {point}" for operation, point in rows]
    return pytest.mark.parametrize(("operation", "point"), rows, ids=ids)


every_point = each_point()


# What the engine computes


def leaves(tree):
    """Values in place of the numbers."""
    return [leaves(branch) for branch in tree] if isinstance(tree, list) else Value(tree)


def grads(tree):
    """The gradients of nested Values."""
    return [grads(branch) for branch in tree] if isinstance(tree, (list, tuple)) else tree.grad


def own(value, gradient, name="own", kind=lambda x: Value):
    """An operation of a user's own on one number, after which the gradient of x is `gradient(x, grad)`."""

    def operation(x):
        def _backward(grad):
            x.grad = gradient(x, grad)

        return kind(x)(value(x.data), (x,), name, _backward)

    return operation


half_reading_grad = own(lambda x: x * 0.5, lambda x, grad: x.grad + (grad * 0.5 + 0.0 * x.grad))
"""x / 2, as a user's own operation whose closure reads the gradient of x."""


def in_threads(work, n=8):
    """Do the work of each number below n in a thread of its own, all at once."""
    threads = [threading.Thread(target=work, args=(k,)) for k in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def eager(function, *args):
    """What `value_and_grad` gives, as the engine computes it."""
    arguments = [leaves(arg) for arg in args]
    result = function(*arguments)
    result.backward()
    gradients = tuple(map(grads, arguments))
    return result.data, gradients[0] if len(args) == 1 else gradients


def backward(fast, *batches):
    """The mean over a batch and the gradients of all parameters, 0 before, by a compiled function."""
    for parameter in fast.parameters:
        parameter.grad = 0.0
    return [fast.backward(*batches), *grads(fast.parameters)]


def assert_as_engine(fast, function, *columns, tolerance=1e-12, start=0.0):
    """A compiled function gives what the engine does for a batch: the values, their mean and the gradients of it.

    The columns are those of `fast.map`; parameters have the gradient `start` before.
    """
    axes = fast.options.in_axes or [0] * len(columns)
    n = len(columns[axes.index(0)])
    examples = [[c if axis is None else c[i] for c, axis in zip(columns, axes, strict=True)] for i in range(n)]
    for parameter in fast.parameters:
        parameter.grad = start
    results = [function(*map(leaves, example)) for example in examples]
    mean(results).backward()
    expected, values = grads(fast.parameters), [result.data for result in results]
    for parameter in fast.parameters:
        parameter.grad = start
    assert_close([fast.backward(*columns), *fast.map(*columns)], [sum(values) / n, *values], tolerance)
    assert_close(grads(fast.parameters), expected, tolerance)


def moons(n=10):
    """Points and labels, and a network with its hinge loss."""
    rng = random.Random(1)
    model = MLP(2, [5, 3, 1], activation="tanh")
    for parameter in model.parameters():
        parameter.data = rng.uniform(-1, 1)
    points = [[rng.uniform(-1, 1), rng.uniform(-1, 1)] for _ in range(n)]
    return model, (lambda x, y: (1 - y * model(x)).relu()), points, [rng.choice([-1.0, 1.0]) for _ in range(n)]


def large(inputs, hidden, seed=3):
    """A network, a loss and a batch of three."""
    rng = random.Random(seed)
    model = MLP(inputs, [hidden, 3], activation="tanh")
    for parameter in model.parameters():
        parameter.data = rng.uniform(-1, 1) / inputs**0.5

    def loss(x):
        scores = model(x)
        return micrograd.sum([score**2 for score in scores]) + scores[0].sigmoid()

    return model, loss, [[rng.uniform(-1, 1) for _ in range(inputs)] for _ in range(3)]


def products(ws, xs):
    """A sum of products that is not fused."""
    total = 0
    for w, x in zip(ws, xs, strict=True):
        total = total + w * x
    return total


def layers(ws, xs, dot):
    hidden = [dot(row, xs).tanh() for row in ws]
    return micrograd.sum([dot(column, hidden) ** 2 for column in zip(*ws, strict=True)])


def convolution(ws, xs, dot):
    outputs = [dot(ws[0][:5], xs[i : i + 5]) * dot(ws[1][:4], xs[i + 4 : i : -1]) for i in range(len(xs) - 5)]
    return mean([output.sigmoid() for output in outputs])


def recurrent(ws, xs, dot):
    state = xs
    for x in xs[:6]:
        state = [(dot(row, state) + x).tanh() for row in ws]
    return dot(ws[0], state)


def attention(ws, xs, dot):
    keys = [[w * x for w, x in zip(row, xs, strict=True)] for row in ws]
    total = Value(0.0)
    for i in range(len(keys)):
        shares = [dot(keys[i], key).sigmoid() for key in keys[: i + 1]]
        total = total + micrograd.sum([dot(shares, column) for column in zip(*keys[: i + 1], strict=True)])
    return total


def softmaxes(ws, xs, dot):
    """Softmaxes of growing lists, of columns, and of numbers from several places: of 9 numbers and 9 rows of 9."""
    keys = [[w * x for w, x in zip(row, xs, strict=True)] for row in ws]
    shares = [losses.softmax(row[: i + 1]) for i, row in enumerate(keys)]
    columns = [logsumexp(column) for column in zip(*keys, strict=True)]
    mixed = [*xs[::3], ws[0][0], 0.5, *ws[2][4::2], xs[1], -1.0]
    of_shares = micrograd.sum([dot(row, xs[: len(row)]) for row in shares])
    return dot(columns, xs) + micrograd.sum([of_shares, losses.cross_entropy(mixed, 3), logsumexp(mixed[2:7])])


def lookups(xs):
    """Numbers taken among those that lie evenly spaced, and among others."""
    waves = [x.sin() for x in xs]
    i = (xs[1] > 0.1) + (xs[2] > 0.2) + (xs[3] > xs[4])
    rows = [waves, waves[::2], waves[::-1], [xs[4], *waves], xs, [2.5] * 4, [0.5, 0.25, 0.25, 0.5] * 3]
    rows += [waves[k : k + 4] for k in range(1, 5)]
    return [take(row, i) for row in rows]


NESTS = [layers, convolution, recurrent, attention, softmaxes]


# Compiled operations

TOGETHER = 8  # operations in one function


class CompiledOperation:
    """An operation in a compiled function with others, chosen by an index: few programs for many operations."""

    def __init__(self, operation, backend):
        self.place = OPERATIONS.index(operation) % TOGETHER
        start = OPERATIONS.index(operation) - self.place
        self.usual = [list(other.points[0]) for other in OPERATIONS[start : start + TOGETHER]]
        self.fast = _together(start, backend)

    def _example(self, point):
        return [*self.usual[: self.place], list(point), *self.usual[self.place + 1 :]]

    def value(self, point):
        """The value, in a list."""
        return [self.fast(self._example(point), self.place)]

    def value_and_grad(self, point):
        """The value, and the gradients of all operands."""
        value, (gradients, _) = self.fast.value_and_grad(self._example(point), self.place)
        return [value, *gradients[self.place]]

    def map(self, points):
        """The values at many points."""
        return self.fast.map(list(map(self._example, points)), [self.place] * len(points))


@functools.cache
def _together(start, backend):
    """Some operations, compiled into one function of all their operands and an index."""
    operations = OPERATIONS[start : start + TOGETHER]

    def function(xs, k):
        return take([operation.apply(*x) for operation, x in zip(operations, xs, strict=True)], k)

    example = [list(operation.points[0]) for operation in operations], 0
    return micrograd.compile(function, example, backend=backend)


# Data


class Table:
    """What a table of pandas has: its items are columns, by name, and its numbers an array."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        return iter(range(len(self.rows[0])))

    def __array__(self, *_, **__):
        return numpy.array(self.rows)

    to_numpy = __array__

    def __getitem__(self, name):
        raise KeyError(name)


# How close numbers are


def flat(tree):
    return [x for branch in tree for x in flat(branch)] if isinstance(tree, (list, tuple)) else [tree]


def bits(tree):
    """Floats in a nested list or tuple, to be compared to the last bit, which tells 0.0 from -0.0."""
    return list(map(bits, tree)) if isinstance(tree, (list, tuple)) else float(tree).hex()


def compiled(function, *parameters):
    return micrograd.compile(function, (1.0,), parameters=parameters, backend="python")


def close(x, expected):
    """Agreement up to rounding."""
    return pytest.approx(expected, rel=1e-12, abs=1e-14) == x


def assert_close(numbers, expected, tolerance=1e-12):
    """They differ by no more than the tolerance, by the scale of the largest one."""
    scale = max(1.0, *map(abs, expected))
    for i, (number, other) in enumerate(zip(numbers, expected, strict=True)):
        assert abs(number - other) <= tolerance * scale, f"number {i} is {number}, expected {other}"


# Random graphs: a list of steps, each an operation of the table on earlier results. The generator tries random steps
# and keeps those at which the operation is smooth, so that the derivative exists and can be compared.

numbers = st.floats(-2, 2, allow_subnormal=False).map(lambda x: round(x, 6))


@st.composite
def graphs(draw):
    """The leaves' numbers, and the steps: an operation and the places of its operands among leaves and results."""
    leaves = draw(st.lists(numbers, min_size=1, max_size=4))
    results, steps = list(leaves), []
    wishes = st.tuples(st.sampled_from(OPERATIONS), st.lists(st.integers(0, 30), min_size=5, max_size=5))
    for operation, picks in draw(st.lists(wishes, min_size=1, max_size=12)):
        places = [len(results) - 1 - pick % len(results) for pick in picks[: operation.arity]]
        operands = [results[place] for place in places]
        if operation.smooth(*operands):
            result = float(operation.value(*operands))
            if abs(result) < 100:
                results.append(result)
                steps.append((operation, places))
    return leaves, steps


def results_of(leaves, steps, compute=lambda operation, *operands: operation.apply(*operands)):
    """The leaves and the results of all steps, where `compute` does a step."""
    results = list(leaves)
    for operation, places in steps:
        results.append(compute(operation, *[results[place] for place in places]))
    return results


def run(leaves, steps, *compute):
    """The sum of all results, so that each is used."""
    results = results_of(leaves, steps, *compute)
    total = results[0]
    for result in results[1:]:
        total = total + result
    return total


def value_and_gradient(leaves, steps):
    """What the engine computes for a random graph."""
    values = [Value(x) for x in leaves]
    total = run(values, steps)
    total.backward()
    return total.data, [v.grad for v in values]
