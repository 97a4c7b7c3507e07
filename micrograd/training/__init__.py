"""Training: `fit`, and the history of losses it returns."""

from micrograd.training.fit import fit
from micrograd.training.history import Diverged, History

__all__ = ["Diverged", "History", "fit"]
