// The functions of an exported module that are the same in each: each after an empty line

// How many examples there are. Throws RangeError if the numbers do not fit the function.
function examples(p, xs) {
  const n = inputs ? xs.length / inputs : 1;
  if (p.length === parameters.length && n >= 1 && n % 1 === 0) return n;
  const sizes = `${parameters.length} parameters and ${inputs} inputs`;
  if (p.length !== parameters.length) throw new RangeError(`${p.length} parameters for a function of ${sizes}`);
  throw new RangeError(`${xs.length} inputs in all for a function of ${sizes} an example`);
}

// Puts the k-th example into x.
function load(xs, k) {
  for (let i = 0; i < inputs; i++) x[i] = xs[k * inputs + i];
}

/** The outputs for the examples in xs, one or several, one after the other: ys, or without it, a new array. */
export function forward(p, xs, ys) {
  const n = examples(p, xs);
  ys ??= new Float64Array(n * outputs);
  for (let k = 0; k < n; k++) {
    load(xs, k);
    forwardOne(p);
    for (let i = 0; i < outputs; i++) ys[k * outputs + i] = y[i];
  }
  return ys;
}

/** The mean of the output over the examples in xs, one or several; its gradient by the parameters is added to g.
    For only some of the examples, `chosen` is an array of their numbers, which count from 0. */
export function backward(p, xs, g, chosen) {
  const all = examples(p, xs);
  const n = chosen ? chosen.length : all;
  let sum = 0;
  for (let k = 0; k < n; k++) {
    load(xs, chosen ? chosen[k] : k);
    backwardOne(p, g, 1 / n);
    sum += y[0];
  }
  return sum / n;
}

/** The output for one example; its gradient by the inputs is put into dx. */
export function valueAndGrad(p, x, dx) {
  examples(p, x);
  load(x, 0);
  valueAndGradOne(p, null, 1);
  for (let i = 0; i < inputs; i++) dx[i] = 0 + y[1 + i]; // which makes 0 of -0
  return y[0];
}
