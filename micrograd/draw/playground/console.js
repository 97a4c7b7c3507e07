/* For scripts and teachers, in the browser's console. Each call waits for those before it; in a lesson, none trains
   before the question is answered.

   await micrograd.train(100)          takes 100 steps with the chosen model, and returns the loss then
   await micrograd.step()              takes one step
   await micrograd.reset(7)            draws new weights by this seed, as rng=7 does in Python; without one, back to
                                       the weights that Python wrote
   micrograd.choices                   the choices of a model: of each keyword, its labels
   await micrograd.choose({hidden: "4-4"})   makes a choice; what is not named stays
   await micrograd.switchOff("h1[0]")        a unit's output is 0, and the others learn without it; switchOn undoes it
   await micrograd.setWeight("h1[1].w0", 2)  sets a weight; hold("h1[1].w0") keeps it from learning, release undoes it
   micrograd.loss()                    the mean loss of all examples
   micrograd.parameters()              the parameters, a Float64Array, in the order of model.parameters()
   await micrograd.setParameters(p)    sets them to as many numbers
   micrograd.learningRate = 0.1        can be read, too
   micrograd.batchSize = 10            can be read, too; Infinity for all examples

   With all examples in a batch, train(100) leaves the parameters of 100 epochs of Python's `fit`. With smaller batches,
   it takes the steps of `fit(..., batch_size=10, rng=7)` after `reset(7)`. */
// From what the page keeps and does. `inTurn` calls a function once the calls before it have finished.
function scripting({ inTurn, now, states, models, scalpels, content, choices, request, cut, set, step, reset, pause, obstacle }) {
  const cutByName = async (group, name, isIn) => (await cut(group, scalpels[now.model].numberOf(group, name), isIn)).loss;
  const loss = () => states[now.model].answer.loss;
  function require(isFine, words) { if (!isFine) throw new RangeError(words); }
  const calls = {
    async train(steps) {
      require(Number.isInteger(steps) && steps >= 0, `train takes a whole number of steps, not ${steps}`);
      require(!obstacle(), obstacle());
      pause();
      for (let left = steps; left > 0; ) {
        const before = states[now.model].answer.steps, { ok, steps: taken } = await request({ steps: left, milliseconds: 200 });
        left = ok ? left - (taken - before) : 0;
      }
      return loss();
    },
    async step() {
      require(!obstacle(), obstacle());
      return (await step()).loss;
    },
    async reset(seed = null) {
      require(seed === null || (Number.isInteger(seed) && seed >= 0 && seed < 1e15), `a seed is a whole number from 0 of at most 15 digits, not ${seed}`);
      await reset(seed);
      return loss();
    },
    async choose(labels) {
      require(choices, "this page has one model: there is nothing to choose");
      await choices.change(labels);
      return loss();
    },
    switchOff: (name) => cutByName("off", name, true),
    switchOn: (name) => cutByName("off", name, false),
    hold: (name) => cutByName("held", name, true),
    release: (name) => cutByName("held", name, false),
    async setWeight(name, to) {
      require(Number.isFinite(to), `a weight is a finite number, not ${to}`);
      const scalpel = scalpels[now.model], weight = scalpel.numberOf("held", name);
      return (await (scalpel.held.has(weight) ? cut("held", weight, true, to) : request({ weight: [weight, to] }))).loss;
    },
    async setParameters(numbers) {
      const parameters = Float64Array.from(numbers), expected = models[now.model].names.length;
      require(parameters.length === expected, `${parameters.length} parameters for a model of ${expected}`);
      require(parameters.every(Number.isFinite), "parameters are finite numbers");
      let answer = await request({ parameters });
      for (const weight of scalpels[now.model].held) answer = await cut("held", weight, true, parameters[weight]);
      return answer.loss;
    },
  };
  const queued = ([name, call]) => [name, (...given) => inTurn(() => call(...given))];
  return {
    ...Object.fromEntries(Object.entries(calls).map(queued)),
    choices: Object.fromEntries(content.choices),
    loss,
    parameters: () => states[now.model].answer.parameters.slice(),
    get learningRate() { return now.rate; },
    set learningRate(rate) { set("rate", rate); },
    get batchSize() { return now.batch; },
    set batchSize(size) { set("batch", size); },
  };
}
