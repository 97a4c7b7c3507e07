"""The public face: `compile`, and the methods of what it returns, some of which use workers."""

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from importlib.util import find_spec
from itertools import pairwise
from numbers import Real
from operator import add
from pathlib import Path
from typing import Any

from micrograd.compiler.dataset import Batch, check_out
from micrograd.compiler.dtype import named
from micrograd.compiler.frontend.graph import Graph
from micrograd.compiler.frontend.interpret import check
from micrograd.compiler.frontend.redirect import assign, frozen
from micrograd.compiler.frontend.tracer import TraceError
from micrograd.compiler.function import Function, checked
from micrograd.compiler.ir import show
from micrograd.compiler.native.library import check_constants
from micrograd.compiler.native.toolchain import CompilerError
from micrograd.compiler.native.update import UpdateKernel
from micrograd.compiler.options import Backend, Options
from micrograd.compiler.passes import program
from micrograd.compiler.session import Objective, Training, check_rule, vector_of
from micrograd.compiler.targets.export import export_c, export_js
from micrograd.compiler.targets.python import source
from micrograd.core.levels import GRADIENT_LOCK
from micrograd.engine import Value
from micrograd.optim import Optimizer
from micrograd.support import files, validation
from micrograd.support.arrays import are_plain, as_ndarray
from micrograd.support.signals import set_data
from micrograd.support.trees import nested, plain_numbers

__all__ = ["Backend", "Compiled", "CompilerError", "TraceError", "compile"]


def compile(
    function: Callable[..., Any],
    example_args: Sequence[Any],
    *,
    parameters: Sequence[Value] = (),
    backend: str | Backend = "auto",
    batch_size: float = math.inf,
    finite: bool = False,
    errors: str = "raise",
    in_axes: int | Sequence[int | None] = 0,
    sparse: bool = False,
) -> "Compiled":
    """Trace a function of numbers, and compile it together with its gradients.

    Parameters
    ----------
    function
        Called with Values, or nested lists and dicts of Values, in the shapes of the example, and with NumPy arrays of
        Values (dtype object) where the example has an array or a table; returns a Value, or lists, dicts or arrays of
        Values. It runs once for each shape of arguments: whatever else it does, such as drawing a random number or
        calling `isinstance`, `is` and `str` on its arguments, happens only then. Of a `where`, C may compute only the
        chosen branch, and miss an error in the other one. Of a `take` with a computed index, all values are
        differentiated: one that is not chosen and has no derivative is an error, and an infinite derivative gives NaN.
        In a training, the engine, which differentiates only the chosen value, takes such steps, and the log says so.
    example_args
        One example of the arguments: numbers, nested lists and dicts of numbers, arrays. Only their shapes matter, and
        which are arrays: whatever a call gives, the function gets arrays for these, and lists for lists. Where the
        example has a number and a call gives several, it gets an array. The keys of a dict come sorted.
    parameters
        Leaf Values that the function uses. Their numbers are read at each call; all other Values and numbers that the
        function uses are constants.
    backend
        "c" for C, which needs a C compiler; "python" for Python; "auto" for C if there is a compiler, else for Python;
        or a `Backend`, which also says in how many threads, with which numbers, and on whose workers.
    batch_size
        If given, a C compiler starts now, in the background, on the code for `backward` with so many examples, and the
        first call waits for it. Otherwise it starts at the first call.
    finite
        True says that no number in any call is infinite or NaN, and that no divisor is 0. Then what 0.0 is multiplied
        by is not computed, and 0.0 is not added, which leaves all results as they are but the sign of a zero. If the
        promise is broken, a failure may go unnoticed, and a result may be finite where it would be NaN.
    errors
        "raise" for the engine's errors, which are those of Python's floats: a sum or a product beyond 1.8e308 is
        infinite without an error, and `check` finds it. Or "ieee" for calls that raise no arithmetic errors: their
        results and gradients are infinite or NaN where NumPy's are, so an optimizer may try a step that is too long.
        A `take` of an index that does not exist is NaN. Training steps still raise.
    in_axes
        For each argument, 0 if `map`, `pack`, `backward` and training get an example of it for each result, or None if
        they get one for all: `in_axes=(None, 0)`, as in JAX's `vmap`. 0 alone stands for all arguments.
    sparse
        True for a function `jacobian(f)` or `hessian(f)` of a list of numbers, and for a jacobian with such a result:
        only what is not structurally zero (what is multiplied by a constant 0.0 is) is computed, and of a hessian one
        half. A call returns a `scipy.sparse.csr_array`, `map` a list of them; `pattern` says where the numbers are.

    Raises
    ------
    TraceError
        If the function needs a number while it is traced, as `if x > 0`, `max` or a lookup in a dict do.
    CompilerError
        If the backend is "c" and there is no C compiler; from the first call, if the compiler fails.
    ValueError, TypeError
        If an argument is not as described above.
    """
    options = Options(Backend.of(backend), batch_size, finite, errors, in_axes, sparse)
    return Compiled(function, example_args, parameters, options)


