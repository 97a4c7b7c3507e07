"""Targets: a graph as text in Python, C or JavaScript."""
