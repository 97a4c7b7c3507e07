const graph = JSON.parse(at("graph").textContent);

// The numbers: V are the data and G the gradients of the Values, C the gradients that a node passes to its operands

const INFINITE = { inf: Infinity, "-inf": -Infinity };
const number = x => (typeof x === "string" ? (INFINITE[x] ?? NaN) : x);
const first = graph.first,
  size = graph.data.length,
  n = size - first,
  root = size - 1;
const end = 2 * n + 1; // steps: each operation forward, the start at the root, each operation backward
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
const backward = v => {
  const g = new Array(size).fill(0),
    c = [];
  for (const [i, x] of outside) g[i] += x;
  for (let i = root; i >= first; i--) {
    c[i] = passed(i, v, g[i]);
    operands(i).forEach((k, place) => {
      if (!constants.has(k)) g[k] += c[i][place];
    });
  }
  return [g, c];
};

const [V0, G0, C0] = [graph.data.map(number), graph.grad.map(number), []];
const [rest, sizes] = [G0.slice(), G0.map(Math.abs)];
for (let i = root; i >= first; i--) {
  C0[i] = passed(i, V0, G0[i]);
  operands(i).forEach((k, place) => {
    if (constants.has(k)) return;
    rest[k] -= C0[i][place];
    sizes[k] += Math.abs(C0[i][place]);
  });
}
// what comes from outside of the graph, unless it is rounding: the 1 that the root starts with, and what was in the leaves before
const outside = [...rest.entries()].filter(([i, x]) => Math.abs(x) > 1e-9 * sizes[i]);
const near = (a, b) => Object.is(a, b) || Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a), Math.abs(b));
const own = [...new Set(graph.ops)].filter(op => !FUNCTIONS[op]).map(op => graph.operations[op][0]);
// its condition is not in the graph, since comparisons give plain bools
const isChoice = i => i >= first && functions(i) && ["where", "take"].includes(operation(i)[0]);
const hasChoices = graph.data.some((_, i) => isChoice(i));
const once = make => {
  let made;
  return () => (made ??= make());
};
const isStale = once(() => !own.length && !forward(V0.slice()).every((x, i) => near(x, V0[i])));
const changes = new Map(); // the numbers that the reader set
let [V, G, C] = [V0, G0, C0];
const shares = i => (C[i] ??= passed(i, V, G[i]));

function compute() {
  [V, G, C] = [V0, G0, C0];
  if (changes.size) {
    V = V0.slice();
    for (const [i, x] of changes) V[i] = x;
    forward(V);
    [G, C] = backward(V);
  }
  update();
}

function difference(i) {
  // the central difference of the result with respect to a Value
  const total = v => outside.reduce((sum, [k, x]) => (k < first ? sum : sum + x * v[k]), 0);
  const h = 6e-6 * Math.max(1, Math.abs(V[i]));
  const [up, down] = [h, -h].map(h => {
    const v = V.slice();
    v[i] += h;
    return total(forward(v, i + 1));
  });
  return (up - down) / (2 * h) + (i < first ? outside.reduce((sum, [k, x]) => (k === i ? sum + x : sum), 0) : 0);
}

// Numbers and names as text

const sign = x => (x < 0 ? "minus" : "plus");
const datum = (i, room) =>
  !changes.size && graph.exact[i]?.length <= (room ?? 12) ? graph.exact[i] : text(V[i], room);
const inFull = x => `${x}`.replaceAll("-", "−");
const inside = x => (x < 0 ? `(${text(x)})` : text(x));
const isOne = formula => /^\{\w+\}$/.test(formula);
const standsFor = (k, i) => (k === "y" ? i : operands(i)[k]); // the Value that a formula calls {y}, {0}, {1}, ...
const filled = (formula, i) => {
  const words = formula.replace(/\{(\w+)\}/g, (_, k) => (isOne(formula) ? text : inside)(V[standsFor(k, i)]));
  return words.replace(/\((\(−[\d.e−]+\))\)/g, "$1");
};
const SIGNS = { "-": "−", "*": "×", "/": "÷", "**": "^", neg: "−" };
const opName = i => SIGNS[operation(i)[0]] ?? operation(i)[0];
const nameOf = i => {
  const name = constants.has(i) ? datum(i) : graph.names[i];
  return name.length > 24 ? "…" + name.slice(-23) : name;
};
const factor = i => (nameOf(i).includes(" ") ? `(${nameOf(i)})` : nameOf(i)); // the name within a formula
const named = (formula, i) =>
  formula.replace(/\{(\w+)\}/g, (all, k, at) => {
    const isArgument = formula[at - 1] === "(" && formula[at + all.length] === ")";
    return (isArgument || isOne(formula) ? nameOf : factor)(standsFor(k, i));
  });
