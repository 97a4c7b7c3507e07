"""What users see of a compiled function: its code as text, and exported to files."""

from collections.abc import Callable
from pathlib import Path

from micrograd.compiler.dtype import named
from micrograd.compiler.frontend.graph import Graph
from micrograd.compiler.function import Function, check_numbers
from micrograd.compiler.ir import show
from micrograd.compiler.native.library import check_constants
from micrograd.compiler.native.update import HasUpdateRule, UpdateKernel
from micrograd.compiler.passes import program
from micrograd.compiler.session import check_rule
from micrograd.compiler.targets.export import export_c, export_js
from micrograd.compiler.targets.python import source
from micrograd.files import replace


class Printed(Function):
    """A compiled function with its texts; `Compiled` has its calls."""

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
        replace(path, (declarations + definitions).encode())
        replace(path.with_suffix(".h"), declarations.encode())

    def export_js(self, path: str | Path, *, optimizer: HasUpdateRule | None = None) -> None:
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
        replace(path, self.js_source(optimizer=optimizer).encode())

    def js_source(self, *, optimizer: HasUpdateRule | None = None) -> str:
        """The module in JavaScript that `export_js` writes; the errors are the same."""
        numbers = self._numbers()
        check_numbers(numbers)
        graph, rule = self._first_graph(), None
        if optimizer is not None:
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
