// What changes from step to step: the sentence, the numbers on the cards, and the edges that carry them.

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

// A label of letters that a font may lack must not leave its card.
function hold(word, words, kind) {
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
    return C[shown(edge.user, inner)][edge.place];
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

// Keep the card in sight.
function follow(item) {
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
