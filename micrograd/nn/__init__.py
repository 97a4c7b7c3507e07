"""Small neural networks, made of Modules, and how to save them to files.

module.py       Module: whatever has parameters
layers.py       Neuron, Layer, MLP, Embedding
checkpoint.py   save, load
"""

from micrograd.nn.checkpoint import load, save
from micrograd.nn.layers import ACTIVATIONS, MLP, Embedding, Layer, Neuron
from micrograd.nn.module import Module

__all__ = ["ACTIVATIONS", "MLP", "Embedding", "Layer", "Module", "Neuron", "load", "save"]
