"""Random loops, compiled in many ways: `python -m tests.fuzz.loops` and `python -m tests.fuzz.scans`."""
