"""Training steps in a browser's engine: the playground's Web Worker against `nn.ts` of TensorFlow Playground.

Both train the same tanh network from the same weights on the same ten points, all in a batch, by gradient descent on
half the squared error, in Node. `nn.ts` is not part of this checkout: NN_TS is the path of that file in a clone of
tensorflow/playground, and npm's TypeScript compiles it, in a temporary directory. Without it, ours is measured alone.
"""

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import Benchmark, Contestant, Measure

POINTS = 10
RATE = 0.03
NN_TS = "NN_TS"
SIZES = ([2, 4, 2, 1], [2, 8, 8, 1])

RUN = """
import { createInterface } from "node:readline";
for await (const line of createInterface({ input: process.stdin })) {
  restart();
  const loss = train(20);
  let steps = 1000, elapsed = 0;
  while (elapsed < 0.1) { // seconds
    const start = performance.now();
    train(steps);
    elapsed = (performance.now() - start) / 1000;
    if (elapsed < 0.1) steps *= 2;
  }
  console.log(JSON.stringify([elapsed / steps, loss]));
}
"""
OURS = """
const answers = [];
globalThis.self = { postMessage: (answer) => answers.push(answer) };
const settings = { learningRate: RATE, batchSize: Infinity, weightDecay: 0 };
const ask = (what) => (self.onmessage({ data: { id: 0, model: 0, settings, ...what } }), answers.pop().loss);
WORKER
ask({ open: [{ starts: [], outputs: 1 }], inputs: 2, examples: Float64Array.from(ROWS.flat()), held: [] });
const restart = () => ask({ reset: null });
const train = (steps) => ask({ steps });
"""
THEIRS = """
import * as nn from "./nn.mjs";
const { TANH } = nn.Activations, rows = ROWS, weights = WEIGHTS;
const network = nn.buildNetwork(SIZES, TANH, TANH, null, ["x", "y"]);
function restart() {
  let i = 0;
  for (const node of network.slice(1).flat()) {
    for (const link of node.inputLinks) link.weight = weights[i++];
    node.bias = weights[i++];
  }
}
function train(steps) {
  for (let step = 0; step < steps; step++) {
    for (const row of rows) {
      nn.forwardProp(network, [row[0], row[1]]);
      nn.backProp(network, row[2], nn.Errors.SQUARE);
    }
    nn.updateWeights(network, RATE, 0);
  }
  let sum = 0;
  for (const row of rows) sum += nn.Errors.SQUARE.error(nn.forwardProp(network, [row[0], row[1]]), row[2]);
  return sum / rows.length;
}
"""


def benchmarks() -> list[Benchmark]:
    """A step of each of two networks."""
    path = os.environ.get(NN_TS, "")
    return [
        Benchmark(
            f"training step in Node, {'-'.join(map(str, sizes))} tanh, {POINTS} points",
            (Contestant("the playground", our_steps, (sizes,)),),
            (Contestant("nn.ts", their_steps, (sizes, path)),) if path else (),
            rounds=9,
        )
        for sizes in SIZES
    ]


def _task(sizes: list[int]) -> tuple[Any, list[list[float]], list[float]]:
    """A network, and its examples."""
    import random

    from micrograd import nn

    rng = random.Random(1)
    points = [[rng.uniform(-1, 1), rng.uniform(-1, 1)] for _ in range(POINTS)]
    return nn.MLP(sizes[0], sizes[1:], output="tanh", rng=1), points, [1.0 if x * y > 0 else -1.0 for x, y in points]


def our_steps(sizes: list[int]) -> Measure:
    """The steps of the worker in a playground's page."""
    from micrograd.draw.playground.page import page
    from micrograd.optim import SGD

    model, xs, ys = _task(sizes)
    html = page(model, lambda output, y: 0.5 * (output - y) ** 2, xs, ys, SGD(model.parameters(), RATE))
    [worker] = re.findall('<script type="text/plain" id="worker">(.*?)</script>', html, re.DOTALL)
    return _in_node(OURS.replace("WORKER", worker), sizes)


def their_steps(sizes: list[int], path: str) -> Measure:
    """The steps of TensorFlow Playground."""
    return _in_node(THEIRS, sizes, path)


def _in_node(script: str, sizes: list[int], source: str = "") -> Measure:
    """The measurement by a script with `restart` and `train`, in a process that waits for its turns."""
    model, xs, ys = _task(sizes)
    rows = [[*x, y] for x, y in zip(xs, ys, strict=True)]
    numbers = {"ROWS": rows, "RATE": RATE, "SIZES": sizes, "WEIGHTS": [p.data for p in model.parameters()]}
    for name, number in numbers.items():
        script = re.sub(rf"\b{name}\b", json.dumps(number), script)
    temporary = tempfile.TemporaryDirectory()
    directory = Path(temporary.name)
    (directory / "run.mjs").write_text(script + RUN, encoding="utf-8")
    if source:
        subprocess.run(["npm", "install", "--silent", f"--prefix={directory}", "typescript@5"], check=True)
        (directory / "nn.ts").write_text(Path(source).read_text(encoding="utf-8"), encoding="utf-8")
        compiler = directory / "node_modules" / ".bin" / "tsc"
        subprocess.run(
            [compiler, "--target", "es2020", "--module", "es2020", "--noCheck", "nn.ts"], cwd=directory, check=True
        )
        (directory / "nn.js").rename(directory / "nn.mjs")
    node = subprocess.Popen(
        ["node", "run.mjs"], cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def measure() -> tuple[float, float]:
        assert node.stdin, temporary  # which is there as long as this
        assert node.stdout
        print(file=node.stdin, flush=True)
        cost, loss = json.loads(node.stdout.readline())
        return cost, loss

    return measure
