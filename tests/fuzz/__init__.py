"""Random loops, compiled in many ways: `python -m tests.fuzz.loops` and `python -m tests.fuzz.scans`.

`bounded.py` has numbers that carry a bound of their rounding error: it shows how far apart two correct answers may be,
so a badly conditioned program raises no false alarm and excuses no wrong derivative.
"""
