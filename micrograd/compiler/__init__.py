"""The compiler: trace a function once, run its forward and backward pass as straight-line Python or C.

    compile -> Graph (graph.py: the function run on the symbols of trace.py, then backward() on its result)
            -> Statements (statements.py: what is needed, as lines of a language)
            -> PythonBackend (python.py), or CBackend (library.py: rolled into loops by roll.py, written by c.py, built
               by toolchain.py)

The graph is kept small (stored.py) until more of it is written. Training (training.py) keeps all numbers in buffers,
where Values find them (elsewhere.py); in C by a loop of its own (driver.py) with the optimizer's rule (rule.py). All C
is written for doubles, and becomes one of floats for single precision (precision.py). What executors are given to do
is a room of its own (executors/).
"""

import logging
import math
import os
import struct
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

from micrograd import checks
from micrograd.compiler.batch import Examples, Packed, ShapeError, pack, pool
from micrograd.compiler.check import check
from micrograd.compiler.elsewhere import lock
from micrograd.compiler.export import export_c
from micrograd.compiler.graph import Graph, Shape, unflatten
from micrograd.compiler.library import CBackend, check_constants
from micrograd.compiler.precision import DOUBLE, Precision, named
from micrograd.compiler.python import PythonBackend, source
from micrograd.compiler.rule import Ruled
from micrograd.compiler.stored import Recalled, give_back, uncollected
from micrograd.compiler.toolchain import CompilerError, notice, say_once
from micrograd.compiler.trace import TraceError
from micrograd.compiler.training import Training
from micrograd.engine import Value
from micrograd.serialization import replace

__all__ = ["Compiled", "CompilerError", "TraceError", "compile"]

log = logging.getLogger("micrograd")

MANY_SHAPES = 4  # of which the log says a word before they are compiled


def compile(
    function: Callable[..., Any],
    example_args: Sequence[Any],
    *,
    parameters: Sequence[Value] = (),
    backend: str = "auto",
    batch_size: float = math.inf,
    threads: int = 1,
    precision: str = "double",
) -> "Compiled":
    """Trace a function of numbers, and compile what it computes together with its gradients.

    Parameters
    ----------
    function
        Called with Values, or nested lists of Values, in the shapes of the example; returns a Value or a nested list
        of Values. It is run once for each shape of arguments: what it does besides computing on them, such as
        drawing a random number, is done then and never again; so are, without an error, `isinstance`, `is` and `str`
        on its arguments. Of a `where`, code in C may compute the chosen branch alone: an operation that fails in the
        other one is an error in Python, and may be none in C.
    example_args
        One example of the arguments: numbers and nested lists of numbers. Only their shapes matter.
    parameters
        Leaf Values that the function uses. Their numbers are read anew at each call; all other Values and numbers
        that the function uses are constants.
    backend
        "c" for C, which needs a C compiler; "python" for Python; "auto" for C where there is a compiler.
    batch_size
        How many examples most calls of `backward` will have: the code in C for so many is built at once, what other
        numbers need when it is called.
    threads
        How many share the examples of a call in C, which pays from some milliseconds a call. The gradients of their
        parts are added in a fixed order: for the same number of threads, the results are the same each time.
    precision
        "double", or "single" for floats in C: half the memory and twice the lanes, for results of about seven digits.
        Values stay Python's floats, and where it is Python that computes, it does so in doubles. A number too large for
        it, which is 3.4e38, goes on as an infinity, as in PyTorch: where a result or gradient of a call is infinite or
        NaN for that, it is an OverflowError, and a step of a training is taken by the engine, in doubles.

    Raises
    ------
    TraceError
        If the function asks for a number while it is traced, as `if x > 0`, `max` or a lookup in a dict do.
    CompilerError
        If the backend is "c" and there is no C compiler, or it fails.
    ValueError, TypeError
        If an argument is not of the kind described above.
    """
    return Compiled(
        function,
        example_args,
        parameters=parameters,
        backend=backend,
        batch_size=batch_size,
        threads=threads,
        precision=precision,
    )


