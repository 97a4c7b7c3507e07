/* What the tests ask of the worker of a page: `given` has examples, the starts of its models, settings and a seed. */
const { rows, starts, settings, seed } = given, examples = Float64Array.from(rows.flat()), answers = [];
globalThis.self = { postMessage: (answer) => answers.push(answer) };

function ask(what) {
  const always = { id: 0, model: 0, settings, milliseconds: Infinity, every: Infinity };
  self.onmessage({ data: { ...always, ...what } });
  return answers.pop();
}

function open(outputs = starts.map(() => 1), kinds = [0, 1], at = 0.5) {
  ask({ open: { starts, outputs, kinds, at }, inputs: 2, examples, held: [] });
}

function afterAHundredSteps() {
  open();
  if (seed !== null) ask({ reset: seed });
  const { parameters, loss, steps, ok } = ask({ steps: 100 });
  return { parameters: [...parameters], loss, steps, ok };
}

function eachModelAfterFourSteps() {
  open();
  return starts.map((_, model) => {
    ask({ model, reset: seed });
    return [...ask({ model, steps: 4 }).parameters];
  });
}

/* The lines between classes in the square from -1 to 1, the map of the last card, and the margins or map of all. */
function plane(cards, outputs, kinds, at) {
  open([outputs], kinds, at);
  const area = { left: -1, right: 1, bottom: -1, top: 1, height: 2 };
  const { n, maps, margins, map, crossings } = ask({ area, cards });
  const lines = (margins ? strokes(crossings, n) : []).flat();
  const placed = lines.map((line) => line.map((end) => end.map((cells) => (2 * cells) / (n - 1) - 1)));
  return [placed, [...maps.at(-1)], [...(map ?? margins[1])]];
}
