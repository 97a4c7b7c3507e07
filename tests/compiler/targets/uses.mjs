/* What the tests do with an exported module. */

export function gradients({ parameters, backward }, xs) {
  const g = new Float64Array(parameters.length);
  return [backward(parameters, xs, g), ...g];
}

/* Of some examples, added to gradients of 1. */
export function gradientsOfSome({ parameters, backward }, xs, places) {
  const g = new Float64Array(parameters.length).fill(1);
  return [backward(parameters, xs, g, places), ...g.map(x => x - 1)];
}

export function slopes({ parameters, valueAndGrad }, xs) {
  const dx = new Float64Array(xs.length);
  return [valueAndGrad(parameters, xs, dx), ...dx];
}

export function forwardIntoAnArray({ inputs, outputs, parameters, forward }) {
  const ys = new Float64Array(6);
  return [
    inputs, outputs, parameters.length, [...forward([], [1, 2, 3, 4])],
    forward([], [1, 2, 3, 4], ys) === ys, [...forward([], [1, 2, 3, 4, 5, 6, 7, 8])],
  ];
}

export function refusals({ parameters: p, forward, backward }) {
  const g = new Float64Array(p.length), x = [1, 2, 3];
  const calls = [[p, [1, 2]], [p, []], [[1, 2], x], [p, x, []], ...[[0, 1], [-1], [0.5], []].map(chosen => [p, x, g, chosen])];
  const found = calls.map(given => {
    try {
      return (given.length > 2 ? backward : forward)(...given);
    } catch (error) {
      return `${error}`;
    }
  });
  return [...found, g.every(x => x === 0)];
}

export function train({ parameters, backward, createState, update, learningRate }, xs) {
  const p = parameters.slice(), g = new Float64Array(p.length), state = createState(), losses = [];
  for (let step = 0; step < 100; step++) {
    g.fill(0);
    losses.push(backward(p, xs, g));
    update(p, g, state, step < 50 ? learningRate : 0.01);
  }
  return [...p, ...losses, state.steps];
}

export function twoSteps({ createState, update }) {
  const p = [2.0], state = createState();
  update(p, [1.0], state);
  update(p, [1.0], state);
  return p[0];
}
