// The numbers: V are the data and G the gradients of the Values, C the gradients that a node passes to its operands.

const graph = JSON.parse(at("graph").textContent);
const INFINITE = { inf: Infinity, "-inf": -Infinity };
const number = x => (typeof x === "string" ? (INFINITE[x] ?? NaN) : x);
const first = graph.first,
  size = graph.data.length,
  n = size - first,
  root = size - 1;
const constants = new Set(graph.constants);
const operands = i => graph.operands[i - first];
const functions = i => FUNCTIONS[graph.ops[i - first]];
const operation = i => graph.operations[graph.ops[i - first]];
const users = graph.data.map(() => []);
for (let i = first; i < size; i++) for (const k of operands(i)) if (users[k].at(-1) !== i) users[k].push(i);

const operandsData = (i, v) => operands(i).map(k => v[k]);
const forward = (v, from = first) => {
  for (let i = Math.max(from, first); i < size; i++)
    if (functions(i)) v[i] = functions(i)[0](operandsData(i, v))[0];
  return v;
};
const passed = (i, v, g) => (functions(i) ? functions(i)[1](operandsData(i, v), g) : graph.passed[i].map(number));

// What each node passes to its operands. From the root back, `give` is called with each operand and its share.
function passBack(v, g, give) {
  const c = [];
  for (let i = root; i >= first; i--) {
    c[i] = passed(i, v, g[i]);
    operands(i).forEach((k, place) => constants.has(k) || give(k, c[i][place]));
  }
  return c;
}

const [V0, G0] = [graph.data.map(number), graph.grad.map(number)];
const [rest, sizes] = [G0.slice(), G0.map(Math.abs)];
const C0 = passBack(V0, G0, (k, x) => {
  rest[k] -= x;
  sizes[k] += Math.abs(x);
});
// What comes from outside of the graph, unless it is rounding: the 1 that the root starts with, and what was in the leaves before.
const outside = new Map([...rest.entries()].filter(([i, x]) => Math.abs(x) > 1e-9 * sizes[i]));
const near = (a, b) => Object.is(a, b) || Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a), Math.abs(b));
const own = [...new Set(graph.ops)].filter(op => !FUNCTIONS[op]).map(op => graph.operations[op][0]);
// Its condition is not in the graph, since comparisons give plain bools.
const isChoice = i => i >= first && functions(i) && ["where", "take"].includes(operation(i)[0]);
let stale;
const isStale = () => (stale ??= !own.length && !forward(V0.slice()).every((x, i) => near(x, V0[i])));

const changes = new Map(); // the numbers that the reader set
let [V, G, C] = [V0, G0, C0];
let failure; // what fails for these numbers

function compute() {
  [V, G, C] = [V0, G0, C0];
  if (changes.size) {
    V = V0.slice();
    for (const [i, x] of changes) V[i] = x;
    forward(V);
    G = new Array(size).fill(0);
    for (const [i, x] of outside) G[i] = x;
    C = passBack(V, G, (k, x) => (G[k] += x));
  }
  failure = failing();
  update();
}

const OVERFLOWING = ["+", "-", "*", "dot", "sum", "mean"]; // Python leaves an infinity; other operations raise an error

// The first operation that fails for the numbers that the reader set, though its operands are finite: its result is not
// or, if all results are, its derivatives. If it raises an error in Python, there are no results from there on.
function failing() {
  const isFinite = xs => xs.every(Number.isFinite);
  const fails = (i, found) => isFinite(operandsData(i, V)) && !isFinite(found);
  const nodes = changes.size ? [...V.keys()].slice(first) : [];
  const forward = nodes.find(i => fails(i, [V[i]])),
    i = forward ?? nodes.findLast(i => fails(i, passed(i, V, 1)));
  if (i === undefined) return;
  const op = operation(i)[0],
    raises = !OVERFLOWING.includes(op) && (op !== "/" || V[operands(i)[1]] === 0);
  return { i, isForward: i === forward, raises };
}

const isRaised = () => !!failure?.raises; // then there are no gradients
const isUncomputed = i => isRaised() && failure.isForward && i >= failure.i;

// The central difference of the result with respect to a Value.
function difference(i) {
  const total = v => [...outside].reduce((sum, [k, x]) => (k < first ? sum : sum + x * v[k]), 0);
  const h = 6e-6 * Math.max(1, Math.abs(V[i]));
  const [up, down] = [h, -h].map(h => {
    const v = V.slice();
    v[i] += h;
    return total(forward(v, i + 1));
  });
  return (up - down) / (2 * h) + (i < first ? (outside.get(i) ?? 0) : 0);
}
