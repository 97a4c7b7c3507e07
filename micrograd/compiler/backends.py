"""The backend for a graph: C, or where there is no compiler, JavaScript in a browser, NumPy or Python."""

import sys
from importlib.util import find_spec

from micrograd.compiler.dtype import DOUBLE
from micrograd.compiler.frontend.graph import Graph
from micrograd.compiler.frontend.serialized import SerializedGraph
from micrograd.compiler.native.background import BackgroundTask
from micrograd.compiler.native.library import CBackend
from micrograd.compiler.native.toolchain import Compiler, CompilerError, require_compiler, warn_once
from micrograd.compiler.options import IN_PYTHON, Options
from micrograd.compiler.targets.python import PythonBackend

Backend = PythonBackend | CBackend


def start_compiler_search(options: Options) -> BackgroundTask[Compiler] | None:
    """Start looking for a C compiler in the background, while the function is traced; None if none is needed."""
    return None if options.backend in IN_PYTHON else BackgroundTask(require_compiler)


def backend_for(graph: Graph, options: Options, compiler: BackgroundTask[Compiler] | None = None) -> Backend:
    """The backend for a graph, after the search for a compiler. It builds each function when that is first called."""
    if options.backend in IN_PYTHON:
        return _without_compiler(graph, options.backend)
    try:
        if compiler:
            compiler.result()
        return CBackend(graph, options)
    except CompilerError as error:
        return fallback_for(graph, options, error)


def fallback_for(graph: Graph, options: Options, error: CompilerError) -> Backend:
    """A backend in place of C, which there is not. Raises the error if the user asked for C."""
    if options.backend == "c":
        raise error
    doubles = "" if options.precision == DOUBLE else ", in double precision"
    backend = _without_compiler(graph, _best())
    if doubles or backend.language != "JavaScript":  # than which a browser has nothing faster
        warn_once(f"compiled to {backend.language} instead of C{doubles}: {error}")
    return backend


def _best() -> str:
    """The fastest without a compiler."""
    return "javascript" if sys.platform == "emscripten" else "auto" if find_spec("numpy") else "python"


def _without_compiler(graph: Graph, backend: str) -> Backend:
    if backend == "python":
        return PythonBackend(SerializedGraph(graph))
    if backend == "javascript":
        from micrograd.compiler.native.browser import BrowserBackend  # which only Pyodide can run

        return BrowserBackend(SerializedGraph(graph))
    if not find_spec("numpy"):
        raise ImportError('backend="numpy" needs NumPy: pip install numpy')
    from micrograd.compiler.targets.arrays import NumpyBackend  # here, since only this backend needs NumPy

    return NumpyBackend(SerializedGraph(graph), few_in_python=backend == "auto")
