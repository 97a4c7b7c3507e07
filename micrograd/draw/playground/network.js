// The network: a card for each unit, in columns, with its picture of the plane or its bias, and an edge for each weight.

// Sets an attribute only if it changes. This spares the browser most of the work of a frame.
function setChanged(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

class Network {
  // `choose` is called with the number of the unit that the reader points at or presses, or -1. `pull` is called with
  // the number of a weight, and with the value it is dragged to, or null at a click. Cards show pictures or, without
  // `hasMaps`, biases.
  constructor(place, hasMaps, choose, pull) {
    Object.assign(this, { place, hasMaps, choose, pull, pressed: -1, grabbed: null });
    new ResizeObserver(() => this.layOut()).observe(place);
    place.addEventListener("pointerdown", (event) => this.grab(event));
    place.addEventListener("pointermove", (event) => this.drag(event));
    for (const end of ["pointerup", "pointercancel"]) place.addEventListener(end, () => this.drop());
  }

  // The edge within a few pixels of the mouse.
  edgeAt(event) {
    const box = this.place.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    let found = null, least = 6;
    if (event.pointerType !== "touch" && !event.target.closest("button"))
      for (const edge of this.paths ?? []) {
        const far = edge.points.reduce((most, [px, py]) => Math.min(most, Math.hypot(px - x, py - y)), Infinity);
        if (far < least) [found, least] = [edge, far];
      }
    return found;
  }

  grab(event) {
    const edge = event.button === 0 ? this.edgeAt(event) : null;
    if (!edge) return;
    event.preventDefault();
    this.place.setPointerCapture(event.pointerId);
    this.grabbed = { edge, y: event.clientY, from: this.shown[0][edge.weight], isMoved: false };
  }

  drag(event) {
    if (!this.grabbed) {
      const edge = this.edgeAt(event);
      this.place.title = edge ? `${this.model.names[edge.weight]}: drag it up or down, or click, to hold it` : "";
      this.place.style.cursor = edge ? "ns-resize" : "";
      return;
    }
    const { edge, y, from } = this.grabbed, by = y - event.clientY;
    this.grabbed.isMoved ||= Math.abs(by) > 2;
    if (this.grabbed.isMoved) this.pull(edge.weight, from + by / 40);
  }

  drop() {
    if (this.grabbed && !this.grabbed.isMoved) this.pull(this.grabbed.edge.weight, null);
    this.grabbed = null;
  }

  // Shows another model.
  open(model, cuts) {
    Object.assign(this, { model, cuts, pressed: -1, shown: null });
    this.edges = svg("svg", { "aria-hidden": "true" });
    this.cards = model.units.map(([name], k) => {
      const canvas = html("canvas", {}), inside = html("span", { className: "inside" });
      const card = html("button", { type: "button", className: "unit", ariaLabel: name, ariaPressed: "false" }, canvas, inside);
      card.onclick = () => this.press(this.pressed === k ? -1 : k);
      card.onpointerenter = (event) => event.pointerType === "mouse" && this.choose(k);
      card.onpointerleave = () => this.choose(this.pressed);
      return { card, canvas, inside, caption: html("span", { className: "caption" }, name) };
    });
    this.more = model.columns.map((units) => html("span", { className: "caption more" }, units.length > 16 ? `and ${counted(units.length - 16)} more` : ""));
    this.place.replaceChildren(this.edges, ...this.cards.flatMap(({ card, caption }) => [card, caption]), ...this.more);
    this.layOut();
  }

  press(unit) {
    this.pressed = unit;
    this.cards.forEach(({ card }, k) => card.setAttribute("aria-pressed", String(k === unit)));
    this.choose(unit);
  }

  // Fits cards and edges into the space there is.
  layOut() {
    if (!this.model || !this.model.units.length) return;
    const { columns, units } = this.model, width = this.place.clientWidth, fullest = Math.max(...columns.map((c) => Math.min(c.length, 16)));
    const below = innerHeight - scrollY - this.place.getBoundingClientRect().top, isAlone = !!this.place.closest(".embed");
    const isBeside = matchMedia("(min-width:46rem)").matches; // above the losses
    const room = isAlone ? below - 16 : isBeside ? Math.max(210, Math.min(376, below - 190)) : 376;
    const pitch = Math.max(24, Math.min(84, room / fullest)), named = pitch > 44;
    const side = Math.min(named ? pitch - 20 : pitch - 4, (0.55 * width) / columns.length);
    const wide = this.hasMaps ? side : Math.max(side, Math.min(56, (0.7 * width) / columns.length)); // for six characters
    const height = pitch * fullest + (columns.some((c) => c.length > 16) ? 20 : 6), gap = columns.length > 1 ? (width - wide - 16) / (columns.length - 1) : 0;
    this.room = wide < 56 ? 4 : 6; // characters of a bias, besides its minus sign
    this.pixels = Math.round(Math.max(30, Math.min(72, side))); // along a side of a card's picture
    this.place.style.height = `${height}px`;
    const page = this.place.closest(".columns"), beneath = innerHeight - scrollY - page.getBoundingClientRect().top - height;
    page.classList.toggle("tall", beneath < 135); // the losses would be out of sight below it: they go above
    const places = [], across = (x) => `${(100 * x) / width}%`; // so that cards and edges stay together on paper
    columns.forEach((names, k) => {
      const shown = Math.min(names.length, 16), x = 8 + gap * k;
      for (let i = 0; i < shown; i++) places.push([x, (pitch * (fullest - shown)) / 2 + pitch * i + 3]);
      const middle = Math.min(Math.max(x + wide / 2, 44), width - 44); // where a text has room
      Object.assign(this.more[k].style, { left: across(middle), top: `${pitch * fullest}px` });
    });
    this.cards.forEach(({ card, caption }, k) => {
      const [x, y] = places[k];
      Object.assign(card.style, { left: across(x), top: `${y}px`, width: across(wide), height: `${side}px` });
      Object.assign(caption.style, { left: across(x + wide / 2), top: `${y + side}px` });
      caption.hidden = !named || (!this.hasMaps && units[k][2] < 0); // whose name is inside
    });
    this.thickest = Math.max(2, pitch / 14);
    this.edges.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.edges.setAttribute("preserveAspectRatio", "none");
    this.paths = [];
    units.forEach(([, weights, , column], to) => {
      const first = units.findIndex((other) => other[3] === column - 1); // of the units whose outputs this one weights
      weights.slice(0, 16).forEach((weight, i) => {
        const from = first + i, [fromX, fromY] = places[from], [toX, toY] = places[to], half = side / 2, bend = (fromX + wide + toX) / 2;
        const d = `M${fromX + wide} ${fromY + half}C${bend} ${fromY + half} ${bend} ${toY + half} ${toX} ${toY + half}`;
        const points = Array.from({ length: 33 }, (_, k) => k / 32).map((t) => [
          (1 - t) ** 3 * (fromX + wide) + 3 * t * (1 - t) * bend + t ** 3 * toX,
          fromY + half + (toY - fromY) * t * t * (3 - 2 * t),
        ]);
        const [x, y] = points[12], pin = svg("circle", { cx: x, cy: y, r: 4.5, class: "pin" });
        this.paths.push({ path: svg("path", { d }), pin, points, weight, from, to });
      });
    });
    this.edges.replaceChildren(...this.paths.map(({ path }) => path), ...this.paths.map(({ pin }) => pin));
    if (this.shown) this.show(...this.shown);
  }

  // Shows parameters, and for each unit its map of n by n points, if there are maps.
  show(parameters, maps, n) {
    this.shown = [parameters, maps, n];
    let largest = 1e-12;
    for (const { weight } of this.paths ?? []) largest = Math.max(largest, Math.abs(parameters[weight]) || 0);
    const { off, held } = this.cuts;
    for (const { path, pin, weight, from, to } of this.paths ?? []) {
      setChanged(pin, "visibility", held.has(weight) ? "visible" : "hidden");
      const x = parameters[weight], near = this.pressed < 0 || from === this.pressed || to === this.pressed;
      setChanged(path, "class", `mg-edge ${signOf(x)}${near ? "" : " far"}`);
      setChanged(path, "stroke-width", (this.thickest * Math.max(0.08, Math.abs(x) / largest || 0)).toFixed(1));
    }
    this.cards.forEach(({ card, canvas, inside }, k) => {
      canvas.hidden = !maps;
      card.classList.toggle("off", off.has(k));
      setChanged(card, "aria-label", `${this.model.units[k][0]}${off.has(k) ? ", off" : ""}`);
      if (maps) unitPicture(maps[k], n, canvas, this.pixels);
      const [name, , bias] = this.model.units[k];
      inside.textContent = maps ? "" : bias < 0 ? name : text(parameters[bias], this.room);
    });
  }

  // The weights of a unit: what each belongs to, and its number among the parameters.
  weightsOf(unit) {
    const [, weights, bias, column] = this.model.units[unit];
    if (bias < 0) return [];
    const names = this.model.columns[column - 1];
    return [...weights.map((i, k) => [`weight of ${names[k]}`, i]), ["bias", bias]];
  }
}
