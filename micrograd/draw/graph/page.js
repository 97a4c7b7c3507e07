const graph = JSON.parse(at("graph").textContent);

// The numbers: V are the data and G the gradients of the Values, C the gradients that a node passes to its operands

const INFINITE = { inf: Infinity, "-inf": -Infinity };
const number = x => (typeof x === "string" ? (INFINITE[x] ?? NaN) : x);
const first = graph.first,
  size = graph.data.length,
  n = size - first,
  root = size - 1;
const end = graph.failure ? n : 2 * n + 1; // steps: each operation forward, the start at the root, each operation backward
const constants = new Set(graph.constants);
const outside = Object.entries(graph.outside).map(([i, x]) => [+i, number(x)]);
const operands = i => graph.operands[i - first];
const functions = i => FUNCTIONS[graph.ops[i - first]];
const operation = i => graph.operations[graph.ops[i - first]];
const users = graph.data.map(() => []);
for (let i = first; i < size; i++) for (const k of operands(i)) if (users[k].at(-1) !== i) users[k].push(i);

const forward = (v, from = first) => {
  for (let i = Math.max(from, first); i < size; i++)
    if (functions(i)) v[i] = functions(i)[0](operands(i).map(k => v[k]))[0];
  return v;
};
const passed = (i, v, g) =>
  functions(i)
    ? functions(i)[1](
        operands(i).map(k => v[k]),
        g,
      )
    : (graph.passed[i] ?? []).map(number);
const backward = v => {
  const g = new Array(size).fill(0),
    c = [];
  for (const [i, x] of outside) g[i] += x;
  for (let i = root; i >= first; i--) {
    c[i] = passed(i, v, g[i]);
    operands(i).forEach((k, place) => {
      g[k] += c[i][place];
    });
  }
  return [g, c];
};

const V0 = graph.data.map(number),
  G0 = graph.grad.map(number),
  C0 = [];
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
let V = V0,
  G = G0,
  C = C0;
const shares = i => (C[i] ??= passed(i, V, G[i]));