class Compiled(Function):
    """A compiled function: what `compile` returns, and documents.

    `fast(x, y)` computes one example, and returns a number or nested lists and dicts of numbers. Each new shape of
    arguments is traced and compiled once. If an argument is a NumPy array, results and gradients of calls are arrays of
    the precision's type, and contiguous arrays of that type are read where they lie. Called with Values, within a
    derivative or another function that is compiled, it returns what the function returns.

    It can be copied, and pickled together with the model whose parameters it has: `pickle.dumps((model, fast))`. The
    pickle holds the trace instead of the function, so it serves another process for the shapes that it was compiled
    for. As with all pickles, load only those you trust.
    """

    def map(self, *batches: Any, executor: Any = None, out: Any = None) -> Any:
        """The function's values for many examples: a list or an array, or for chunks, an iterator of one for each.

        Give a list or array of examples for each argument, or the result of `pack`; or an iterator of chunks, each of
        them a batch, or for a function of several arguments, a tuple with a batch for each. The workers of an
        `executor`, by default that of the `Backend`, compute a part of the examples each, or some chunks in advance.
        `out` is a C-contiguous NumPy array that receives the values and is returned; if an operation fails, it may have
        been written to in part. Raises ValueError or TypeError if the examples do not fit the arguments, or `out` does
        not fit the values.
        """
        executor = self.options.backend.executor if executor is None else executor
        if executor is not None or self._are_chunks(batches):
            from micrograd.compiler.distributed.map import mapped  # not at the top: most programs use no workers

            if out is not None:
                raise ValueError(
                    "map() fills out only for a single batch, without chunks or an executor: call it without out"
                )
            return mapped(self, batches, executor)
        packed = self._packed(batches)
        if out is not None:
            shape = packed.n, *self._graph_of(packed).output_shape
            check_out(out, shape, self.precision.code)
        room = None if out is None or packed.overlaps(out) else out.reshape(-1)
        numbers, _ = self._run("forward", packed, as_arrays=packed.as_arrays or out is not None, out=room)
        if out is None:
            return self._unflattened(packed.shapes, packed.n, numbers)
        if numbers is not room:
            out[...] = numbers.reshape(shape)
        return out

    def backward(self, *batches: Any, executor: Any = None) -> float:
        """The mean of the function over the examples. Adds its gradients to the parameters' `grad`.

        The examples are a list or array for each argument, the result of `pack`, or an iterator of chunks, as for
        `map`, and so is the `executor`. If its workers compute them, their gradients are added in a fixed order.

        Raises TypeError if the function does not return a single Value, or the `grad` of a parameter is not a number;
        ValueError if it was compiled without parameters, or the examples do not fit its arguments.
        """
        executor = self.options.backend.executor if executor is None else executor
        if executor is not None or self._are_chunks(batches):
            from micrograd.compiler.distributed.map import mean

            self._check_parameters()
            self._gradients()  # raises an error before the work instead of after it
            loss, gradients = mean(self, batches, executor)
        else:
            packed = self._differentiable(batches)
            losses, gradients = self._run("backward", packed, 1.0 / packed.n)
            loss = reduce(add, losses) / packed.n  # from left to right: sum() has rounded differently since Python 3.12
        with GRADIENT_LOCK:
            assign(self.parameters, "grad", list(map(add, self._gradients(), gradients)))
        return loss

    def value_and_grad(self, *args: Any, argnum: int | Sequence[int] | None = None) -> tuple[float, Any]:
        """The function's value for one example, and its gradient with respect to the arguments, in their shape.

        `argnum` is the position of the argument to differentiate by, as for `grad`, or a tuple of positions, for a
        tuple of gradients. The others are not computed, and raise no errors. None stands for the only argument, or for
        the tuple of all. Raises TypeError if the function does not return a single Value, or `argnum` is anything else.
        """
        packed = self._example(args)
        self._check_differentiable(packed)
        positions, several = tuple(range(len(args))), len(args) != 1
        if argnum is not None:
            positions, several = validation.positions("argnum", argnum, len(args)), isinstance(argnum, (list, tuple))
        numbers, _ = self._run(positions, packed, as_arrays=packed.as_arrays)
        self._reusable.append(packed)
        value, flat = float(numbers[0]), numbers[1:]
        if packed.as_arrays:
            flat += 0.0  # as in the engine, no gradient is -0.0
        elif array(flat.typecode, [-0.0]).tobytes() in flat.tobytes():
            flat = array(flat.typecode, [0.0 + number for number in flat])
        gradients = nested(flat, ("ragged", *[packed.shapes[i] for i in positions]))
        return value, tuple(gradients) if several else gradients[0]

    def objective(self, *batches: Any) -> "tuple[Objective, Any]":
        """The mean over examples as a function of all parameters in one vector, for optimizers of other libraries.

            fun, x0 = fast.objective(xs, ys)
            found = scipy.optimize.minimize(fun, x0, jac=True)
            fast.load(found.x)

        `fun(vector)` returns the mean and its gradient, an array if the vector is one, else a list. `x0` has the
        numbers that the parameters have now: an array, or without NumPy a list. The Values keep theirs until `load`.
        The batches are lists or arrays of examples for each argument, or the result of `pack`.

        Raises TypeError if the function does not return a single Value; ValueError if it was compiled without
        parameters, or the examples do not fit its arguments; from `fun`, if the vector does not have a number for each.
        """
        objective, x0 = Objective(self, self._differentiable(batches)), array("d", self._numbers())
        return objective, as_ndarray(x0) if find_spec("numpy") else x0.tolist()

    def load(self, vector: Any) -> None:
        """Set the parameters to the numbers of a vector, in their order: that of `x0` of an `objective`.

        Raises ValueError or TypeError if it does not have a real number for each.
        """
        numbers = vector_of(vector, len(self.parameters)).tolist()
        with GRADIENT_LOCK:
            set_data(self.parameters, numbers)

    def training(self, optimizer: Optimizer) -> Training:
        """A block in which the optimizer takes steps on compiled gradients; in C, generated code takes the whole steps.

            with fast.training(optimizer) as step:
                for batch in batches:
                    loss = step(batch)

        Each call takes a step along the gradient of the mean over the batch, and returns that mean: like `zero_grad`,
        `backward` and the optimizer's `step`, but several times as fast. In the block, the parameters and their
        gradients show the numbers of the latest step, and what you assign to them or to the optimizer takes effect in
        the next one. The optimizer must keep its parameters. After the block, however it ends, all is as if the steps
        had been taken outside of it.

        The `optimizer` is an `Optimizer` whose parameters are among those given to `compile`.

        Raises
        ------
        TypeError
            If the optimizer has a `step` or `zero_grad` of its own, which may do more than apply its `rule`.
            On entering the block in C, if its rule does more than return the new numbers, or looks at numbers that are
            known only later.
        ValueError
            If it has other parameters. On entering the block in C, if they are being trained in another one.
        """
        return Training(self, optimizer)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """A block in which the parameters do not change, so that no call reads their numbers again.

            with fast.frozen():
                for x in xs:
                    y = fast(x)

        With many parameters, reading them takes longer than a call; the block pays off from some dozens of calls. In
        it, assigning to the `data` of a parameter is a RuntimeError, and so is a training step that changes one, in any
        thread; their `grad` may change. Blocks may be nested, and several threads may begin them. What is copied or
        pickled in the block is not frozen. A `training` block in C is as fast without it. Entering the block raises
        TypeError if a parameter does not hold a number, OverflowError if that is too large for the precision.
        """
        block = object()
        with frozen(self.parameters):
            try:
                with GRADIENT_LOCK:
                    self._blocks.add(block)
                    if self._frozen is None:
                        numbers = checked(self._numbers(), self.precision)
                        self._frozen = memoryview(self.precision.array(numbers, "a parameter"))
                yield
            finally:
                with GRADIENT_LOCK:
                    self._blocks.discard(block)
                    self._frozen = self._frozen if self._blocks else None

    def pack(self, *batches: Any) -> Batch:
        """A data set as buffers of numbers, which `backward`, `map` and training steps use without further conversion.

        A C-contiguous array of doubles, or of floats for single precision (NumPy, PyTorch, or the buffer protocol), is
        used in place: later changes to it count. Lists, other arrays, and tables and Series of pandas are copied.

        Raises ValueError if there are no examples, or the arguments differ in their number, or the examples in shape;
        TypeError if an argument is not a list, array or table of real numbers.
        """
        return self._packed(batches)

    def check(self, *args: Any) -> None:
        """Compute one example with its gradients step by step, to find where an infinity or NaN comes from.

        Raises FloatingPointError with the first operation that produced one or failed, and its operands.
        """
        packed, numbers = self._example(args), checked(self._numbers())
        check(self._graph_of(packed).graph(), numbers, packed.row(0))

    @property
    def pattern(self) -> tuple[list[int], list[int]]:
        """The rows and the columns of the numbers in a sparse matrix, for arguments in the shapes of the example.

        They are in order, row by row. Raises TypeError if the function was compiled without `sparse=True`.
        """
        if self._entries is None:
            raise TypeError("the function has no pattern: compile jacobian(f) or hessian(f) with sparse=True")
        _, columns, ends = self._entries.patterns[self._shapes]
        return [i for i, (start, end) in enumerate(pairwise(ends)) for _ in range(start, end)], columns.tolist()

    @property
    def source(self) -> str:
        """The generated Python: `forward`, and if the function returns a single Value, its gradients."""
        return source(self._first_graph())

    @property
    def ir(self) -> str:
        """What `backward` computes for an example, as assignments and loops, from which C is written.

        The arrays are "p", the parameters; "x", the numbers of the arguments; "g", the gradients, which are added to;
        "y", the results; "c", constants; "t0", "t1" and so on, what is computed between. If the function has no
        gradients, it is what a call computes.
        """
        graph = self._first_graph()
        return show(program(graph, graph.outputs, graph.parameter_gradients or ()).kernel)

    @property
    def c_source(self) -> str:
        """One self-contained C99 file, as `export_c("model.c")` writes it."""
        return "".join(self._exported("model", None))

    def export_c(self, path: str | Path, *, precision: str | None = None) -> None:
        """Write the function as one C99 file, and its declarations to a header beside it: `model.c` and `model.h`.

        The names in it begin with the file's, so that several such files make one program: `model_forward`,
        `model_backward`, `model_parameters`.

        `precision` is "double" or "single", for numbers of type double or float; by default that of the function.
        Raises ValueError if the path does not end in .c (C++ is another language, and the header has the same stem), or
        its stem is not a valid start for names in C; OverflowError if a parameter or a constant is too large for single
        precision.
        """
        path = Path(path)
        if path.suffix != ".c":
            better = path.with_suffix(".c")
            raise ValueError(f"{path} is not the name of a C source: give one that ends in .c, such as {better}")
        declarations, definitions = self._exported(path.stem, precision)
        files.replace(path, (declarations + definitions).encode())
        files.replace(path.with_suffix(".h"), declarations.encode())

    def export_js(self, path: str | Path, *, optimizer: Optimizer | None = None) -> None:
        """Write the function as an ES module in JavaScript without dependencies, for browsers, Node and the like.

        It has the parameters' numbers and `forward`; if the function returns a single Value, `backward` and
        `valueAndGrad`; with an optimizer, `update`. A comment at its top documents them. All numbers are doubles.

        The file's name ends in .js, or in .mjs, which Node takes for a module wherever it lies. The steps that `update`
        takes are those of an `Optimizer` of the parameters given to `compile`, with fixed options, except for the
        learning rate.

        Raises
        ------
        ValueError
            If the path ends in anything else, or the optimizer has other parameters than the function.
        TypeError
            If the optimizer's steps are not those of its `rule`, this does more than return the new numbers, or looks
            at numbers that are known only later; or if the function does not return a single Value to optimize.
        """
        path = Path(path)
        if path.suffix not in (".js", ".mjs"):
            better = f"one that ends in .js or .mjs, such as {path.with_suffix('.js')}"
            raise ValueError(f"{path} is not the name of a module in JavaScript: give {better}")
        files.replace(path, self.js_source(optimizer=optimizer).encode())

    def js_source(self, *, optimizer: Optimizer | None = None) -> str:
        """The module in JavaScript that `export_js` writes; the errors are the same."""
        graph, numbers, rule = self._first_graph(), checked(self._numbers()), None
        if optimizer is not None:
            check_rule(optimizer)
            if set(map(id, self.parameters)) != set(map(id, optimizer.parameters)):
                raise ValueError("the optimizer has other parameters than the function: give both the same")
            if graph.parameter_gradients is None:
                raise TypeError("the function returns a list, but an optimizer needs a single Value: return its mean")
            rule = UpdateKernel(optimizer)
        return export_js(graph, numbers, rule)

    def _differentiable(self, batches: Sequence[Any]) -> Batch:
        """The batch for each argument as buffers, if there are gradients to compute."""
        packed = self._packed(batches)
        self._check_differentiable(packed)
        self._check_parameters()
        return packed

    def _check_parameters(self) -> None:
        if not self.parameters:
            raise ValueError(
                "the function was compiled without parameters to add gradients to: give compile(..., "
                "parameters=model.parameters())"
            )

    def _gradients(self) -> list[float]:
        """The parameters' gradients. Raises TypeError naming the first parameter whose gradient is not a number."""
        gradients = [parameter.grad for parameter in self.parameters]
        if are_plain(gradients):
            return gradients
        for parameter in self.parameters:
            if not isinstance(validation.plain(parameter.grad), Real):
                raise TypeError(
                    f"backward() adds to the grad of each parameter, but {parameter!r} has no number there: "
                    "set it to 0, as zero_grad() does"
                )
        return plain_numbers(gradients)

    def _exported(self, stem: str, precision: str | None) -> tuple[str, str]:
        of = self.precision if precision is None else named(precision)
        graph, numbers = self._first_graph(), checked(self._numbers(), of)
        check_constants(graph, of)
        return export_c(graph, numbers, stem, of)

    def _first_graph(self) -> Graph:
        """The graph for arguments in the shapes of the example."""
        return self._backends[self._shapes].stored.graph()
