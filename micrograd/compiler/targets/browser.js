// A function that computes examples: run by Pyodide, and called by browser.py with Python's buffers
(() => {
const x = new Float64Array(INPUTS), y = new Float64Array(RESULTS), t = new Float64Array(TEMPORARIES);
let failures = 0;

function checked(number) {
  if (!(number - number === 0)) failures++;
  return number;
}

CODE
// Columns are how many numbers an example has, and all of them, for each argument. False if an operation may have failed
return (n, seed, parameters, gradients, results, places, ...columns) => {
  const held = [];
  const view = (buffer) => {
    held.push(buffer.getBuffer("f64"));
    return held.at(-1).data;
  };
  try {
    const p = view(parameters), g = view(gradients), ys = view(results), at = places && view(places);
    const arguments_ = columns.map((part, i) => (i % 2 ? view(part) : part));
    failures = 0;
    for (let k = 0; k < n; k++) {
      const example = at ? at[k] : k;
      for (let j = 0, i = 0; j < arguments_.length; j += 2)
        for (let size = arguments_[j], end = (example + 1) * size, l = end - size; l < end; l++)
          x[i++] = arguments_[j + 1][l];
      one(p, g, seed);
      for (let i = 0; i < RESULTS; i++) ys[k * RESULTS + i] = y[i];
    }
    return failures === 0;
  } finally {
    for (const buffer of held) buffer.release();
  }
};
})()
