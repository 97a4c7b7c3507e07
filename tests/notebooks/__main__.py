"""Run all notebooks and store their outputs: `python -m tests.notebooks`."""

from tests.notebooks import ENGINEERING, NOTEBOOKS, execute, from_page, run, store
from tests.pages import HERE

for path in NOTEBOOKS:
    store(execute(path), path)
    print(path.name)
store(run(from_page(HERE / "engineering.md")), ENGINEERING)
print(ENGINEERING.name)
