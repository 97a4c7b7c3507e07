"""micrograd: a scalar autograd engine in pure Python, readable in one sitting."""

from micrograd import compiler, data, functional, losses, nn, optim, scalar, viz
from micrograd.compiler import compile
from micrograd.engine import Value, dot, mean, promote, sum, take, where
from micrograd.functional import grad, gradcheck, hessian, hvp, jacobian, value_and_grad
from micrograd.training import fit

__all__ = [
    "Value", "compile", "compiler", "data", "dot", "fit", "functional", "grad", "gradcheck", "hessian", "hvp",
    "jacobian", "losses", "mean", "nn", "optim", "promote", "scalar", "sum", "take", "value_and_grad", "viz", "where",
]  # fmt: skip
