"""The public face: `compile`, and the methods of what it returns, some of which use workers."""

import math
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import reduce
from itertools import repeat
from numbers import Real
from operator import add
from pathlib import Path
from typing import Any

from micrograd import validation
from micrograd.compiler.dataset import Packed, are_plain
from micrograd.compiler.dtype import named
from micrograd.compiler.frontend.graph import Graph, unflatten
from micrograd.compiler.frontend.interpret import check
from micrograd.compiler.frontend.tracer import TraceError
from micrograd.compiler.function import Function, check_numbers, plain
from micrograd.compiler.ir import show
from micrograd.compiler.native.library import check_constants
from micrograd.compiler.native.toolchain import CompilerError
from micrograd.compiler.native.update import HasUpdateRule, UpdateKernel
from micrograd.compiler.options import Options
from micrograd.compiler.passes import program
from micrograd.compiler.session import Training, check_rule
from micrograd.compiler.targets.export import export_c
from micrograd.compiler.targets.module import export_js
from micrograd.compiler.targets.python import source
from micrograd.engine import Value
from micrograd.files import replace
from micrograd.levels import gradients_lock

__all__ = ["Compiled", "CompilerError", "TraceError", "compile"]


def compile(
    function: Callable[..., Any],
    example_args: Sequence[Any],
    *,
    parameters: Sequence[Value] = (),
    backend: str = "auto",
    batch_size: float = math.inf,
    threads: int = 1,
    precision: str = "double",
    finite: bool = False,
) -> "Compiled":
    """Trace a function of numbers, and compile it together with its gradients.

    Parameters
    ----------
    function
        Called with Values, or nested lists of Values, in the shapes of the example, and with NumPy arrays of Values
        (dtype object) where the example has an array or a table; returns a Value, or a nested list or array of Values.
        It runs once for each shape of arguments. Anything else it does, such as drawing a random number, happens only
        then; so do `isinstance`, `is` and `str` on its arguments, without an error. For a `where`, C may compute only
        the chosen branch: an operation that fails in the other one is an error in Python, but perhaps not in C. For a
        `take` with a computed index, all values are differentiated, and those not chosen get a gradient of 0: one
        without a derivative is an error, and one with an infinite derivative gives NaN. In a training, the engine,
        which differentiates only the chosen value, takes the steps that fail for this reason, and the log says so once.
    example_args
        One example of the arguments: numbers, nested lists of numbers, arrays. Only their shapes matter, and which of
        them are arrays: the function always gets arrays for these, even if a call gives a list.
    parameters
        Leaf Values that the function uses. Their numbers are read at each call; all other Values and numbers that the
        function uses are constants.
    backend
        "c" for C, which needs a C compiler; "numpy" for NumPy, which computes many examples at once; "python" for
        Python; "auto" for C if there is a compiler, else NumPy if it is installed, else Python.
    batch_size
        If given, the C code for calls of `backward` with so many examples is built right away. All other code is built
        when it is first called.
    threads
        How many threads share the examples of a call in C, which pays off for calls of some milliseconds. Their
        gradients are added in a fixed order: results are reproducible for the same number of threads.
    precision
        "double", or "single" for floats in C: half the memory and twice the lanes, for results of about seven digits.
        Values stay Python's floats, and Python still computes in doubles. Numbers beyond 3.4e38 become infinities, as
        in PyTorch: if a result or gradient of a call is infinite or NaN for this reason, it is an OverflowError, and
        in a training, the engine takes the step, in doubles.
    finite
        True says that no number in any call is infinite or NaN, and that no divisor is 0. Then what 0.0 is multiplied
        by is not computed, and 0.0 is not added: derivatives of sparse functions are full of both. The results are the
        same, except for the sign of a zero. But if the promise is broken, an overflow or an operation that fails may
        go unnoticed, and a result may be finite where it would be NaN: find out without the option, or with the engine.

    Raises
    ------
    TraceError
        If the function needs a number while it is traced, as `if x > 0`, `max` or a lookup in a dict do.
    CompilerError
        If the backend is "c" and there is no C compiler; from the first call, if the compiler fails.
    ModuleNotFoundError
        If the backend is "numpy" and NumPy is not installed.
    ValueError, TypeError
        If an argument is not as described above.
    """
    options = Options(backend, batch_size, threads, named(precision), finite)
    return Compiled(function, example_args, parameters, options)


