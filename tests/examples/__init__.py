"""Example programs to read and run, such as `python -m tests.examples.digits`. The extra `[examples]` installs
what they use.
"""
