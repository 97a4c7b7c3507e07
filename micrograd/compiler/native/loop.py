"""The loop of a training run in C: batches drawn by index, gradients of one program or several, the optimizer's update.

It knows a program by its function `run` alone, so it is built once for an optimizer and its options. Parameters and
moments are one after the other in one buffer while it is used.
"""

import ctypes
import random
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import accumulate, chain, count
from operator import is_, sub
from typing import Any, Self

from micrograd.compiler.dataset import address
from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.frontend.redirect import held
from micrograd.compiler.native.library import POINTER
from micrograd.compiler.native.toolchain import build
from micrograd.compiler.native.update import UpdateKernel
from micrograd.compiler.stepping import Sampler
from micrograd.compiler.targets import spelling
from micrograd.compiler.targets.c_runtime import FOR_TILES, PARTS, definitions
from micrograd.optim import Optimizer, check_moments

NO_STATE = nullcontext()  # of a generator
MOST = 4096  # steps in a call
TRAIN = ctypes.CFUNCTYPE(ctypes.c_int64, POINTER)  # arguments


class LoopArguments(ctypes.Structure):
    """What the loop in C is called with; its declaration in loop.c documents the fields."""

    _fields_ = (
        *((name, POINTER) for name in ("p", "spare_p", "g", "spare_g", "indices", "programs", "bucket")),
        *((name, POINTER) for name in ("slot", "ranges", "order", "random", "rates", "losses")),
        *((name, ctypes.c_int64) for name in ("n", "n_programs", "n_ranges", "n_examples", "size")),
        *((name, ctypes.c_int64) for name in ("position", "steps", "taken")),
    )


def source(kernel: UpdateKernel, precision: Precision = DOUBLE) -> str:
    """The C of the loop."""
    update, head = kernel.c_source(precision)
    in_doubles = "" if precision == DOUBLE else definitions(head, DOUBLE, vectors=False)
    text = "\n".join([
        *(f"#include <{name}.h>" for name in ("math", "stdint")),
        PARTS["passes"],
        f"#define real double\n{in_doubles}\n#undef real" if in_doubles else "",
        f"typedef {precision.type} real;\n",
        definitions(update, precision, vectors=False),
        spelling.source("loop.c", CALL=PARTS["call"], UPDATE=update, CLIPS=int(kernel.clips)),
    ])  # fmt: skip
    return spelling.filled(text, PASSES=FOR_TILES, INTEGER=precision.integer)


