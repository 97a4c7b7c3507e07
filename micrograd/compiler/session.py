"""Training a compiled function: gradients by generated code, and in C, all of each step.

In C, all numbers live in a buffer from the first step to the last, and a loop applies the optimizer's rule (native/).
In Python, each step is the optimizer's own, on compiled gradients. A step in which an operation fails or a number is
not finite changes nothing: the engine takes it, and raises what it raises. An optimizer of another library gets an
Objective.
"""

import math
import threading
from array import array
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import reduce
from operator import add, is_
from typing import Any, NoReturn, Self

from micrograd.compiler.dataset import Batch, Buckets, pack
from micrograd.compiler.dtype import DOUBLE, REMEDY
from micrograd.compiler.frontend.interpret import check
from micrograd.compiler.frontend.redirect import any_frozen, assign, trained
from micrograd.compiler.function import Function
from micrograd.compiler.native.buffers import Buffers
from micrograd.compiler.native.loop import LoopBuild, NativeLoop, start_build
from micrograd.compiler.native.toolchain import warn_once
from micrograd.compiler.native.update import UpdateKernel
from micrograd.compiler.stepping import Batches, StepLoop, Update
from micrograd.core.errors import shown
from micrograd.engine import Value
from micrograd.optim import Optimizer, check_moments
from micrograd.reductions import mean
from micrograd.support.arrays import as_ndarray, is_array
from micrograd.support.collector import gc_paused
from micrograd.support.trees import mapped, shape_of


