"""micrograd: a scalar autograd engine in pure Python, with networks, drawings, exact derivatives and a compiler.

`Value` and its operations are imported at once; everything else is loaded on first use.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from micrograd import engine, reductions, scalar
from micrograd._version import __version__ as __version__
from micrograd.core import display
from micrograd.engine import Value, promote
from micrograd.reductions import atan2, dot, hypot, logsumexp, maximum, mean, minimum, take, where
from micrograd.reductions import sum as sum

__all__ = [  # without `sum` and `compile`, which a star would put in place of Python's
    "Value", "atan2", "compiler", "data", "dot", "engine", "fit", "functional", "grad", "gradcheck", "hessian", "hvp",
    "hypot", "jacobian", "jvp", "logsumexp", "losses", "maximum", "mean", "minimum", "nn", "optim", "promote", "scalar",
    "take", "training", "value_and_grad", "viz", "vjp", "where",
]  # fmt: skip

if sys.platform == "emscripten":
    from micrograd.support import emscripten

    Value.__del__ = emscripten.release  # type: ignore[attr-defined]

_LATER = {
    **dict.fromkeys(("compiler", "data", "functional", "losses", "nn", "optim", "training", "viz")),
    **dict.fromkeys(("grad", "gradcheck", "hessian", "hvp", "jacobian", "jvp", "value_and_grad", "vjp"), "functional"),
    "compile": "compiler",
    "fit": "training.fit",
}
"""The module of each name that is loaded later; None for a module itself."""

display.notebook = lambda: import_module("micrograd.draw.notebook")
for _name in (*reductions.__all__, "sum"):  # which were in `engine` once
    setattr(engine, _name, getattr(reductions, _name))

if TYPE_CHECKING:
    from micrograd import compiler, data, functional, losses, nn, optim, training, viz
    from micrograd.compiler import compile as compile
    from micrograd.functional import grad, gradcheck, hessian, hvp, jacobian, jvp, value_and_grad, vjp
    from micrograd.training.fit import fit as fit
else:

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module 'micrograd' has no attribute {name!r}")
        home = _LATER[name]
        found = getattr(import_module(f"micrograd.{home}"), name) if home else import_module(f"micrograd.{name}")
        return globals().setdefault(name, found)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER})
