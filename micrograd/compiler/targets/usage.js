import { parameters, backward, createState, update } from "./model.js";

const p = parameters.slice(), g = new Float64Array(p.length), state = createState();
for (let step = 0; step < 100; step++) {
  g.fill(0);
  const loss = backward(p, xs, g);
  update(p, g, state);
}
