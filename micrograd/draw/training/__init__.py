"""Drawings of a training run: loss curves, the network, and what it has learned."""
