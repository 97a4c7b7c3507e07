"""Compiled functions on many processes and machines, by any Executor in the manner of Python's `concurrent.futures`.

    pool.py      the driver: tasks are given to executors until they are answered, and what goes wrong there
    worker.py    the worker: it keeps the programs and the examples that came with tasks, and carries tasks out
    shards.py    training: examples that lie in shards, and the sum of their gradients, step by step
    chunks.py    `map` and `backward`: examples that come in chunks, each to be computed once

Every task can be done by every worker, at any time, and again: a worker only keeps what spares it to be sent next time.
So whoever answers and whoever dies, the results are the same, added up in one order.
"""