// Text in which fractions, such as ∂c/∂a and 1/3, are not broken at the end of a line.
const whole = words =>
  words
    .split(/(∂(?:\(.*?\)|[^\s/]+)\/∂(?:\(.*?\)+|\S+)|\S+\/\S+)/)
    .map((part, k) => (k % 2 ? html("span", { className: "whole", textContent: part }) : part));
const partial = (of, by) => `∂${factor(of)}/∂${factor(by)}`;

// Steps

let step = 0;
const passes = () => Math.max(0, step - n - 1); // the number of nodes that have passed their gradient on
let isTrying = false; // whether the reader moves a number: then all results are shown
const isKnown = i => i < first || i - first < step || isTrying;
const hasPassed = i => i >= size - passes();
const now = () => (step === 0 ? -1 : step <= n ? first + step - 1 : step === n + 1 ? root : size - passes());

function gradient(i) {
  // as far as it is known at this step; undefined before its first contribution, and for a constant
  if (step <= n || constants.has(i)) return undefined;
  if (i === root || hasPassed(users[i][0])) return G[i];
  const done = users[i].filter(hasPassed);
  return done.length
    ? outside.reduce((sum, [k, x]) => (k === i ? sum + x : sum), 0) + done.reduce((sum, u) => sum + share(u, i), 0)
    : undefined;
}

const share = (user, i) => operands(user).reduce((sum, k, place) => (k === i ? sum + shares(user)[place] : sum), 0);

