"""Mutation testing: small errors are introduced into the package, one at a time, and the tests must detect each.

`python -m tests.mutation` tries all modules, `python -m tests.mutation engine nn` some. A first run of the tests finds
which of them run each line, so that an error is met by those alone, the quickest first. A few mutants survive because
they change nothing.
"""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
