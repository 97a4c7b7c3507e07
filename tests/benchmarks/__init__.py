"""Comparisons in time and memory with other libraries: `python -m tests.benchmarks` in a checkout runs all of them and
writes the page README.md, and `python -m tests.benchmarks mlp` runs one group.

A group is a module with a function `benchmarks()`. The contestants are in `values` (micrograd 0.1.0) and `arrays`
(array libraries), and their inputs in `data`. `harness` runs them in turns, and `page` reports the results.
"""
