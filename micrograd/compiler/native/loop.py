"""The loop of a training in C: batches drawn by index, gradients of one program or several, the optimizer's update.

It knows a program by its function `run` alone, so it is built once for an optimizer and its options.
"""

import ctypes
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from micrograd.compiler.dataset import Batch, Buckets, address
from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.native.background import BackgroundTask
from micrograd.compiler.native.buffers import Buffers
from micrograd.compiler.native.library import ADD, POINTER
from micrograd.compiler.native.toolchain import build, function_of, prepare_build
from micrograd.compiler.native.update import UpdateKernel
from micrograd.compiler.targets import spelling
from micrograd.compiler.targets.c_runtime import FOR_TILES, PARTS, helpers, vector_functions
from micrograd.optim import Optimizer

TRAIN = ctypes.CFUNCTYPE(ctypes.c_int64, POINTER)  # arguments
SHUFFLE = ctypes.CFUNCTYPE(None, POINTER, POINTER, ctypes.c_int64)  # state, order, n


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
        self._function, self._attributes, self._precision = function, vars(buffers.optimizer), buffers.precision
        text = source(self.kernel, buffers.precision)
        self._library = library = started.task.result() if started and started.text == text else build(text)
        functions = ("train", TRAIN), ("shuffle", SHUFFLE), ("add", ADD)
        self._train, self._shuffle, self._add = (function_of(library, *function) for function in functions)
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

    def run_steps(
        self,
        rates: "array[float]",
        losses: "array[float]",
        *,
        order: "array[int] | None" = None,
        size: int = 1,
        position: int = 0,
        rng: Any = None,
    ) -> int:
        """Take a step at each of the `rates`, up to one that fails, which changes nothing. Returns how many were taken.

        `losses` receives the mean loss of each batch; where no examples are bound, it has to be given, and so do the
        gradients. `order` is the order of the examples in this epoch, None for the one they were given in. A batch has
        `size` of them, and the first one starts at `position`. `rng` shuffles the order for each new epoch.
        `optimizer.steps` counts the steps.
        """
        arguments, attributes = self._arguments, self._attributes
        arguments.order = None if order is None else address(order)
        arguments.rates, arguments.losses = address(rates), address(losses)
        arguments.size, arguments.position = size, position
        arguments.steps, arguments.taken = len(rates), attributes["steps"]
        with random_state(rng) as arguments.random:
            done = int(self._train(ctypes.addressof(arguments)))
        attributes["steps"] += done
        for library in self._work:
            library.check_interrupt()
        return done

    def shuffle(self, order: "array[int]", rng: Any) -> None:
        """Make of the order what `rng.shuffle` makes of a list of the numbers from 0."""
        with random_state(rng) as state:
            self._shuffle(state, address(order), len(order))

    def add_gradients(self, gradients: "array[float]") -> None:
        """Add gradients to those in the buffers."""
        self._add(self._arguments.g, address(gradients), len(gradients))

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
