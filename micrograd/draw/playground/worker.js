// Trains the models, in a Web Worker, so that the page stays smooth. Each model comes as two modules that the compiler
// made of it: `loss`, with its gradients and the optimizer's step, and `units`, the outputs of the units on the page.

class Trainer {
  constructor({ loss, units }, starts) {
    Object.assign(this, { loss, units, starts });
    this.p = loss.parameters.slice();
    this.g = new Float64Array(this.p.length);
    this.reset(null);
  }

  // To the parameters that Python wrote, or for a seed, to those that layers draw by it. A parameter of which nothing is
  // known but its number gets that.
  reset(seed) {
    this.random = new Random(seed ?? 0);
    this.p.set(this.loss.parameters);
    if (seed !== null)
      this.starts.forEach((limit, i) => {
        if (limit === 0) this.p[i] = 0;
        else if (limit !== null) this.p[i] = limit < 0 ? this.random.gauss(0, 1) : this.random.uniform(-limit, limit);
      });
    if (seed !== null) this.random = new Random(seed); // which shuffles the examples
    this.state = this.loss.createState();
    this.steps = 0;
    this.taken = Infinity; // examples of this epoch
  }

  // The examples of the next batch, in a new order in each epoch, or undefined for all.
  batch(n, size) {
    if (size >= n) return undefined;
    if (this.taken >= n || this.order.length !== n) {
      this.order = this.random.shuffle(Uint32Array.from({ length: n }, (_, i) => i));
      this.taken = 0;
    }
    return this.order.subarray(this.taken, (this.taken += size));
  }

  // Takes a step along the gradient of the mean loss of a batch, and returns that loss.
  step(examples, { learningRate, batchSize, weightDecay }) {
    const { loss, p, g } = this;
    g.fill(0);
    const mean = loss.backward(p, examples, g, this.batch(examples.length / loss.inputs, batchSize));
    if (weightDecay) for (let i = 0; i < p.length; i++) g[i] += weightDecay * p[i];
    loss.update(p, g, this.state, learningRate);
    this.steps++;
    return mean;
  }

  // Takes so many steps, or as many as so many milliseconds allow. Returns whether all numbers are finite still.
  train(examples, settings, steps, milliseconds = Infinity) {
    const end = performance.now() + milliseconds;
    for (let taken = 0, together = 1; taken < steps; ) {
      const start = performance.now(), last = Math.min(steps, taken + together);
      let loss = 0;
      for (; taken < last; taken++) loss = this.step(examples, settings);
      const now = performance.now();
      if (!Number.isFinite(loss) || !this.p.every(Number.isFinite)) return false;
      if (now > end) break;
      if (now - start < 1) together *= 2; // looks at the clock no more often than needed
    }
    return true;
  }

  // The mean loss of examples; null if there are none.
  mean(examples) {
    if (!examples.length) return null;
    const losses = this.loss.forward(this.p, examples);
    let sum = 0;
    for (const loss of losses) sum += loss;
    return sum / losses.length;
  }

  // The share of examples whose class the model tells.
  accuracy(examples, { kinds, at }) {
    const n = examples.length / 3, xs = new Float64Array(2 * n);
    for (let i = 0; i < n; i++) xs.set(examples.subarray(3 * i, 3 * i + 2), 2 * i);
    const outputs = this.outputs(xs, 2);
    let right = 0;
    outputs.forEach((output, i) => {
      const k = output.length > 1 ? output.indexOf(Math.max(...output)) : +(output[0] > at);
      right += kinds[k] === examples[3 * i + 2];
    });
    return right / n;
  }

  // The outputs for each of some inputs.
  outputs(xs, inputs) {
    const { units, p, count } = this, every = units.forward(p, xs), found = [];
    for (let i = 0; i < xs.length / inputs; i++)
      found.push(every.subarray((i + 1) * units.outputs - count, (i + 1) * units.outputs));
    return found;
  }

