"""Training a compiled function: gradients by generated code, and in C, all of each step.

In C, all numbers live in a buffer from the first step to the last, and a loop applies the optimizer's rule (native/).
In Python, each step is the optimizer's own, on compiled gradients. A step in which an operation fails or a number is
not finite changes nothing: the engine computes its gradients, and raises what it raises. An optimizer of another
library gets an Objective.
"""

import math
import random
import threading
from array import array
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import reduce
from operator import add, is_
from typing import Any, NoReturn, Self

from micrograd.compiler.dataset import Batch, Buckets, pack
from micrograd.compiler.dtype import DOUBLE, REMEDY
from micrograd.compiler.frontend.interpret import check
from micrograd.compiler.frontend.redirect import any_frozen, assign, thread_view, trained
from micrograd.compiler.function import Function
from micrograd.compiler.native.buffers import Buffers
from micrograd.compiler.native.loop import LoopBuild, NativeLoop, start_build
from micrograd.compiler.native.toolchain import warn_once
from micrograd.compiler.stepping import Update
from micrograd.core.errors import shown
from micrograd.engine import Value
from micrograd.optim import Optimizer, check_moments
from micrograd.reductions import mean
from micrograd.support.arrays import as_ndarray, is_array
from micrograd.support.collector import gc_paused
from micrograd.support.trees import mapped, shape_of


class CompiledGradients:
    """Gradients by generated code, and where that fails, by `engine`, as the log says; both return the mean loss."""

    examples: Buckets  # which batches are taken from

    def __init__(self, function: Function, engine: Callable[[Sequence[int]], float]) -> None:
        self._function, self._engine = function, engine
        self.by_engine = False  # whether that computes the next gradients
        self._pending_warning = ""
        self._warned = False

    def __call__(self, batch: Sequence[int]) -> float:
        """The mean loss of a batch of the examples, whose gradients the parameters have then."""
        loss = math.nan if self.by_engine else self._compiled(batch)
        self.by_engine, self._pending_warning = False, ""
        if math.isnan(loss):
            self._pending_warning = self._reason(batch)
            loss = self._engine(batch)
        return loss

    def warn_eager_step(self) -> None:
        """Log, once, why the engine has computed the gradients of a step that is taken."""
        if self._pending_warning and not self._warned:
            warn_once(f"a step was taken by the engine, {self._pending_warning}")
            self._warned = True

    def _compiled(self, batch: Sequence[int]) -> float:
        """The loss by generated code; NaN, with no gradients, if a number is not finite or an operation has failed."""
        function, examples, precision = self._function, self.examples, self._function.precision
        numbers = precision.array(function._numbers(), "a parameter")
        total, gradients = function._sums(numbers, examples, batch, 1.0 / len(batch))
        if not math.isfinite(total) or not all(map(math.isfinite, gradients)):
            return math.nan
        assign(function.parameters[: len(numbers) - function._n_constants], "grad", gradients)
        return total / len(batch)

    def _reason(self, batch: Sequence[int]) -> str:
        """What generated code cannot do in a step on this batch, as far as that shows and was not said before."""
        function, examples = self._function, self.examples
        if function.precision != DOUBLE:
            return f"in doubles, since its numbers are beyond single precision: {REMEDY}"
        numbers = function._numbers()
        for i in batch if not self._warned else ():
            if i < len(examples):  # of shards that are loaded by workers, only some examples are known
                of_shape = examples.batches[examples.bucket[i]]
                try:
                    check(function._graph_of(of_shape).graph(), numbers, of_shape.row(examples.slot[i]))
                except FloatingPointError as error:
                    what = "it takes no derivative of what take() does not choose, and generated code does"
                    return f"since {what}: {error}"
        return "since an operation may have failed in generated code"


