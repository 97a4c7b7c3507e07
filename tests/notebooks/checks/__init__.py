"""The checks of the notebooks' exercises: they say what is wrong with an answer, but do not reveal it.

Each takes the reader's answer and prints "Right.", or "Not yet:" and why.
"""

from .engine import engine
from .part_1 import accumulation, cos, sin, slope, sqrt
from .part_2 import batches, layer
from .part_3 import circles, halving, memory
from .part_4 import cross_entropy, penalty, softmax, spread
from .part_5 import bias, tensor_relu
from .part_6 import attention
from .part_7 import huber, minimum, softsign

__all__ = [
    "accumulation", "attention", "batches", "bias", "circles", "cos", "cross_entropy", "engine", "halving", "huber",
    "layer", "memory", "minimum", "penalty", "sin", "slope", "softmax", "softsign", "spread", "sqrt", "tensor_relu",
]  # fmt: skip
