"""The public face: `compile`, and the methods of the compiled function that it returns."""

import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from operator import add
from pathlib import Path
from threading import Lock
from typing import Any

from micrograd.compiler.calls import Example, Slot
from micrograd.compiler.dataset import Batch, ShapeError, check_out
from micrograd.compiler.dtype import DOUBLE, Precision, named
from micrograd.compiler.frontend.graph import Graph, traced
from micrograd.compiler.frontend.interpret import check
from micrograd.compiler.frontend.redirect import held
from micrograd.compiler.frontend.tracer import TraceError
from micrograd.compiler.function import Function
from micrograd.compiler.ir import show
from micrograd.compiler.native.library import check_constants
from micrograd.compiler.native.toolchain import CompilerError
from micrograd.compiler.native.update import UpdateKernel
from micrograd.compiler.options import Backend, Options
from micrograd.compiler.passes.pipeline import program
from micrograd.compiler.session import Training
from micrograd.compiler.stages import stages
from micrograd.compiler.targets.python import source
from micrograd.core.errors import shown
from micrograd.core.levels import GRADIENT_LOCK
from micrograd.engine import Value
from micrograd.functional import vjp
from micrograd.optim import Optimizer
from micrograd.support import files, trees, validation
from micrograd.support.arrays import are_plain, as_ndarray
from micrograd.support.signals import assign, set_data

__all__ = ["Backend", "Compiled", "CompilerError", "TraceError", "compile"]


def compile(
    function: Callable[..., Any], example_args: Sequence[Any], *, parameters: Sequence[Value] | None = None,
    backend: str | Backend = "auto", finite: bool = False, errors: str = "raise",
    in_axes: int | Sequence[int | None] = 0, sparse: bool = False,
) -> "Compiled":  # fmt: skip
    """Trace a function of numbers, and compile it together with its gradients.

    Raises TraceError if the function needs a number while it is traced, as `if x > 0`, `max` or a lookup in a dict do;
    CompilerError if the backend is "c" and there is no C compiler, and from a call, if the compiler cannot build what
    the call needs; ValueError or TypeError if an argument is not as described below.

    Parameters
    ----------
    function
        Takes Values in the shapes of the example, in nested lists, dicts, and NumPy arrays of dtype object; returns a
        Value or several, in the same ways. It runs once for each shape of arguments.
    example_args
        One example of the arguments: numbers, nested lists and dicts of numbers, arrays. Only their shapes count, and
        which are arrays: the function always gets arrays in place of these, and dicts with their keys in this order.
    parameters
        Leaf Values that get gradients; by default all that the function uses, its own `parameters()` first. The numbers
        of all leaf Values are read at each call; everything else that the function reads is constant.
    backend
        How the code runs: a `Backend`, or its name.
    finite
        True promises that no number in any call is infinite or NaN, and that no divisor is 0. Products and sums with
        0.0 are then not computed, and a failure may go unnoticed.
    errors
        "raise" for the engine's errors, or "ieee" for infinities and NaNs where NumPy has them. Training steps raise.
    in_axes
        For each argument, 0 if there is one for each result, or None if all results share one, as in JAX's `vmap`. 0
        alone stands for all arguments. Training, `map`, `pack` and `backward` follow it.
    sparse
        True for `jacobian(f)` or `hessian(f)` as a matrix without structural zeros. A call returns a
        `scipy.sparse.csr_array`, `map` a list of them; `pattern` has their positions.
    """
    options = Options(Backend.of(backend), finite, errors, in_axes, sparse)
    return Compiled(function, example_args, parameters, options)


