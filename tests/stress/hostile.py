"""Damaged files, made from intact ones by flips, cuts and forged numbers."""

import math
import random
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from micrograd import nn

PEAK = 8 << 20  # bytes that reading a file of less than a kilobyte may take


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


def main(count: int) -> None:
    """Read the files."""
    seed = random.randrange(2**32)
    print(f"seed {seed}", flush=True)
    rng, started = random.Random(seed), time.perf_counter()
    readable, seconds = files(count, rng), time.perf_counter() - started
    print(f"{count:,} damaged files, {readable:,} of which could be read, in {seconds:.0f} s", flush=True)
