"""A function compiled for the shapes of its arguments: traced, built and called in this process.

Workers (distributed.py) and training (session.py) build on this class; compiled.py adds the methods that users call.
"""

import math
import os
import sys
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

from micrograd import scalar
from micrograd.compiler.calls import FAILURES, Code, Example
from micrograd.compiler.dataset import Batch, Buckets, Shapes, TracedError, bucket_by_shape, pack, shape_error
from micrograd.compiler.dtype import DOUBLE, named
from micrograd.compiler.frontend.graph import CallSpec, Graph, traced
from micrograd.compiler.frontend.interpret import failure
from micrograd.compiler.frontend.redirect import any_block, data_buffer, is_free
from micrograd.compiler.frontend.tracer import Symbol, TraceError
from micrograd.compiler.frontend.wrappers import Entries, elsewhere, on_arrays
from micrograd.compiler.native.library import NativeCode
from micrograd.compiler.native.toolchain import CompilerError, ahead, notice, require_compiler, warn_once
from micrograd.compiler.options import Backend, Options, each_axis
from micrograd.compiler.targets.python import PythonCode
from micrograd.core.errors import note_arguments, shown
from micrograd.engine import Value, promote
from micrograd.optim import unique_leaves
from micrograd.support import validation
from micrograd.support.arrays import empty
from micrograd.support.collector import gc_paused
from micrograd.support.trees import flat, mapped, nested

DATA = attrgetter("data")


