"""Compiled functions on many processes and machines, by any Executor in the manner of Python's `concurrent.futures`.

    worker.py    the worker's side: it caches the programs and examples that come with tasks, and runs the tasks
    pool.py      the caller's side: tasks are submitted to executors until they are answered, whatever goes wrong
    shards.py    training: examples in shards, and the sum of their gradients at each step
    map.py       `map` and `backward`: examples in chunks, each computed once

Every worker can run every task, at any time, and more than once: its cache only saves sending things again. So whoever
answers and whoever dies, the results are the same, added in one order.
"""