class Training:
    """A block in which an optimizer takes steps on compiled gradients: `Compiled.training` returns and documents it."""

    def __init__(self, compiled: Function, optimizer: Optimizer) -> None:
        check_rule(optimizer)
        self._compiled, self._optimizer = compiled, optimizer
        self._changed = list(optimizer.parameters)
        self._buffers = Buffers(compiled.parameters, optimizer, compiled.precision, compiled._n_constants)
        update = self._update = Update(compiled.parameters[: self._buffers.n_trainable], optimizer)

        def by_engine(batch: Sequence[int]) -> float:  # no method: a block that is in no cycle is left when it is freed
            arguments = map(gradients.examples.arguments, batch)
            return update.differentiate(mean([compiled(*mapped(Value, example)) for example in arguments]))

        self._gradients = gradients = CompiledGradients(compiled, by_engine)
        self._turn = threading.RLock()  # of the thread that takes a step
        self._claim, self._in_c, self._inside = ExitStack(), ExitStack(), False
        self._loop: NativeLoop | None = None  # while the buffers are in use
        self._started: LoopBuild | None = None
        self._latest: Buckets | None = None

    def __repr__(self) -> str:
        return f"<training of {self._compiled!r} by {self._optimizer!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a training block is of this process alone: pickle the compiled function and the optimizer, together, and "
            "begin another block with what is loaded"
        )

    def __enter__(self) -> Self:
        self._check_optimizer()
        claimed, in_c = False, self._compiled._is_in_c()
        try:
            with gc_paused():
                self._claim.enter_context(trained(self._optimizer.parameters))
                claimed = True
                if in_c:
                    self._in_c.enter_context(self._buffers.in_use())
            if in_c:
                self._bind(None)  # a compiler may take long here, so Ctrl-C interrupts it
            self._inside = True
            return self
        except BaseException:
            if claimed:
                self.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        with self._turn:
            self._leave()

    def __call__(self, *batches: Any) -> float:
        """Take a step along the gradient of the mean loss of a batch, which is returned; threads take turns.

        The batch is what `pack` has made of it, or a list or array of examples for each argument, of one shape or
        several. Raises FloatingPointError if the loss, or a parameter after the step, is infinite or NaN: then the
        parameters are those before the step. Raises ValueError or TypeError if the examples do not fit the function's
        arguments, RuntimeError outside of the block. Whatever the function raises is passed on.
        """
        with self._turn:
            if not self._inside:
                raise RuntimeError("call step inside its block: with fast.training(optimizer) as step: step(...)")
            examples = self._latest
            if examples is None or len(batches) != 1 or batches[0] is not examples.batches[0]:
                examples = self._latest = self._compiled._examples(batches, None, lambda shapes, of: None)
            n = len(examples)
            order = None if len(examples.batches) == 1 else array("q", range(n))
            rates, losses = array("d", [self._optimizer.learning_rate]), array("d", [0.0])
            if self.run_steps(examples, rates, losses, order=order, size=n):
                return losses[0]
            self._gradients.examples, self._gradients.by_engine = examples, self.is_native
            loss = self._gradients(range(n))
            self._update()
            self._gradients.warn_eager_step()
            return loss

    def start_build(self) -> None:
        """Start building the loop in C before the block begins. Errors are ignored here: the block meets them again."""
        optimizer = self._optimizer  # of which another one's rule might change parameters, which are in no buffer yet
        is_ours = type(optimizer).__module__ == Optimizer.__module__ and "rule" not in vars(optimizer)
        if is_ours and self._compiled._is_in_c():
            with suppress(Exception), trained(optimizer.parameters):
                self._started = start_build(optimizer, self._compiled.precision)

    @property
    def is_native(self) -> bool:
        """Whether the numbers live in buffers, and C may take steps."""
        return self._loop is not None

    def run_steps(self, examples: Buckets | None, rates: "array[float]", losses: "array[float]", **options: Any) -> int:
        """Take steps in C as `NativeLoop.run_steps` does. Returns how many are whole: none where C takes no steps."""
        self._check_optimizer()
        if self._loop is None:
            return 0
        self._buffers.take_moments()
        self._bind(examples)
        return self._loop.run_steps(rates, losses, **options) if self._loop else 0

    def shuffles_in_c(self, rng: Any) -> bool:
        """Whether C can shuffle as this source of random numbers does."""
        return self._compiled._is_in_c() and (rng is random or type(rng) is random.Random)

    def shuffle(self, order: "array[int]", rng: Any) -> None:
        """Shuffle as `NativeLoop.shuffle` does."""
        assert self._loop  # which the caller has asked
        self._loop.shuffle(order, rng)

    def set_gradients(self, parts: Sequence["array[float]"]) -> None:
        """Let the parameters have the sum of these gradients."""
        buffers, total = self._buffers, self._compiled.precision.zeros(self._buffers.n)
        if self._loop:
            buffers.grads[:] = memoryview(total)
            for part in parts:
                self._loop.add_gradients(part)
            return
        for part in parts:
            total = self._compiled.precision.array(map(add, total, part))
        assign(buffers.parameters[: buffers.n_trainable], "grad", total)

    def numbers(self) -> "array[float]":
        """The parameters' numbers."""
        precision = self._compiled.precision
        if self._loop is None:
            return precision.array(self._compiled._numbers(), "a parameter")
        self._buffers.read_constants()
        return array(precision.code, self._buffers.data.tobytes())

    def values(self, examples: Buckets) -> list[float]:
        """The function's value for each example."""
        numbers = memoryview(self.numbers())
        found = [self._compiled._run("forward", each, parameters=numbers)[0].tolist() for each in examples.batches]
        return [found[bucket][slot] for bucket, slot in zip(examples.bucket, examples.slot, strict=True)]

    def _bind(self, examples: Buckets | None) -> None:
        """Have a loop for the optimizer's rule as it is now, and for these examples; with "auto", only if C can."""
        if self._loop and self._loop.kernel.reach.changed():
            check_rule(self._optimizer)
            self._loop = None
        try:
            if self._loop is None:
                self._loop = NativeLoop(self._compiled, self._buffers, self._started)
            self._buffers.read_constants()
            if examples is not None and self._compiled._is_in_c():
                self._loop.bind(examples)
            elif examples is not None:  # of a shape for which there was no C, as the log has said
                self._leave_c()
        except Exception as error:  # whatever the optimizer's rule raises where it is traced
            if self._compiled.options.backend.name == "c":
                raise
            warn_once(f"training in Python instead of C: {error}")
            self._leave_c()

    def _leave(self) -> None:
        self._inside, self._latest = False, None
        self._leave_c()
        self._claim.close()

    def _leave_c(self) -> None:
        """Go on in Python: the numbers go back to the Values and the optimizer."""
        self._loop = None
        self._in_c.close()

    def _check_optimizer(self) -> None:
        """Raise an error if the optimizer has other parameters or moments than at first, or they are frozen."""
        optimizer, now = self._optimizer, self._optimizer.parameters
        if any_frozen(now):
            raise RuntimeError("a step would change frozen parameters: leave the block of frozen() first")
        with thread_view(hidden=math.nan):  # which equals no number: so lists compare Values by identity alone
            are_same = self.is_native and type(now) is list and now == self._changed
        if not are_same and (len(now) != len(self._changed) or not all(map(is_, now, self._changed))):
            raise ValueError(
                "the optimizer was given other parameters during training: leave the training block and start another "
                "one for them, or train eagerly"
            )
        names = [*optimizer.moments]
        if self.is_native and names != [*self._buffers.moments]:
            raise ValueError(
                f"the moments of {type(optimizer).__name__} are now {names}: expected {[*self._buffers.moments]}, as "
                "when training began; to train with others, leave the training block and start another one"
            )
        check_moments(optimizer)


