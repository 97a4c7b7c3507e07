"""As if this were Pyodide: what it offers for running JavaScript, by Node."""

import base64
import json
import subprocess
import sys
from array import array
from types import ModuleType, SimpleNamespace

import pytest

from micrograd.compiler.native import toolchain
from tests.javascript import NODE

SCRIPT = """
const functions = [];
const buffer = (numbers) => ({ getBuffer: () => ({ data: numbers, release() {} }) });
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { text, call, given } = JSON.parse(line);
  if (text !== undefined) return console.log(functions.push((0, eval)(text)) - 1);
  const buffers = [];
  const got = given.map((each) => {
    if (typeof each !== "string") return each;
    buffers.push(new Float64Array(new Uint8Array(Buffer.from(each, "base64")).buffer));
    return buffer(buffers.at(-1));
  });
  const result = functions[call](...got);
  console.log(JSON.stringify([result, buffers.map((numbers) => Buffer.from(numbers.buffer).toString("base64"))]));
});
"""


class Browser:
    """A Node that keeps functions, and calls them with numbers and with copies of buffers."""

    def __init__(self):
        self.calls = 0
        self._node = subprocess.Popen([NODE, "-e", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run_js(self, text):
        """The function that the text evaluates to, as one of Python."""
        number = self._ask(text=text)

        def called(*given):
            self.calls += 1
            buffers = [each for each in given if isinstance(each, (array, memoryview))]
            sent = [
                base64.b64encode(bytes(each)).decode() if isinstance(each, (array, memoryview)) else each
                for each in given
            ]
            result, numbers = self._ask(call=number, given=sent)
            for each, now in zip(buffers, numbers, strict=True):
                if not memoryview(each).readonly:
                    memoryview(each)[:] = memoryview(base64.b64decode(now)).cast("d")
            return result

        return called

    def close(self):
        """End Node."""
        self._node.communicate()

    def _ask(self, **message):
        self._node.stdin.write(json.dumps(message) + "\n")
        self._node.stdin.flush()
        return json.loads(self._node.stdout.readline())


@pytest.fixture
def pyodide(monkeypatch):
    """A Browser, in which everything is compiled with "auto"."""
    if NODE is None:
        pytest.skip("there is no Node here")
    browser = Browser()
    toolchain.warn_once.cache_clear()
    for name in "pyodide", "pyodide.code":
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["pyodide.code"].run_js = browser.run_js
    monkeypatch.setattr("micrograd.compiler.function.sys", SimpleNamespace(platform="emscripten"))
    monkeypatch.setattr("micrograd.compiler.native.library.require_compiler", no_compiler)
    yield browser
    browser.close()


def no_compiler():
    """Raise what a browser raises."""
    raise toolchain.CompilerError("no C compiler works here")
