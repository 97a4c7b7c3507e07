"""The loop of a training in C: batches drawn by index, gradients of one program or several, the optimizer's update.

It knows a program by its function `run` alone, so it is built once for an optimizer and its options.
"""

import ctypes
import random
import weakref
from array import array
from collections import deque
from itertools import repeat
from operator import add
from typing import Any

from micrograd.compiler.dataset import Examples, address
from micrograd.compiler.dtype import DOUBLE, Precision
from micrograd.compiler.native.buffers import Buffers
from micrograd.compiler.native.toolchain import build, unload
from micrograd.compiler.native.update import UpdateKernel
from micrograd.compiler.targets.c_runtime import ADD, FOR_TILES, PASSES, UNALIGNED, helpers, vector_functions


class KernelCall(ctypes.Structure):
    """A compiled program and its examples, as the loop in C knows them."""

    _fields_ = (("run", ctypes.c_void_p), ("x", ctypes.c_void_p), ("work", ctypes.c_void_p))


class LoopArguments(ctypes.Structure):
    """What the loop in C is called with; its C declaration, below, documents the fields."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("p", "g", "before", "y", "at", "programs", "kind", "place", "ranges")),
        *((name, ctypes.c_void_p) for name in ("order", "spare", "random", "rates", "losses")),
        *((name, ctypes.c_int64) for name in ("n", "n_before", "n_programs", "n_ranges", "n_examples")),
        *((name, ctypes.c_int64) for name in ("size", "position", "steps", "taken")),
    )


STRUCTURES = """typedef int (*function)(const double *p, const double *const *x, const int64_t *at, wide seed,
                        double *g, double *y, double *work, int64_t n);
typedef struct {
    function run;
    const double *const *x;
    double *work;
} program;
typedef struct {
    double *p, *g;               /* the parameters, which their moments and the gradients follow */
    double *before;              /* room for what steps change of these */
    double *y;                   /* room for the losses of a batch */
    int64_t *at;                 /* room for the places of its examples */
    const program *programs;     /* none where gradients and losses are given */
    const int64_t *kind, *place; /* of each example: its program, and where it is among those */
    const int64_t *ranges;       /* of the parameters that are changed: the first, and how many */
    int64_t *order, *spare;      /* the examples in the order of this epoch, NULL for as they come; room for them */
    uint32_t *random;            /* the generator that shuffles them for the epochs that begin; NULL for none */
    const wide *rates;           /* the learning rate of each step */
    wide *losses;                /* becomes the loss of each step */
    int64_t n, n_before, n_programs, n_ranges; /* numbers of parameters, of what changes, of programs and ranges */
    int64_t n_examples, size;    /* in an epoch and in a batch, but for the last one of an epoch */
    int64_t position;            /* in the epoch */
    int64_t steps;               /* to take */
    int64_t taken;               /* before these */
} job;

"""
SQUARES = """static wide squares(const double *g, int64_t n)
{
    wide sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += (wide)g[i] * g[i];
    return sum;
}

"""
SHUFFLE = """/* Python's random.shuffle, by the generator of its random.Random: the Mersenne Twister MT19937 of
   Matsumoto and Nishimura (1998), whose 624 words and position in them are the state. */