def check_rule(optimizer: Any) -> None:
    """Raise TypeError if the steps of an optimizer are not those of its rule, or it states none."""
    kind, names = type(optimizer).__name__, ("rule", "step", "zero_grad")
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"optimizer is {shown(optimizer)}: expected an Optimizer, such as optim.Adam(parameters)")
    if isinstance(getattr(type(optimizer), "learning_rate", None), property):
        raise TypeError(
            f"{kind} computes its learning_rate, which compiled training would not: make it a number, set it directly "
            "or by a schedule, or train eagerly"
        )
    if getattr(optimizer.rule, "__func__", None) is Optimizer.rule:
        optimizer.rule()  # which raises NotImplementedError; any other may count how often it is called
    owners = [vars(optimizer), *map(vars, type(optimizer).__mro__)]
    rule, *others = [next(i for i, owner in enumerate(owners) if name in owner) for name in names]
    for name, i in zip(names[1:], others, strict=True):
        if i <= rule:
            code = getattr(owners[i][name], "__code__", None)
            line = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
            raise TypeError(
                f"{kind} defines its own {name}(){line}, which compiled training would not call: "
                "do all that a step does in rule(), or train eagerly"
            )


class Objective:
    """The mean over packed examples, and its gradient: `Compiled.objective` returns and documents it."""

    def __init__(self, function: Function, packed: Batch) -> None:
        self._function, self._packed = function, packed

    def __repr__(self) -> str:
        return f"<objective of {self._function!r} on {self._packed!r}>"

    def __call__(self, vector: Any) -> tuple[float, Any]:
        """The mean, and its gradient with respect to each number in the vector."""
        function, packed = self._function, self._packed
        parameters = vector_of(vector, len(function.parameters))
        if function.precision != DOUBLE:
            numbers = array("d", parameters)
            floats = array("f", numbers) if function.options.ieee else function.precision.array(numbers, "a parameter")
            parameters = memoryview(floats)
        losses, gradients = function._run("backward", packed, 1.0 / packed.n, parameters=parameters)
        return reduce(add, losses) / packed.n, as_ndarray(gradients) if is_array(vector) else gradients.tolist()


def vector_of(numbers: Any, n: int) -> memoryview:
    """A flat list or array of `n` real numbers, as doubles. Raises ValueError or TypeError for anything else."""
    if shape_of(numbers) != (n,):
        raise ValueError(f"the vector is {shown(numbers)}: expected {n} numbers, one for each parameter, as in x0")
    ((doubles, _),) = pack([(numbers,)]).columns
    return doubles[:n]