class Compiled:
    """A compiled function: what `compile` returns, and documents.

    `fast(x, y)` computes one example, and gives a number or a nested list of numbers. Calls with lists of another
    length than the example's are traced and compiled once for each new shape.

    It can be copied, and pickled together with the model whose parameters it has: `pickle.dumps((model, fast))`. What
    travels is the trace that code is generated from, so the function itself, which may be a lambda, need not be known
    where it arrives; nor can it be traced there for shapes that it was not compiled for. As with all pickles, load none
    that you would not run.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        example_args: Sequence[Any],
        *,
        parameters: Sequence[Value] = (),
        backend: str = "auto",
        batch_size: float = math.inf,
        threads: int = 1,
        precision: str = "double",
    ) -> None:
        if backend not in ("auto", "c", "python"):
            raise ValueError(f'unknown backend {backend!r}: expected "auto", "c" or "python"')
        if not isinstance(example_args, (tuple, list)):
            raise TypeError(f"example_args is {example_args!r:.80}: expected a tuple of the function's arguments")
        checks.having("function", function, ["__call__"], "a function of Values")
        if batch_size != math.inf:
            batch_size = checks.number("batch_size", batch_size, least=1)
        self.parameters = checks.listed("parameters", parameters)
        for parameter in self.parameters:
            if not isinstance(parameter, Value) or parameter._prev:
                raise TypeError(f"a parameter is a Value that is not computed from others, not {parameter!r}")
        if len(set(map(id, self.parameters))) < len(self.parameters):
            raise ValueError("a parameter is given twice")
        self._function = function
        self.backend = backend
        self.threads = checks.count("threads", threads)
        self.precision = named(precision)
        if self.precision != DOUBLE and backend == "python":
            raise ValueError('single precision is for C, since Python computes in doubles: give backend="c" with it')
        self._backends: dict[tuple[Shape, ...], PythonBackend | CBackend] = {}
        self._spare: dict[tuple[Shape, ...], PythonBackend] = {}
        self._shapes = pack([(argument,) for argument in example_args], ()).shapes
        self._build(self._traced(self._shapes), batch_size)

    def __repr__(self) -> str:
        single = "" if self.precision == DOUBLE else " in single precision"
        kind = f"C{single}" if self._is_in_c() else "Python"
        return (
            f"<{getattr(self._function, '__name__', 'function')} compiled to {kind}, {len(self.parameters)} parameters>"
        )

    def __getstate__(self) -> dict[str, Any]:
        """What a copy and a pickle have: the parameters, and the function as its graphs know it."""
        name = getattr(self._function, "__name__", "function")
        graphs = {shapes: backend.stored for shapes, backend in self._backends.items()}
        function = Recalled(name, self.parameters, graphs)
        return {**vars(self), "_function": function, "_backends": dict(self._backends), "_spare": {}}

    def __call__(self, *args: Any) -> Any:
        """The function's value for one example, as a number or a nested list of numbers."""
        packed = self._packed([(arg,) for arg in args])
        return unflatten(iter(self._run("forward", packed)), self._backends[packed.shapes].stored.output_shape)

    def map(self, *batches: Any, executor: Any = None) -> Any:
        """The function's values for many examples.

        Parameters
        ----------
        batches
            A list or array of examples for each argument, or what `pack` made of them. Or an iterator of chunks, each
            of which is that; of a function of several arguments, a tuple with a list or array for each.
        executor
            Whose workers compute them, as in `fit`: each has a part of the examples, or some chunks ahead of those that
            are taken.

        Returns
        -------
        list or iterator
            The values; of chunks, an iterator of a list of values for each, in their order.
        """
        if executor is not None or self._are_chunks(batches):
            from micrograd.compiler.executors.chunks import mapped  # here, since it needs this module

            return mapped(self, batches, executor)
        packed = self._packed(batches)
        return self._listed(packed.shapes, packed.n, self._run("forward", packed))

    def backward(self, *batches: Any, executor: Any = None) -> float:
        """The mean of the function over the batch. Adds its gradients to the parameters' `grad`.

        Parameters
        ----------
        batches
            A list or array of examples for each argument, or what `pack` made of them; or an iterator of chunks, as for
            `map`, over all of which the mean is taken.
        executor
            Whose workers compute them, as in `fit`. The gradients of their parts are added in a fixed order.

        Raises
        ------
        TypeError
            If the function does not return a single Value.
        ValueError
            If it was compiled without parameters, or the examples are not those of its arguments.
        """
        packed = None
        if executor is None and not self._are_chunks(batches):
            packed = self._packed(batches)
            self._check_differentiable(packed)
        if not self.parameters:
            raise ValueError("the function has no parameters to add gradients to: compile it with parameters=...")
        if packed is None:
            from micrograd.compiler.executors.chunks import mean  # here, since it needs this module

            loss, gradients = mean(self, batches, executor)
        else:
            losses, gradients = self._run("backward", packed, 1.0 / packed.n)
            loss = -0.0  # which leaves every sum as it is
            for one in losses:
                loss += one
            loss /= packed.n
        with lock():
            sums = [parameter.grad + gradient for parameter, gradient in zip(self.parameters, gradients, strict=True)]
            deque(map(setattr, self.parameters, repeat("grad"), sums), maxlen=0)  # in C, where no Ctrl-C comes between
        return loss

    def value_and_grad(self, *args: Any) -> tuple[float, Any]:
        """The function's value for one example, and its gradient with respect to the arguments, in their shape.

        The gradient is that of the argument where there is one, else a tuple with one for each.

        Raises
        ------
        TypeError
            If the function does not return a single Value.
        """
        packed = self._packed([(arg,) for arg in args])
        self._check_differentiable(packed)
        value, *gradient = self._run("value_and_grad", packed)
        numbers = (0.0 + number for number in gradient)  # where the engine starts, so that no gradient is -0.0
        gradients = tuple(unflatten(numbers, shape) for shape in packed.shapes)
        return value, gradients[0] if len(gradients) == 1 else gradients

    def training(self, optimizer: Ruled, *, clip_grad_norm: float | None = None) -> Training:
        """A block in which the optimizer's steps are generated code, and all numbers stay where that has them.

            with fast.training(optimizer) as step:
                for batch in batches:
                    loss = step(batch)

        Each call takes a step along the gradient of the mean over the batch, and returns that mean: what `zero_grad`,
        `backward` and the optimizer's `step` do outside, several times as fast. Within the block the parameters show
        the numbers of the latest step, and what is assigned to them, or to the optimizer, holds from the next step on;
        learning rates too. Other parameters for the optimizer are refused. After the block, however it is left, all is
        as if the steps had been taken outside of it.

        Parameters
        ----------
        optimizer
            An `Optimizer` whose parameters are among those given to `compile`.
        clip_grad_norm
            What the norm of the gradients is scaled down to in each step, as by `optim.clip_grad_norm`.

        Raises
        ------
        TypeError
            If the optimizer has a `step` or `zero_grad` of its own, which may do more than apply its `rule`.
        ValueError
            If it has other parameters, or `clip_grad_norm` is no finite number from 0. On entering the block, if they
            are being trained in another.
        """
        checks.having("optimizer", optimizer, [], "an optimizer, such as optim.Adam(parameters)")
        return Training(self, optimizer, clip_grad_norm)

    def pack(self, *batches: Any) -> Packed:
        """A data set as buffers of numbers, for `backward` and `map` to step on without any work for a number.

        A C-contiguous array of doubles, or of floats for single precision (of NumPy or PyTorch, or with the buffer
        protocol), is used where it lies: what is written to it later counts. All else is copied: lists, other arrays,
        tables and Series of pandas, whose rows are the examples.

        Raises
        ------
        ValueError
            If the arguments differ in the number of examples, or the examples in shape, or there are none.
        TypeError
            If there is anything but real numbers in them, or they are no lists, arrays or tables.
        """
        return self._packed(batches)

    def check(self, *args: Any) -> None:
        """Compute one example with its gradients step by step, to find where an infinity or NaN comes from.

        Raises
        ------
        FloatingPointError
            Naming the first operation that made one, or could not be carried out, and its operands.
        """
        packed, numbers = self._packed([(arg,) for arg in args]), self._numbers()
        _check_numbers(numbers)
        check(self._backends[packed.shapes].stored.graph(), numbers, packed.rows()[0])

    @property
    def source(self) -> str:
        """The generated Python: `forward`, and where the function returns a single Value, its gradients."""
        return source(self._backends[self._shapes].stored.graph())

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
            Of the source.
        precision
            "double" for numbers of type double, "single" for float; by default as the function is compiled.

        Raises
        ------
        ValueError
            If the path is the header's, which would overwrite the source.
        OverflowError
            If a parameter or a constant is too large for single precision.
        """
        path = Path(path)
        if path.suffix.lower() == ".h":
            raise ValueError(f"{path} is where the header goes: name the source, as in {path.with_suffix('.c')}")
        declarations, definitions = self._exported(path.stem, precision)
        replace(path, (declarations + definitions).encode())
        replace(path.with_suffix(".h"), declarations.encode())

    def _exported(self, stem: str, precision: str | None) -> tuple[str, str]:
        of = self.precision if precision is None else named(precision)
        numbers = self._numbers()
        _check_numbers(numbers, of)
        graph = self._backends[self._shapes].stored.graph()
        check_constants(graph, of)
        return export_c(graph, numbers, stem, of)

    def _numbers(self) -> list[float]:
        return [parameter.data for parameter in self.parameters]

    def _packed(self, batches: Sequence[Any]) -> Packed:
        """The batch for each argument as buffers, in shapes that the function is compiled for."""
        if len(batches) == 1 and isinstance(batches[0], Packed):
            packed = batches[0]
            packed.expect(self.precision)
        else:
            self._check_number(batches)
            packed = pack(batches, list(self._backends), self.precision)
        if packed.shapes not in self._backends:
            self._build(self._traced(packed.shapes), packed.n)
        return packed

    def _listed(self, shapes: tuple[Shape, ...], n: int, numbers: Sequence[float]) -> list[Any]:
        """The function's values for n arguments of these shapes, which are flat, as they are to be."""
        flat, shape = iter(numbers), self._backends[shapes].stored.output_shape
        return list(flat) if shape == () else [unflatten(flat, shape) for _ in range(n)]

    def _are_chunks(self, batches: Sequence[Any]) -> bool:
        """Whether a call is given an iterator of chunks."""
        return len(batches) == 1 and isinstance(batches[0], Iterator)

    def _check_number(self, batches: Sequence[Any]) -> None:
        packed = len(batches) == 1 and isinstance(batches[0], Packed)
        if not packed and len(batches) != len(self._shapes):
            raise ValueError(f"the function takes {len(self._shapes)} arguments, not {len(batches)}")

    def _examples(self, batches: Sequence[Any], size: int | None, told: Callable[[int, int], None]) -> Examples:
        """Examples of one or several shapes, with all that batches of that size need compiled."""
        self._check_number(batches)
        if len(batches) == 1 and isinstance(batches[0], Packed):
            batches[0].expect(self.precision)
            examples = Examples(batches, [range(len(batches[0]))])
        else:
            examples = pool(batches, list(self._backends), self.precision)
        examples.size = size or len(examples)
        self._compile_for(examples, told)
        return examples

    def _compile_for(self, examples: Examples, told: Callable[[int, int], None]) -> None:
        """Compile all that the examples need."""
        new = [pack for pack in examples.packs if pack.shapes not in self._backends]
        if len(new) > MANY_SHAPES:
            log.warning("compiling for %d shapes of examples, each once", len(new))
        in_c = self._is_in_c()
        waiting, tracing = iter(new), threading.Lock()

        def compile_next(_: Packed) -> None:
            with tracing:  # in order, one at a time: a function may draw at random, or keep something while it runs
                pack = next(waiting)
                graph = self._traced(pack.shapes)
            self._build(graph, examples.share(pack))

        if new:
            with ThreadPoolExecutor(os.cpu_count()) as threads:  # whose C compilers run side by side
                for shapes, _ in enumerate((threads.map if in_c else map)(compile_next, new), 1):
                    told(shapes, len(new))
        for packed in examples.packs:
            self._check_differentiable(packed)

    def _learns(self, shapes: tuple[Shape, ...], parameters: Sequence[int]) -> bool:
        """Whether the function of arguments of these shapes depends on any of the parameters."""
        uses = self._backends[shapes].stored.uses
        return any(uses[i] for i in parameters)

    def _values(self, parameters: Sequence[float], pack: Packed) -> list[float]:
        """The function's value for each example of a shape."""
        return list(self._run("forward", pack, parameters=parameters))

    def _add_gradients(
        self,
        parameters: "array[float]",
        gradients: "array[float]",
        seed: float,
        pack: Packed,
        at: "array[int] | None",
        n: float,
    ) -> float:
        """The sum of the function's values for the examples at these places; NaN if an operation may have failed.

        Their gradients, times seed, are added to the others. `n` is how many there are in most calls.
        """
        backend = self._backends[pack.shapes]
        try:
            if isinstance(backend, CBackend):
                results = self.precision.zeros(pack.n if at is None else len(at))
                numbers, sums = parameters.buffer_info()[0], gradients.buffer_info()[0]
                failed = backend.library("backward", n).run(numbers, seed, pack, sums, results, at)
                return math.nan if failed & 1 else sum(results)
            rows = pack.rows() if at is None else list(map(pack.row, at))
            results, gradients[:] = map(self.precision.array, backend.gradients(parameters, gradients, seed, rows))
            return sum(results)
        except CompilerError as error:
            self._fall_back(backend.stored.graph(), error)
            return self._add_gradients(parameters, gradients, seed, pack, at, n)
        except (ArithmeticError, ValueError):
            return math.nan

    def _library(self, pack: Packed, examples: Examples) -> Any:
        """What takes steps in C on these among the examples."""
        backend = self._backends[pack.shapes]
        assert isinstance(backend, CBackend)
        return backend.library("backward", examples.share(pack))

    def _is_in_c(self) -> bool:
        """Whether it is compiled to C, for all shapes."""
        return all(isinstance(backend, CBackend) for backend in self._backends.values())

    def _in_c(self, examples: Examples) -> bool:
        """Whether all shapes of the examples are compiled to C."""
        return all(isinstance(self._backends[pack.shapes], CBackend) for pack in examples.packs)

    def _in_python(self, pack: Packed) -> PythonBackend:
        """The backend in Python for this shape, which others may have in C."""
        backend = self._backends[pack.shapes]
        if isinstance(backend, CBackend):
            if pack.shapes not in self._spare:
                self._spare[pack.shapes] = PythonBackend(backend.stored.graph())
            return self._spare[pack.shapes]
        return backend

    def _check_differentiable(self, packed: Packed) -> None:
        stored = self._backends[packed.shapes].stored
        if not stored.is_differentiable:
            raise TypeError(
                f"the function returns a list of shape {stored.output_shape}: a gradient is that of a single Value, "
                "such as its mean"
            )

    def _traced(self, shapes: tuple[Shape, ...]) -> Graph:
        """The function of arguments of these shapes; ShapeError if it takes none such."""
        try:
            with notice("tracing the function"), uncollected():
                return Graph(self._function, shapes, self.parameters, to_roll=self.backend != "python")
        except (TypeError, ValueError, IndexError) as error:
            if isinstance(error, TraceError) or not self._backends:
                raise
            raise ShapeError(shapes, self._shapes, error) from error

    def _build(self, graph: Graph, n: float) -> None:
        """Compile the graph, and for calls with so many examples."""
        shapes = graph.shapes
        if self.backend == "python":
            self._backends[shapes] = PythonBackend(graph)
        else:
            try:
                self._backends[shapes] = CBackend(graph, n, self.threads, self.precision)
            except CompilerError as error:
                self._fall_back(graph, error)
        if self._backends[shapes].stored.is_large:
            del graph
            give_back()

    def _fall_back(self, graph: Graph, error: CompilerError) -> None:
        """Go on in Python where C is not to be had, unless it was asked for."""
        if self.backend == "c":
            raise error
        doubles = "" if self.precision == DOUBLE else ", in double precision"
        say_once(f"compiled to Python in place of C{doubles}: {error}")
        self._backends[graph.shapes] = PythonBackend(graph)

    def _run(self, method: str, packed: Packed, *options: float, parameters: Sequence[float] | None = None) -> Any:
        """A method of the backend for the examples; what it needs in C may be built only now."""
        backend, numbers = self._backends[packed.shapes], self._numbers() if parameters is None else parameters
        try:
            return getattr(backend, method)(numbers, *options, packed)
        except CompilerError as error:
            self._fall_back(backend.stored.graph(), error)
            return self._run(method, packed, *options, parameters=parameters)
        except (TypeError, OverflowError, struct.error):
            _check_numbers(numbers, self.precision)
            raise


def _check_numbers(numbers: Sequence[Any], precision: Precision = DOUBLE) -> None:
    """Name the first parameter whose number is none, if there is one, or none of this precision."""
    for i, number in enumerate(numbers):
        try:
            array("d", [number])
        except (TypeError, OverflowError) as error:
            raise TypeError(f"parameter {i} holds no number to compute with: {error}") from None
        precision.check(f"parameter {i}", number)
