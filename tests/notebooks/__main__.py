"""Run all notebooks and store their outputs: `python -m tests.notebooks`."""

from tests.notebooks import ENGINEERING, EXECUTED, NOTEBOOKS, execute, from_page, read, run, store, without_outputs
from tests.pages import HERE

EXECUTED.mkdir(exist_ok=True)
for path in NOTEBOOKS:
    store(execute(path), EXECUTED / path.name)
    store(without_outputs(read(path)), path)
    print(path.name)
store(run(from_page(HERE / "engineering.md")), ENGINEERING)
print(ENGINEERING.name)