class Training:
    """A block in which an optimizer takes steps on compiled gradients: `Compiled.training` returns and documents it.

    The `engine` takes the steps that generated code cannot; by default, on what the function returns for Values.
    """

    def __init__(self, function: Function, optimizer: Optimizer, engine: StepLoop | None = None) -> None:
        check_rule(optimizer)
        self._function, self._optimizer = function, optimizer
        self._changed = list(optimizer.parameters)
        self._buffers = Buffers(function.parameters, optimizer, function.precision, function._n_constants)
        self._engine = engine or _on_values(function, self._buffers.n_trainable, optimizer)
        self._turn = threading.RLock()  # of the thread that takes a step
        self._claim, self._in_c, self._inside = ExitStack(), ExitStack(), False
        self._loop: NativeLoop | None = None  # while the buffers are in use
        self._started: LoopBuild | None = None
        self._latest: Batches | None = None
        self._warned = False

    def __repr__(self) -> str:
        return f"<training of {self._function!r} by {self._optimizer!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a training block is of this process alone: pickle the compiled function and the optimizer, together, and "
            "begin another block with what is loaded"
        )

    def __enter__(self) -> Self:
        self._check_optimizer()
        self._claim.enter_context(trained(self._optimizer.parameters))
        try:
            if self._function._is_in_c():
                with gc_paused():
                    self._in_c.enter_context(self._buffers.in_use())
                self._bind(None)
        except BaseException:
            self._leave()
            raise
        self._inside = True
        return self

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
            latest = self._latest
            if latest is None or len(batches) != 1 or batches[0] is not latest.examples.batches[0]:
                examples = self._function._examples(batches, None, lambda shapes, of: None)
                latest = self._latest = Batches(len(examples), len(examples), None, examples)
            return self.take(latest, [self._optimizer.learning_rate])[0]

    def take(self, batches: Batches, rates: Sequence[float]) -> Sequence[float]:
        """Take steps as a Loop does: in C some, else one."""
        self._prepare(batches.examples)
        losses = self._loop.take(batches, rates) if self._loop else self._take_in_python(batches)
        if not losses:
            reason = "" if self._warned else self._reason(batches)
            losses = self._engine.take(batches, rates)
            if reason:
                warn_once(f"a step was taken by the engine, {reason}")
            self._warned = True
        return losses

    def values(self, examples: Buckets) -> list[float]:
        """The function's value for each example."""
        numbers = memoryview(self.numbers())
        found = [self._function._run("forward", each, parameters=numbers)[0].tolist() for each in examples.batches]
        return [found[bucket][slot] for bucket, slot in zip(examples.bucket, examples.slot, strict=True)]

    def start_build(self) -> None:
        """Start building the loop in C before the block begins. Errors are ignored here: the block meets them again."""
        optimizer = self._optimizer  # of which another one's rule might change parameters, which are in no buffer yet
        is_ours = type(optimizer).__module__ == Optimizer.__module__ and "rule" not in vars(optimizer)
        if is_ours and self._function._is_in_c():
            with suppress(Exception), trained(optimizer.parameters):
                self._started = start_build(optimizer, self._function.precision)

    def numbers(self) -> "array[float]":
        """The parameters' numbers, for workers."""
        precision = self._function.precision
        if self._loop is None:
            return precision.array(self._function._numbers(), "a parameter")
        self._buffers.read_constants()
        return array(precision.code, self._buffers.data.tobytes())

    def update(self, parts: Sequence["array[float]"]) -> None:
        """Take a step along the sum of these gradients, of workers, which the parameters have then."""
        self._prepare(None)
        if self._loop:
            if not self._loop.update(parts, self._optimizer.learning_rate):
                self._engine.update()
            return
        precision, buffers = self._function.precision, self._buffers
        total = reduce(lambda total, part: precision.array(map(add, total, part)), parts, precision.zeros(buffers.n))
        assign(buffers.parameters[: buffers.n_trainable], "grad", total)
        self._engine.update()

    def _take_in_python(self, batches: Batches) -> Sequence[float]:
        """Take a step by the optimizer on gradients by generated code; none if they, or the loss, are not finite."""
        function, precision, batch = self._function, self._function.precision, batches.next()
        numbers = precision.array(function._numbers(), "a parameter")
        total, gradients = function._sums(numbers, batches.examples, batch, 1.0 / len(batch))
        if not math.isfinite(total) or not all(map(math.isfinite, gradients)):
            return []
        assign(function.parameters[: self._buffers.n_trainable], "grad", gradients)
        self._engine.update()
        batches.count(1)
        return [total / len(batch)]

    def _reason(self, batches: Batches) -> str:
        """What generated code cannot do in the next step, as far as that shows."""
        function, examples = self._function, batches.examples
        if function.precision != DOUBLE:
            return f"in doubles, since its numbers are beyond single precision: {REMEDY}"
        numbers = function._numbers()
        for i in batches.next():
            of_shape = examples.batches[examples.bucket[i]]
            try:
                check(function._graph_of(of_shape).graph(), numbers, of_shape.row(examples.slot[i]))
            except FloatingPointError as error:
                return f"since it takes no derivative of what take() does not choose, and generated code does: {error}"
        return "since an operation may have failed in generated code"

    def _prepare(self, examples: Buckets | None) -> None:
        """Before a step: see to the optimizer, and in C to the loop, for these examples."""
        self._check_optimizer()
        if self._loop:
            self._buffers.take_moments()
            self._bind(examples)

    def _bind(self, examples: Buckets | None) -> None:
        """Have a loop for the optimizer's rule as it is now, and for these examples; with "auto", only if C can."""
        if self._loop and self._loop.kernel.traced_with != UpdateKernel.key(self._optimizer):
            check_rule(self._optimizer)
            self._loop = None
        try:
            if self._loop is None:
                self._loop = NativeLoop(self._function, self._buffers, self._started)
            self._buffers.read_constants()
            if examples is not None and self._function._is_in_c():
                self._loop.bind(examples)
            elif examples is not None:  # of a shape for which there was no C, as the log has said
                self._leave_c()
        except Exception as error:  # whatever the optimizer's rule raises where it is traced
            if self._function.options.backend.name == "c":
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
        if len(now) != len(self._changed) or not all(map(is_, now, self._changed)):
            raise ValueError(
                "the optimizer was given other parameters during training: leave the training block and start another "
                "one for them, or train eagerly"
            )
        names = [*optimizer.moments]
        if self._loop and names != [*self._buffers.moments]:
            raise ValueError(
                f"the moments of {type(optimizer).__name__} are now {names}: expected {[*self._buffers.moments]}, as "
                "when training began; to train with others, leave the training block and start another one"
            )
        check_moments(optimizer)


def _on_values(function: Function, n: int, optimizer: Optimizer) -> StepLoop:
    """Steps on what the function returns for Values, with respect to its first `n` parameters."""
    update = Update(function.parameters[:n], optimizer)

    def gradients(batches: Batches) -> float:
        examples = map(batches.examples.arguments, batches.next())
        return update.differentiate(mean([function(*mapped(Value, arguments)) for arguments in examples]))

    return StepLoop(gradients, update)


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
