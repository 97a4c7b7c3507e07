"""Compiled functions on many processes and machines, with any executor like those of `concurrent.futures`.

A task has the same answer on every worker and at any time, and answers are added up in a fixed order, so the results do
not depend on which worker answers first. Whether a task is tried again is up to the executor, as with Dask's `retries`.
"""