class NativeLoop:
    """Takes steps in C, on numbers that live in its buffers while it is in use.

    The libraries of the compiled function compute the gradients. `_numbers` are two buffers: one with the latest
    numbers of the function's leaves, then of their first moments, and so on, and one for the next numbers. At each
    step, they take turns, and so do `_grads`. The parameters' numbers live there; those of constants are only read.
    `indices` are the positions of the optimizer's parameters.
    """

    def __init__(self, function: Any, optimizer: Optimizer, indices: Sequence[int]) -> None:
        self._function, self._optimizer, precision = function, optimizer, function.precision
        self._text = ""  # of the loop in C, with the optimizer's rule
        self._train: Any = None  # that loop, once a step has needed it
        n, n_trained, ranges = len(function.leaves), len(function.parameters), ranges_of(indices)
        before = [leaf.grad or 0.0 for leaf in function.leaves]  # or None before the first backward pass
        grads = [precision.array(before, "the gradient of parameter"), precision.zeros(n)]
        data = precision.array([leaf.data for leaf in function.leaves], "parameter")
        data += precision.zeros(n * len(optimizer.moments))
        self._numbers = [data, data[:]]
        self._data, self._grads = ([memoryview(each)[:n_trained] for each in of] for of in (self._numbers, grads))
        places = ([k * n + i for i in indices] for k in range(1, len(optimizer.moments) + 1))
        self._moments = {name: Moments(self._numbers, of) for name, of in zip(optimizer.moments, places, strict=True)}
        (p, spare_p), (g, spare_g) = map(address, self._numbers), map(address, grads)
        self._first = p
        self._pairs = [(pair, pair[:]) for pair in (self._numbers, self._data, self._grads)]
        self._rates, self._losses = DOUBLE.zeros(MOST), DOUBLE.zeros(MOST)
        self._arguments = LoopArguments(
            p=p, spare_p=spare_p, g=g, spare_g=spare_g, ranges=address(ranges), rates=address(self._rates),
            losses=address(self._losses), n=n, n_ranges=len(ranges) // 2, n_examples=1, size=1,
        )  # fmt: skip
        self._address, self._ranges = ctypes.addressof(self._arguments), ranges  # to which the arguments point
        self._bound: tuple[Any, ...] = (None,)  # the sampler of the examples, and what else the arguments point to

    @contextmanager
    def in_use(self) -> Iterator[Self]:
        """Within the block, the Values and the optimizer show the numbers that live here."""
        attributes = vars(self._optimizer)
        with held("stored", self._function.parameters, data=self._data, grad=self._grads) as self._storage:
            try:
                self._take_over()
                yield self
            finally:  # what the user has assigned since the last step stays
                attributes.update({name: x[:] for name, x in attributes.items() if isinstance(x, Moments)})

    def _take_over(self) -> None:
        """Take over what was assigned to the optimizer: moments, in whose place it then shows the ones here; and
        options, with which its rule is traced again.
        """
        attributes, ours = vars(self._optimizer), self._moments
        check_moments(self._optimizer, attributes)
        assigned = {name: list(attributes[name]) for name, moment in ours.items() if attributes[name] is not moment}
        for name, numbers in assigned.items():  # all are read before any is changed
            ours[name].set(self._function.precision.array(numbers, "moment"))
            attributes[name] = ours[name]
        text = source(UpdateKernel(self._optimizer), self._function.precision)
        if text != self._text:
            self._wait, self._train = build(text, early=True), None  # while this thread traces, and builds others
            self._numbers[1][:] = self._numbers[0]  # since the new rule may leave moments as they are
            self._text = text  # last: after a Ctrl-C, the next step begins again
        self._known = dict(attributes)

    def take(self, sampler: Sampler, rates: Sequence[float]) -> Sequence[float]:
        """Take steps, as a Loop does."""
        self._prepare()
        if sampler is not self._bound[0]:
            self._bind(sampler)
        rates = rates[:MOST]
        rng = sampler.rng if len(rates) > sampler.left else None  # no epoch begins
        if rng is not None and rng is not random and type(rng) is not random.Random:  # C does not know how it shuffles
            sampler.next()
            rng, rates = None, rates[: sampler.left]
        if sampler.rng is not None:
            self._arguments.order = address(sampler.order)
        self._arguments.position = sampler.position
        losses = self._run(rates, rng)
        sampler.steps += (done := len(losses))
        sampler.position = self._arguments.position  # the examples may be shuffled for the step that fails
        if done:
            vars(self._optimizer)["learning_rate"] = rates[done - 1]
        return losses

    def update(self, gradients: "array[float]") -> bool:
        """Take a step along these gradients. Returns False if it fails."""
        self._prepare()
        self._grads[1][:] = gradients[: len(self._grads[1])]
        return bool(self._run([self._optimizer.learning_rate], None))  # on no examples, since none are bound

    def _prepare(self) -> None:
        """Take in what has been assigned to the optimizer and to constants since the last steps."""
        attributes, known = vars(self._optimizer), self._known
        known["learning_rate"], known["steps"] = attributes["learning_rate"], attributes["steps"]
        if len(known) != len(attributes) or not all(map(is_, known.values(), attributes.values())):
            self._take_over()
        if constants := self._function.constants:
            numbers = self._function.precision.array([constant.data for constant in constants], "constant")
            n = len(self._data[0])
            for buffer in self._numbers:
                buffer[n : n + len(numbers)] = numbers

    def _bind(self, sampler: Sampler) -> None:
        """Let the next steps be on these examples."""
        self._bound = (None,)  # if a Ctrl-C comes, the next step binds its examples again
        examples, n, arguments = sampler.examples, len(sampler.examples), self._arguments
        code, indices, losses = self._function._code, array("q", [0]) * n, self._function.precision.zeros(n)
        calls = [code[batch.shapes].call("backward", batch, losses) for batch in examples.batches]
        programs = (POINTER * (2 * len(calls)))(*chain(*[call.addresses for call in calls]))
        arguments.programs, arguments.n_programs = ctypes.addressof(programs), len(calls)
        arguments.bucket, arguments.slot = address(examples.bucket), address(examples.slot)
        arguments.order = address(sampler.order) if len(calls) > 1 else None  # in the order they came in
        arguments.indices, arguments.n_examples, arguments.size = address(indices), n, sampler.size
        self._bound = sampler, calls, programs, indices

    def _run(self, rates: Sequence[float], rng: Any) -> Sequence[float]:
        """Call C, which takes a step at each of the rates, up to one that fails. Returns the losses of the steps taken.

        Where no examples are bound, the gradients are given, and the losses are 0. `rng` shuffles the examples for each
        new epoch.
        """
        arguments, attributes = self._arguments, vars(self._optimizer)
        self._train = self._train or TRAIN(("train", self._wait()))
        for i, rate in enumerate(rates):
            self._rates[i] = rate
        arguments.steps, arguments.taken = len(rates), self._optimizer.steps
        with self._storage.lock, random_state(rng) if rng else NO_STATE as arguments.random:
            try:
                done = self._train(self._address)
            finally:  # also on a Ctrl-C, which Python notices when C has taken the steps
                attributes["steps"] = arguments.taken
                are_swapped = arguments.p != self._first
                for pair, before in self._pairs:  # the buffers with the latest numbers come first
                    pair[:] = before[::-1] if are_swapped else before
        return self._losses[:done]


