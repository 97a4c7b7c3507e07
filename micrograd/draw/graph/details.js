// The details of the chosen Value, and what if its number were another.

const ROWS = 50;
const hasChoices = graph.data.some((_, i) => isChoice(i));
let chosen = -1; // the Value whose details are shown
const gradientText = i => (constants.has(i) ? "" : text(G[i]));

// Why the page cannot compute what changes if a number does; undefined if it can.
function obstacle() {
  if (own.length) return `the page does not know how to compute ${own.join(", ")}`;
  if (isStale()) return "numbers have changed since they were used, as in a training step";
}

function details() {
  const i = chosen,
    focused = document.activeElement?.id;
  at("panels").classList.toggle("wide", i < 0 && step > 0);
  at("facts").replaceChildren(...(i < 0 ? [html("p", { textContent: HINT })] : facts(i)));
  if (at("what-if").dataset.of !== `${i}`) {
    at("what-if").replaceChildren(...(i < 0 || i >= first ? [] : whatIf(i)));
    at("what-if").dataset.of = i;
  }
  all("#what-if .number").forEach(input => {
    if (input !== document.activeElement) input.value = V[i]; // not while the reader moves it
  });
  for (const output of all("#effect"))
    output.textContent = `${nameOf(root)} = ${text(V0[root])}${isRaised() ? `. ${warnings()}` : changes.size ? `, now ${text(V[root])}` : ""}`;
  at("relations").replaceChildren(...(i < 0 ? [] : relations(i)));
  if (focused && at("details") !== document.activeElement) at(focused)?.focus();
}

const NONE = "none: Python raises an error";
const hasKeys = !matchMedia("(hover:none)").matches; // unlike a phone
const HINT =
  `Click a card${hasKeys ? ", or press Enter on it," : ""} for its details${views.length > 1 ? "; click its ▸ to unfold it" : ""}.` +
  (hasKeys ? ` Keys: ← → Home End for steps, space to play${views.length > 1 ? ", Escape to fold" : ""}.` : "");

function facts(i) {
  const rows = [["data", isUncomputed(i) ? NONE : (`${V[i]}` === `${V0[i]}` && graph.exact[i]) || inFull(V[i])]];
  rows.push(["gradient", constants.has(i) ? "none: a plain number beside a Value" : isRaised() ? NONE : inFull(G[i])]);
  if (![undefined, G[i]].includes(gradient(i))) rows.push(["so far", inFull(gradient(i))]);
  if (i >= first && operation(i)[1] && !isUncomputed(i))
    rows.push(["formula", `${named(operation(i)[1], i)} = ${filled(operation(i)[1], i)} = ${datum(i)}`]);
  if (!obstacle() && !failure && !constants.has(i)) rows.push(["finite difference", inFull(+difference(i).toPrecision(7))]); // the rest is rounding
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

// What else is on its card, what it was computed from, and where its gradient comes from.
function relations(i) {
  const parts = [],
    item = cardOf(i);
  if (isRaised()) return parts;
  if (item?.parts.length > 1) {
    const members = [...new Set([...item.values, ...item.parts])].slice(0, ROWS).map(shown);
    const cells = k => [nameOf(k), datum(k), gradientText(k)];
    parts.push(linked("On this card", ["name", "data", "gradient"], members, cells));
  }
  if (i >= first) {
    const slopes = functions(i) ? passed(i, V, 1) : [];
    const cells = (k, place) => [
      nameOf(k),
      datum(k),
      slopes.length ? text(slopes[place]) : "",
      constants.has(k) ? "" : text(C[i][place]),
    ];
    const heads = ["operand", "data", partial(i, i).replace(/\/.*/, "/∂operand"), "× gradient"];
    parts.push(linked("What it was computed from", heads, operands(i), cells));
  }
  if (users[i].length && !constants.has(i)) {
    const cells = u =>
      u === -1
        ? ["outside of this graph", text(outside.get(i))]
        : u === -2
          ? ["sum", text(G[i])]
          : [nameOf(u), text(share(u, i))];
    const from = [...users[i], ...(outside.has(i) ? [-1] : []), -2];
    parts.push(linked("Where its gradient comes from", ["from", "contribution"], from, cells));
  }
  return parts;
}

function choose(i) {
  chosen = i;
  if (i >= 0) standIn(i, true);
  update();
  if (i >= 0) reveal(i);
}

// Bring a card into sight, above the details where these lie over the page.
function reveal(i) {
  const card = cardOf(i),
    sheet = at("details");
  follow(card);
  if (getComputedStyle(sheet).position !== "fixed") return;
  const hidden = card.drawn.getBoundingClientRect().bottom + 12 - sheet.getBoundingClientRect().top;
  if (hidden > 0) window.scrollBy(0, hidden);
}

// A table with a row for each Value, whose first cell chooses it, or for a number below 0. It shows ROWS rows at a time.
function linked(caption, heads, rows, cells) {
  const made = table(caption, heads),
    body = made.tBodies[0];
  const add = start => {
    rows.slice(start, start + ROWS).forEach((row, k) => {
      const [name, ...numbers] = cells(row, start + k),
        onclick = () => choose(row),
        link = row >= 0 ? html("button", { type: "button", textContent: name, onclick }) : name;
      body.append(tableRow([link, ...numbers]));
    });
    if (rows.length <= start + ROWS) return;
    const onclick = () => {
      more.remove();
      add(start + ROWS);
    };
    const textContent = `${counted(rows.length - start - ROWS)} more`,
      more = tableRow([html("button", { type: "button", textContent, onclick })]);
    body.append(more);
  };
  add(0);
  return made;
}

function whatIf(i) {
  const isExponent = constants.has(i) && users[i].some(u => operation(u)[0] === "**"),
    why = obstacle() ?? (isExponent && "the number is a constant of the power");
  if (why) return [html("p", { textContent: `There is no what-if here: ${why}.` })];
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

at("close").onclick = () => choose(-1);
