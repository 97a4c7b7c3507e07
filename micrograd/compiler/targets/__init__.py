"""Targets: a graph as text in Python, NumPy or C."""