class Compiled(Function):
    """A compiled function: what `compile` returns, and documents.

    `fast(x, y)` computes one example, and returns a number or a nested list of numbers. Each new shape of arguments is
    traced and compiled once.

    It can be copied, and pickled together with the model whose parameters it has: `pickle.dumps((model, fast))`. The
    pickle holds the trace instead of the function, which may be a lambda: so another process can use it without the
    source, but only for the shapes that it was compiled for. As with all pickles, load only those you trust.
    """

    def map(self, *batches: Any, executor: Any = None) -> Any:
        """The function's values for many examples: a list, or for chunks, an iterator of a list for each.

        Parameters
        ----------
        batches
            A list or array of examples for each argument, or the result of `pack`. Or an iterator of chunks: each is a
            batch, and for a function of several arguments, a tuple with a batch for each.
        executor
            An executor whose workers compute them, as in `fit`: each takes a part of the examples, or some chunks in
            advance.
        """
        if executor is not None or self._are_chunks(batches):
            from micrograd.compiler.distributed.map import mapped  # not at the top: most programs use no workers

            return mapped(self, batches, executor)
        packed = self._packed(batches)
        return self._unflattened(packed.shapes, packed.n, self._run("forward", packed))

    def backward(self, *batches: Any, executor: Any = None) -> float:
        """The mean of the function over the examples. Adds its gradients to the parameters' `grad`.

        Parameters
        ----------
        batches
            A list or array of examples for each argument, the result of `pack`, or an iterator of chunks as for `map`.
        executor
            An executor whose workers compute them, as in `fit`. Their gradients are added in a fixed order.

        Raises
        ------
        TypeError
            If the function does not return a single Value, or the `grad` of a parameter is not a number.
        ValueError
            If it was compiled without parameters, or the examples do not fit its arguments.
        """
        distributed = executor is not None or self._are_chunks(batches)
        packed = None if distributed else self._packed(batches)
        if packed is not None:
            self._check_differentiable(packed)
        if not self.parameters:
            raise ValueError(
                "the function was compiled without parameters to add gradients to: give compile(..., "
                "parameters=model.parameters())"
            )
        loss: float
        if packed is not None:
            losses, gradients = self._run("backward", packed, 1.0 / packed.n)
            loss = reduce(add, losses) / packed.n  # sum() would round differently from Python 3.12 on
        else:
            from micrograd.compiler.distributed.map import mean

            self._gradients()  # raises an error before the work instead of after it
            loss, gradients = mean(self, batches, executor)
        with gradients_lock:
            sums = list(map(add, self._gradients(), gradients))
            deque(map(setattr, self.parameters, repeat("grad"), sums), maxlen=0)  # one call in C: no Ctrl-C in between
        return loss

    def value_and_grad(self, *args: Any) -> tuple[float, Any]:
        """The function's value for one example, and its gradient with respect to the arguments, in their shape.

        For several arguments, the gradient is a tuple with one for each. Raises TypeError if the function does not
        return a single Value.
        """
        packed = self._example(args)
        self._check_differentiable(packed)
        numbers = self._run("value_and_grad", packed)
        self._reusable.append(packed)
        value, *flat = numbers.tolist()
        if array(numbers.typecode, [-0.0]).tobytes() in numbers.tobytes():
            flat = [0.0 + number for number in flat]  # as in the engine, no gradient is -0.0
        gradients = unflatten(iter(flat), ("ragged", *packed.shapes))
        return value, gradients[0] if len(gradients) == 1 else tuple(gradients)

    def training(self, optimizer: HasUpdateRule, *, clip_grad_norm: float | None = None) -> Training:
        """A block in which the optimizer takes steps on compiled gradients; in C, generated code takes the whole steps.

            with fast.training(optimizer) as step:
                for batch in batches:
                    loss = step(batch)

        Each call takes a step along the gradient of the mean over the batch, and returns that mean: like `zero_grad`,
        `backward` and the optimizer's `step`, but several times as fast. In the block, the parameters and their
        gradients show the numbers of the latest step, and what you assign to parameters, to the optimizer or to its
        learning rate takes effect in the next step. The optimizer must keep its parameters. After the block, however
        it ends, everything is as if the steps had been taken outside of it.

        Parameters
        ----------
        optimizer
            An `Optimizer` whose parameters are among those given to `compile`.
        clip_grad_norm
            The largest norm of the gradients in a step, as for `optim.clip_grad_norm`.

        Raises
        ------
        TypeError
            If the optimizer has a `step` or `zero_grad` of its own, which may do more than apply its `rule`.
            On entering the block in C, if its rule does more than return the new numbers, or looks at numbers that are
            known only later.
        ValueError
            If it has other parameters, or `clip_grad_norm` is not a number from 0. On entering the block in C, if they
            are being trained in another one.
        """
        validation.require_attributes("optimizer", optimizer, [], "an optimizer, such as optim.Adam(parameters)")
        return Training(self, optimizer, clip_grad_norm)

    def frozen(self) -> AbstractContextManager[None]:
        """A block in which the parameters do not change, so that no call reads their numbers again.

            with fast.frozen():
                for x in xs:
                    y = fast(x)

        With many parameters, reading them takes longer than a call; the block pays off from some dozens of calls. In
        it, assigning to the `data` of a parameter is an error, and so is a training step that changes one, in any
        thread; their `grad` may change. Blocks may be nested, and several threads may begin them. What is copied or
        pickled in the block is not frozen. Inside a `training` block in C there is no need to freeze parameters: all
        compiled functions read their numbers where the steps write them.

        Raises
        ------
        TypeError, OverflowError
            On entering the block, if a parameter does not hold a number, or one beyond the precision.
        RuntimeError
            In the block, if a parameter is assigned or trained.
        """
        return self._held()

    def pack(self, *batches: Any) -> Packed:
        """A data set as buffers of numbers, which `backward`, `map` and training steps use without further conversion.

        A C-contiguous array of doubles, or of floats for single precision (NumPy, PyTorch, or the buffer protocol), is
        used in place: later changes to it count. Everything else is copied: lists, other arrays, and the rows of
        pandas tables and Series.

        Raises
        ------
        ValueError
            If there are no examples, or the arguments differ in their number, or the examples in shape.
        TypeError
            If an argument is not a list, array or table of real numbers.
        """
        return self._packed(batches)

    def check(self, *args: Any) -> None:
        """Compute one example with its gradients step by step, to find where an infinity or NaN comes from.

        Raises
        ------
        FloatingPointError
            Naming the first operation that produced one or failed, and its operands.
        """
        packed, numbers = self._packed([(arg,) for arg in args]), self._numbers()
        check_numbers(numbers)
        check(self._graph_of(packed).graph(), numbers, packed.rows()[0])

    @property
    def source(self) -> str:
        """The generated Python, or for NumPy: `forward`, and if the function returns a single Value, its gradients."""
        own: Callable[[], str] | None = getattr(self._backends[self._shapes], "source", None)
        return own() if own else source(self._first_graph())

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

        Parameters
        ----------
        path
            The file for the source.
        precision
            "double" or "single", for numbers of type double or float; by default that of the function.

        Raises
        ------
        ValueError
            If the path does not end in .c (C++ is another language, and the header has the same stem), or its stem is
            not a valid start for names in C.
        OverflowError
            If a parameter or a constant is too large for single precision.
        """
        path = Path(path)
        if path.suffix != ".c":
            raise ValueError(
                f"{path} is not the name of a C source: give one that ends in .c, such as {path.with_suffix('.c')}"
            )
        declarations, definitions = self._exported(path.stem, precision)
        replace(path, (declarations + definitions).encode())
        replace(path.with_suffix(".h"), declarations.encode())

    def export_js(self, path: str | Path, *, optimizer: HasUpdateRule | None = None) -> None:
        """Write the function as an ES module in JavaScript without dependencies, for browsers, Node and the like.

        It has the parameters' numbers and `forward`; if the function returns a single Value, `backward` and
        `valueAndGrad`; with an optimizer, `update`. A comment at its top documents them. All numbers are doubles.

        Parameters
        ----------
        path
            The file. Its name ends in .js, or in .mjs, which Node takes for a module wherever it lies.
        optimizer
            An `Optimizer` of the parameters given to `compile`, whose steps `update` takes. All its options are fixed
            but the learning rate.

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
            raise ValueError(
                f"{path} is not the name of a module in JavaScript: give one that ends in .js or .mjs, such as "
                f"{path.with_suffix('.js')}"
            )
        replace(path, self.js_source(optimizer=optimizer).encode())

    def js_source(self, *, optimizer: HasUpdateRule | None = None) -> str:
        """The module in JavaScript that `export_js` writes; the errors are the same."""
        numbers = self._numbers()
        check_numbers(numbers)
        graph, rule = self._first_graph(), None
        if optimizer is not None:
            validation.require_attributes("optimizer", optimizer, [], "an optimizer, such as optim.Adam(parameters)")
            check_rule(optimizer)
            if set(map(id, self.parameters)) != set(map(id, optimizer.parameters)):
                raise ValueError("the optimizer has other parameters than the function: give both the same")
            if graph.parameter_gradients is None:
                raise TypeError("the function returns a list, but an optimizer needs a single Value: return its mean")
            rule = UpdateKernel(optimizer, None)
        return export_js(graph, numbers, rule)

    def _exported(self, stem: str, precision: str | None) -> tuple[str, str]:
        of = self.precision if precision is None else named(precision)
        numbers = self._numbers()
        check_numbers(numbers, of)
        graph = self._first_graph()
        check_constants(graph, of)
        return export_c(graph, numbers, stem, of)

    def _first_graph(self) -> Graph:
        """The graph for arguments in the shapes of the example."""
        return self._backends[self._shapes].stored.graph()

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
        return plain(gradients)
