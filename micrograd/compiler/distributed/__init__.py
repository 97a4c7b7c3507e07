"""Compiled functions on many processes and machines, with any executor like those of `concurrent.futures`.

    workers.py    tasks go to an executor, and answers come in their order
    shards.py     training: examples in shards, and the sums of their gradients at each step
    map.py        `map` and `backward`: examples in chunks, each computed once

A task has the same answer on every worker and at any time, and answers are added up in a fixed order, so the results do
not depend on which worker answers first. Whether a task is tried again is up to the executor, as with Dask's `retries`.
"""