function compute() {
  [V, G, C] = [V0, G0, C0];
  if (changes.size) {
    V = V0.slice();
    for (const [i, x] of changes) V[i] = x;
    forward(V);
    if (!graph.failure) [G, C] = backward(V);
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
  !changes.size && graph.exact[i]?.length <= (room ?? 12) ? graph.exact[i].replaceAll("-", "−") : text(V[i], room);
const inside = x => (x < 0 ? `(${text(x)})` : text(x));
const filled = (formula, i) =>
  /^\{\w+\}$/.test(formula)
    ? text(formula === "{y}" ? V[i] : V[operands(i)[formula.slice(1, -1)]])
    : formula
        .replace(/\{(\w+)\}/g, (_, k) => inside(k === "y" ? V[i] : V[operands(i)[k]]))
        .replace(/\((\(−[\d.e−]+\))\)/g, "$1");
const SIGNS = { "-": "−", "*": "×", "/": "÷", neg: "−" };
const opName = i => SIGNS[operation(i)[0]] ?? operation(i)[0];
const labelOf = i => {
  const label = graph.labels[i] ?? "";
  return label.length > 24 ? "…" + label.slice(-23) : label;
};
const nameOf = i => labelOf(i) || (i < first ? (constants.has(i) ? datum(i) : `a leaf (${datum(i)})`) : opName(i));

function operandName(i, place) {
  // short, for formulas
  const k = operands(i)[place],
    label = graph.labels[k] ?? "",
    half = operands(i).length >> 1;
  if (label && label.length <= 12) return label;
  if (operation(i)[0] === "dot") return place === 2 * half ? "b" : (place < half ? "w" : "x") + (place % half);
  return label
    ? "…" + label.slice(-11)
    : k >= first
      ? opName(k)
      : operands(i).length === 1
        ? "x"
        : constants.has(k)
          ? datum(k)
          : ("xy"[place] ?? `x${place}`);
}

// Steps

let step = 0;
const passes = () => Math.max(0, step - n - 1); // the number of nodes that have passed their gradient on
const isKnown = i => i < first || i - first < step;
const hasPassed = i => i >= size - passes();
const now = () => (step === 0 ? -1 : step <= n ? first + step - 1 : step === n + 1 ? root : size - passes());

function gradient(i) {
  // as far as it is known at this step; undefined before its first contribution
  if (step <= n) return undefined;
  if (i === root || hasPassed(users[i][0])) return G[i];
  const done = users[i].filter(hasPassed);
  return done.length
    ? outside.reduce((sum, [k, x]) => (k === i ? sum + x : sum), 0) + done.reduce((sum, u) => sum + share(u, i), 0)
    : undefined;
}

const share = (user, i) => operands(user).reduce((sum, k, place) => (k === i ? sum + shares(user)[place] : sum), 0);

function sentence() {
  const i = now();
  if (i < 0)
    return [
      n
        ? "The inputs and weights are given. Step forward to compute each operation in turn, and then the gradients, backward."
        : "A leaf alone: it was computed from nothing.",
    ];
  if (step <= n) {
    const label = labelOf(i) ? `${labelOf(i)} = ` : "",
      formula = operation(i)[1];
    const what = formula
      ? filled(formula, i)
      : operands(i).length === 1
        ? `${opName(i)}(${datum(operands(i)[0])})`
        : `${opName(i)} of ${operands(i).length} operands`;
    return [
      `Forward: ${label}${what} = ${datum(i)}.`,
      ...(isChoice(i) ? [`Python made the choice of ${opName(i)}() when the graph was built; it is fixed here.`] : []),
      ...(step === end ? [`There is no backward pass: ${graph.failure}`] : []),
    ];
  }
  if (step === n + 1) {
    const how =
      G[root] === 1
        ? `since d(${nameOf(i)})/d(${nameOf(i)}) = 1`
        : "since backward() was called on a Value computed from it";
    return [`Backward starts: the gradient of ${nameOf(i)} is ${text(G[i])}, ${how}.`];
  }
  const slopes = functions(i) ? passed(i, V, 1) : [],
    parts = [];
  const places = operands(i)
    .map((_, place) => place)
    .filter(place => !constants.has(operands(i)[place]));
  for (const place of places.slice(0, 6)) {
    const k = operands(i)[place],
      its = k < first || graph.labels[k] ? `${operandName(i, place)}.grad` : `the gradient of ${operandName(i, place)}`,
      to = `${text(shares(i)[place])} is added to ${its}`;
    const formula = operation(i)[2][place],
      rule = formula && filled(formula, i);
    const result = text(slopes[place]);
    const name = operands(i).length === 1 ? `${opName(i)}′` : `∂/∂${operandName(i, place)}`;
    const slope = !functions(i)
      ? ""
      : !rule || rule === result
        ? `${name} = ${result}; `
        : `${name} = ${rule} = ${result}; `;
    const product = functions(i) ? `${inside(slopes[place])} × ${inside(G[i])} = ` : "";
    const sum = users[k].length > 1 && users[k].at(-1) !== i ? `, now ${text(gradient(k))}` : "";
    parts.push(`${slope}${product}${to}${sum}.`);
  }
  if (places.length > 6) parts.push(`And so on for ${places.length - 6} more.`);
  if (step === end)
    parts.push(`These are the gradients that backward() ${graph.called && !changes.size ? "left" : "leaves"}.`);
  return [`Backward: the gradient of ${labelOf(i) ? labelOf(i) + " = " : ""}${opName(i)} is ${text(G[i])}.`, ...parts];
}

function show(to) {
  step = to;
  if (now() >= 0) standIn(now(), true);
  update();
  return `step ${step} of ${end}, ${step === 0 ? "start" : step <= n ? "forward" : "backward"}`;
}

// Examples: those of a stack are shown one at a time, in the places of the first

const stacks = graph.stacks.map(([node, members]) => {
  const places = new Map(members[0].map((i, k) => [i, k])),
    examples = new Map();
  members.forEach((member, j) =>
    member.forEach((i, k) => {
      if (!examples.has(i)) examples.set(i, [j, k]);
    }),
  );
  return { node, members, places, examples, chosen: 0 };
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
  // the Value of the first example in the place of one of another, which may become the chosen one
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
      const names = ([source, target, port, count, value, weight, user, place], k) => ({
        source,
        target,
        port,
        count,
        value,
        weight,
        user,
        place,
        passes: passes[k],
      });
      Object.defineProperty(this, "edges", { value: edges.map(names) });
      return this.edges;
    },
  };
});
let drawn = [], // the visible views: the whole graph, and what is unfolded in it
  opened = [], // the unfolded cards, the latest last
  chosen = -1; // the Value whose details are shown

