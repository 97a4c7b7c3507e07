"""Run all notebooks and store their outputs: `python -m tests.notebooks`."""

from tests.notebooks import NOTEBOOKS, execute, store

for path in NOTEBOOKS:
    store(execute(path), path)
    print(path.name)
