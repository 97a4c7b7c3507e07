"""Run all notebooks and store their outputs: `python -m tests.notebooks`."""

from tests.notebooks import EXECUTED, FROM_PAGES, NOTEBOOKS, from_page, read, run, store, without_outputs

EXECUTED.mkdir(exist_ok=True)
for path in NOTEBOOKS:
    store(run(read(path)), EXECUTED / path.name)
    store(without_outputs(read(path)), path)
    print(path.name)
for path, page in FROM_PAGES.items():
    store(run(from_page(page)), path)
    print(path.name)