function unpack([shape, kind, texts, values, more, opens, isStub, inner], x, y) {
  const [width, height, divider, isStacked, slots] = graph.shapes[shape];
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
  if (!item.isOpen) return item.h / 2;
  const stubs = views[item.opens].items.filter(stub => stub.isStub && !!stub.isSource === isSource);
  const stub =
    stubs.find(stub => stub.opens === other.opens && stub.values[0] === other.values[0]) ??
    stubs.find(stub => stub.opens < 0 && !stub.values.length);
  return stub ? HEAD + stub.top + stub.h / 2 : item.h / 2;
}

function render() {
  const view = arrange(views[0]),
    { right: width, bottom: height } = view;
  drawn = [];
  const attributes = { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "The graph" };
  at("drawing").replaceChildren(svg("svg", attributes, ...picture(view)));
  at("fold-all").hidden = !opened.length;
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
  const edges = view.edges.map(edge => (edge.drawn = svg("path", { d: curve(view, edge) })));
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
          y: item.top + item.h + (item.isStacked ? 15 : 9),
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
    svg("text", { class: "title", x: 7, y: 15 }, fitted(title, item.w - 24)),
    svg("text", { class: "word", x: item.w - 7, y: 15, "text-anchor": "end" }, "−"),
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
  return isInside ? path : `${path}m-4-2.5 4 2.5-4 2.5`;
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
    const y = item.slots.find(([, , , look]) => look === "data")?.[1] ?? 31;
    const plus = svg("text", { class: "word", x: width - 7, y, "text-anchor": "end" }, "+");
    plus.onclick = event => {
      event.stopPropagation();
      unfold(item);
    };
    g.append(plus);
  }
  onPress(g, byKey => pick(item, byKey));
  return g;
}

function pick(item, byKey) {
  // once shows its details, twice unfolds it
  const i = item.values.length ? shown(item.values[0], item.inner) : -1;
  if (item.opens >= 0 && (i < 0 || i === chosen)) return unfold(item);
  if (i < 0) return;
  chosen = i;
  update();
  if (byKey) at("details").focus();
}

// What changes from step to step

function update() {
  const active = now() < 0 ? undefined : cardOf(now()),
    picked = chosen < 0 ? undefined : cardOf(chosen);
  at("sentence").replaceChildren(...sentence().map(part => html("span", { textContent: `${part} ` })));
  for (const { input, chosen } of stacks) if (input?.value && +input.value !== chosen + 1) input.value = chosen + 1;
  for (const view of drawn) {
    for (const item of view.items) if (!item.isStub) dress(item, item === active, item === picked);
    connect(view);
  }
  details();
  if (active) follow(active);
}

