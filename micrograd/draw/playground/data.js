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