  // The plane as maps.js has it: the margin of each class at n by n points, as numbers, and a map of half as many for each
  // unit that has a card. Targets of any height have a map of the output before these, in which `height` is the largest.
  maps({ left, right, bottom, top, kinds, at, height }, n, cards) {
    const { units, p, count } = this, points = n * n, xs = new Float64Array(2 * points);
    for (let i = 0; i < points; i++) {
      xs[2 * i] = left + ((right - left) * (i % n)) / (n - 1);
      xs[2 * i + 1] = bottom + ((top - bottom) * Math.floor(i / n)) / (n - 1);
    }
    const every = units.forward(p, xs), width = units.outputs, hidden = width - count;
    const column = (k) => Float64Array.from({ length: points }, (_, i) => every[i * width + k]);
    const outputs = Array.from({ length: count }, (_, k) => column(hidden + k));
    const margins = outputs.map((output, k) => Float32Array.from(output, (x, i) => {
      if (count === 1) return x - at;
      let other = -Infinity;
      outputs.forEach((numbers, j) => { if (j !== k && !(numbers[i] <= other)) other = numbers[i]; });
      return x - other;
    }));
    const half = n / 2, coarse = Array.from({ length: half * half }, (_, i) => 2 * Math.floor(i / half) * n + 2 * (i % half));
    const shown = !cards ? [] : [0, 1].map((k) => xs.filter((_, i) => i % 2 === k));
    for (let k = 0; shown.length < cards; k++) shown.push(column(k));
    const maps = shown.map((numbers) => bytes(coarse.map((i) => numbers[i])));
    if (kinds.length) return { maps, margins };
    return { maps, map: bytes(outputs[0].map((x) => Math.max(-1, Math.min(1, x / height)))) };
  }
}

// Numbers from -1 to 1 as bytes; if some are larger, all are scaled down.
function bytes(numbers) {
  let largest = 1;
  for (const x of numbers) if (Number.isFinite(x) && Math.abs(x) > largest) largest = Math.abs(x);
  return Uint8Array.from(numbers, (x) => (Number.isFinite(x) ? 128 + Math.round((127 / largest) * x) : 0));
}

// Answers the page. A message has the number of a model and what is to be done with it, in this order, and the answer
// has what came of it, and the state of the model then.
function serve(models) {
  let trainers, examples, held, inputs;
  const grids = [48, 36, 24, 12]; // points along each side of a map: fewer, if these take long
  let grid = 0;
  self.onmessage = ({ data: { id, model, ...asked } }) => {
    const answer = { id, model, ok: true };
    if (asked.open) {
      trainers = models.map((made, i) => Object.assign(new Trainer(made, asked.open[i].starts), { count: asked.open[i].outputs }));
      inputs = asked.inputs;
    }
    if (asked.examples) [examples, held] = [asked.examples, asked.held];
    const trainer = trainers[model];
    if (asked.reset !== undefined) trainer.reset(asked.reset);
    if (asked.parameters) trainer.p.set(asked.parameters);
    if (asked.steps && examples.length) answer.ok = trainer.train(examples, asked.settings, asked.steps, asked.milliseconds);
    if (asked.area) {
      const start = performance.now();
      answer.n = grids[grid];
      Object.assign(answer, trainer.maps(asked.area, answer.n, asked.cards));
      const took = performance.now() - start;
      if (took > 8 && grid + 1 < grids.length) grid++;
      else if (took < 1 && grid) grid--;
      if (asked.area.kinds.length && examples.length < 15000) answer.accuracy = trainer.accuracy(examples, asked.area);
    }
    if (asked.probe) answer.probe = trainer.outputs(Float64Array.from(asked.probe), inputs)[0];
    if (asked.table)
      answer.table = trainer.outputs(Float64Array.from(asked.table.flat()), inputs);
    answer.loss = trainer.mean(examples);
    answer.validation = trainer.mean(held);
    answer.parameters = trainer.p.slice();
    answer.steps = trainer.steps;
    self.postMessage(answer);
  };
}
