// The data sets of micrograd.data, number for number: `moons(100, 0.1, new Random(7))` are the points and classes of
// `data.moons(100, 0.1, rng=7)`.

function alongCurves(curves, n, noise, random) {
  const points = [];
  curves.forEach((curve, kind) => {
    const share = Math.floor(n / curves.length) + (kind < n % curves.length);
    for (let i = 0; i < share; i++)
      points.push([...curve((i + 0.5) / share).map((x) => x + random.gauss(0, noise)), kind]);
  });
  return points;
}

const DATA = {
  xor(n, noise, random) {
    const corners = [[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]];
    return Array.from({ length: n }, (_, i) => {
      const [x, y, kind] = corners[i % 4];
      return [x + random.gauss(0, noise), y + random.gauss(0, noise), kind];
    });
  },

  moons(n, noise, random) {
    const upper = (t) => [Math.cos(Math.PI * t), Math.sin(Math.PI * t)];
    const lower = (t) => [1 - Math.cos(Math.PI * t), 0.5 - Math.sin(Math.PI * t)];
    return alongCurves([upper, lower], n, noise, random);
  },

  circles(n, noise, random) {
    const circle = (radius) => (t) => [radius * Math.cos(2 * Math.PI * t), radius * Math.sin(2 * Math.PI * t)];
    return alongCurves([circle(1), circle(0.5)], n, noise, random);
  },

  spirals(n, noise, random, arms = 2) {
    const arm = (start) => (t) => [t * Math.cos(2 * Math.PI * (start + t)), t * Math.sin(2 * Math.PI * (start + t))];
    return alongCurves(Array.from({ length: arms }, (_, k) => arm(k / arms)), n, noise, random);
  },
};

// Draws a small picture of examples in the plane, in which `tint` is the colour of a target that is no class.
function thumbnail(canvas, rows, kinds, tint) {
  const context = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  const some = rows.filter((_, i) => i % Math.ceil(rows.length / 300) === 0);
  const ends = [0, 1].map((k) => [Math.min(...some.map((row) => row[k])), Math.max(...some.map((row) => row[k]))]);
  const place = (x, [low, high]) => 10 + (76 * (x - low)) / (high - low || 1);
  context.clearRect(0, 0, 96, 96);
  for (const [x, y, target] of some) {
    const kind = kinds.indexOf(target);
    context.fillStyle = kind < 0 ? tint(target) : style.getPropertyValue(`--class${kind % 6}`);
    context.save();
    context.translate(place(x, ends[0]), 96 - place(y, ends[1]));
    context.scale(0.7, 0.7);
    context.fill(marks[Math.max(0, kind) % marks.length]);
    context.restore();
  }
}

// The examples that the model learns from, and the examples held out. They come from Python or from a data set, and the
// reader may edit them.
class Examples {
  // `changed` is called when the examples have changed.
  constructor({ rows, validation, kinds, sets }, height, changed) {
    Object.assign(this, { rows, validation, kinds, sets, height, changed, points: rows.map((row) => [...row]), held: validation });
    Object.assign(this, { version: 0, name: "yours", noise: 0, n: 0, arms: kinds?.length > 2 ? kinds.length : 2 });
  }

  // The points of a data set, with the targets of these examples as its classes.
  made(name, n, noise, seed) {
    const { kinds, height } = this, target = (kind) => (kinds.length ? kinds[kind % kinds.length] : kind ? height : -height);
    return DATA[name](n, noise, new Random(seed), this.arms).map(([x, y, kind]) => [x, y, target(kind)]);
  }

  open(name, noise = this.sets[name][0], n = this.sets[name][1]) {
    Object.assign(this, { name, noise, n, version: this.version + 1 });
    const random = new Random(0), shaken = ([x, y, target]) => [x + random.gauss(0, noise), y + random.gauss(0, noise), target];
    const isYours = name === "yours";
    this.points = isYours ? this.rows.map((row) => (noise ? shaken(row) : [...row])) : this.made(name, n, noise, 0);
    this.held = isYours || !this.validation.length ? this.validation : noise ? this.made(name, n, noise, 1) : []; // without noise, both would have the same points
    this.show();
    return this.changed();
  }

  // What a link says about the examples: the data set and, once the reader has edited its points, each of them.
  get address() {
    const { name, noise, n, origin, points } = this;
    if (name === "edited") return { ...origin, points: points.flat().map((x) => +x.toPrecision(6)).join("_") };
    return { data: name, noise, ...(name === "yours" ? {} : { n }) };
  }

  // The points of the data set have become others: by the reader, or from a link. Returns whether they can be shown.
  edit(points) {
    const isFine = ([x, y, target]) => Number.isFinite(x + y + target) && (!this.kinds.length || this.kinds.includes(target));
    if (!points.every(isFine)) return false;
    if (this.name !== "edited") this.origin = this.address;
    Object.assign(this, { name: "edited", points });
    this.show();
    return true;
  }

  show() {
    const { name, noise, n, points, arms } = this, isMade = Object.hasOwn(DATA, name);
    all("#sets button").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.name === name)));
    find("#noise").value = noise;
    find("#noise-is").textContent = `${noise.toFixed(2)}${isMade ? "" : " added"}`; // to what the examples have
    find("#n").value = points.length;
    find("#n-is").textContent = points.length;
    find("#n-label").hidden = !isMade;
    const rest = name === "spirals" && arms > 2 ? `, arms=${arms}` : "", call = `data.${name}(${n}, ${noise}, rng=0${rest})`;
    find("#code").textContent = !isMade ? "" : name !== "xor" ? call : n === 4 && !noise ? "data.xor()" : "";
  }

  // Offers the data sets; `tint` is the colour of a target that is no class.
  offer(tint) {
    if (!this.held.length && `${this.points}` === `${this.made("xor", 4, 0, 0)}`) Object.assign(this, { name: "xor", n: 4 });
    const offered = this.name === "yours" ? { yours: this.rows } : {};
    for (const name in DATA) offered[name] = this.made(name, name === "xor" ? 4 : 60, 0, 0);
    find("#sets").append(...Object.entries(offered).map(([name, rows]) => {
      const canvas = html("canvas", { width: 96, height: 96 }), paint = () => thumbnail(canvas, rows, this.kinds, tint);
      const button = html("button", { type: "button", onclick: () => this.open(name) }, canvas, name);
      button.dataset.name = name;
      paint();
      matchMedia("screen and (prefers-color-scheme: dark)").addEventListener("change", paint);
      return button;
    }));
    const source = () => (this.name === "edited" ? this.origin.data : this.name);
    find("#noise").oninput = () => this.open(source(), +find("#noise").value, this.n);
    find("#n").oninput = () => this.open(source(), this.noise, +find("#n").value);
    this.show();
  }
}
