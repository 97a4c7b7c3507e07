// Generated functions on Python's buffers: Pyodide runs this text with its words in capitals replaced, and calls CALLED
(() => {
const x = new Float64Array(INPUTS), y = new Float64Array(RESULTS), t = new Float64Array(TEMPORARIES);
let failures = 0;

function checked(number) {
  if (!(number - number === 0)) failures++;
  return number;
}

CODE
// Calls a function with the numbers in the buffers. False if an operation may have failed
function within(buffers, called) {
  const held = buffers.map((buffer) => buffer.getBuffer("f64"));
  failures = 0;
  try {
    called(...held.map((buffer) => buffer.data));
    return failures === 0;
  } finally {
    for (const buffer of held) buffer.release();
  }
}

// Computes examples, all or those at places that are given: puts their results into ys, and adds to g
function examples(n, seed, ...buffers) {
  return within(buffers, (p, g, ys, at, steps, ...columns) => {
    for (let k = 0, i = 0; k < n; k++, i = 0) {
      const example = at.length ? at[k] : k;
      columns.forEach((column, j) => {
        const size = SIZES[j], start = steps[j] * example;
        for (let l = 0; l < size; l++) x[i++] = column[start + l];
      });
      one(p, g, seed);
      for (let l = 0; l < RESULTS; l++) ys[RESULTS * k + l] = y[l];
    }
  });
}

// Takes a step of an optimizer with ranges of n parameters, which their moments and gradients follow
function step(n, rate, steps, numbers, ranges) {
  return within([numbers, ranges], (numbers, ranges) => {
    for (let r = 0; r < ranges.length; r += 2) {
      const part = (start) => numbers.subarray(start + ranges[r], start + ranges[r] + ranges[r + 1]);
      const state = { steps };
      MOMENTS.forEach((moment, k) => (state[moment] = part((k + 1) * n)));
      update(part(0), part(numbers.length - n), state, rate);
      part(0).forEach(checked);
    }
  });
}
return CALLED;
})()
