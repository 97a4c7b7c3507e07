"""The loop of a training in C: batches drawn by index, gradients of one program or several, the optimizer's update.

It knows a program by its function `run` alone, so it is built once for an optimizer and its options.
"""

import ctypes
import random
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from micrograd.compiler.dataset import Batch, Buckets, address
from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.native.background import BackgroundTask
from micrograd.compiler.native.buffers import Buffers
from micrograd.compiler.native.library import ADD, POINTER
from micrograd.compiler.native.toolchain import build, function_of, prepare_build
from micrograd.compiler.native.update import UpdateKernel
from micrograd.compiler.stepping import Batches
from micrograd.compiler.targets import spelling
from micrograd.compiler.targets.c_runtime import FOR_TILES, PARTS, helpers, vector_functions
from micrograd.optim import Optimizer

TRAIN = ctypes.CFUNCTYPE(ctypes.c_int64, POINTER)  # arguments


class KernelCall(ctypes.Structure):
    """A compiled program and its examples, as the loop in C knows them."""

    _fields_ = (("run", POINTER), ("x", POINTER), ("work", POINTER))


class LoopArguments(ctypes.Structure):
    """What the loop in C is called with; its declaration in loop.c documents the fields."""

    _fields_ = (
        *((name, POINTER) for name in ("p", "g", "before", "y", "indices", "programs", "bucket", "slot", "ranges")),
        *((name, POINTER) for name in ("order", "spare", "random", "rates", "losses")),
        *((name, ctypes.c_int64) for name in ("n", "n_before", "n_programs", "n_ranges", "n_examples")),
        *((name, ctypes.c_int64) for name in ("size", "position", "steps", "taken")),
    )


def source(kernel: UpdateKernel, precision: Precision = DOUBLE) -> str:
    """The C of the loop."""
    update = kernel.c_source(all_finite=precision != DOUBLE)
    types = vector_functions(update, precision) + PARTS["unaligned"]
    heads = "".join(f"#include <{name}.h>\n" for name in ("math", "stdint", "string"))
    heads += spelling.filled(PARTS["passes"], PASSES=FOR_TILES)
    train = spelling.source("loop.c", ADDITION=PARTS["add"], UPDATE=update, CLIPS=int(kernel.clips))
    wide = "\n".join(line for line in update.split("\n") if "wide" in line and precision != DOUBLE)
    return "\n".join([heads, helpers(wide), precision.text("\n".join([helpers(types + update), types, train]))])


class LoopBuild(NamedTuple):
    """The C of a loop, and the task that builds and loads its library."""

    text: str
    task: BackgroundTask[ctypes.CDLL]


def start_build(optimizer: Optimizer, precision: Precision) -> LoopBuild:
    """Start building the loop for an optimizer's present rule; a NativeLoop uses the library if its C is the same."""
    text = source(UpdateKernel(optimizer), precision)
    return LoopBuild(text, BackgroundTask(prepare_build(text)))


