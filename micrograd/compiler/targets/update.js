/** The optimizer's, which `update` takes if no other is given. */
export const learningRate = RATE;

/** What the optimizer keeps between its steps, before the first: of each model that is trained, its own. */
export function createState() {
  return { STATE };
}

/** Takes a step of the optimizer with p along its gradient g. */
export function update(p, g, state, rate = learningRate) {
BODY
}