def ranges_of(indices: Sequence[int]) -> "array[int]":
    """The indices as ranges: the first of each, and its length."""
    apart = Counter(map(sub, sorted(indices), count()))  # the same along a range
    ends = accumulate(apart.values(), initial=0)
    return array("q", [number for (by, n), k in zip(apart.items(), ends, strict=False) for number in (by + k, n)])


@contextmanager
def random_state(rng: Any) -> Iterator[int]:
    """The address of the generator's state, for C to advance: the generator takes it over when the block ends."""
    version, words, gauss = rng.getstate()
    state = array("I", words)
    try:
        yield address(state)
    finally:
        rng.setstate((version, tuple(state), gauss))


class Moments(Sequence[float]):
    """A moment: numbers at some places of the first buffer, in the order of the optimizer's parameters."""

    def __init__(self, buffers: Sequence[Any], places: Sequence[int]) -> None:
        neighbours = range(places[0], places[0] + len(places))
        self._buffers, self._places = buffers, neighbours if places == [*neighbours] else places

    def set(self, numbers: "array[float]") -> None:
        """Set all of it: in both buffers, since a step may not write these."""
        places = self._places
        for buffer in self._buffers:
            if isinstance(places, range):  # one by one, 7,500 would take 1 ms
                buffer[places.start : places.stop] = numbers
            else:
                for place, number in zip(places, numbers, strict=True):
                    buffer[place] = number

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, i: Any) -> Any:
        places, numbers = self._places[i], self._buffers[0]
        if isinstance(places, range) and places.step == 1:
            return numbers[places.start : places.stop].tolist()
        return list(map(numbers.__getitem__, places)) if isinstance(i, slice) else numbers[places]

    def __eq__(self, other: object) -> bool:
        return bool(self[:] == other)

    def __repr__(self) -> str:
        return repr(self[:])

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)  # so a copy of the optimizer has a list
