"""Comparisons in time and memory with other libraries: `python -m tests.benchmarks` in a checkout runs all of them and
writes the page README.md, and `python -m tests.benchmarks mlp` runs those of one group.

A group is a module with a function `benchmarks()`. The contestants are in `values` (scalar engines) and `arrays`
(libraries of arrays), what they compute with in `data`; `harness` lets them take turns, `page` tells the results.
"""
