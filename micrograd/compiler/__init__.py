"""The compiler: a function is traced once, and its forward and backward pass run as generated Python or C.

The rooms, in the order of the work; each imports only from those above it:

    options.py     `Backend`, and the options of `compile`, checked once; dtype.py has the type of the numbers
    frontend/      the function runs on symbols (tracer), then `backward()` on its result: a Graph of both (graph)
    dataset.py     examples as buffers of numbers
    ir.py          what the passes make: assignments and loops over arrays, in no language
    passes/        from the Graph to a kernel of the IR: expressions, blocks and statements, loops, their order; for C,
                   matrix products of many examples (products) and rounds that run together (jam)
    targets/       the IR as text: Python, C and JavaScript; C and a module of JavaScript to export (export)
    native/        text as machine code: the compiler (toolchain), run in the background (background), the library, a
                   loop that trains with the optimizer's rule as C (loop, update), on numbers in a buffer (buffers)
    calls.py       calls with one example: its buffers, and the generated code that works on them, prepared once
    function.py    all of it for one function, in this process; where there is no compiler, in Python
    session.py     training: compiled gradients, and in C whole steps, in the block of a compiled function
    distributed/   a function on many processes and machines: workers, shards, map
    stages.py      the trace, and the kernel after each pass, as text
    compiled.py    the public face: `compile` and `Compiled`, with its code as text and in files
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
