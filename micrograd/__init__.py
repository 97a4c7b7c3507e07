"""micrograd: a scalar autograd engine in pure Python, readable in one sitting.

`Value` and its operations are here at once; all else is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from micrograd import engine, scalar
from micrograd.engine import Value, dot, mean, promote, take, where
from micrograd.engine import sum as sum

__all__ = [  # without `sum` and `compile`, which a star would put in place of Python's
    "Value", "compiler", "data", "dot", "engine", "fit", "functional", "grad", "gradcheck", "hessian", "hvp",
    "jacobian", "losses", "mean", "nn", "optim", "promote", "scalar", "take", "training", "value_and_grad", "viz",
    "where",
]  # fmt: skip

__version__ = "1.0.0"

_LATER = {
    **dict.fromkeys(("compiler", "data", "functional", "losses", "nn", "optim", "training", "viz")),
    **dict.fromkeys(("grad", "gradcheck", "hessian", "hvp", "jacobian", "value_and_grad"), "functional"),
    "compile": "compiler",
    "fit": "training",
}
"""The module of each name that is loaded later; None for a module itself."""

if TYPE_CHECKING:
    from micrograd import compiler, data, functional, losses, nn, optim, training, viz
    from micrograd.compiler import compile as compile
    from micrograd.functional import grad, gradcheck, hessian, hvp, jacobian, value_and_grad
    from micrograd.training import fit
else:

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module 'micrograd' has no attribute {name!r}")
        home = _LATER[name]
        found = getattr(import_module(f"micrograd.{home}"), name) if home else import_module(f"micrograd.{name}")
        return globals().setdefault(name, found)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER})
