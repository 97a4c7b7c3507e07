// The views: the cards of each, and where they stand once some of them are unfolded.

const views = graph.views.map(([title, place, items, edges]) => {
  const [corners, passes, width, height] = graph.places[place];
  return {
    title,
    width,
    height,
    // Most views of a large graph are never seen.
    get items() {
      return (this.cards ??= items.map((item, k) => unpack(item, ...corners[k])));
    },
    get edges() {
      return (this.lines ??= edges.map(([source, target, port, count, value, weight, user, place], k) => {
        return { source, target, port, count, value, weight, user, place, passes: passes[k] };
      }));
    },
  };
});
let drawn = [], // the visible views: the whole graph, and what is unfolded in it
  opened = []; // the unfolded cards, the latest last

function unpack([shape, kind, texts, values, opens, parts], x, y) {
  const [width, height, , slots, divider, isStacked] = graph.shapes[shape];
  const isStub = kind === "stub";
  return { x, y, width, height, divider, isStacked, slots, kind, texts, values, parts, opens, isStub };
}

// The item of each Value in a view.
function contents(view) {
  if (!view.contents) {
    view.contents = new Map();
    view.items.forEach((item, k) => {
      if (item.isStub) return;
      for (const i of item.parts) if (!view.contents.has(i)) view.contents.set(i, k);
      if (!item.values.length && item.opens >= 0)
        for (const i of contents(views[item.opens]).keys()) view.contents.set(i, k);
    });
    for (const item of view.items) if (item.values.length) view.contents.set(item.values[0], view.items.indexOf(item));
  }
  return view.contents;
}

// The innermost card of a Value.
function cardOf(i) {
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

// A function from old to new places when each span [from, to, length] grows: the rest moves, and nothing overlaps.
function stretch(spans) {
  const cuts = [...new Set(spans.flatMap(([from, to]) => [from, to]))].sort((a, b) => a - b);
  const pieces = cuts.slice(1).map((to, k) => {
    const around = spans.filter(span => span[0] <= cuts[k] && span[1] >= to);
    return [cuts[k], to, Math.max(1, ...around.map(([a, b, length]) => length / (b - a))) - 1];
  });
  return p => pieces.reduce((sum, [from, to, more]) => sum + more * Math.min(Math.max(p - from, 0), to - from), p);
}

// Place each card, and find the extent of the view between its stubs.
function arrange(view) {
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

// The height at which the edge to another card leaves a card; from a frame, where that card's stub is.
function door(item, other, isSource) {
  if (!item.isOpen) return item.h / 2 + 3 * item.isStacked;
  const stubs = views[item.opens].items.filter(stub => stub.isStub && !!stub.isSource === isSource);
  const stub = stubs.find(stub => stub.opens === other.opens && stub.values[0] === other.values[0]);
  return stub ? HEAD + stub.top + stub.h / 2 : item.h / 2;
}