function dress(item, isActive, isPicked) {
  item.share.textContent = "";
  if (item.isOpen) return;
  const ids = item.values.map(i => shown(i, item.inner)),
    told = [],
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
      if (of === 0 && words) told.push(kind === "grad" ? `gradient ${words}` : words);
    } else if (kind === "grad" && gradient(ids[0]) === undefined) words = "";
    if (kind === "text" && words) told.unshift(words);
    word.setAttribute("class", shape);
    if (word.textContent !== words) word.textContent = words;
    hold(word, words, kind);
  });
  item.drawn.setAttribute("aria-label", told.join(", ") || "a Value");
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
    if (!back) return edge.weight < 0 ? NaN : V[shown(edge.weight, inner)];
    return shares(shown(edge.user, inner))[edge.place];
  });
  const largest = Math.max(...amounts.map(Math.abs).filter(Number.isFinite), 0);
  view.edges.forEach((edge, k) => {
    const user = edge.count > 1 ? -1 : shown(edge.user, view.items[edge.target].inner);
    const isNow = user >= 0 && user === now() && step !== n + 1,
      waits = back && user >= 0 && !hasPassed(user);
    const x = amounts[k],
      kind = waits ? " waiting" : Number.isNaN(x) ? "" : x < 0 ? " down" : " up";
    edge.drawn.setAttribute("class", `edge${kind}${isNow && !back ? " now" : ""}`);
    const width =
      edge.count > 1 ? 3 : waits || !largest || !Number.isFinite(x) ? 1.2 : 0.8 + 2.4 * Math.abs(x / largest);
    edge.drawn.setAttribute("stroke-width", isNow ? width + 1 : width);
    if (isNow && back && view.items[edge.source].share) labels.set(edge.source, [...(labels.get(edge.source) ?? []), x]);
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

function details() {
  const i = chosen;
  if (i < 0) return at("details").replaceChildren();
  const focused = document.activeElement?.id;
  const rows = [
    ["data", (`${V[i]}` === `${V0[i]}` && graph.exact[i]) || `${V[i]}`],
    ...(graph.failure
      ? []
      : [["gradient", constants.has(i) ? "none: a plain number beside a Value" : `${G[i]}`]]),
  ];
  if (i >= first && operation(i)[1])
    rows.push([
      "formula",
      `${operation(i)[1].replace(/\{(\w+)\}/g, (_, k) => operandName(i, +k))} = ${filled(operation(i)[1], i)} = ${datum(i)}`,
    ]);
  if (!graph.failure && !own.length && !isStale() && !constants.has(i))
    rows.push(["finite difference", text(difference(i), 20)]);
  if (isChoice(i)) rows.push(["choice", "fixed: Python made it, by a condition outside the graph"]);
  if (graph.lines[i]) rows.push(["made in", graph.lines[i]]);
  const list = html("dl", {});
  for (const [term, told] of rows)
    list.append(
      html("dt", { textContent: term }),
      html("dd", { textContent: told, id: `its-${term.split(" ").pop()}` }),
    );
  const parts = [
    html("h2", {
      textContent:
        [graph.labels[i], i < first ? "" : opName(i)].filter(Boolean).join(" = ") ||
        (constants.has(i) ? "a number" : "a leaf"),
    }),
    list,
  ];
  const item = cardOf(i);
  for (const [id, textContent, does] of [
    ["unfold", "Unfold", item?.opens >= 0 && (() => unfold(item))],
    ["fold", "Fold", item?.frame && (() => fold(item.frame))],
  ])
    if (does) parts.push(html("button", { type: "button", id, textContent, onclick: does }), " ");
  if (i < first) parts.push(whatIf(i));
  else
    parts.push(
      table(
        "What it was computed from",
        ["operand", "data", "local derivative", "× gradient"],
        operands(i),
        (k, place) => {
          const slope = functions(i) && !graph.failure ? text(passed(i, V, 1)[place]) : "";
          return [
            operandName(i, place),
            datum(k),
            slope,
            graph.failure || constants.has(k) ? "" : text(shares(i)[place]),
          ];
        },
        k => k,
      ),
    );
  if (users[i].length && !graph.failure && !constants.has(i)) {
    const rest = outside.filter(([k]) => k === i).map(([, x]) => x);
    parts.push(
      table(
        "Where its gradient comes from",
        ["from", "contribution"],
        [...users[i], ...(rest.length ? [-1] : []), -2],
        u =>
          u === -1
            ? ["outside of this graph", text(rest[0])]
            : u === -2
              ? ["sum", text(G[i])]
              : [nameOf(u), text(share(u, i))],
        u => u,
      ),
    );
  }
  if (item && item.values.length + item.more.length > 1) {
    const all = [...new Set([...item.values, ...item.more])].slice(0, ROWS).map(k => shown(k, item.inner));
    parts.push(
      html(
        "p",
        {},
        "On this card: ",
        ...all.flatMap(k => [
          html("button", { type: "button", textContent: nameOf(k), onclick: () => choose(k), disabled: k === i }),
          " ",
        ]),
      ),
    );
  }
  at("details").replaceChildren(...parts);
  if (focused && at("details") !== document.activeElement) at(focused)?.focus();
}

function choose(i) {
  chosen = i;
  standIn(i, true);
  update();
  follow(cardOf(i));
}

function table(caption, heads, rows, cells, target, from = 0) {
  const body = html("tbody", {}),
    made = html(
      "table",
      {},
      html("caption", { textContent: caption }),
      html("thead", {}, html("tr", {}, ...heads.map(head => html("th", { textContent: head, scope: "col" })))),
      body,
    );
  const add = start => {
    rows.slice(start, start + ROWS).forEach((row, k) => {
      const [name, ...numbers] = cells(row, start + k);
      const link =
        target(row) >= 0
          ? html("button", { type: "button", textContent: name, onclick: () => choose(target(row)) })
          : name;
      body.append(
        html(
          "tr",
          {},
          html("td", {}, link),
          ...numbers.map(x => html("td", { textContent: x, className: x.startsWith("−") ? "minus" : "" })),
        ),
      );
    });
    if (rows.length > start + ROWS) {
      const more = html(
        "tr",
        {},
        html(
          "td",
          { colSpan: heads.length },
          html("button", {
            type: "button",
            textContent: `${rows.length - start - ROWS} more`,
            onclick: () => {
              more.remove();
              add(start + ROWS);
            },
          }),
        ),
      );
      body.append(more);
    }
  };
  add(from);
  return made;
}

function whatIf(i) {
  if (own.length)
    return html("p", {
      textContent: `There is no what-if here: the page does not know how to compute ${own.join(", ")}.`,
    });
  if (isStale())
    return html("p", {
      textContent: "There is no what-if here: numbers have changed since they were used, as in a training step.",
    });
  if (constants.has(i) && users[i].some(u => operation(u)[0] === "**"))
    return html("p", { textContent: "There is no what-if here: the number is a constant of the power." });
  const reach = Math.max(1, 2 * Math.abs(V0[i])),
    steps = { min: V0[i] - reach, max: V0[i] + reach, step: "any", value: V[i] };
  const range = html("input", { type: "range", id: "slide", ariaLabel: "What if it were", ...steps });
  const field = html("input", {
    type: "number",
    id: "set",
    step: "any",
    value: V[i],
    ariaLabel: "What if it were exactly",
  });
  range.value = V[i];
  const set = event => {
    if (event.target.value === "") return;
    changes.set(i, +event.target.value);
    (event.target === range ? field : range).value = event.target.value;
    compute();
  };
  range.oninput = field.oninput = set;
  const reset = html("button", {
    type: "button",
    id: "reset",
    textContent: "Reset all",
    disabled: !changes.size,
    onclick: () => {
      changes.clear();
      compute();
    },
  });
  const slides = Number.isFinite(steps.max) && Number.isFinite(steps.min); // otherwise its ends would not be finite
  const note = "where() and take() keep their choices: Python made them, by conditions outside the graph.";
  return html(
    "div",
    {},
    html("p", {}, "What if it were ", ...(slides ? [range, " "] : []), field, " ", reset),
    ...(hasChoices ? [html("p", { id: "fixed", textContent: note })] : []),
  );
}

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
            `${graph.labels[i] ?? ""}`.toLowerCase().includes(wanted) ||
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
render();
connectControls({ last: end, name: "step", wait: 900, show });