class Compiled(Function):
    """A compiled function, as `compile` returns it.

    `fast(x, y)` computes one example, and returns a number or nested lists and dicts of numbers; arrays if an argument
    is one. Called with Values, inside a derivative or another function that is being compiled, it calls the original
    function.

    It can be copied, and pickled together with the model whose parameters it has: `pickle.dumps((model, fast))`. A
    pickle holds the traces instead of the function, so elsewhere it works for the shapes that it was compiled for.
    """

    def map(self, *batches: Any, in_axes: Any = None, executor: Any = None, out: Any = None) -> Any:
        """The function's values for many examples, as a list or an array; for chunks, an iterator with one per chunk.

        Give a list or array of examples for each argument, or the result of `pack`; or an iterator of chunks, with a
        batch, or for several arguments a tuple of batches, in each. The workers of an `executor`, by default the
        `Backend`'s, share the work. `out` is a C-contiguous NumPy array that receives the values, and is returned. In
        place of a 0, `in_axes` may have a list or an array of ints: for each example, the row of that argument.

        Raises ValueError or TypeError if the examples do not fit the arguments, or `out` does not fit the values;
        IndexError if there is no such row.
        """
        executor = self.options.backend.executor if executor is None else executor
        if in_axes is not None:
            batches = (self.pack(*batches, in_axes=in_axes),)
        if executor is not None or self._are_chunks(batches):
            from micrograd.compiler.distributed import mapped  # here, since most programs use no workers

            if out is not None:
                raise ValueError("map() fills out only for a single batch without workers: call it without out")
            return mapped(self, batches, executor)
        packed = self._packed(batches)
        if out is None:
            return self._unflattened(packed.shapes, packed.n, self._values(packed))
        check_out(out, (packed.n, *self._code[packed.shapes].graph.output_shape), self.precision.code)
        import numpy as np  # here, since only users of arrays need it

        if any(np.may_share_memory(out, buffer) for buffer in packed.buffers):
            out.reshape(-1)[:] = self._values(packed)
        else:
            self._values(packed, out=out.reshape(-1))
        return out

    def backward(self, *batches: Any, executor: Any = None, out: Any = None) -> float:
        """The mean of the function over the examples. Adds its gradients to the parameters' `grad`.

        The examples and the `executor` are as for `map`. With `out`, a C-contiguous NumPy array, the gradients are
        written to it instead, in the order of `parameters`.

        Raises TypeError if the function does not return a single Value, or the `grad` of a parameter is not a number;
        ValueError if there are no examples, they do not fit the arguments, or `out` does not fit the parameters.
        """
        executor = self.options.backend.executor if executor is None else executor
        if out is not None:
            check_out(out, (len(self.parameters),), self.precision.code)
        if executor is not None or self._are_chunks(batches):
            from micrograd.compiler.distributed import mean

            loss, gradients = mean(self, batches, executor)
        else:
            packed = self._packed(batches, kind="backward")
            total, gradients = self._sums([packed], self._numbers(), 1.0 / packed.n)
            loss = total / packed.n
        if out is not None:
            out[:] = gradients[: len(self.parameters)]
            return loss
        with GRADIENT_LOCK:
            before: Any = [parameter.grad for parameter in self.parameters]
            before = before if are_plain(before) else DOUBLE.array(before, "the grad of parameter")
            assign(self.parameters, "grad", list(map(add, before, gradients)))
        return loss

    def value_and_grad(
        self, *args: Any, argnum: int | Sequence[int] | None = None, out: Any = None
    ) -> tuple[float, Any]:
        """The function's value for one example, and its gradient with respect to the arguments, in their shape.

        `argnum` is the position of the argument to differentiate by, or a tuple of positions, for a tuple of gradients;
        None means the only argument, or a tuple of all. `out` is a C-contiguous NumPy array that receives the gradient,
        or a tuple of them, and is returned in its place.

        Raises TypeError if the function does not return a single Value, or `argnum` is anything else; TypeError or
        ValueError if `out` does not fit the gradients.
        """
        places, is_one = _places(argnum, len(args))
        value, gradient = self._called(places, args, Example.both, is_one, out)
        return value, gradient

    def vjp(self, *args: Any, argnum: int | Sequence[int] | None = None, out: Any = None) -> tuple[Any, Any]:
        """The function's value for one example, and the gradient of value . vector: a vector times the jacobian.

        The vector follows the arguments, in the shape of the value. `argnum` and `out` are as for `value_and_grad`,
        errors as for `micrograd.functional.vjp`.
        """
        places, is_one = _places(argnum, len(args) - 1)
        if len(args) != (n := len(self._shapes)) + 1:
            raise TypeError(f"vjp() was given {len(args)} argument(s): expected the function's {n}, then the vector")
        if places not in self._products:
            example = [trees.mapped(validation.plain, trees.as_lists(argument)) for argument in args]
            product, options = vjp(self._function, places), replace(self.options, in_axes=0)
            self._products[places] = Function(product, example, self.parameters, options)
            self._products[places].returns_gradients = True
        value, gradient = self._products[places]._called("forward", args, Example.both, is_one, out)
        return value, gradient

    def objective(self, *batches: Any) -> tuple[Callable[[Any], tuple[float, Any]], Any]:
        """The mean over examples as a function of all parameters in one vector, for optimizers of other libraries.

        It returns `fun` and `x0`, as `scipy.optimize.minimize(fun, x0, jac=True)` takes them. `fun(vector)` returns the
        mean and its gradient, an array if the vector is one, else a list. `x0` has the numbers of `parameters` in their
        order: an array, or without NumPy a list. The Values do not change until you call `load`.

        Raises TypeError if the function does not return a single Value, or has no parameters; ValueError if the
        examples do not fit its arguments. `fun` raises ValueError unless the vector has a number for each parameter.
        """
        if not self.parameters:
            remedy = "to minimize over its arguments, write minimize(fast.value_and_grad, x0, jac=True)"
            raise TypeError(f"the function uses no Values, so an objective would have no unknowns: {remedy}")
        packed, n, precision = self._packed(batches, kind="backward"), len(self.parameters), self.precision
        numbers, gradients = memoryview(precision.zeros(len(self.leaves))), precision.zeros(len(self.leaves))
        slot, results, zeros, turn = Slot((n,), numbers[:n], precision), precision.zeros(packed.n), gradients[:], Lock()
        call: Any = self._code[packed.shapes].call("backward", packed, results, gradients, 1.0 / packed.n)

        def fun(vector: Any) -> tuple[float, Any]:
            with turn:  # threads take turns
                is_array = _take_vector(slot, vector)
                if self.constants:
                    numbers[n:] = precision.array(self._numbers()[n:], "constant")
                gradients[:] = zeros
                self._make(call, "backward", packed, numbers)
                mean, found = call.total / packed.n, gradients[:n]
            return mean, as_ndarray(found) if is_array else found.tolist()

        x0 = array("d", self._numbers()[:n])
        return fun, as_ndarray(x0) if find_spec("numpy") else x0.tolist()

    def load(self, vector: Any) -> None:
        """Set the parameters to the numbers of a vector, in the order of `x0` from `objective`.

        Raises ValueError or TypeError if it does not have a real number for each parameter.
        """
        n = len(self.parameters)
        _take_vector(slot := Slot((n,), memoryview(DOUBLE.zeros(n)), DOUBLE), vector)
        with GRADIENT_LOCK:
            set_data(self.parameters, slot.view.tolist())

    def training(self, optimizer: Optimizer) -> Training:
        """A block in which the optimizer steps along compiled gradients: `with fast.training(optimizer) as step:`.

        `step(batch)` takes a step along the gradient of the mean over the batch, and returns that mean. In the block,
        the parameters and their gradients show the numbers of the latest step, and what you assign to them or to the
        optimizer takes effect in the next one, which raises ValueError if the optimizer has another list of parameters.

        Raises TypeError if the optimizer has its own `step` or `zero_grad`, and ValueError if it has parameters that
        are not the function's. Entering the block raises ValueError if it has begun already; in C, also if another
        block holds one of these parameters, and TypeError if the optimizer's rule does more than return numbers.
        """
        return Training(self, optimizer)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """A block in which the parameters do not change, so calls do not read their numbers again.

        In the block, assigning to a parameter's `data` raises RuntimeError, in any thread, and so does a training step
        that changes one; their `grad` may change. Blocks may be nested. Entering the block raises TypeError if a
        parameter does not hold a number, OverflowError if one is too large for the precision.
        """
        with held("frozen", self.leaves) as block:
            block.buffers["data"] = [memoryview(self.precision.array(self._numbers(), "parameter"))]
            yield

    def pack(self, *batches: Any, in_axes: Any = None) -> Batch:
        """A data set as buffers of numbers, for `backward`, `map` and training. `in_axes` selects rows, as for `map`.

        A writable C-contiguous NumPy array of the precision's type is used in place, so later changes to it count;
        anything else is copied.

        Raises ValueError if the arguments differ in their number, or the examples in shape; TypeError if an argument is
        not a list, array or table of real numbers; IndexError if there is no such row.
        """
        return self._packed(batches, in_axes)

    def check(self, *args: Any) -> None:
        """Compute one example with its gradients step by step, to find where an infinity or NaN comes from.

        Raises FloatingPointError, naming the first operation that produced one or failed, and its operands.
        """
        packed = self._one(args)
        check(self._code[packed.shapes].graph, DOUBLE.array(self._numbers(), "parameter"), packed.rows()[0])

    @property
    def pattern(self) -> tuple[list[int], list[int]]:
        """The rows and the columns of the numbers in a sparse matrix, row by row, for arguments like the example's.

        Raises TypeError if the function was compiled without `sparse=True`.
        """
        if self._entries is None:
            raise TypeError("the function has no pattern: compile jacobian(f) or hessian(f) with sparse=True")
        _, columns, ends = self._entries.patterns[self._shapes]
        return [i for i, (start, end) in enumerate(pairwise(ends)) for _ in range(start, end)], columns.tolist()

    @property
    def source(self) -> str:
        """The generated Python."""
        return source(self._first_graph())

    @property
    def ir(self) -> str:
        """What `backward` computes for an example, as the assignments and loops that C is written from."""
        graph = self._first_graph()
        return show(program(graph, graph.ends("backward")).kernel)

    @property
    def stages(self) -> dict[str, str]:
        """How `backward` becomes C for many examples: the "trace", and the assignments and loops after each pass."""
        return stages(self._first_graph())

    @property
    def c_source(self) -> str:
        """One self-contained C99 file, as `export_c("model.c")` writes it."""
        return "".join(self._exported("model", None))

    def export_c(self, path: str | Path, *, precision: str | None = None) -> None:
        """Write the function as one C99 file, and its declarations to a header beside it: `model.c` and `model.h`.

        The names in it begin with the name of the file. Other Values that the function uses are constants. `precision`
        is "double" or "single", by default the function's.

        Raises ValueError if the path does not end in .c, or its stem is not a valid start for names in C; OverflowError
        if a parameter or a constant is too large for single precision.
        """
        path = Path(path)
        if path.suffix != ".c":
            better = path.with_suffix(".c")
            raise ValueError(f"{path} is not the name of a C source: give one that ends in .c, such as {better}")
        declarations, definitions = self._exported(path.stem, precision)
        files.replace(path, (declarations + definitions).encode())
        files.replace(path.with_suffix(".h"), declarations.encode())

    def export_js(self, path: str | Path, *, optimizer: Optimizer | None = None) -> None:
        """Write the function as an ES module in JavaScript without dependencies.

        A comment at its top documents it. With an optimizer of the function's parameters, it has `update`. Other Values
        that the function uses, and the optimizer's options except for the learning rate, are constants.

        Raises ValueError if the optimizer has other parameters than the function; TypeError if the function does not
        return a single Value to optimize, or the optimizer is one that `training` refuses.
        """
        files.replace(path, self.js_source(optimizer=optimizer).encode())

    def js_source(self, *, optimizer: Optimizer | None = None) -> str:
        """The module in JavaScript that `export_js` writes; the errors are the same."""
        from micrograd.compiler.targets.export import export_js  # here, since most programs export nothing

        graph, numbers, rule = *self._to_export(), None
        if optimizer is not None:
            rule = UpdateKernel(optimizer)
            if set(map(id, self.parameters)) != set(map(id, optimizer.parameters)):
                raise ValueError("the optimizer has other parameters than the function: give both the same")
            if not graph.is_differentiable:
                raise TypeError("the function returns a list, but an optimizer needs a single Value: return its mean")
        return export_js(graph, numbers, rule)

    def _exported(self, stem: str, precision: str | None) -> tuple[str, str]:
        from micrograd.compiler.targets.export import export_c  # here, since most programs export nothing

        of = self.precision if precision is None else named(precision)
        graph, numbers = self._to_export(of)
        check_constants(graph, of)
        return export_c(graph, numbers, stem, of, [parameter.label for parameter in self.parameters])

    def _to_export(self, of: Precision = DOUBLE) -> tuple[Graph, Sequence[float]]:
        """The graph, with the numbers of all Values but parameters as constants; and the parameters' numbers."""
        numbers = DOUBLE.array(self._numbers(), "parameter")[: len(self.parameters)]
        of.array(numbers, "parameter")  # raises an error if one is too large
        if self.constants:
            return traced(self._function, self._shapes, self.parameters, options=self.options), numbers
        return self._first_graph(), numbers


def _take_vector(slot: Slot, numbers: Any) -> bool:
    """Copy a flat list or array of real numbers. Raises ValueError or TypeError for anything else."""
    try:
        return slot.take(numbers)
    except (ShapeError, struct.error):
        expected = f"expected {slot.shape[0]} numbers, one for each parameter, as in x0"
        raise ValueError(f"the vector is {shown(numbers)}: {expected}") from None


def _places(argnum: Any, n: int) -> tuple[tuple[int, ...], bool]:
    """The positions of the arguments to differentiate by, and whether a single gradient is expected."""
    if argnum is None:
        return tuple(range(n)), n == 1
    if type(argnum) is int and 0 <= argnum < n:  # what follows takes as long as the call
        return (argnum,), True
    if type(argnum) is tuple and {*map(type, argnum)} == {int} and min(argnum) >= 0 and max(argnum) < n:
        return argnum, False
    return validation.positions("argnum", argnum, n), not isinstance(argnum, (list, tuple))