static uint32_t word(uint32_t *state)
{
    if (state[624] >= 624) {
        for (int i = 0; i < 624; i++) {
            uint32_t y = (state[i] & 0x80000000u) | (state[i < 623 ? i + 1 : 0] & 0x7fffffffu);
            state[i] = state[i < 227 ? i + 397 : i - 227] ^ (y >> 1) ^ (y & 1u ? 0x9908b0dfu : 0u);
        }
        state[624] = 0;
    }
    uint32_t y = state[state[624]++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

void shuffle(uint32_t *state, int64_t *order, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    int bits = 32;
    for (int64_t i = n - 1; i > 0; i--) {
        while (!((i + 1) >> (bits - 1)))
            bits--;
        int64_t j;
        do
            j = (int64_t)(word(state) >> (32 - bits));
        while (j > i);
        int64_t swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
}

"""
TRAIN = """/* The losses of a batch, with gradients in g: their sum, or NaN if an operation may have failed. */
static wide losses(const job *t, const int64_t *batch, int64_t n)
{
    wide sum = 0.0;
    int failed = 0;
    for (int64_t k = 0; k < t->n_programs; k++) {
        const program *q = t->programs + k;
        int64_t m = 0;
        if (batch)
            for (int64_t i = 0; i < n; i++)
                if (t->kind[batch[i]] == k)
                    t->at[m++] = t->place[batch[i]];
        if (batch ? m : (m = n))
            failed |= 1 & q->run(t->p, q->x, batch ? t->at : 0, 1.0 / (wide)n, t->g, t->y, q->work, m);
        for (int64_t i = 0; i < m; i++)
            sum += t->y[i];
    }
    return failed ? NAN : sum;
}

/* Takes the steps, up to one that fails. Returns how many it has taken. */
static int64_t steps(const job *t)
{
    int64_t position = t->position;
    for (int64_t s = 0; s < t->steps; s++) {
        if (position == t->n_examples) {
            position = 0;
            if (t->random)
                shuffle(t->random, t->order, t->n_examples);
        }
        int64_t n = t->size < t->n_examples - position ? t->size : t->n_examples - position;
        if (t->n_programs) {
            memset(t->g, 0, sizeof(double) * (size_t)t->n);
            t->losses[s] = losses(t, t->order ? t->order + position : 0, n) / (wide)n;
        }
        int whole = isfinite(t->losses[s]) != 0;
        wide sum = 0.0;
        if (CLIPS)
            for (int64_t r = 0; r < t->n_ranges; r++)
                sum += squares(t->g + t->ranges[2 * r], t->ranges[2 * r + 1]);
        wide norm = sqrt(sum);
        whole &= isfinite(norm);
        for (int64_t r = 0; whole && r < t->n_ranges; r++) {
            int64_t first = t->ranges[2 * r], many = t->ranges[2 * r + 1];
            double *p = t->p + first;
            wide rate = t->rates[s], taken = (wide)(t->taken + s);
            whole = update(p, t->g + first, p + t->n, t->n, many, rate, taken, norm);
        }
        if (!whole)
            return s;
        position += n;
    }
    return t->steps;
}

/* Takes the steps. Returns how many; if one fails, those before it are taken again, from where all began. */
int64_t train(const job *t)
{
    size_t size = sizeof(double) * (size_t)t->n_before, gradients = sizeof(double) * (size_t)t->n;
    size_t order = sizeof(int64_t) * (size_t)t->n_examples;
    uint32_t state[625];
    memcpy(t->before, t->p, size);
    memcpy(t->before + t->n_before, t->g, gradients);
    if (t->random) {
        memcpy(state, t->random, sizeof state);
        memcpy(t->spare, t->order, order);
    }
    int64_t done = steps(t);
    if (done < t->steps) {
        job again = *t;
        again.steps = done;
        memcpy(t->p, t->before, size);
        memcpy(t->g, t->before + t->n_before, gradients);
        if (t->random) {
            memcpy(t->random, state, sizeof state);
            memcpy(t->order, t->spare, order);
        }
        steps(&again);
    }
    return done;
}
"""


def source(kernel: UpdateKernel, precision: Precision = DOUBLE) -> str:
    """The C of the loop."""
    update = kernel.c_source(all_finite=precision != DOUBLE)
    types = vector_functions(update) + UNALIGNED
    train = TRAIN.replace("CLIPS", str(int(kernel.clips)))
    heads = "".join(f"#include <{name}.h>\n" for name in ("math", "stdint", "string")) + PASSES.format(passes=FOR_TILES)
    parts = [helpers(types + update), types, STRUCTURES, ADD, SQUARES, update, SHUFFLE, train]
    wide = "\n".join(line for line in update.split("\n") if "wide" in line and precision != DOUBLE)
    return "\n".join([heads, helpers(wide), precision.text("\n".join(parts))])


class NativeLoop:
    """The loaded loop, on the numbers in buffers that are in use.

    Parameters
    ----------
    function
        The compiled function, whose libraries compute the gradients.
    buffers
        The numbers, and whose they are.
    max_norm
        What the norm of the gradients is scaled down to; None for no limit.
    """

    def __init__(self, function: Any, buffers: Buffers, max_norm: float | None) -> None:
        self.kernel = UpdateKernel(buffers.optimizer, max_norm)
        self._function, self._attributes, self._precision = function, vars(buffers.optimizer), buffers.precision
        library = build(source(self.kernel, buffers.precision))
        weakref.finalize(self, unload, library).atexit = False  # when threads may be at work in it
        self._train, self._shuffle, self._add = library.train, library.shuffle, library.add
        self._train.argtypes, self._train.restype = [ctypes.c_void_p], ctypes.c_int64
        self._shuffle.argtypes, self._shuffle.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64], None
        self._add.argtypes, self._add.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64], None
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
        self._reference = (ctypes.addressof(self._arguments),)
        self._examples: Examples | None = None
        self._work: dict[Any, array[int]] = {}  # room for each library

    def bind(self, examples: Examples) -> None:
        """Let the next steps be on these examples."""
        if examples is self._examples:
            return
        programs = (KernelCall * len(examples.packs))(*[self._kernel_call(pack, examples) for pack in examples.packs])
        n = len(examples)
        room = self._precision.zeros(n), array("q", [0]) * n, array("q", [0]) * n
        self._room = programs, room  # pointed at
        arguments = self._arguments
        arguments.programs, arguments.n_programs = ctypes.addressof(programs), len(programs)
        arguments.y, arguments.at, arguments.spare = map(address, room)
        arguments.kind, arguments.place = address(examples.kind), address(examples.place)
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
        """Take steps up to one that fails, which changes nothing. Returns how many, which `optimizer.steps` counts.

        Parameters
        ----------
        rates
            The learning rate of each step.
        losses
            Becomes the mean loss of each batch; where no examples are bound, it is given, and the gradients are too.
        order, size, position
            The examples in the order of this epoch, None for as they come; how many a batch has; how many come before.
        rng
            Shuffles the order for each epoch that begins.
        """
        arguments, attributes = self._arguments, self._attributes
        arguments.order = None if order is None else address(order)
        arguments.rates, arguments.losses = address(rates), address(losses)
        arguments.size, arguments.position = size, position
        arguments.steps, arguments.taken = len(rates), attributes["steps"]
        state = None if rng is None else RandomState(rng)
        arguments.random = state and address(state.words)
        # From the first step to the count all is in C: a Ctrl-C between them would leave a step uncounted.
        counts = map(add, repeat(arguments.taken), map(self._train, self._reference))
        deque(map(attributes.__setitem__, ("steps",), counts), maxlen=0)
        if state:
            state.set_back()
        for library in self._work:
            library.check_interrupt()
        return int(attributes["steps"] - arguments.taken)

    def shuffle(self, order: "array[int]", rng: Any) -> None:
        """Make of the order what `rng.shuffle` makes of a list of the numbers from 0."""
        state = RandomState(rng)
        self._shuffle(address(state.words), address(order), len(order))
        state.set_back()

    def add_gradients(self, gradients: "array[float]") -> None:
        """Add gradients to those in the buffers."""
        self._add(self._arguments.g, address(gradients), len(gradients))

    def _kernel_call(self, pack: Any, examples: Examples) -> KernelCall:
        """What computes the examples of a shape, and the room it works in."""
        library = self._function._library(pack, examples)
        if library not in self._work:
            self._work[library] = array("b", bytes(library.sizes.room))
        return KernelCall(library.function, ctypes.addressof(pack.pointers), address(self._work[library]))


class RandomState:
    """The state of Python's generator, for C to go on with."""

    def __init__(self, rng: Any) -> None:
        self._rng = rng
        self._version, words, self._gauss = rng.getstate()
        self.words = array("I", words)

    def set_back(self) -> None:
        """Let the generator be where C has left it."""
        self._rng.setstate((self._version, tuple(self.words), self._gauss))


def shuffles_in_c(rng: Any) -> bool:
    """Whether C can do what this source of random numbers does."""
    return rng is random or type(rng) is random.Random
