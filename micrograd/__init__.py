"""micrograd: a scalar autograd engine in pure Python, readable in one sitting."""

from micrograd import nn
from micrograd.engine import Value, dot, mean, sum, where

__all__ = ["Value", "dot", "mean", "nn", "sum", "where"]
