// The plane of two inputs: the model's output as shades and a line, and the examples, which the reader moves.

const MARKS = ["M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0", "M-4.5-4.5H4.5V4.5H-4.5z", "M0-6 5.5 4.5H-5.5z", "M0-6.5 6.5 0 0 6.5-6.5 0z"];
const marks = MARKS.map((d) => new Path2D(d));

class Plane {
  // `edited` is called when points have changed, `pointed` with a place in the plane, or null.
  constructor(canvas, { kinds, height, edited, pointed }) {
    Object.assign(this, { canvas, kinds, height, edited, pointed, points: [], held: [], tool: null, cursor: null, grabbed: -1 });
    this.layer = document.createElement("canvas"); // the points, which stay while the model learns
    this.ground = document.createElement("canvas");
    new ResizeObserver(() => this.resize()).observe(canvas);
    matchMedia("screen and (prefers-color-scheme: dark)").addEventListener("change", () => this.mark());
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.lift(event));
    canvas.addEventListener("pointercancel", () => Object.assign(this, { grabbed: -1, tapped: null }));
    // A finger scrolls the page, unless it starts on a point.
    canvas.addEventListener("touchstart", (event) => this.grabbed >= 0 && event.preventDefault(), { passive: false });
    canvas.addEventListener("pointerleave", () => this.grabbed < 0 && this.pointed(null));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => { this.cursor = null; this.grabbed = -1; this.pointed(null); this.draw(); });
  }

  // Shows other points, in a frame around them.
  open(points, held) {
    Object.assign(this, { points, held, cursor: null, grabbed: -1 });
    const ends = (k) => {
      let low = Infinity, high = -Infinity;
      for (const table of [points, held]) for (const point of table) [low, high] = [Math.min(low, point[k]), Math.max(high, point[k])];
      if (low > high) [low, high] = [-1, 1];
      const by = 0.15 * (high - low) || 1;
      return [low - by, high + by];
    };
    const [left, right] = ends(0), [bottom, top] = ends(1);
    this.area = { left, right, bottom, top };
    this.mark();
  }

  resize() {
    const side = Math.max(200, this.canvas.clientWidth), scale = devicePixelRatio || 1;
    Object.assign(this, { side, scale });
    for (const canvas of [this.canvas, this.layer]) [canvas.width, canvas.height] = [side * scale, (side - 14) * scale];
    this.mark();
  }

  // Between numbers of the plane and pixels

  toPixel([x, y]) {
    const { left, right, bottom, top } = this.area, { x: fromX, y: fromY, size } = this.frame;
    return [fromX + (size * (x - left)) / (right - left), fromY + size - (size * (y - bottom)) / (top - bottom)];
  }

  toPlane([x, y]) {
    const { left, right, bottom, top } = this.area, { x: fromX, y: fromY, size } = this.frame;
    const within = (share) => Math.min(1, Math.max(0, share));
    return [left + (right - left) * within((x - fromX) / size), bottom + (top - bottom) * within((fromY + size - y) / size)];
  }

  nearest(pixel, reach) {
    let found = -1, least = reach;
    this.points.forEach((point, i) => {
      const [x, y] = this.toPixel(point), far = Math.hypot(x - pixel[0], y - pixel[1]);
      if (far <= least) [found, least] = [i, far];
    });
    return found;
  }

  // Mouse and finger

  pixelOf(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  press(event) {
    if (event.button > 0) return;
    const pixel = this.pixelOf(event), isTouch = event.pointerType === "touch", at = this.nearest(pixel, isTouch ? 20 : 10);
    this.canvas.setPointerCapture(event.pointerId);
    this.cursor = null;
    if (at >= 0 && this.tool === null) this.remove(at);
    else if (at >= 0) this.grabbed = at;
    else if (isTouch) this.tapped = pixel;
    else this.add(pixel);
  }

  add(pixel) {
    if (this.tool === null) return;
    this.points.push([...this.toPlane(pixel), this.tool]);
    this.grabbed = this.points.length - 1;
    this.changed();
  }

  // A finger adds a point only when it is lifted where it was put down: a finger that moves scrolls the page.
  lift(event) {
    const [x, y] = this.pixelOf(event), [fromX, fromY] = this.tapped ?? [Infinity, 0];
    if (Math.hypot(x - fromX, y - fromY) < 10) this.add(this.tapped);
    Object.assign(this, { grabbed: -1, tapped: null });
  }

  move(event) {
    const place = this.toPlane(this.pixelOf(event));
    if (this.grabbed >= 0) {
      this.points[this.grabbed] = [...place, this.points[this.grabbed][2]];
      this.changed();
    }
    this.pointed(place);
  }

  remove(at) {
    this.points.splice(at, 1);
    this.grabbed = -1;
    this.changed();
  }

  changed() {
    this.mark();
    this.edited();
  }

  // Keys: arrows move a cross, Enter does what a click would, M picks a point up and puts it down, Delete removes it.
  key(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const { left, right, bottom, top } = this.area, step = steps[event.key];
    const known = step || ["Enter", "Delete", "Backspace", "m", "M"].includes(event.key);
    if (!known || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    this.cursor ??= [(left + right) / 2, (bottom + top) / 2];
    const at = this.nearest(this.toPixel(this.cursor), 14);
    if (step) {
      const by = event.shiftKey ? 1 / 8 : 1 / 40;
      this.cursor = this.toPlane(this.toPixel([this.cursor[0] + step[0] * by * (right - left), this.cursor[1] + step[1] * by * (top - bottom)]));
      if (this.grabbed >= 0) {
        this.points[this.grabbed] = [...this.cursor, this.points[this.grabbed][2]];
        this.changed();
      }
    } else if (event.key === "Enter" && this.tool !== null) {
      this.points.push([...this.cursor, this.tool]);
      this.changed();
    } else if (event.key.toLowerCase() === "m") this.grabbed = this.grabbed >= 0 ? -1 : at;
    else if (at >= 0) this.remove(at);
    this.pointed(this.cursor);
    this.draw();
  }

  // Drawing

  // Draws the points, axes and all that stays, into their layer.
  mark() {
    if (!this.side || !this.area) return;
    const context = this.layer.getContext("2d"), { left, right, bottom, top } = this.area;
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(`--${name}`).trim();
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.side, this.side);
    context.strokeStyle = colour("line");
    context.fillStyle = colour("soft");
    context.font = `12px ${getComputedStyle(this.canvas).fontFamily}`;
    context.textAlign = "center";
    const wide = (tick) => context.measureText(text(tick, 6)).width;
    const x = Math.max(36, ...roundNumbers(bottom, top, 4).map((tick) => wide(tick) + 9)), y = 4, size = this.side - x - 8;
    this.frame = { x, y, size };
    context.strokeRect(x, y, size, size);
    for (const tick of roundNumbers(left, right, 4)) {
      const at = this.toPixel([tick, bottom])[0];
      if (at + wide(tick) / 2 < x + size - 18) context.fillText(text(tick, 6), at, y + size + 15); // where the name of the axis begins
    }
    context.fillText("x0", x + size - 8, y + size + 15);
    context.textAlign = "right";
    for (const tick of roundNumbers(bottom, top, 4)) {
      const at = this.toPixel([left, tick])[1];
      if (at > y + 26) context.fillText(text(tick, 6), x - 5, at + 4);
    }
    context.fillText("x1", x - 5, y + 12);
    this.ink = colour("ink");
    context.save();
    context.beginPath();
    context.rect(x, y, size, size);
    context.clip();
    const small = this.points.length > 600 ? 0.5 : this.points.length > 150 ? 0.75 : 1;
    const every = [...this.held.map((point) => [point, true]), ...this.points.map((point) => [point, false])];
    for (const [point, isHeld] of every) {
      const [px, py] = this.toPixel(point), kind = this.kinds.indexOf(point[2]);
      const fill = kind >= 0 ? colour(`class${kind % 6}`) : this.tint(point[2]);
      context.save();
      context.translate(px, py);
      context.scale(isHeld ? 0.7 * small : small, isHeld ? 0.7 * small : small);
      context.fillStyle = isHeld ? colour("paper") : fill;
      context.strokeStyle = isHeld ? fill : colour(kind >= 0 ? "paper" : "ink");
      context.lineWidth = isHeld ? 2 : 1.5;
      const mark = marks[Math.max(kind, 0) % marks.length];
      context.fill(mark);
      context.stroke(mark);
      context.restore();
    }
    context.restore();
    this.draw();
  }

  // The colour of a height.
  tint(height) {
    const pixel = tints.plain[128 + Math.round(127 * Math.max(-1, Math.min(1, height / this.height)))];
    return `rgb(${pixel & 255} ${(pixel >> 8) & 255} ${(pixel >> 16) & 255})`;
  }

  // Shows the margins of the model's classes with the line between them, or the map of its output, or that of a unit.
  show({ map, margins, crossings, n }, unit) {
    const lines = unit || !margins ? [] : strokes(crossings, n);
    if (unit || !margins) unitPicture(unit ?? map, n, this.ground);
    else planePicture(margins, lines, n, this.ground);
    Object.assign(this, { n, isUnit: !!unit, cell: 1 / (3 * n - 1), lines: lines.flat() });
    this.draw();
  }

  draw() {
    if (!this.frame || !this.area) return;
    const context = this.canvas.getContext("2d"), { x, y, size } = this.frame;
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.side, this.side);
    if (this.cell) {
      const more = (size * this.cell) / 2; // pixels are around the points of a map
      context.save();
      context.beginPath();
      context.rect(x, y, size, size);
      context.clip();
      context.globalAlpha = this.isUnit ? 0.5 : 1; // so that points of its colours can be seen
      context.drawImage(this.ground, x - more, y - more, size + 2 * more, size + 2 * more);
      context.globalAlpha = 1;
      context.beginPath();
      for (const [from, to] of this.lines) {
        context.moveTo(x + (size * from[0]) / (this.n - 1), y + size - (size * from[1]) / (this.n - 1));
        context.lineTo(x + (size * to[0]) / (this.n - 1), y + size - (size * to[1]) / (this.n - 1));
      }
      context.strokeStyle = this.ink;
      context.lineWidth = 1.6;
      context.stroke();
      context.restore();
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.layer, 0, 0);
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.strokeStyle = this.ink;
    if (this.cursor) {
      const [px, py] = this.toPixel(this.cursor);
      context.lineWidth = this.grabbed >= 0 ? 3 : 1.5;
      context.stroke(new Path2D(`M${px - 12} ${py}H${px - 4}M${px + 4} ${py}H${px + 12}M${px} ${py - 12}V${py - 4}M${px} ${py + 4}V${py + 12}`));
    }
  }

  // Offers what a click does: add a point of a class or, for targets of any height, of a height; or remove one.
  offerTools(place, heights) {
    const radio = (words, tool, isFirst, ...before) => {
      const input = html("input", { type: "radio", name: "tool", checked: isFirst, onchange: () => (this.tool = tool) });
      return html("label", {}, input, ...before, words);
    };
    const icon = (kind) => {
      const mark = svg("path", { d: MARKS[kind % 4], style: `fill:var(--class${kind % 6})` });
      return svg("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" }, mark);
    };
    const choices = this.kinds.map((target, kind) => radio(`add ${text(target)}`, target, kind === 0, icon(kind)));
    this.tool = this.kinds.length ? this.kinds[0] : this.height;
    if (!choices.length) {
      const range = { min: heights.reduce((a, b) => Math.min(a, b)), max: this.height, step: "any", value: this.height };
      const slider = html("input", { type: "range", ...range, ariaLabel: "height of new points" });
      const add = radio("add height ", this.height, true), shown = html("output", {}, text(this.height));
      const input = find("input", add);
      input.onchange = slider.oninput = () => {
        this.tool = +slider.value;
        shown.textContent = text(this.tool, 5);
        input.checked = true;
      };
      add.append(shown, slider);
      choices.push(add);
    }
    place.append(...choices, radio("remove", null, false));
  }
}
