/* What the tests ask of a page: it evaluates this. */
globalThis.asked = {
  /* For each step that a key leads to: its number, the words, the numbers that are known, and all gradients. */
  walk(key) {
    const walk = [];
    for (let before = -1; before !== step;) {
      before = step;
      const known = V.map((x, i) => isKnown(i) ? x : null), gradients = V.map((_, i) => gradient(i) ?? 0);
      walk.push([step, at("title").textContent, known, gradients]);
      document.dispatchEvent(new KeyboardEvent("keydown", { key }));
    }
    return walk;
  },

  leaves: () => all(".leaf").map(card => [...card.querySelectorAll("text")].map(text => text.textContent)),

  rows: () => all("#moved tbody tr").map(row => [...row.cells].map(cell => cell.textContent)),

  edges: () => drawn[0].edges.map(edge =>
    [nameOf(edge.value), edge.drawn.getAttribute("class"), +edge.drawn.getAttribute("stroke-width")]),

  leavesInSight() {
    const seen = at("drawing").getBoundingClientRect();
    return all(".leaf").map(card => {
      const box = card.getBoundingClientRect();
      return box.top >= seen.top && box.bottom <= seen.bottom;
    });
  },

  unfold(most) {
    for (let view = 0; view < drawn.length && opened.length < most; view++)
      for (const item of drawn[view].items) if (item.opens >= 0 && !item.isStub && opened.length < most) unfold(item);
  },

  /* The sides of each card, and of each text in it. */
  cards: () => all(".card").map(card => {
    const box = [...card.querySelectorAll(".box")].at(-1).getBoundingClientRect();
    const side = rect => [rect.left, rect.top, rect.right, rect.bottom];
    const texts = [...card.querySelectorAll("text")].filter(text => text.textContent);
    return [side(box), texts.map(text => side(text.getBoundingClientRect()))];
  }),

  /* The gradients of all Values, with 1 as the gradient of each result. */
  gradientsOf(results) {
    const g = V.map(() => 0);
    for (const i of results) g[i] = 1;
    for (let i = root - 1; i >= first; i--) passed(i, V, g[i]).forEach((x, place) => { g[operands(i)[place]] += x; });
    return g;
  },
};
null;
