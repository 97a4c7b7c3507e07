"""What a library meets in the end: large graphs, long runs, failing machines and hostile files.

`python -m tests.stress` says what there is to run; the tests run smaller versions of the same.
"""
