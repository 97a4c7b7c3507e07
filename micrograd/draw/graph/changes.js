// What changes from step to step: the sentence, the numbers on the cards, and the edges that carry them.

function update() {
  if (chosen >= 0) chosen = counterpart(chosen);
  const active = now() < 0 ? undefined : cardOf(now()),
    picked = chosen < 0 ? undefined : cardOf(chosen);
  const [title, ...lines] = [...new Set([...sentence(), ...warnings()])];
  at("title").replaceChildren(...whole(capital(title)));
  const paragraph = line => html("p", {}, ...(typeof line === "string" ? whole(line) : [line]));
  at("sentence").replaceChildren(...lines.map(paragraph));
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
  frames.forEach(fade);
}

// What a card says in one of its slots at this step.
function said(item, [, , , , kind, of, room]) {
  if (kind === "text") return item.texts[of];
  if (of < 0) return kind === "grad" && step <= n ? "" : kind; // a word, such as w0
  const i = shown(item.values[of]);
  if (kind === "data") return isKnown(i) ? datum(i, room) : "";
  const x = gradient(i);
  return x === undefined ? "" : text(x, room);
}

function dress(item, isActive, isPicked) {
  item.share.textContent = "";
  if (item.isOpen) return;
  const isChosen = isPicked || (item.values.length && shown(item.values[0]) === chosen),
    heard = [];
  item.drawn.setAttribute("class", `card ${item.kind}${isActive ? " now" : ""}${isChosen ? " chosen" : ""}`);
  item.slots.forEach((slot, k) => {
    const [, , , look, kind, of] = slot,
      word = item.words[k],
      words = said(item, slot);
    const sign = ["0", "nan"].includes(words) ? "" : words.startsWith("−") ? "minus" : "plus";
    word.setAttribute("class", look === "weight" || look === "grad" ? `${look} ${sign}`.trim() : look);
    if (word.textContent !== words) word.textContent = words;
    if (words && (kind === "text" || of === 0)) heard.push(kind === "grad" ? `gradient ${words}` : words);
  });
  item.tip.textContent = item.values.length ? graph.names[shown(item.values[0])] : ""; // a label may be cut
  item.drawn.setAttribute("aria-label", heard.join(", ") || "a Value");
}

// What an edge carries: its weight, or backward, the gradient that it passes on; NaN if that is not a single number.
function amount(edge) {
  if (edge.count > 1) return NaN;
  if (step > n) return C[shown(edge.user)][edge.place];
  return edge.weight === null ? NaN : V[shown(edge.weight)];
}

function connect(view) {
  const back = step > n,
    shares = new Map(); // what is passed on at this step, by the card that gets it
  const amounts = view.edges.map(amount);
  const largest = Math.max(...amounts.map(Math.abs).filter(Number.isFinite), 0);
  view.edges.forEach((edge, k) => {
    const isOne = edge.count === 1,
      user = isOne ? shown(edge.user) : -1,
      x = amounts[k];
    const goesBack = back && !(isOne && constants.has(shown(edge.value))), // a constant gets no gradient
      waits = back && (!goesBack || (isOne && !hasPassed(user))),
      isNow = isOne && user === explained() && step !== n + 1;
    const kind = waits ? " waiting" : x < 0 ? " down" : x > 0 ? " up" : "",
      isThin = waits || !largest || !Number.isFinite(x),
      width = !isOne ? 2 : isThin ? 1.2 : 0.8 + 2.4 * Math.abs(x / largest);
    edge.drawn.setAttribute("class", `edge${kind}${isNow && !back ? " now" : ""}`);
    edge.drawn.setAttribute("d", edge.paths[+goesBack]);
    edge.drawn.setAttribute("stroke-width", isNow && !(back && (waits || x === 0)) ? width + 1 : width);
    if (isNow && !waits && back && !view.items[edge.source].isStub)
      shares.set(edge.source, [...(shares.get(edge.source) ?? []), x]);
  });
  for (const [source, xs] of shares) {
    const { share } = view.items[source],
      sum = xs.reduce((a, b) => a + b, 0);
    share.textContent = (xs.length === 2 ? xs : [sum]).map(plus).join(" ");
    share.setAttribute("class", `share ${sum < 0 ? "minus" : sum > 0 ? "plus" : ""}`);
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
