"""Drawings of a training: loss curves, the network, and what it has learned."""
