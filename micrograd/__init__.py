"""micrograd: a scalar autograd engine in pure Python, with networks, drawings, exact derivatives and a compiler.

A `Value` is a number that knows its gradient after `backward()`. `nn`, `losses`, `optim` and `data` have what
training needs, and `fit` trains; `viz` draws. `grad`, `hessian` and others in `functional` differentiate functions, and
`compile` turns functions into Python or C.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from micrograd import engine, scalar
from micrograd._version import __version__ as __version__
from micrograd.engine import Value, promote
from micrograd.reductions import atan2, dot, hypot, logsumexp, maximum, mean, minimum, take, where
from micrograd.reductions import sum as sum

__all__ = [  # without `sum` and `compile`, which a star would put in place of Python's
    "Backend", "Value", "atan2", "compiler", "data", "dot", "engine", "fit", "functional", "functions", "grad",
    "gradcheck", "hessian", "hvp", "hypot", "jacobian", "jvp", "logsumexp", "losses", "maximum", "mean", "minimum",
    "nn", "optim", "promote", "scalar", "scan", "take", "training", "value_and_grad", "viz", "vjp", "where",
]  # fmt: skip

if sys.platform == "emscripten":  # whose stack is too small for Python to free a long graph
    from micrograd.support import emscripten

    Value.__del__ = emscripten.release  # type: ignore[attr-defined]

_LAZY = {  # the names that are loaded on first use, and from which module; it may be the name itself
    **{name: name for name in ("compiler", "data", "functional", "losses", "nn", "optim", "training", "viz")},
    **dict.fromkeys(("grad", "gradcheck", "hessian", "hvp", "jacobian", "jvp", "value_and_grad", "vjp"), "functional"),
    "Backend": "compiler", "compile": "compiler", "fit": "training.fit", "scan": "loops",
}  # fmt: skip
if TYPE_CHECKING:
    from micrograd import compiler, data, functional, losses, nn, optim, training, viz
    from micrograd.compiler import Backend
    from micrograd.compiler import compile as compile
    from micrograd.functional import grad, gradcheck, hessian, hvp, jacobian, jvp, value_and_grad, vjp
    from micrograd.loops import scan
    from micrograd.training.fit import fit
else:

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module 'micrograd' has no attribute {name!r}")
        module = import_module(f"micrograd.{_LAZY[name]}")
        return module if _LAZY[name] == name else globals().setdefault(name, getattr(module, name))

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LAZY})