class NativeLoop:
    """The loaded loop, on the numbers in buffers that are in use.

    The libraries of the compiled function compute the gradients. If the C of `started` is that of this loop, its
    library is used.
    """

    def __init__(self, function: Any, buffers: Buffers, started: LoopBuild | None = None) -> None:
        self.kernel = UpdateKernel(buffers.optimizer)
        self._function, self._optimizer, self._precision = function, buffers.optimizer, buffers.precision
        text = source(self.kernel, buffers.precision)
        self._library = library = started.task.result() if started and started.text == text else build(text)
        self._train, self._add = function_of(library, "train", TRAIN), function_of(library, "add", ADD)
        n, n_before = buffers.n, buffers.n * (1 + self.kernel.n_changed)
        self._kept = buffers.numbers, buffers.precision.zeros(n_before + n), buffers.ranges()  # pointed at
        numbers, before, ranges = map(address, self._kept)
        self._arguments = LoopArguments(
            p=numbers,
            g=numbers + buffers.precision.size * (len(buffers.numbers) - n),
            before=before,
            ranges=ranges,
            n=n,
            n_before=n_before,
            n_ranges=len(self._kept[2]) // 2,
            n_examples=1,
        )
        self._examples: Buckets | None = None
        self._work: dict[Any, array[int]] = {}  # room for each library

    def bind(self, examples: Buckets) -> None:
        """Let the next steps be on these examples."""
        if examples is self._examples:
            return
        calls = [self._kernel_call(batch, examples) for batch in examples.batches]
        programs = (KernelCall * len(calls))(*calls)
        n = len(examples)
        room = self._precision.zeros(n), array("q", [0]) * n, array("q", [0]) * n
        self._room = programs, room  # pointed at
        arguments = self._arguments
        arguments.programs, arguments.n_programs = ctypes.addressof(programs), len(programs)
        arguments.y, arguments.indices, arguments.spare = map(address, room)
        arguments.bucket, arguments.slot = address(examples.bucket), address(examples.slot)
        arguments.n_examples = n
        self._examples = examples

    def take(self, batches: Batches, rates: Sequence[float]) -> Sequence[float]:
        """Take steps on bound examples, as a Loop does: up to one that fails, and none if that is the first."""
        rng = batches.rng
        if rng is not None and rng is not random and type(rng) is not random.Random:  # C does not know how it shuffles
            batches.next()
            rng, rates = None, rates[: batches.left]
        elif len(rates) <= batches.left:  # no epoch begins
            rng = None
        losses = array("d", bytes(8 * len(rates)))
        is_in_order = batches.rng is None and len(batches.examples.batches) == 1
        order = None if is_in_order else address(batches.order)
        done = self._run(array("d", rates), losses, order, batches.size, batches.position, rng)
        batches.count(done)
        if done:
            self._optimizer.learning_rate = rates[done - 1]
        return losses[:done]

    def update(self, parts: Sequence["array[float]"], rate: float) -> bool:
        """Take a step along the sum of these gradients. False if it fails, and then only the gradients have changed."""
        gradients = self._arguments.g
        ctypes.memset(gradients, 0, self._precision.size * self._arguments.n)
        for part in parts:
            self._add(gradients, address(part), len(part))
        return bool(self._run(array("d", [rate]), array("d", [0.0]), None, 1, 0, None))

    def _run(
        self, rates: "array[float]", losses: "array[float]", order: int | None, size: int, position: int, rng: Any
    ) -> int:
        """Call the loop, which takes a step at each of the rates, up to one that fails. Returns how many it has taken.

        Where no examples are bound, the losses are given, and so are the gradients. `order` is None for the order that
        the examples were given in; `rng` shuffles it for each new epoch.
        """
        arguments, optimizer = self._arguments, vars(self._optimizer)
        arguments.order, arguments.size, arguments.position = order, size, position
        arguments.rates, arguments.losses = address(rates), address(losses)
        arguments.steps, arguments.taken = len(rates), optimizer["steps"]
        with random_state(rng) as arguments.random:
            done = int(self._train(ctypes.addressof(arguments)))
        optimizer["steps"] += done
        return done

    def _kernel_call(self, batch: Batch, examples: Buckets) -> KernelCall:
        """What computes the examples of a shape, and the room it works in."""
        library = self._function._library(batch.shapes, "backward", examples.share(batch))
        if library not in self._work:
            self._work[library] = array("b", bytes(library.room))
        return KernelCall(library.function, ctypes.addressof(batch.pointers), address(self._work[library]))


@contextmanager
def random_state(rng: Any) -> Iterator[int | None]:
    """The address of the generator's state, for C to advance: the generator takes it over when the block ends.

    None without a generator.
    """
    if rng is None:
        yield None
        return
    version, words, gauss = rng.getstate()
    state = array("I", words)
    yield address(state)
    rng.setstate((version, tuple(state), gauss))
