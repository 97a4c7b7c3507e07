// Learning: steps against the gradient.

const trained = new Set(graph.trained);
let taken = 0; // steps

function reset() {
  changes.clear();
  taken = 0;
  isTrying = false;
  at("outcome").replaceChildren();
  compute();
}

// The table of the numbers that move; from step to step, only its cells change.
function learning() {
  const rows = [...trained];
  if (!at("moved").firstChild)
    at("moved").replaceChildren(
      linked(`${counted(rows.length)} parameter${rows.length === 1 ? "" : "s"}`, ["name", "data", "gradient"], rows, i => [nameOf(i), "", ""]),
    );
  all("#moved tbody tr").forEach((row, k) => {
    if (row.cells.length < 3) return; // which shows more
    const x = gradient(rows[k]); // so far, as its card shows it
    [datum(rows[k]), x === undefined ? "" : text(x)].forEach((words, j) => fill(row.cells[j + 1], words));
  });
}

const says = (...parts) => at("outcome").replaceChildren(html("p", {}, ...parts));

// Which way the chosen number will move, or the one with the largest gradient.
function ask() {
  if (!at("rate").reportValidity()) return;
  if (obstacle()) return says(`${capital(obstacle())}.`);
  if (failure) return says(...warnings());
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
