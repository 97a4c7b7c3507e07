"""Large graphs, long runs, failing machines and malicious files.

`python -m tests.stress` lists what it can run; the tests run smaller versions of the same.
"""
