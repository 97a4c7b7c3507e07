"""The compiler: a function is traced once, and its forward and backward pass run as generated Python or C.

`tests/pages/tour.md` follows a function through the files, `tests/README.md` lists them in the order of the work.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from micrograd.compiler.compiled import Compiled, compile
    from micrograd.compiler.frontend.tracer import TraceError
    from micrograd.compiler.native.toolchain import CompilerError
    from micrograd.compiler.options import Backend

__all__ = ["Backend", "Compiled", "CompilerError", "TraceError", "compile"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'micrograd.compiler' has no attribute {name!r}")
    from micrograd.compiler import compiled

    return globals().setdefault(name, getattr(compiled, name))
