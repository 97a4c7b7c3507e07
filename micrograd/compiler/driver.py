"""The loop of a training in C: batches drawn by index, gradients of one program or several, the optimizer's rule.

It knows a program by its function `run` alone, so it is built once for an optimizer and its options.
"""

import ctypes
import random
import weakref
from array import array
from typing import Any

from micrograd.compiler.c import UNALIGNED, helpers, vector_functions
from micrograd.compiler.precision import DOUBLE, Precision
from micrograd.compiler.rule import Rule
from micrograd.compiler.toolchain import build, unload


class Program(ctypes.Structure):
    """A program and its examples, as the loop in C knows them."""

    _fields_ = (("run", ctypes.c_void_p), ("x", ctypes.c_void_p), ("work", ctypes.c_void_p))


class Job(ctypes.Structure):
    """So many steps, as the loop in C knows them. What the fields are is said there."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("p", "g", "before", "y", "at", "programs", "kind", "place", "ranges")),
        *((name, ctypes.c_void_p) for name in ("order", "sizes", "rates", "losses")),
        *((name, ctypes.c_long) for name in ("n", "n_before", "n_programs", "n_ranges", "steps", "taken")),
    )


STRUCTURES = """typedef int (*function)(const double *p, const double *const *x, const long *at, wide seed,
                        double *g, double *y, double *work, long n);
typedef struct {
    function run;
    const double *const *x;
    double *work;
} program;
typedef struct {
    double *p, *g;               /* the parameters, which their moments and the gradients follow */
    double *before;              /* room for what changes of these, to start again from: those, then gradients */
    double *y;                   /* room for the losses of a batch */
    long *at;                    /* room for the places of its examples */
    const program *programs;
    const long *kind, *place;    /* of each example: its program, and where it is among those */
    const long *ranges;          /* of the parameters that are changed: the first, and how many */
    const long *order;           /* the examples of the batches, one batch after the other; all in order if NULL */
    const long *sizes;           /* of the batches */
    const wide *rates;           /* the learning rate of each step */
    wide *losses;                /* becomes the loss of each step */
    long n, n_before, n_programs, n_ranges; /* numbers of parameters, of what changes, of programs and ranges */
    long steps;                  /* to take */
    long taken;                  /* before these */
} job;

"""
TRAIN = """/* The losses of a batch, with gradients in g: their sum, or NaN if an operation may have failed. */
static wide losses(const job *t, const long *batch, long n)
{
    wide sum = 0.0;
    int failed = 0;
    for (long k = 0; k < t->n_programs; k++) {
        const program *q = t->programs + k;
        long m = 0;
        if (t->order)
            for (long i = 0; i < n; i++)
                if (t->kind[batch[i]] == k)
                    t->at[m++] = t->place[batch[i]];
        if (t->order ? m : (m = n))
            failed |= 1 & q->run(t->p, q->x, t->order ? t->at : 0, 1.0 / (wide)n, t->g, t->y, q->work, m);
        for (long i = 0; i < m; i++)
            sum += t->y[i];
    }
    return failed ? NAN : sum;
}

/* Takes the steps, up to one that fails. Returns how many it has taken. */
static long steps(const job *t)
{
    const long *batch = t->order;
    for (long s = 0; s < t->steps; s++) {
        long n = t->sizes[s];
        for (long r = 0; r < t->n_ranges; r++)
            memset(t->g + t->ranges[2 * r], 0, sizeof(double) * (size_t)t->ranges[2 * r + 1]);
        t->losses[s] = losses(t, batch, n) / (wide)n;
        int whole = isfinite(t->losses[s]) != 0;
        wide sum = 0.0;
        if (CLIPS)
            for (long r = 0; r < t->n_ranges; r++)
                sum += squares(t->g + t->ranges[2 * r], t->ranges[2 * r + 1]);
        wide norm = sqrt(sum);
        whole &= isfinite(norm);
        for (long r = 0; whole && r < t->n_ranges; r++) {
            long first = t->ranges[2 * r], many = t->ranges[2 * r + 1];
            double *p = t->p + first;
            wide rate = t->rates[s], taken = (wide)(t->taken + s);
            whole = update(p, t->g + first, p + t->n, t->n, many, rate, taken, norm);
        }
        if (!whole)
            return s;
        if (batch)
            batch += n;
    }
    return t->steps;
}

/* Takes the steps. Returns how many; if one fails, those before it are taken again, from where all began. */
long train(const job *t)
{
    size_t size = sizeof(double) * (size_t)t->n_before, gradients = sizeof(double) * (size_t)t->n;
    memcpy(t->before, t->p, size);
    memcpy(t->before + t->n_before, t->g, gradients);
    long done = steps(t);
    if (done < t->steps) {
        job again = *t;
        again.steps = done;
        memcpy(t->p, t->before, size);
        memcpy(t->g, t->before + t->n_before, gradients);
        steps(&again);
    }
    return done;
}
"""
SQUARES = """static wide squares(const double *g, long n)
{
    wide sum = 0.0;
    for (long i = 0; i < n; i++)
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

void shuffle(uint32_t *state, long *order, long n, long times)
{
    for (; times > 0; times--, order += n) {
        for (long i = 0; i < n; i++)
            order[i] = i;
        int bits = 63;
        for (long i = n - 1; i > 0; i--) {
            while (!((i + 1) >> (bits - 1)))
                bits--;
            long j;
            do
                j = (long)(word(state) >> (32 - bits));
            while (j > i);
            long swapped = order[i];
            order[i] = order[j];
            order[j] = swapped;
        }
    }
}
"""


class Driver:
    """The loaded loop for a rule."""

    def __init__(self, rule: Rule, precision: Precision = DOUBLE) -> None:
        self.rule = rule
        update = rule.c_source(all_finite=precision != DOUBLE)
        types = vector_functions(update) + UNALIGNED
        train = TRAIN.replace("CLIPS", str(int(rule.clips)))
        heads = "".join(f"#include <{name}.h>\n" for name in ("math", "stdint", "string"))
        parts = [helpers(types + update), types, STRUCTURES, SQUARES, update, train, SHUFFLE]
        wide = "\n".join(line for line in update.split("\n") if "wide" in line and precision != DOUBLE)
        library = build("\n".join([heads, helpers(wide), precision.text("\n".join(parts))]))
        weakref.finalize(self, unload, library).atexit = False  # when threads may be at work in it
        self.train = library.train
        self.train.argtypes, self.train.restype = [ctypes.c_void_p], ctypes.c_long
        self._shuffle = library.shuffle
        self._shuffle.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long]
        self._shuffle.restype = None

    def shuffled(self, n: int, times: int, rng: Any) -> "array[int]":
        """The numbers below n as `rng.shuffle` orders them, so many times, one after the other."""
        order = array("l", bytes(n * times * array("l").itemsize))
        version, state, gauss = rng.getstate()
        words = array("I", state)
        self._shuffle(words.buffer_info()[0], order.buffer_info()[0], n, times)
        rng.setstate((version, tuple(words), gauss))
        return order


def is_known(rng: Any) -> bool:
    """Whether `shuffled` does what this source of random numbers does."""
    return rng is random or type(rng) is random.Random
