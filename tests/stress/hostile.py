"""Damaged files, made from intact ones by flips, cuts and forged numbers; and labels that look like DOT and SVG."""

import math
import random
import signal
import tempfile
import time
import tracemalloc
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from micrograd import Value, nn, viz

PEAK = 8 << 20  # bytes that reading a file of less than a kilobyte may take
PATIENCE = 20  # seconds that it may take


def models(directory: Path) -> Iterator[bytes]:
    """Whole model files."""
    for model in nn.Neuron(3, "sigmoid", rng=1), nn.Layer(2, 3, "relu", rng=1), nn.MLP(2, [3, 1], rng=1):
        nn.save(model, directory / "model")
        yield (directory / "model").read_bytes()


FORGED = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\1", b"1e999", b"9" * 400, b'"', b"[" * 9)


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The content with some bytes flipped, cut, repeated, or replaced by what a forger would write."""
    damaged = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        i = rng.randrange(len(damaged) + 1)
        j = rng.randrange(i, min(len(damaged), i + 32) + 1)
        match rng.choice(("flip", "flip", "cut", "remove", "repeat", "forge")):
            case "flip" if i < len(damaged):
                damaged[i] ^= rng.choice((1 << rng.randrange(8), 255))
            case "cut":
                del damaged[i:]
            case "remove":
                del damaged[i:j]
            case "repeat":
                damaged[i:i] = damaged[i:j] * rng.randrange(1, 20)
            case "forge":
                forged = rng.choice(FORGED)
                damaged[i : i + len(forged)] = forged
    return bytes(damaged)


@contextmanager
def no_hang() -> Iterator[None]:
    """Raise TimeoutError if the block takes longer than it may."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"it takes more than {PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def read(path: Path, content: bytes) -> bool:
    """Read a hostile model. Returns whether it could be read; only a ValueError may say that it could not.

    Raises
    ------
    AssertionError
        If anything else happens, with the content.
    """
    path.write_bytes(content)
    tracemalloc.reset_peak()
    try:
        with no_hang():
            if not all(map(math.isfinite, nn.load(path).state_dict().values())):
                raise AssertionError("it was read, and holds what no such file may hold")
        readable = True
    except ValueError as error:
        readable = False
        if str(path) not in str(error):
            raise AssertionError(f"the error does not name the file: {error}; content {content!r}") from error
    except BaseException as error:
        raise AssertionError(f"{type(error).__name__}: {error}; content {content!r}") from error
    if (peak := tracemalloc.get_traced_memory()[1]) > PEAK:
        raise AssertionError(f"reading it took {peak:,} bytes; content {content!r}")
    return readable


def files(count: int, rng: random.Random) -> int:
    """Read that many damaged files. Returns how many could be read all the same."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "file")
        contents = list(models(Path(directory)))
        tracemalloc.start()
        try:
            for content in contents:
                if not read(path, content):
                    raise AssertionError("a whole file cannot be read")
            return sum(read(path, damaged(rng.choice(contents), rng)) for _ in range(count))
        finally:
            tracemalloc.stop()


# Labels

FRAGMENTS = [
    b'digraph {\n\tn0 [label="{x|data 3|grad 5}" fillcolor="#ddf4ff"]\n\tn0 -> op_n1\n}',
    b'<svg><script>alert("1")</script><text x="1">&lt;&#92;&amp;</text></svg>',
    b"<!-- --> <![CDATA[ ]]> <?xml version='1.0'?> &entity; %s %d \\N \\G \\L \\l \\r \\n {} | <f0> \\",
    "größe ∂L/∂w 重み \u202e\u2028\ufeff\U0001f600 \ud800".encode("utf-8", "surrogatepass"),
]


ELEMENTS = {"svg", "g", "a", "title", "text", "path", "polygon", "polyline", "ellipse"}
"""What a drawing consists of."""


def shown(text: str) -> list[str]:
    """The lines that a drawing has for a text: the same letters, and symbols for what XML cannot hold."""
    symbols = {c: chr(0x2400 + c) for c in range(32) if c != 10} | {0x7F: "\u2421"}
    symbols |= dict.fromkeys([*range(0xD800, 0xE000), 0xFFFE, 0xFFFF], "\ufffd")
    *lines, last = text.translate(symbols).replace("\xa0", " ").split("\n")
    return [line or " " for line in lines] + [last] * (last != "")


def labels(count: int, rng: random.Random) -> None:
    """Draw that many labels, as many operations named like that, and find all of them literally in the SVG.

    Raises
    ------
    AssertionError
        If one of them is not there, or something else is.
    """
    root = Value(0.0)
    expected = ["data 0"]
    for _ in range(count):
        decoding = rng.choice((("utf-8", "surrogateescape"), ("latin-1", "strict")))
        label, operation = (damaged(rng.choice(FRAGMENTS), rng).decode(*decoding) for _ in range(2))
        root = Value(0.0, (root,), operation, label=label)
        expected += [*shown(label), *shown(operation), "data 0"]
    svg = ElementTree.fromstring(viz.draw_dot(root).pipe())
    found = [(text.text or "").replace("\xa0", " ") for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    if sorted(found) != sorted(expected):
        missing, other = set(expected) - set(found), set(found) - set(expected)
        raise AssertionError(f"the drawing lacks {sorted(missing)!r:.500} and has {sorted(other)!r:.500}")
    if other := {element.tag.rpartition("}")[2] for element in svg.iter()} - ELEMENTS:
        raise AssertionError(f"the drawing has {other}, which come out of a label")


def main(count: int) -> None:
    """Read the files, and draw the labels."""
    seed = random.randrange(2**32)
    print(f"seed {seed}", flush=True)
    rng, started = random.Random(seed), time.perf_counter()
    readable, seconds = files(count, rng), time.perf_counter() - started
    print(f"{count:,} damaged files, {readable:,} of which could be read, in {seconds:.0f} s", flush=True)
    for _ in range(-(-count // 20 // 200)):
        labels(200, rng)
    print(f"{-(-count // 20 // 200) * 200:,} labels drawn and found")
