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
