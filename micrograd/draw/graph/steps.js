// The steps: each operation forward, the start at the root, each operation backward; and what happens at each, in words.

let step = 0;
const end = 2 * n + 1;
const hasWeights = graph.views.some(([, , , edges]) => edges.some(([, , , , , weight]) => weight != null));
let isTrying = false; // whether the reader moves a number: then all results are shown
const isKnown = i => i < first || ((i - first < step || isTrying) && !isUncomputed(i));
const reached = () => first + end - step; // backward: this node and those after it have passed their gradients on
const hasPassed = i => i >= reached() && !isRaised();
const now = () => (step === 0 ? -1 : step <= n ? first + step - 1 : Math.min(root, reached()));
const isDone = i => i === now() || (step > n ? hasPassed(i) : isKnown(i));
// The Value that stands where this step's does in the chosen example; and the one of the two that the words are about.
const there = () => shown(standIn(now(), false));
const explained = () => (isDone(there()) ? there() : now());
const share = (user, i) => operands(user).reduce((sum, k, place) => (k === i ? sum + C[user][place] : sum), 0);

// As far as it is known at this step; undefined before its first contribution, and for a constant.
function gradient(i) {
  if (step <= n || constants.has(i) || isRaised()) return undefined;
  if (i === root || hasPassed(users[i][0])) return G[i];
  const done = users[i].filter(hasPassed);
  return done.length ? done.reduce((sum, user) => sum + share(user, i), outside.get(i) ?? 0) : undefined;
}

// What happens at this step: a title, and further lines.
function sentence() {
  const i = explained();
  if (isRaised() && (isUncomputed(i) || step > n)) return ["Error", ...warnings()];
  if (i < 0)
    return n
      ? ["Start", `The inputs${hasWeights ? " and weights" : ""} are given. Step forward to compute each operation, and then, backward, each gradient.`]
      : ["A leaf alone", "It was computed from nothing."];
  if (step === n + 1) {
    const itself = `${partial(i, i)} = 1: how much ${nameOf(i)} changes with itself.`;
    const why = G[root] === 1 ? itself : "backward() was called on a Value computed from it.";
    return [`Backward starts: ${factor(i)}.grad = ${text(G[i])}`, why];
  }
  const [title, ...lines] = step <= n ? forwardWords(i) : backwardWords(i);
  const example = stacks.find(stack => stack.examples.has(i));
  const place = example ? `Example ${example.examples.get(i)[0] + 1}, ` : "";
  return [place + title, ...lines];
}

// What an operation computes: its formula with names, and with numbers.
function forwardWords(i) {
  const [op, formula] = operation(i),
    data = datum(i);
  const parts = new Set(formula ? [nameOf(i), named(formula, i), called(i), data] : [called(i), data]);
  const lines = [[...parts].join(" = ")];
  if (isChoice(i)) lines.push(`Python made the choice of ${op}() when the graph was built; it is fixed here.`);
  return [`forward: ${nameOf(i)} = ${data}`, ...lines];
}

// What an operation passes to each operand: its gradient times the derivative, by the chain rule.
function backwardWords(i) {
  const slopes = functions(i) ? passed(i, V, 1) : [],
    places = [...operands(i).keys()].filter(place => !constants.has(operands(i)[place]));
  const parts = places.slice(0, 12).map(place => {
    const k = operands(i)[place],
      total = `${text(C[i][place])}${users[k].length > 1 && users[k].at(-1) !== i ? `, now ${text(gradient(k))}` : ""}`;
    if (!functions(i)) return `${factor(k)}.grad += ${total}`;
    const slope = inside(slopes[place]),
      rule = operation(i)[2][place] ?? "",
      why = [rule && named(rule, i), rule && filled(rule, i), text(slopes[place])].filter((x, k, xs) => x && x !== xs[k - 1]);
    return html(
      "span",
      {},
      `${factor(k)}.grad += ${slope} × ${factor(i)}.grad = ${slope} × ${inside(G[i])} = ${total} `,
      html("small", {}, ...whole(`${partial(i, k)} = ${why.join(" = ")}`)),
    );
  });
  if (places.length > 12) parts.push(`And so on for ${places.length - 12} more.`);
  if (step === end && !failure) parts.unshift(`These are the gradients that backward() ${graph.called && !changes.size ? "left" : "leaves"}.`);
  return [`backward: ${partial(root, i)} = ${text(G[i])}`, ...parts];
}

function show(to) {
  step = to;
  isTrying = false;
  at("explanation").scrollTop = 0;
  if (now() >= 0) standIn(now(), true);
  update();
  return `step ${counted(step)} of ${counted(end)}, ${step === 0 ? "start" : step <= n ? "forward" : "backward"}`;
}
