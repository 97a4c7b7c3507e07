"""Running the cells of a notebook in Pyodide: what each prints and shows, as in Jupyter."""

import io
import linecache
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from itertools import count
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]


def runner(directory: str = "") -> Callable[[str], list[dict[str, Any]]]:
    """A function that runs a cell after those before it, and returns its outputs as nbformat has them.

    Modules beside the notebooks can be imported, and files are written to the directory.
    """
    from pyodide.code import eval_code

    sys.path.append(str(CHECKOUT / "tests" / "notebooks"))
    if directory:
        os.makedirs(directory, exist_ok=True)
        os.chdir(directory)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    numbers = count(1)

    def run(source: str) -> list[dict[str, Any]]:
        name = f"cell_{next(numbers)}.py"  # of its own, so that an error in an earlier cell's function shows its line
        linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
        outputs: list[dict[str, Any]] = []
        with redirect_stdout(io.StringIO()) as printed, redirect_stderr(io.StringIO()) as errors:
            try:
                result = eval_code(source, namespace, filename=name)
            except BaseException as error:
                outputs.append({"output_type": "error", "text": _error(error)})
                result = None
        for stream, text in ("stderr", errors.getvalue()), ("stdout", printed.getvalue()):
            if text:
                outputs.insert(0, {"output_type": "stream", "name": stream, "text": text})
        if result is not None:
            has_bundle = hasattr(result, "_repr_mimebundle_")
            shown = result._repr_mimebundle_() if has_bundle else {"text/plain": repr(result)}
            outputs.append({"output_type": "execute_result", "data": shown})
        return outputs

    return run


def _error(error: BaseException) -> str:
    """An error with the lines of cells that led to it."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith("cell_")]
    lines = [f"line {frame.lineno}: {frame.line}\n" for frame in frames]
    return "".join([*lines, *traceback.format_exception_only(error)])
