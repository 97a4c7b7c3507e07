"""Small neural networks, made of Modules, and how to save them to files."""

from micrograd.nn.checkpoint import load, save
from micrograd.nn.layers import ACTIVATIONS, MLP, Embedding, Layer, Module, Neuron

__all__ = ["ACTIVATIONS", "MLP", "Embedding", "Layer", "Module", "Neuron", "load", "save"]
