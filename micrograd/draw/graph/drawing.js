// The drawing: views as SVG, and the cards that a reader picks, unfolds and folds.

let scale = 1; // of the drawing: as large as the window allows while all is folded, and then the same
const [FITTING, SMALLEST, LARGEST] = [0.95, 1.1, 2]; // it may shrink to FITTING if all of it then fits, otherwise not below SMALLEST

function render() {
  const view = arrange(views[0]),
    { right: width, bottom: height } = view,
    frame = at("drawing");
  drawn = [];
  if (!opened.length) {
    const rooms = [(frame.clientWidth - 2) / width, (frame.clientHeight - 2) / height];
    scale = Math.min(...rooms.map(room => (room < FITTING ? SMALLEST : room)), LARGEST);
  }
  const attributes = { width: scale * width, height: scale * height, viewBox: `0 0 ${width} ${height}` };
  frame.replaceChildren(svg("svg", { ...attributes, role: "group", "aria-label": "The graph" }, ...picture(view)));
  at("fold-all").hidden = !opened.length;
  const visible = drawn.flatMap(view => view.items.map(item => item.values[0]));
  at("examples").replaceChildren(...innermostFirst.filter(({ places }) => visible.some(i => places.has(i))).map(chooser));
  update();
}

// The input for the number of the example that a stack shows.
function chooser(stack) {
  const most = stack.members.length,
    input = html("input", { type: "number", min: 1, max: most, value: stack.chosen + 1 });
  input.oninput = () => {
    if (!(input.value >= 1 && input.value <= most)) return;
    stack.chosen = Math.floor(input.value) - 1;
    if (isDone(there())) update();
    else go(step > n ? first + end - there() : there() - first + 1); // to where the step is that example's
  };
  stack.input = input;
  return html("label", {}, "Example ", input, ` of ${counted(most)} `);
}

function picture(view, frame) {
  drawn.push(view);
  const cards = view.items.filter(item => !item.isStub);
  const edges = view.edges.map(edge => (edge.drawn = svg("path", { d: (edge.paths = curve(view, edge))[0] })));
  return [
    ...edges,
    ...cards.map(
      item =>
        (item.share = svg("text", {
          class: "share",
          "text-anchor": "end",
          x: item.left + item.w,
          y: item.top + item.h + (item.isStacked ? 15.5 : 9.5), // clear of its border, and of the next card
        })),
    ),
    ...cards.map(item => {
      item.frame = frame;
      return (item.drawn = item.isOpen ? unfolded(item) : draw(item));
    }),
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

// Level where it starts, where it passes cards and frames, and where it ends.
function curve(view, edge) {
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
  item.tip = g.appendChild(svg("title", {}));
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
  g.onfocus = () => g.matches(":focus-visible") && follow(item); // but a clicked card stays where it is
  return g;
}

// Picked once, a card shows its details; picked again, it unfolds.
function pick(item, byKey) {
  const i = item.values.length ? shown(item.values[0]) : -1;
  if (item.opens >= 0 && (i < 0 || i === chosen)) return unfold(item);
  if (i < 0) return;
  choose(i);
  if (byKey) at("details").focus();
}

// Fades the sides where a frame goes on.
function fade(frame) {
  const { scrollLeft: left, scrollTop: top, scrollWidth, scrollHeight, clientWidth, clientHeight, style } = frame;
  const beyond = { left, right: scrollWidth - clientWidth - left, top, bottom: scrollHeight - clientHeight - top };
  for (const [side, room] of Object.entries(beyond)) style.setProperty(`--${side}`, room > 1 ? "2.5rem" : "0px");
}
const frames = all("#drawing,#panels>section");
for (const frame of frames) frame.onscroll = () => fade(frame);
