"""The command: `python -m tests.pictures`."""

from tests.pictures import HERE, draw

for name, text in draw().items():
    (HERE / f"{name}.svg").write_text(text, encoding="utf-8")
    print(f"written: {HERE / name}.svg")