function sentence() {
  // what happens at this step: a title, and further lines
  const i = now();
  if (i < 0)
    return n
      ? ["Start", "The inputs and weights are given. Step forward to compute each operation, and then, backward, each gradient."]
      : ["A leaf alone", "It was computed from nothing."];
  const example = stacks.find(stack => stack.examples.has(i)),
    place = example ? `Example ${example.examples.get(i)[0] + 1}, ` : "";
  if (step <= n) {
    const formula = operation(i)[1],
      names = formula && named(formula, i),
      numbers = formula ? `${filled(formula, i)} = ` : operands(i).length > 1 ? "" : `${opName(i)}(${datum(operands(i)[0])}) = `;
    return [
      `${place}forward: ${nameOf(i)} = ${datum(i)}`,
      `${names && names !== nameOf(i) ? `${nameOf(i)} = ` : ""}${names ? `${names} = ` : ""}` +
        `${numbers || `${opName(i)} of ${operands(i).length} operands = `}${datum(i)}`,
      ...(isChoice(i) ? [`Python made the choice of ${opName(i)}() when the graph was built; it is fixed here.`] : []),
    ];
  }
  if (step === n + 1)
    return [
      `Backward starts: ${factor(i)}.grad = ${text(G[i])}`,
      G[root] === 1
        ? `${partial(i, i)} = 1: how much ${nameOf(i)} changes with itself.`
        : "backward() was called on a Value computed from it.",
    ];
  const slopes = functions(i) ? passed(i, V, 1) : [],
    places = operands(i)
      .map((_, place) => place)
      .filter(place => !constants.has(operands(i)[place]));
  const parts = places.slice(0, 12).map(place => {
    const k = operands(i)[place],
      total = `${text(shares(i)[place])}${users[k].length > 1 && users[k].at(-1) !== i ? `, now ${text(gradient(k))}` : ""}`;
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
  if (step === end)
    parts.push(`These are the gradients that backward() ${graph.called && !changes.size ? "left" : "leaves"}.`);
  return [`${place}backward: ${partial(root, i)} = ${text(G[i])}`, ...parts];
}

function show(to) {
  step = to;
  isTrying = false;
  if (now() >= 0) standIn(now(), true);
  update();
  return `step ${step} of ${end}, ${step === 0 ? "start" : step <= n ? "forward" : "backward"}`;
}

// Examples: a stack shows one at a time, in the place of the first

const stacks = graph.stacks.map(members => {
  const places = new Map(members[0].map((i, k) => [i, k])),
    examples = new Map();
  members.forEach((member, j) =>
    member.forEach((i, k) => {
      if (!examples.has(i)) examples.set(i, [j, k]);
    }),
  );
  return { members, places, examples, chosen: 0 };
});

function shown(i, inner) {
  // the Value of the chosen example in the place of one of the first example
  for (const s of inner) {
    const place = stacks[s].places.get(i);
    if (place !== undefined) i = stacks[s].members[stacks[s].chosen][place];
  }
  return i;
}

function standIn(i, choose) {
  // the first example's Value that stands where another example's Value does; it may become the chosen one
  for (const stack of stacks) {
    const found = stack.examples.get(i);
    if (!found) continue;
    if (choose && i >= first) stack.chosen = found[0];
    i = stack.members[0][found[1]];
  }
  return i;
}

// Views

const views = graph.views.map(([title, place, items, edges]) => {
  const [corners, passes, width, height] = graph.places[place];
  return {
    title,
    width,
    height,
    get items() {
      Object.defineProperty(this, "items", { value: items.map((item, k) => unpack(item, ...corners[k])) });
      return this.items;
    },
    get edges() {
      const fields = ["source", "target", "port", "count", "value", "weight", "user", "place"];
      const named = (edge, k) => ({ ...Object.fromEntries(fields.map((field, j) => [field, edge[j]])), passes: passes[k] });
      Object.defineProperty(this, "edges", { value: edges.map(named) });
      return this.edges;
    },
  };
});
let drawn = [], // the visible views: the whole graph, and what is unfolded in it
  opened = [], // the unfolded cards, the latest last
  chosen = -1; // the Value whose details are shown

function unpack([shape, kind, texts, values, opens, parts, inner], x, y) {
  const [width, height, , slots, divider, isStacked] = graph.shapes[shape];
  const more = parts.filter(i => !values.includes(i)),
    isStub = kind === "stub";
  return { x, y, width, height, divider, isStacked, slots, kind, texts, values, more, opens, isStub, inner };
}

function contents(view) {
  // the item of each Value in a view
  if (!view.contents) {
    view.contents = new Map();
    view.items.forEach((item, k) => {
      if (item.isStub) return;
      for (const i of [...item.values, ...item.more]) if (!view.contents.has(i)) view.contents.set(i, k);
      if (!item.values.length && item.opens >= 0)
        for (const i of contents(views[item.opens]).keys()) view.contents.set(i, k);
    });
    for (const item of view.items) if (item.values.length) view.contents.set(item.values[0], view.items.indexOf(item));
  }
  return view.contents;
}

function cardOf(i) {
  // the innermost card of a Value
  const place = standIn(i, false);
  let card,
    view = views[0];
  while (view) {
    card = view.items[contents(view).get(place)];
    view = card?.isOpen && views[card.opens];
  }
  return card;
}

const HEAD = 22; // height of the title of an unfolded card

function stretch(spans) {
  // a function from old to new places when each span [from, to, length] grows: the rest moves, and nothing overlaps
  const cuts = [...new Set(spans.flatMap(([from, to]) => [from, to]))].sort((a, b) => a - b);
  const pieces = cuts.slice(1).map((to, k) => {
    const around = spans.filter(span => span[0] <= cuts[k] && span[1] >= to);
    return [cuts[k], to, Math.max(1, ...around.map(([a, b, length]) => length / (b - a))) - 1];
  });
  return p => pieces.reduce((sum, [from, to, more]) => sum + more * Math.min(Math.max(p - from, 0), to - from), p);
}

function arrange(view) {
  // place each card, and find the extent of the view between its stubs
  for (const item of view.items) {
    const inner = item.isOpen ? arrange(views[item.opens]) : null;
    item.w = inner ? Math.max(inner.right - inner.left, 60) : item.width;
    item.h = inner ? inner.bottom + HEAD : item.height;
  }
  const spans = (start, size, length) =>
    view.items.filter(item => item.isOpen).map(item => [item[start], item[start] + item[size], item[length]]);
  const x = (view.stretchX = stretch(spans("x", "width", "w"))),
    y = (view.stretchY = stretch(spans("y", "height", "h")));
  for (const item of view.items) {
    item.left = (x(item.x) + x(item.x + item.width) - item.w) / 2;
    item.top = (y(item.y) + y(item.y + item.height) - item.h) / 2;
  }
  [view.left, view.right, view.bottom] = [0, x(view.width), y(view.height)];
  for (const { source, target } of view.edges) {
    const [a, b] = [view.items[source], view.items[target]];
    if (a.isStub) view.left = Math.max(view.left, a.left + a.w);
    if (b.isStub) view.right = Math.min(view.right, b.left);
    a.isSource = true;
  }
  return view;
}

function door(item, other, isSource) {
  // the height at which the edge to another card leaves a card; from a frame, where that card's stub is
  if (!item.isOpen) return item.h / 2 + 3 * item.isStacked;
  const stubs = views[item.opens].items.filter(stub => stub.isStub && !!stub.isSource === isSource);
  const stub = stubs.find(stub => stub.opens === other.opens && stub.values[0] === other.values[0]);
  return stub ? HEAD + stub.top + stub.h / 2 : item.h / 2;
}

let scale = 1; // of the drawing: as large as the window allows while all is folded, and then the same
const [SMALLEST, LARGEST] = [1.1, 2];

function render() {
  const view = arrange(views[0]),
    { right: width, bottom: height } = view,
    frame = at("drawing");
  drawn = [];
  if (!opened.length) {
    const room = Math.min((frame.clientWidth - 2) / width, (frame.clientHeight - 2) / height);
    scale = Math.min(Math.max(room, SMALLEST), LARGEST);
  }
  const attributes = { width: scale * width, height: scale * height, viewBox: `0 0 ${width} ${height}` };
  frame.replaceChildren(svg("svg", { ...attributes, role: "group", "aria-label": "The graph" }, ...picture(view)));
  at("fold-all").hidden = !opened.length;
  fade();
  const inner = [...new Set(drawn.flatMap(view => view.items.flatMap(item => item.inner)))];
  at("examples").replaceChildren(
    ...inner.map(s => {
      const input = html("input", {
        type: "number",
        min: 1,
        max: stacks[s].members.length,
        value: stacks[s].chosen + 1,
      });
      input.oninput = () => {
        if (input.value >= 1 && input.value <= +input.max) {
          stacks[s].chosen = Math.floor(input.value) - 1;
          update();
        }
      };
      stacks[s].input = input;
      return html("label", {}, "Example ", input, ` of ${stacks[s].members.length} `);
    }),
  );
  update();
}

function picture(view, frame) {
  drawn.push(view);
  const cards = view.items.filter(item => !item.isStub);
  const edges = view.edges.map(edge => (edge.drawn = svg("path", { d: (edge.paths = curve(view, edge))[0] })));
  return [
    ...edges,
    ...cards.map(item => {
      item.frame = frame;
      return (item.drawn = item.isOpen ? unfolded(item) : draw(item));
    }),
    ...cards.map(
      item =>
        (item.share = svg("text", {
          class: "share",
          "text-anchor": "end",
          x: item.left + item.w,
          y: item.top + item.h + (item.isStacked ? 15.5 : 9.5), // clear of its border, and of the next card
        })),
    ),
  ];
}

function unfolded(item) {
  const view = views[item.opens],
    title = view.title || "these";
  const bar = svg(
    "g",
    { class: "bar", "aria-expanded": true, "aria-label": `Fold ${title}` },
    svg("rect", { width: item.w, height: HEAD, rx: 6 }),
    svg("text", { class: "title", x: 22, y: 15 }, fitted(title, item.w - 28)),
    turn(4, 11, true),
  );
  onPress(bar, () => fold(item));
  return svg(
    "g",
    { transform: `translate(${item.left} ${item.top})`, class: "frame" },
    svg("rect", { class: "box", width: item.w, height: item.h, rx: 6 }),
    svg("g", { transform: `translate(${-view.left} ${HEAD})` }, ...picture(view, item)),
    bar,
  );
}

// The triangle that unfolds a card, or folds it: it points to the right, or down.
const turn = (x, y, isOpen) =>
  svg(
    "g",
    { class: "turn", transform: `translate(${x} ${y})` },
    svg("rect", { x: -4, y: -11, width: 22, height: 22 }),
    svg("path", { d: isOpen ? "M2-3h10l-5 7z" : "M4-5v10l7-5z" }),
  );

const fitted = (words, room) => (words.length * 7 <= room ? words : `${words.slice(0, Math.floor(room / 7) - 1)}…`);

function unfold(item) {
  item.isOpen = true;
  opened.push(item);
  render();
  look(item, ".bar");
}

function fold(item) {
  const close = item => {
    item.isOpen = false;
    views[item.opens].items.filter(inner => inner.isOpen && !inner.isStub).forEach(close);
  };
  close(item);
  opened = opened.filter(item => item.isOpen);
  render();
  look(item, "");
}

function look(item, part) {
  follow(item);
  (part ? item.drawn.querySelector(`:scope > ${part}`) : item.drawn).focus({ preventScroll: true });
}

function curve(view, edge) {
  // level where it starts, where it passes cards and frames, and where it ends
  const source = view.items[edge.source],
    target = view.items[edge.target],
    isInside = target.isStub || target.isOpen; // it continues across the frame
  const clear = (x, side, bound) => {
    const beside = view.items.filter(item => item.isOpen && item.x <= x && x <= item.x + item.width);
    return bound(view.stretchX(x), ...beside.map(item => view.stretchX(item.x + side * item.width)));
  };
  const level = target.top + (isInside ? door(target, source, true) : edge.port),
    end = target.isStub ? view.right : target.left,
    last = target.isStub ? end : clear(target.x, 0, Math.min);
  let x = source.isStub ? view.left : clear(source.x + source.width, 1, Math.max),
    y = source.top + door(source, target, false),
    path = `M${source.isStub ? x : source.left + source.w} ${y}H${x}`;
  const passes = edge.passes.map(([left, right, height]) => [
    clear(left, 0, Math.min),
    clear(right, 1, Math.max),
    view.stretchY(height),
  ]);
  for (const [left, right, height] of [...passes, [last, end, level]]) {
    path += `C${(x + left) / 2} ${y} ${(x + left) / 2} ${height} ${left} ${height}H${right}`;
    [x, y] = [right, height];
  }
  const start = `${source.left + source.w + 4 + 6 * source.isStacked} ${source.top + door(source) - 2.5}`,
    leaves = source.isStub || source.isOpen ? "" : `M${start}l-4 2.5 4 2.5`;
  return [isInside ? path : `${path}m-4-2.5 4 2.5-4 2.5`, path + leaves]; // forward, and backward
}

function draw(item) {
  const { left, top, width, height } = item;
  const box = shift => svg("rect", { class: "box", x: shift, y: shift, width, height, rx: 6 });
  const g = svg(
    "g",
    { transform: `translate(${left} ${top})` },
    ...(item.isStacked ? [box(6), box(3)] : []),
    box(0),
  );
  if (item.divider) g.append(svg("path", { class: "rule", d: `M${item.divider} 5v${height - 10}` }));
  item.words = item.slots.map(([x, y, anchor, look]) => svg("text", { x, y, "text-anchor": anchor, class: look }));
  g.append(...item.words);
  if (item.opens >= 0) {
    const y = item.slots.find(([, , , look]) => look === "data")?.[1] ?? 31,
      opener = turn(width - 17, y - 4, false);
    opener.onclick = event => {
      event.stopPropagation();
      unfold(item);
    };
    g.append(opener);
  }
  onPress(g, byKey => pick(item, byKey));
  return g;
}

function pick(item, byKey) {
  // once shows its details, twice unfolds it
  const i = item.values.length ? shown(item.values[0], item.inner) : -1;
  if (item.opens >= 0 && (i < 0 || i === chosen)) return unfold(item);
  if (i < 0) return;
  choose(i);
  if (byKey) at("details").focus();
}

// What changes from step to step

function update() {
  const active = now() < 0 ? undefined : cardOf(now()),
    picked = chosen < 0 ? undefined : cardOf(chosen);
  const [title, ...lines] = sentence();
  at("title").replaceChildren(...whole(title[0].toUpperCase() + title.slice(1)));
  at("sentence").replaceChildren(...lines.map(line => html("p", {}, ...(typeof line === "string" ? whole(line) : [line]))));
  at("key").classList.toggle("back", step > n);
  at("result").textContent = isKnown(root) ? `${nameOf(root)} = ${datum(root)}` : "";
  for (const { input, chosen } of stacks) if (input?.value && +input.value !== chosen + 1) input.value = chosen + 1;
  for (const view of drawn) {
    for (const item of view.items) if (!item.isStub) dress(item, item === active, item === picked);
    connect(view);
  }
  details();
  learning();
  if (active) follow(active);
}

function dress(item, isActive, isPicked) {
  item.share.textContent = "";
  if (item.isOpen) return;
  const ids = item.values.map(i => shown(i, item.inner)),
    titles = [],
    numbers = [],
    isChosen = isPicked || ids[0] === chosen;
  item.drawn.setAttribute("class", `card ${item.kind}${isActive ? " now" : ""}${isChosen ? " chosen" : ""}`);
  item.slots.forEach(([, , , look, kind, of, room], k) => {
    const word = item.words[k];
    let shape = look,
      words = kind;
    if (kind === "text") words = item.texts[of];
    else if (of >= 0) {
      const i = ids[of],
        x = kind === "grad" ? gradient(i) : isKnown(i) ? V[i] : undefined;
      words = x === undefined ? "" : kind === "grad" ? text(x, room) : datum(i, room);
      if (look === "weight" || look === "grad") shape += ` ${sign(x)}`;
      if (of === 0 && words) numbers.push(kind === "grad" ? `gradient ${words}` : words);
    } else if (kind === "grad" && look === "word" && step <= n) words = "";
    if (kind === "text" && words) titles.push(words);
    word.setAttribute("class", shape);
    if (word.textContent !== words) word.textContent = words;
    hold(word, words, kind);
  });
  item.drawn.setAttribute("aria-label", [...titles, ...numbers].join(", ") || "a Value");
}

function hold(word, words, kind) {
  // a label of letters that a font may lack must not leave its card
  if (kind !== "text" || /^[\x20-\x7e…–−×÷]*$/.test(words)) return;
  const room = 88;
  word.removeAttribute("textLength");
  if (word.getComputedTextLength() > room) {
    word.setAttribute("textLength", room);
    word.setAttribute("lengthAdjust", "spacingAndGlyphs");
  }
}

function connect(view) {
  const back = step > n,
    labels = new Map();
  const amounts = view.edges.map(edge => {
    if (edge.count > 1) return NaN;
    const inner = view.items[edge.target].inner;
    if (!back) return edge.weight === null ? NaN : V[shown(edge.weight, inner)];
    return shares(shown(edge.user, inner))[edge.place];
  });
  const largest = Math.max(...amounts.map(Math.abs).filter(Number.isFinite), 0);
  view.edges.forEach((edge, k) => {
    const { inner } = view.items[edge.target],
      user = edge.count > 1 ? -1 : shown(edge.user, inner),
      goesBack = back && !(edge.count === 1 && constants.has(shown(edge.value, inner))); // a constant gets no gradient
    const isNow = user >= 0 && user === now() && step !== n + 1,
      waits = back && (!goesBack || (user >= 0 && !hasPassed(user)));
    const x = amounts[k],
      kind = waits ? " waiting" : x < 0 ? " down" : x > 0 ? " up" : "";
    edge.drawn.setAttribute("class", `edge${kind}${isNow && !back ? " now" : ""}`);
    edge.drawn.setAttribute("d", edge.paths[+goesBack]);
    const width =
      edge.count > 1 ? 2 : waits || !largest || !Number.isFinite(x) ? 1.2 : 0.8 + 2.4 * Math.abs(x / largest);
    edge.drawn.setAttribute("stroke-width", isNow && !(back && (waits || x === 0)) ? width + 1 : width);
    if (isNow && goesBack && view.items[edge.source].share) labels.set(edge.source, [...(labels.get(edge.source) ?? []), x]);
  });
  for (const [source, xs] of labels) {
    const { share } = view.items[source],
      sum = xs.reduce((a, b) => a + b, 0);
    share.textContent = xs.length > 1 && xs.length < 3 ? xs.map(x => plus(x)).join(" ") : plus(sum);
    share.setAttribute("class", `share ${sign(sum)}`);
  }
}

const plus = x => (x < 0 ? text(x, 8) : `+${text(x, 8)}`);

function follow(item) {
  // keep the card in sight
  const frame = at("drawing"),
    [card, seen] = [item.drawn, frame].map(part => part.getBoundingClientRect());
  for (const [start, end, scroll] of [
    ["left", "right", "scrollLeft"],
    ["top", "bottom", "scrollTop"],
  ]) {
    const before = card[start] - seen[start],
      behind = card[end] - seen[end];
    if (before < 0 || behind > 0) frame[scroll] += before < 0 ? before - 12 : Math.min(before - 12, behind + 12);
  }
}

// Details

const ROWS = 50;
const canCompute = () => !own.length && !isStale(); // what changes if a number does
const gradientText = i => (constants.has(i) ? "" : text(G[i]));

function details() {
  const i = chosen,
    focused = document.activeElement?.id;
  at("facts").replaceChildren(...(i < 0 ? [html("p", { textContent: HINT })] : facts(i)));
  if (at("what-if").dataset.of !== `${i}`) {
    at("what-if").replaceChildren(...(i < 0 || i >= first ? [] : whatIf(i)));
    at("what-if").dataset.of = i;
  }
  all("#what-if .number").forEach(input => {
    if (input !== document.activeElement) input.value = V[i]; // not while the reader moves it
  });
  for (const output of all("#effect"))
    output.textContent = `${nameOf(root)} = ${text(V0[root])}${changes.size ? `, now ${text(V[root])}` : ""}`;
  at("relations").replaceChildren(...(i < 0 ? [] : relations(i)));
  if (focused && at("details") !== document.activeElement) at(focused)?.focus();
}

const HINT =
  "Click a card, or press Enter on it, for its details; click its ▸ to unfold it. " +
  "Keys: ← → Home End for steps, space to play, Escape to fold.";

function facts(i) {
  const rows = [["data", (`${V[i]}` === `${V0[i]}` && graph.exact[i]) || inFull(V[i])]];
  rows.push(["gradient", constants.has(i) ? "none: a plain number beside a Value" : inFull(G[i])]);
  if (![undefined, G[i]].includes(gradient(i))) rows.push(["so far", inFull(gradient(i))]);
  if (i >= first && operation(i)[1])
    rows.push(["formula", `${named(operation(i)[1], i)} = ${filled(operation(i)[1], i)} = ${datum(i)}`]);
  if (canCompute() && !constants.has(i)) rows.push(["finite difference", text(difference(i), 20)]);
  if (isChoice(i)) rows.push(["choice", "fixed: Python made it, by a condition outside the graph"]);
  const list = html("dl", {});
  for (const [term, fact] of rows)
    list.append(
      html("dt", { textContent: term }),
      html("dd", { textContent: fact, id: `its-${term.split(" ").pop()}` }),
    );
  const label = graph.names[i],
    item = cardOf(i),
    isNamed = i < first || label.includes(opName(i)) || /[²³^]/.test(label);
  const parts = [
    html("h2", { textContent: constants.has(i) ? "a number" : isNamed ? label : `${label} = ${opName(i)}` }),
    list,
  ];
  for (const [id, textContent, does] of [
    ["unfold", "▸ Unfold", item?.opens >= 0 && (() => unfold(item))],
    ["fold", "▾ Fold", item?.frame && (() => fold(item.frame))],
  ])
    if (does) parts.push(html("button", { type: "button", id, textContent, onclick: does }), " ");
  return parts;
}

function relations(i) {
  // what else is on its card, what it was computed from, and where its gradient comes from
  const parts = [],
    item = cardOf(i),
    link = k => k;
  if (item && item.values.length + item.more.length > 1) {
    const members = [...new Set([...item.values, ...item.more])].slice(0, ROWS).map(k => shown(k, item.inner));
    parts.push(
      linked("On this card", ["name", "data", "gradient"], members, k => [nameOf(k), datum(k), gradientText(k)], link),
    );
  }
  if (i >= first) {
    const slopes = functions(i) ? passed(i, V, 1) : [];
    const cells = (k, place) => [
      nameOf(k),
      datum(k),
      slopes.length ? text(slopes[place]) : "",
      constants.has(k) ? "" : text(shares(i)[place]),
    ];
    const heads = ["operand", "data", partial(i, i).replace(/\/.*/, "/∂operand"), "× gradient"];
    parts.push(linked("What it was computed from", heads, operands(i), cells, link));
  }
  if (users[i].length && !constants.has(i)) {
    const rest = outside.filter(([k]) => k === i).map(([, x]) => x);
    const cells = u =>
      u === -1
        ? ["outside of this graph", text(rest[0])]
        : u === -2
          ? ["sum", text(G[i])]
          : [nameOf(u), text(share(u, i))];
    const from = [...users[i], ...(rest.length ? [-1] : []), -2];
    parts.push(linked("Where its gradient comes from", ["from", "contribution"], from, cells, link));
  }
  return parts;
}

function choose(i) {
  chosen = i;
  if (i >= 0) standIn(i, true);
  update();
  if (i >= 0) reveal(i);
}

function reveal(i) {
  // bring a card into sight, above the details where these lie over the page
  const card = cardOf(i),
    sheet = at("details");
  follow(card);
  if (getComputedStyle(sheet).position !== "fixed") return;
  const hidden = card.drawn.getBoundingClientRect().bottom + 12 - sheet.getBoundingClientRect().top;
  if (hidden > 0) window.scrollBy(0, hidden);
}

function linked(caption, heads, rows, cells, target) {
  // a table whose first cells choose a Value; it shows ROWS of its rows at a time
  const made = table(caption, heads),
    body = made.tBodies[0];
  const add = start => {
    rows.slice(start, start + ROWS).forEach((row, k) => {
      const [name, ...numbers] = cells(row, start + k),
        isLink = target(row) >= 0,
        press = () => choose(target(row));
      body.append(
        tableRow([isLink ? html("button", { type: "button", textContent: name, onclick: press }) : name, ...numbers]),
      );
    });
    if (rows.length <= start + ROWS) return;
    const press = () => {
      more.remove();
      add(start + ROWS);
    };
    const textContent = `${rows.length - start - ROWS} more`,
      more = tableRow([html("button", { type: "button", textContent, onclick: press })]);
    body.append(more);
  };
  add(0);
  return made;
}

function whatIf(i) {
  const no = why => [html("p", { textContent: `There is no what-if here: ${why}.` })];
  if (own.length) return no(`the page does not know how to compute ${own.join(", ")}`);
  if (isStale()) return no("numbers have changed since they were used, as in a training step");
  if (constants.has(i) && users[i].some(u => operation(u)[0] === "**")) return no("the number is a constant of the power");
  const reach = Math.max(1, 2 * Math.abs(V0[i])),
    [min, max] = [V0[i] - reach, V0[i] + reach];
  const input = (type, id, ariaLabel, more) =>
    html("input", { type, id, ariaLabel, step: "any", className: "number", ...more, oninput });
  const oninput = event => {
    if (event.target.value === "") return;
    changes.set(i, +event.target.value);
    isTrying = true;
    compute();
  };
  const slides = Number.isFinite(min) && Number.isFinite(max); // otherwise its ends would not be finite
  const note = "where() and take() keep their choices: Python made them, by conditions outside the graph.";
  const moves = html("input", { type: "checkbox", id: "moves", checked: trained.has(i) });
  moves.onchange = () => {
    trained[moves.checked ? "add" : "delete"](i);
    at("moved").replaceChildren();
    update();
  };
  return [
    html(
      "p",
      {},
      `What if ${nameOf(i)} were `,
      ...(slides ? [input("range", "slide", "What if it were", { min, max }), " "] : []),
      input("number", "set", "What if it were exactly"),
      " ",
      html("button", { type: "button", id: "reset", textContent: "Reset all", onclick: reset }),
      html("output", { id: "effect" }),
    ),
    ...(constants.has(i) ? [] : [html("p", {}, html("label", {}, moves, " moves when a step is taken"))]),
    ...(hasChoices ? [html("p", { id: "fixed", textContent: note })] : []),
  ];
}

// Learning: steps against the gradient

const trained = new Set(graph.trained);
let taken = 0; // steps

function reset() {
  changes.clear();
  taken = 0;
  isTrying = false;
  at("outcome").replaceChildren();
  compute();
}

function learning() {
  // the table of the numbers that move; from step to step, only its cells change
  const rows = [...trained];
  if (!at("moved").firstChild)
    at("moved").replaceChildren(
      linked(`${rows.length} parameter${rows.length === 1 ? "" : "s"}`, ["name", "data", "gradient"], rows, i => [nameOf(i), "", ""], i => i),
    );
  all("#moved tbody tr").forEach((row, k) => {
    if (row.cells.length < 3) return; // which shows more
    const x = gradient(rows[k]); // so far, as its card shows it
    [datum(rows[k]), x === undefined ? "" : text(x)].forEach((words, j) => fill(row.cells[j + 1], words));
  });
}

const says = (...parts) => at("outcome").replaceChildren(html("p", {}, ...parts));

function ask() {
  // which way the chosen number will move, or the one with the largest gradient
  if (!at("rate").reportValidity()) return;
  if (own.length) return says(`The page does not know how to compute ${own.join(", ")}.`);
  if (isStale()) return says("Numbers have changed since they were used, as in a training step.");
  const moving = [...trained].filter(i => Math.abs(G[i]) > 0 && Number.isFinite(G[i]));
  if (!at("ask").checked || !moving.length) return take();
  const i = moving.includes(chosen) ? chosen : moving.reduce((a, b) => (Math.abs(G[b]) > Math.abs(G[a]) ? b : a));
  const answer = (id, isUp) => html("button", { type: "button", id, textContent: id, onclick: () => check(i, isUp) });
  says(...whole(`${partial(root, i)} = ${text(G[i])}`), `. Which way will ${nameOf(i)} move? `, answer("up", true), " ", answer("down", false));
  at("up").focus();
}

function check(i, isUp) {
  const [from, slope] = [V[i], G[i]];
  const verdict = isUp === slope < 0 ? "Right" : "No";
  take(
    `${verdict}: a step goes against the gradient, ${slope < 0 ? "up" : "down"}. ` +
      `${nameOf(i)} = ${text(from)} − ${text(at("rate").valueAsNumber)} × ${inside(slope)} = `,
    i,
  );
  at("take").focus();
}

function take(verdict = "", i = -1) {
  const rate = at("rate").valueAsNumber,
    before = V[root];
  for (const k of trained) changes.set(k, V[k] - rate * G[k]);
  taken++;
  compute();
  go(end);
  const rose = V[root] > before ? " It rose: the learning rate is too large here." : "";
  says(`Step ${taken}: ${nameOf(root)} ${text(before)} → ${text(V[root])}.${rose}`);
  if (verdict) at("outcome").prepend(html("p", { textContent: `${verdict}${text(V[i])}.` }));
}

at("take").onclick = ask;
at("close").onclick = () => choose(-1);

// Finding, and the controls

let hits = [],
  hit = -1;
const search = () => {
  const wanted = at("wanted").value.trim().toLowerCase();
  hits = wanted
    ? graph.data
        .map((_, i) => i)
        .filter(
          i =>
            graph.names[i].toLowerCase().includes(wanted) ||
            (i >= first && operation(i)[0].toLowerCase() === wanted),
        )
    : [];
  hit = -1;
  at("hits").textContent = wanted ? `${hits.length} found` : "";
};
at("wanted").oninput = search;
at("find").onsubmit = event => {
  event.preventDefault();
  if (!hits.length) return;
  hit = (hit + 1) % hits.length;
  at("hits").textContent = `${hit + 1} of ${hits.length}`;
  choose(hits[hit]);
};
at("fold-all").onclick = () => views[0].items.filter(item => item.isOpen).forEach(fold);
document.addEventListener("keydown", event => {
  if (event.key === "Escape" && opened.length) fold(opened.at(-1));
});
find(".controls").append(html("output", { id: "result" })); // in sight wherever the page and the drawing are scrolled
at("weights").hidden = !graph.views.some(([, , , edges]) => edges.some(([, , , , , weight]) => weight != null));
// Fades the sides where the drawing goes on.
function fade() {
  const { scrollLeft, scrollTop, scrollWidth, scrollHeight, clientWidth, clientHeight, style } = at("drawing");
  const beyond = { left: scrollLeft, right: scrollWidth - clientWidth - scrollLeft, top: scrollTop, bottom: scrollHeight - clientHeight - scrollTop };
  for (const [side, room] of Object.entries(beyond)) style.setProperty(`--${side}`, room > 1 ? "2.5rem" : "0px");
}
at("drawing").onscroll = fade;
window.addEventListener("resize", render);
render();
const go = connectControls(end, show);
