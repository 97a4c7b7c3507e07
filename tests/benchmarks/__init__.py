"""Comparisons in time and memory with other libraries: `python -m tests.benchmarks` in a checkout runs all of them,
and `python -m tests.benchmarks engine` those of one module.

A module beside this one that has a function `benchmarks()`, a list of `Benchmark`s, is a group of comparisons.
"""
