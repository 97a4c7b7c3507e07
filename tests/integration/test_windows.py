"""Generated code on Windows: built by MinGW and run under wine, where a long has 32 bits and pointers have 64."""

import os
import random
import re
import shutil
import subprocess

import pytest

from micrograd import Value
from micrograd.compiler.native import loop
from micrograd.compiler.native.update import UpdateKernel
from micrograd.compiler.targets import spelling
from micrograd.optim import SGD

GCC = shutil.which("x86_64-w64-mingw32-gcc")
WINE = shutil.which("wine64") or shutil.which("wine64", path="/usr/lib/wine")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not WINE, reason="wine64 runs programs for Windows: apt-get install wine64"),
    pytest.mark.skipif(not GCC, reason="apt-get install gcc-mingw-w64-x86-64"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What programs for Windows print, which end at once where C leaves undefined what they do."""
    home = tmp_path_factory.mktemp("windows")
    environment = {
        **os.environ,
        "WINEPREFIX": str(home / "wine"),
        "WINEDEBUG": "-all",
        "DISPLAY": "",
        "WINEDLLOVERRIDES": "mscoree,mshtml=",  # which it would ask to install
    }

    def run(source):
        (home / "program.c").write_text(source)
        command = [GCC, "-std=gnu99", "-O1", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
        subprocess.run([*command, "-o", "program.exe", "program.c"], cwd=home, env=environment, check=True)
        done = subprocess.run(
            [WINE, "program.exe"], cwd=home, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout.split()

    return run


SHUFFLE = """#include <stdio.h>
#include <stdint.h>
%s
static int64_t order[70000];

static void shuffled(int n, int times)
{
    uint32_t state[625] = {%s};
    for (int i = 0; i < times; i++)
        shuffle(state, order + n * i, n);
    for (int i = 0; i < n * times; i++)
        printf("%%d ", (int)order[i]);
}

int main(void)
{
    %s
    return 0;
}
"""


def test_examples_are_shuffled_as_python_does(run):
    sizes, expected = ((7, 20), (257, 2), (70_000, 1)), []
    for n, times in sizes:
        rng = random.Random(3)
        words = ", ".join(f"{word}u" for word in rng.getstate()[1])
        for _ in range(times):
            order = list(range(n))
            rng.shuffle(order)
            expected += order
    [shuffle] = re.findall(r"static uint32_t word.*?\nvoid shuffle.*?\n}\n", spelling.source("loop.c"), re.DOTALL)
    calls = "\n    ".join(f"shuffled({n}, {times});" for n, times in sizes)
    assert [*map(int, run(SHUFFLE % (shuffle, words, calls)))] == expected


def test_a_training_is_what_it_is_here(run):
    """Both sides of the border lay a job out alike: its size and its last field are where ctypes has them."""
    main = """
#include <stddef.h>
#include <stdio.h>
int main(void) { printf("%d %d", (int)sizeof(job), (int)offsetof(job, taken)); return 0; }"""
    expected = [loop.ctypes.sizeof(loop.LoopArguments), loop.LoopArguments.taken.offset]
    assert [*map(int, run(loop.source(UpdateKernel(SGD([Value(1.0)]))) + main))] == expected
