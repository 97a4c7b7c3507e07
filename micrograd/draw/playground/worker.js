// Trains the models, in a Web Worker, so that the page stays smooth. Each model comes as two modules that the compiler
// made of it: `loss`, with its gradients and the optimizer's step, and `units`, the outputs of the units on the page.

class Trainer {
  constructor({ loss, units }, starts) {
    Object.assign(this, { loss, units, starts });
    this.p = loss.parameters.slice();
    this.g = new Float64Array(this.p.length);
    this.fixed = [];
    this.cut = { off: [], still: [], held: [] };
    this.dormant = new Map();
    this.reset(null);
  }

  // To the parameters that Python wrote, or for a seed, to what layers draw with it. A parameter keeps Python's number
  // if nothing else is known about it.
  reset(seed) {
    this.random = new Random(seed ?? 0);
    const before = this.whole(), p = this.loss.parameters.slice();
    if (seed !== null)
      this.starts.forEach((limit, i) => {
        if (limit === 0) p[i] = 0;
        else if (limit !== null) p[i] = limit < 0 ? this.random.gauss(0, 1) : this.random.uniform(-limit, limit);
      });
    for (const i of this.cut.held) p[i] = before[i];
    this.set(p);
    if (seed !== null) this.random = new Random(seed); // which shuffles the examples
    this.state = this.loss.createState();
    this.steps = 0;
    this.order = []; // of the examples, in this epoch
  }

  // The parameters, with the stored numbers of units that are switched off in place.
  whole() {
    const parameters = this.p.slice();
    this.dormant.forEach((x, i) => (parameters[i] = x));
    return parameters;
  }

  // Sets the parameters. The weights that lead from a unit that is off are 0; their numbers wait until it is on.
  set(parameters) {
    this.p.set(parameters);
    this.dormant = new Map(this.cut.off.map((i) => [i, parameters[i]]));
    for (const i of this.cut.off) this.p[i] = 0;
    this.stay = this.fixed.map((i) => this.p[i]);
  }

  // Cuts into the network. The weights that lead from units that are off (`off`) are 0; the other parameters of these
  // units do not learn (`still`), so nothing shows that they are there. Parameters that are `held` keep their numbers,
  // even when new weights are drawn.
  fix(cut) {
    const parameters = this.whole();
    this.cut = cut;
    this.fixed = [...cut.off, ...cut.still, ...cut.held];
    this.set(parameters);
  }

  // The examples of the next batch, in a new order in each epoch, or undefined for all examples. One array has their
  // numbers for all epochs, and batches are views of it.
  batch(n, size) {
    if (size >= n) return undefined;
    if (this.order.length !== n || this.size !== size) {
      this.order = new Uint32Array(n);
      this.batches = Array.from({ length: Math.ceil(n / size) }, (_, k) => this.order.subarray(k * size, (k + 1) * size));
      Object.assign(this, { size, next: Infinity });
    }
    if (this.next >= this.batches.length) {
      for (let i = 0; i < n; i++) this.order[i] = i;
      this.random.shuffle(this.order);
      this.next = 0;
    }
    return this.batches[this.next++];
  }

  // Takes a step along the gradient of the mean loss of a batch, and returns that loss.
  step(examples, { learningRate, batchSize, weightDecay }) {
    const { loss, p, g, fixed } = this;
    g.fill(0);
    const mean = loss.backward(p, examples, g, this.batch(examples.length / loss.inputs, batchSize));
    if (weightDecay) for (let i = 0; i < p.length; i++) g[i] += weightDecay * p[i];
    for (const i of fixed) g[i] = 0;
    loss.update(p, g, this.state, learningRate);
    for (let k = 0; k < fixed.length; k++) p[fixed[k]] = this.stay[k]; // which momentum would move
    this.steps++;
    return mean;
  }