class Function:
    """A compiled function: `Compiled` documents its public methods, `compile` its arguments.

    Its `leaves` are all Values whose numbers are read at each call: first the parameters, which get gradients, then any
    others that the function turns out to use. If no parameters are given, these are parameters, too.
    """

    returns_gradients = False  # besides a value, as a product of a vector and a jacobian does

    def __init__(
        self, function: Callable[..., Any], example_args: Sequence[Any], parameters: Sequence[Value] | None,
        options: Options,
    ) -> None:  # fmt: skip
        if not isinstance(example_args, (tuple, list)):
            one = shown(example_args)
            raise TypeError(f"example_args is {one}: expected a tuple of the function's arguments, such as ({one},)")
        validation.require_attributes("function", function, ["__call__"], "a function of Values (models need __call__)")
        self.options = options
        self._finds_parameters = parameters is None
        if parameters is None:
            own = getattr(function, "parameters", None)
            own = own() if callable(own) else ()
            parameters = [each for each in own if isinstance(each, Value) and is_free(each)]
        self.parameters = unique_leaves(parameters)
        self.leaves = [*self.parameters]
        require_floats([*self.leaves, *(promote(*flat(example_args)) if scalar.REGISTERED else ())])
        self._entries = Entries(function) if options.sparse else None
        self._function = on_arrays(self._entries or function, example_args)
        self._name: str = getattr(function, "__name__", type(function).__name__)
        self._code: dict[Shapes, Code] = {}
        self._axes = options.axes(len(example_args))
        self._products: dict[tuple[int, ...], Function] = {}  # of a vector and the jacobian, by argnums
        self._prepared = defaultdict[CallSpec, list[Example]](list)  # prepared by earlier calls, and free
        self._shapes = pack([(argument,) for argument in example_args]).shapes
        search = require_compiler if options.backend.is_python else ahead(require_compiler)
        graph = self._traced(self._shapes)  # meanwhile: the first search on a machine takes 0.1 s
        self.in_c = _compiles_to_c(options.backend, search)
        self.precision = named(options.backend.precision) if self.in_c else DOUBLE
        self._keep(self._shapes, graph)

    @property
    def constants(self) -> list[Value]:
        """The leaves that get no gradients."""
        return self.leaves[len(self.parameters) :]

    def __repr__(self) -> str:
        of_floats = " in single precision" * (self.precision != DOUBLE)
        language = f"C{of_floats}" if self.in_c else "Python"
        return f"<{self._name} compiled to {language}, {validation.counted(len(self.parameters), 'parameter')}>"

    def __getstate__(self) -> dict[str, Any]:
        """The state for a copy or a pickle, without the function: it has been traced, and may not be picklable."""
        stand_in, graphs = partial(elsewhere, self._name), {shapes: code.graph for shapes, code in self._code.items()}
        return vars(self) | {"_prepared": defaultdict(list), "_function": stand_in, "_code": graphs}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.in_c and not _compiles_to_c(replace(self.options.backend, name="auto")):  # pickled on another machine
            self.in_c, self.precision = False, DOUBLE
        self._code = {shapes: self._code_of(graph) for shapes, graph in state["_code"].items()}

    def __call__(self, *args: Any) -> Any:
        """The function's value for one example; for Values, what the function itself returns."""
        try:
            return self._called("forward", args, self._value)
        except TracedError:
            if self._entries:
                raise
            numbers = iter(promote(*flat(args)))  # all are Values, since the function may call methods of any
            return self._function(*[mapped(lambda _: next(numbers), arg) for arg in args])

    def _value(self, example: Example) -> Any:
        value = example.value()
        return self._entries.matrices(example.shapes, 1, self.precision.array(value))[0] if self._entries else value

    def _numbers(self) -> Sequence[float]:
        """The leaves' numbers, as one buffer if they are in one. Raises TracedError if they are being traced."""
        if not self.leaves:
            return ()
        if not any_block():
            return [*map(DATA, self.leaves)]
        if (buffer := data_buffer(self.leaves)) is not None:
            return buffer
        numbers = [*map(DATA, self.leaves)]
        if any(isinstance(number, (Symbol, Value)) for number in numbers):
            raise TracedError("the numbers of the parameters are being traced: call the function with one example")
        return numbers

    # Examples

    def _called(self, kind: CallSpec, args: Sequence[Any], read: Callable[..., Any], *options: Any) -> Any:
        """What `read` returns after a call for one example. Later calls use what was prepared for it."""
        prepared = self._prepared[kind]
        try:
            example = prepared.pop()
        except IndexError:  # this is the first call, or other threads use all of them
            example = None
        if example is None or not example.take(args):
            example = Example(self._code[self._one(args, kind).shapes], kind, self.returns_gradients)
            example.take(args)
        self._make(example.call, kind, args, self._numbers())
        found = read(example, *options) if options else read(example)  # in 0.05 us less
        prepared.append(example)  # from here on, another thread may take it
        return found

    def _packed(self, batches: Sequence[Any], in_axes: Any = None, kind: CallSpec = "forward") -> Batch:
        """The batch for each argument as buffers, for a call of this kind."""
        axes = self._axes
        if in_axes is not None:
            if batches and isinstance(batches[0], (Batch, Iterator)):
                problem = "in_axes selects rows of lists and arrays, not of packed examples or chunks"
                raise TypeError(f"{problem}: give it to pack")
            axes = each_axis(in_axes, len(self._axes))
            if [axis is None for axis in axes] != [axis is None for axis in self._axes]:
                raise ValueError(
                    f"in_axes is {shown(in_axes)}, but compile was given {self._axes}: expected an entry for each "
                    "argument, None where compile was given None, else 0 or row indices, such as ([2, 0, 0],) for one"
                )
        return self._compiled_for(pack(batches, self.precision, axes), kind)

    def _one(self, args: Sequence[Any], kind: CallSpec = "forward") -> Batch:
        """One example as buffers."""
        return self._compiled_for(pack([(arg,) for arg in args], self.precision, (0,) * len(self._axes)), kind)

    def _compiled_for(self, packed: Batch, kind: CallSpec) -> Batch:
        """The examples, once there is a graph for their shapes, with gradients if calls of this kind need them."""
        if not packed.n:
            if kind != "forward":
                raise ValueError("there are no examples")
            packed = replace(packed, shapes=self._shapes)  # an empty list does not show them
        if packed.shapes not in self._code:
            self._keep(packed.shapes, self._traced(packed.shapes))
        graph = self._code[packed.shapes].graph
        if kind != "forward" and not graph.is_differentiable:
            came = f"the function returns a list of shape {graph.output_shape}, but a gradient needs a single Value"
            if self._first_graph().is_differentiable:
                remedy = "give arguments like the example's, such as x[0] for a number"
                raise shape_error(packed.shapes, self._shapes, f"{came}: {remedy}")
            raise TypeError(f"{came}: return its mean, for instance")
        return packed

    def _are_chunks(self, batches: Sequence[Any]) -> bool:
        """Whether a call is given an iterator of chunks."""
        return len(batches) == 1 and isinstance(batches[0], Iterator)

    def _examples(
        self, batches: Sequence[Any], size: float = 0.0, kind: CallSpec = "backward", epochs: float = math.inf
    ) -> Buckets:
        """Examples of one or several shapes, with the code for calls of this kind on batches of this size, or on all.

        If there are only a few `epochs`, an interpreter may carry out the code.
        """
        examples = bucket_by_shape(batches, self.precision, self._axes)
        for packed in examples.batches:
            code = self._code[self._compiled_for(packed, kind).shapes]
            packed.typical = size * packed.n / len(examples)
            early = packed is not examples.batches[-1]  # after the last, this thread has nothing else to do
            code.library(kind, packed.typical or packed.n, epochs * packed.n, early=early)
        for packed in examples.batches:
            self._code[packed.shapes].library(kind, packed.typical or packed.n)
        return examples

    def _unflattened(self, shapes: Shapes, n: int, numbers: Any) -> Any:
        """The function's values for n examples of these shapes, from their flat numbers."""
        if self._entries:
            return self._entries.matrices(shapes, n, numbers)
        return nested(numbers, (n, *self._code[shapes].graph.output_shape))

    # Compiling

    @gc_paused()  # until the graph is freed
    def _traced(self, shapes: Shapes) -> Graph:
        """The function traced for arguments of these shapes. Raises ShapeError if it takes no such arguments."""
        try:
            with notice(f"tracing {self._name}"):
                found: list[Value] = []
                n_trained = sys.maxsize if self._finds_parameters else len(self.parameters)
                graph = traced(self._function, shapes, self.leaves, n_trained, self.options, found)
                if found:
                    self._add_leaves(found, shapes)
                return graph
        except (TypeError, ValueError, LookupError, AttributeError, ImportError) as error:
            if isinstance(error, TraceError):
                raise
            if not self._code:
                note_arguments(error, "example_args", [0.0] * len(shapes) if not any(shapes) else [])
                if len(shapes) > 1 and all(shapes) and len({shape[0] for shape in shapes}) == 1:
                    error.add_note("example_args is one example: if these are batches, pass the first of each")
                raise
            is_batch = all(shapes) and tuple([shape[1:] for shape in shapes]) == self._shapes
            hint = "for a batch of examples, call map, as in fast.map(xs, ys); " if is_batch else ""
            why = f"{hint}there is no key {error}" if isinstance(error, KeyError) else f"{hint}{error}"
            raise shape_error(shapes, self._shapes, why) from error

    def _keep(self, shapes: Shapes, graph: Graph) -> None:
        """Keep the graph for these shapes. Its functions are built at their first calls."""
        self._code[shapes] = self._code_of(graph)
        self.token = os.urandom(16).hex()  # under which workers keep the function with these traces

    def _code_of(self, graph: Graph) -> Code:
        return NativeCode(graph, self.options) if self.in_c else PythonCode(graph)

    def _add_leaves(self, found: Sequence[Value], shapes: Shapes) -> None:
        """Let the function read these, too, at each call: with gradients, if no parameters were given."""
        if self._code:  # their code has no place for these numbers
            raise TraceError(
                f"for arguments of shape {shapes}, the function uses {shown(found[0])}, but for the example it does "
                "not, so compiled code would not read its number: give compile all Values that the function uses as "
                "parameters, or fit a model that has it among its parameters()"
            )
        require_floats(found)
        self.leaves += found
        if self._finds_parameters:
            self.parameters += found

    def _first_graph(self) -> Graph:
        """The graph for arguments in the shapes of the example."""
        return self._code[self._shapes].graph

    # Calls

    def _values(self, packed: Batch, numbers: Sequence[float] | None = None, out: Any = None) -> Any:
        """The function's values for examples, flat: in `out`, or else in an array if an argument is one."""
        code = self._code[packed.shapes]
        if out is None:
            n = packed.n * len(code.graph.outputs)
            out = empty((n,), self.precision.code) if packed.as_arrays else self.precision.zeros(n)
        if packed.n:
            call: Any = code.call("forward", packed, out)
            self._make(call, "forward", packed, self._numbers() if numbers is None else numbers)
        return out

    def _sums(self, batches: Iterable[Batch], numbers: Sequence[float], seed: float) -> tuple[float, "array[float]"]:
        """The sum of the function's values for all these examples, and its gradient, times `seed`."""
        gradients, total = self.precision.zeros(len(numbers)), -0.0  # since 0.0 + -0.0 is 0.0
        for packed in batches:
            results = self.precision.zeros(packed.n)
            call: Any = self._code[packed.shapes].call("backward", packed, results, gradients, seed)
            self._make(call, "backward", packed, numbers)
            total += call.total
        return total, gradients

    def _make(self, call: Any, kind: CallSpec, examples: Batch | Sequence[Any], numbers: Sequence[float]) -> None:
        """Make a call, for some packed examples or the arguments of one. If an operation may have failed, the examples
        are computed again step by step, for the engine's error.
        """
        error: Exception | None = None
        try:
            may_have_failed = call.run(numbers)
        except FAILURES as raised:
            error, may_have_failed = raised, True
        if error or (may_have_failed and self.options.errors == "raise"):
            self.precision.array(numbers, "parameter")  # raises an error if one is not a number, or too large
            numbers = DOUBLE.array(numbers, "parameter")
            packed = examples if isinstance(examples, Batch) else self._one(examples, kind)
            if error := failure(self._code[packed.shapes].graph, kind, numbers, packed.rows()) or error:
                raise error


def _compiles_to_c(backend: Backend, search: Callable[[], Any] = require_compiler) -> bool:
    """Whether to compile to C. If no compiler is found, logs a warning, or raises CompilerError for the backend "c"."""
    if backend.is_python:
        return False
    try:
        search()
    except CompilerError as error:
        if backend.name == "c":
            raise
        doubles = ", in double precision" * (backend.precision != "double")
        warn_once(f"compiled to Python instead of C{doubles}: {error}")
        return False
    return True


def require_floats(leaves: Iterable[Value]) -> None:
    """Raise TypeError if a leaf holds a number of a registered kind."""
    for leaf in leaves if scalar.REGISTERED else ():
        if scalar.registered(leaf.data) is not None:
            kind = type(leaf.data).__name__
            remedy = f"give it a float, or call the function itself to compute with {kind}"
            raise TypeError(f"the function uses {shown(leaf)}, but compiled code computes with floats: {remedy}")