  // Takes the given number of steps, or as many as the given milliseconds allow, and calls `passed` when all steps so far
  // are a multiple of `every`. Returns whether all numbers are still finite.
  train(examples, settings, steps, milliseconds, every, passed) {
    const end = performance.now() + milliseconds;
    for (let taken = 0, together = 1, next = every - (this.steps % every); taken < steps; ) {
      const start = performance.now(), last = Math.min(steps, taken + together, next);
      let loss = 0;
      for (; taken < last; taken++) loss = this.step(examples, settings);
      const now = performance.now();
      if (!Number.isFinite(loss) || !this.p.every(Number.isFinite)) return false;
      if (taken === next) {
        passed();
        next += every;
      }
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

  // The share of examples whose class the model gets right.
  accuracy(examples, inputs) {
    const { kinds, at } = this, n = examples.length / (inputs + 1), xs = new Float64Array(inputs * n);
    for (let i = 0; i < n; i++) xs.set(examples.subarray((inputs + 1) * i, (inputs + 1) * i + inputs), inputs * i);
    let right = 0;
    this.outputs(xs, inputs).forEach((output, i) => {
      const k = output.length > 1 ? output.indexOf(Math.max(...output)) : +(output[0] > at);
      right += kinds[k] === examples[(inputs + 1) * i + inputs];
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

  // How far each class leads the others, a list for each class. `every` has the outputs of the units at some points.
  leads(every) {
    const { count, at } = this, width = this.units.outputs, length = every.length / width;
    const outputs = Array.from({ length: count }, (_, k) => Float64Array.from({ length }, (_, i) => every[(i + 1) * width - count + k]));
    if (count === 1) return [outputs[0].map((x) => at - x), outputs[0].map((x) => x - at)];
    return outputs.map((output, k) => output.map((x, i) => {
      let other = -Infinity;
      outputs.forEach((numbers, j) => { if (j !== k && !(numbers[i] <= other)) other = numbers[i]; });
      return x - other;
    }));
  }

  // Where the lines between classes cross the sides of a map's cells, as shares of these: at i for the side from point i to
  // the right, at n * n + i for the side upwards; NaN where there is no line. Between saturated units, the leads at the ends
  // do not tell where the line is, so the part of the side that it crosses is halved five times.
  crossings(xs, margins, n) {
    const found = new Float32Array(2 * n * n).fill(NaN), sides = [];
    const leaders = Array.from(margins[0], (_, i) => margins.findIndex((lead) => lead[i] >= 0 && lead[i] < Infinity));
    leaders.forEach((from, i) => {
      for (const [slot, j] of [[i, i % n < n - 1 ? i + 1 : i], [n * n + i, i + n < n * n ? i + n : i]])
        if (from >= 0 && leaders[j] >= 0 && leaders[j] !== from)
          sides.push({ slot, i, j, from, low: 0, high: 1, a: margins[from][i], b: margins[from][j] });
    });
    const middles = new Float64Array(2 * sides.length);
    for (let round = 0; round < 5 && sides.length; round++) {
      sides.forEach(({ i, j, low, high }, k) => {
        for (const c of [0, 1]) middles[2 * k + c] = xs[2 * i + c] + ((xs[2 * j + c] - xs[2 * i + c]) * (low + high)) / 2;
      });
      const leads = this.leads(this.units.forward(this.p, middles));
      sides.forEach((side, k) => {
        const lead = leads[side.from][k], middle = (side.low + side.high) / 2;
        Object.assign(side, lead >= 0 ? { low: middle, a: lead } : { high: middle, b: lead });
      });
    }
    for (const { slot, low, high, a, b } of sides) found[slot] = low + (high - low) * (a / (a - b) || 0);
    return found;
  }

  // The plane as maps.js has it: a map for each unit that has a card, and the margin of each class at n by n points, with
  // the crossings. Targets of any height have a map of the output in place of these, in which `height` is the largest.
  maps({ left, right, bottom, top, height }, n, cards) {
    const { units, p, count, kinds, at } = this, points = n * n, xs = new Float64Array(2 * points);
    for (let i = 0; i < points; i++) {
      xs[2 * i] = left + ((right - left) * (i % n)) / (n - 1);
      xs[2 * i + 1] = bottom + ((top - bottom) * Math.floor(i / n)) / (n - 1);
    }
    const every = units.forward(p, xs), width = units.outputs, hidden = width - count;
    const column = (k) => Float64Array.from({ length: points }, (_, i) => every[i * width + k]);
    const map = kinds.length ? undefined : bytes(column(hidden).map((x) => Math.max(-1, Math.min(1, x / height))));
    const maps = Array.from({ length: cards }, (_, k) => {
      if (map && k === hidden) return map;
      const from = k === hidden && count === 1 ? at : 0; // the line, where the plane changes its colour, too
      return bytes(column(k).map((x) => (x - from) / (Math.abs(from) || 1)));
    });
    if (map) return { maps, map };
    const margins = this.leads(every);
    return { maps, margins, crossings: this.crossings(xs, margins, n) };
  }
}

// Numbers from -1 to 1 as bytes; if some are larger, all are scaled down.
function bytes(numbers) {
  let largest = 1;
  for (const x of numbers) if (Number.isFinite(x) && Math.abs(x) > largest) largest = Math.abs(x);
  return Uint8Array.from(numbers, (x) => (Number.isFinite(x) ? 128 + Math.round((127 / largest) * x) : 0));
}

// Answers the page. A message has the number of a model and then what to do with it. The answer has the result, and the
// state of the model afterwards.
function serve(models) {
  let trainers, examples, held, inputs;
  const grids = [48, 36, 24, 12]; // points along each side of a map: fewer, if these take long
  let grid = 0;
  self.onmessage = ({ data: { id, model, ...asked } }) => {
    const answer = { id, model, ok: true, curve: [] };
    if (asked.open) {
      const { starts, outputs, kinds, at } = asked.open;
      trainers = models.map((made, i) => Object.assign(new Trainer(made, starts[i]), { count: outputs[i], kinds, at }));
      inputs = asked.inputs;
    }
    if (asked.examples) [examples, held] = [asked.examples, asked.held];
    const trainer = trainers[model];
    const mark = () => answer.curve.push([trainer.steps, trainer.mean(examples) ?? NaN, trainer.mean(held) ?? NaN]);
    if (asked.fixed) trainer.fix(asked.fixed);
    if (asked.reset !== undefined) trainer.reset(asked.reset);
    if (asked.parameters) trainer.set(asked.parameters);
    if (asked.weight) trainer.set(trainer.whole().with(...asked.weight));
    if (asked.steps && examples.length) {
      const start = performance.now();
      let marking = 0;
      answer.ok = trainer.train(examples, asked.settings, asked.steps, asked.milliseconds, asked.every, () => {
        const before = performance.now();
        mark();
        marking += performance.now() - before;
      });
      answer.isSlow = marking > 5 && marking > (performance.now() - start) / 2; // most of the time went into losses
    }
    if (asked.area) {
      const start = performance.now();
      answer.n = grids[grid];
      Object.assign(answer, trainer.maps(asked.area, answer.n, asked.cards));
      const took = performance.now() - start;
      if (took > 8 && grid + 1 < grids.length) grid++;
      else if (grid && took * (grids[grid - 1] / answer.n) ** 2 < 5) grid--;
    }
    const accuracy = (some) => (trainer.kinds?.length && some.length && some.length < 45000 ? trainer.accuracy(some, inputs) : null);
    answer.accuracies = [examples, held].map(accuracy);
    if (asked.probe) answer.probe = trainer.outputs(Float64Array.from(asked.probe), inputs)[0];
    if (asked.table) answer.table = trainer.outputs(Float64Array.from(asked.table.flat()), inputs);
    mark();
    answer.loss = examples.length ? answer.curve.at(-1)[1] : null;
    answer.validation = held.length ? answer.curve.at(-1)[2] : null;
    answer.parameters = trainer.p.slice();
    answer.steps = trainer.steps;
    self.postMessage(answer);
  };
}
