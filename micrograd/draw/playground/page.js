/* The playground. The models train in a Web Worker, whose code is above: worker.js, and for each model the JavaScript
   that micrograd's compiler made of it. */
(async () => {
  readColours();
  const isEmbedded = new URLSearchParams(location.hash.slice(1)).has("embed"); // only the network, the output and two buttons
  document.documentElement.classList.toggle("embed", isEmbedded);
  const DIVERGED = "Some numbers are no longer finite: lower the learning rate, and press Reset.";
  const content = JSON.parse(new TextDecoder().decode(await unpacked("document")));
  const { models, kinds, inputs, loss: [lossName, boundary] } = content, columns = inputs > 4 ? 3 : inputs, isPlane = inputs === 2 && kinds !== null;
  const flat = (rows) => Float64Array.from(rows.flat());
  const heights = isPlane ? content.rows.map((row) => row[2]) : [];
  const height = heights.reduce((most, x) => Math.max(most, Math.abs(x)), 0) || 1;

  // For one input and targets that are no classes: the examples to draw, and the inputs at which to compute the curve.
  const isCurve = inputs === 1 && kinds?.length === 0, ROWS = isCurve ? 8 : 20; // of the table
  const some = (rows) => rows.filter((_, i) => i % Math.ceil(rows.length / 400) === 0), plotted = [content.rows, content.validation].map(some);
  const low = Math.min(...plotted[0].map(([x]) => x)), high = Math.max(...plotted[0].map(([x]) => x));
  const grid = isCurve ? Array.from({ length: 121 }, (_, i) => [low + ((high - low) * (i - 10)) / 100]) : [];

  const now = { model: 0, playing: false, speed: 60, rate: models[0].rate, batch: Infinity, decay: 0 };
  const examples = new Examples(content, height, () => {
    plane.open(examples.points, examples.held);
    return sendExamples();
  });
  const sendExamples = (more = {}) => request({ examples: flat(examples.points), held: flat(examples.held), ...more });
  // Of each model: the worker's last answer; its losses, every `gap` steps and now; the seed of its first weights, null
  // if Python drew them.
  const states = models.map(() => ({ answer: null, curve: [], gap: 1, seed: null }));
  const scalpels = models.map((model) => new Scalpel(model));
  let busy = false, looking = false, due = 0, last = 0, hovered = -1, probe = null, changed = false;

  // The worker

  const worker = new Worker(URL.createObjectURL(new Blob([content.worker], { type: "text/javascript" })));
  const waiting = new Map();
  worker.onmessage = ({ data }) => {
    waiting.get(data.id)(data);
    waiting.delete(data.id);
  };
  worker.onerror = (event) => notice(`The worker has failed: ${event.message}`);
  let asked = 0;

  // Has the worker do something with a model, and shows its state then.
  async function request(what = {}) {
    const model = what.model ?? now.model, state = states[model];
    if (what.reset !== undefined) state.seed = what.reset;
    const taken = { learningRate: now.rate, batchSize: now.batch, weightDecay: now.decay };
    const area = isPlane ? { ...plane.area, height } : undefined;
    const table = isPlane ? undefined : [...grid, ...examples.points.slice(0, ROWS).map((row) => row.slice(0, inputs))];
    const id = ++asked;
    const answer = await new Promise((resolve) => {
      waiting.set(id, resolve);
      worker.postMessage({ id, settings: taken, area, cards: models[model].units.length, table, probe: probe ?? undefined, every: state.gap, ...what, model });
    });
    if (what.steps) state.version = examples.version;
    if (what.reset !== undefined) {
      Object.assign(state, { curve: [], gap: 1 });
      scalpels[model].restart();
    }
    state.curve.push(...answer.curve);
    if (answer.isSlow) state.gap *= 3;
    // Only the last point may lie between. Of each 3, one stays: of each 2, a loss that jumps up and down would look calm.
    const isKept = ([steps], i, curve) => !(steps >= curve[i + 1]?.[0]) && (steps % state.gap === 0 || i === curve.length - 1);
    while ((state.curve = state.curve.filter(isKept)).length > 600) state.gap *= 3;
    state.answer = answer;
    if (what.steps && lesson?.trained(answer.steps)) pause(); // so that the outcome is read beside what it describes
    if (!answer.ok) {
      pause();
      notice(DIVERGED);
    }
    changed = true;
    wake();
    return answer;
  }

  // Calls a function once those before it have finished, and returns its promise.
  let queue = Promise.resolve();
  function inTurn(call) {
    const turn = queue.then(call);
    queue = turn.catch(() => {});
    return turn;
  }

  // Frames: the worker takes the steps that are due, and the page draws its answer.

  let awake = false;
  function wake() {
    if (awake) return;
    awake = true;
    requestAnimationFrame(frame);
  }
  function frame(time) {
    awake = false;
    if (now.playing && !isReady()) pause(); // the last point was removed
    if (changed) draw();
    changed = false;
    if (!now.playing) return void (last = 0);
    wake();
    due += now.speed * (last ? Math.min(0.1, (time - last) / 1000) : 1 / now.speed);
    last = time;
    const most = lesson?.left(states[now.model].answer.steps) ?? Infinity;
    const steps = Math.min(most, now.speed === Infinity ? Infinity : Math.floor(due));
    if (busy || !steps) return;
    due = now.speed === Infinity ? 0 : due - steps;
    busy = true;
    request({ steps, milliseconds: 12 }).then(() => (busy = false));
  }
  function play() {
    if (!isReady()) return;
    find("#notice").hidden = true;
    now.playing = true;
    due = 0;
    showPlaying();
    wake();
  }
  // Why the page cannot train: examples or an answer to a question are missing, or it has diverged; undefined if it can.
  function obstacle() {
    if (!examples.points.length) return "There is nothing to learn from: add points, or choose a data set.";
    if (lesson && !lesson.isAnswered) return "Answer the question first: what do you expect?";
    if (!Number.isFinite(states[now.model].answer?.loss ?? 0)) return DIVERGED;
  }
  function isReady() {
    if (obstacle()) notice(obstacle());
    return !obstacle();
  }
  // Dims the buttons that train while they cannot: they then say why.
  function showReady() {
    for (const id of ["#play", "#forward"]) find(id).setAttribute("aria-disabled", String(!now.playing && !!obstacle()));
  }
  function pause() {
    if (now.playing) lesson?.trained(Infinity);
    now.playing = false;
    showPlaying();
  }
  function showPlaying() {
    find("#play span").textContent = now.playing ? "Pause" : "Train";
    find("#status").ariaLive = now.playing ? "off" : "polite"; // no screen reader could follow
    find("#play path").setAttribute("d", now.playing ? "M3 2h4v12H3zM9 2h4v12H9z" : "M4 2v12l10-6z");
  }
  async function reset(seed) {
    pause();
    find("#notice").hidden = true;
    const drawn = request({ reset: seed });
    showSeed();
    await drawn;
  }
  // Shows what seed drew the first weights, and says how many it did not draw.
  function showSeed() {
    const { seed } = states[now.model], { starts } = models[now.model], kept = starts.filter((limit) => limit === null).length;
    find("#seed").value = seed ?? "";
    if (seed !== null && kept)
      notice(`${counted(kept)} of ${counted(starts.length)} parameters are in no neuron and no embedding: they keep the numbers from Python.`, true);
  }
  // Has the worker compute the output at the pointer. The pointer may have moved on by then.
  async function lookThere() {
    if (looking) return;
    looking = true;
    for (let seen; probe && probe !== seen; ) {
      seen = probe;
      await request();
    }
    looking = false;
  }
  const step = () => {
    pause();
    find("#notice").hidden = true;
    return request({ steps: 1, milliseconds: Infinity });
  };
  function notice(words, mild = false) {
    const place = find("#notice");
    place.textContent = words;
    place.classList.toggle("mild", mild);
    place.hidden = false;
  }

  // Drawing

  const network = new Network(find("#network"), isPlane, (unit) => {
    hovered = unit;
    changed = true;
    wake();
  }, (weight, to) => {
    if (to === null) cut("held", weight, !scalpels[now.model].held.has(weight));
    else cut("held", weight, true, to);
  });
  const plane = isPlane && new Plane(find("#plane"), {
    kinds, height,
    edited: () => {
      examples.edit(examples.points);
      sendExamples();
    },
    pointed: (place) => {
      probe = place;
      if (place && !now.playing) lookThere();
      else if (!place) showWhere();
    },
  });

  // The name of the unit whose picture the plane shows; undefined if it shows the output, even if that has a card.
  function seen() {
    const name = models[now.model].units[hovered]?.[0];
    return name === "out" ? undefined : name;
  }
  function draw() {
    const { answer } = states[now.model], model = models[now.model];
    if (!answer) return;
    const { parameters, maps, n } = answer;
    network.show(parameters, maps, n);
    if (isPlane) {
      const unit = seen();
      plane.show(answer, unit && maps[hovered]);
      find("#sees").textContent = unit ? `What ${unit} sees` : "The model's output";
      showWhere();
    } else showTable(answer);
    showUnit(parameters);
    scalpels[now.model].show(find("#history"), (group, member) => cut(group, member, false));
    showStatus(answer);
    showReady();
    showChart();
    if (find("#parameters-part").open) showParameters();
  }

  const percent = (share) => `${share % 1 ? Math.min(99, Math.max(1, Math.round(100 * share))) : 100 * share}%`; // 0 and 100 are exact
  // The class that the outputs predict, and its probability, if the loss is a cross-entropy.
  function classOf(outputs) {
    const scores = outputs.length > 1 ? [...outputs] : [boundary, outputs[0]], k = scores.indexOf(Math.max(...scores));
    const isProbable = ["cross_entropy", "binary_cross_entropy_with_logits"].includes(lossName);
    return [kinds[k], isProbable ? percent(1 / scores.reduce((sum, x) => sum + Math.exp(x - scores[k]), 0)) : ""];
  }
  const bold = (words) => html("b", {}, words);
  function showStatus({ steps, loss, validation, accuracies }) {
    const epochs = now.batch < examples.points.length ? ` (epoch ${+((steps * now.batch) / examples.points.length).toFixed(1)})` : "";
    const [ofTraining, ofHeld] = accuracies.map((share) => (share === null ? [] : [", ", bold(percent(share)), " correct"]));
    const parts = [`Step `, bold(counted(steps)), `${epochs} · loss `, bold(loss === null ? "–" : text(loss)), ...ofTraining];
    if (validation !== null) parts.push(" · validation ", bold(text(validation)), ...ofHeld);
    find("#status").replaceChildren(...parts);
  }

  function showChart() {
    const { curve } = states[now.model], hasHeld = examples.held.length > 0;
    const lines = [{ name: "training", style: "mg-line0", points: curve }];
    if (hasHeld) lines.push({ name: "validation", style: "mg-line1", points: curve.map(([x, , y]) => [x, y]) });
    states.forEach((state, k) => {
      if (k !== now.model && state.curve.length > 1 && state.version === examples.version) lines.unshift({ name: Object.values(choices.labelsOf(k)).join(" · "), style: "soft", points: state.curve });
    });
    const words = [html("span", { className: "plus" }, "— training")];
    if (hasHeld) words.push(" · ", html("span", { className: "minus" }, "– – validation"));
    if (lines[0].style === "soft") words.push(" · grey: the other models");
    if (drawChart(find("#chart"), lines, scalpels[now.model].history.map(({ step }) => step))) words.push(" · logarithmic axis");
    find("#legend").replaceChildren(...words);
  }

  function showWhere() {
    const { answer } = states[now.model], place = find("#where");
    if (!probe || !answer?.probe) {
      const isShaded = kinds.length && !seen();
      const what = seen() ? `${seen()} is above 0` : `the output is above 0, in full colour at ${text(height)}`, sides = `Blue: ${what}; orange, striped: below. `;
      const shown = isShaded ? "Shading shows the predicted class; on the line, the model is undecided. " : sides;
      const hollow = examples.held.length ? "Hollow points are validation data. " : "";
      return void (place.textContent = `${shown}${hollow}Click to add points, drag to move them.`);
    }
    const [kind, probability] = kinds.length ? classOf(answer.probe) : [];
    const said = kinds.length ? `, so ${probability && `${probability} for `}class ${text(kind)}` : "";
    place.textContent = `x0 ${text(probe[0])}, x1 ${text(probe[1])}: output ${[...answer.probe].map((x) => text(x)).join(", ")}${said}`;
  }

  let panel = { unit: -1 }; // what shows a unit, and which
  function showUnit(parameters) {
    const unit = network.pressed, { model } = now;
    if (unit < 0) find("#unit").replaceChildren();
    else if (panel.unit !== unit || panel.model !== model)
      panel.show = unitPanel(find("#unit"), network, unit, scalpels[model], { cut, setWeight });
    Object.assign(panel, { unit, model });
    if (unit >= 0) panel.show(parameters);
  }

  // Switches a unit off or on, holds a weight or lets it learn, and adds this to the history. If a number is given, the
  // weight is held at that number.
  function cut(group, member, isIn, to) {
    const scalpel = scalpels[now.model], { steps, parameters } = states[now.model].answer;
    if (scalpel[group].has(member) === isIn && to === undefined) return request(); // as it is
    scalpel.change(group, member, isIn, steps, group === "held" && isIn ? ` at ${text(to ?? parameters[member])}` : "");
    return request({ weight: to === undefined ? undefined : [member, to], fixed: scalpel.cut });
  }
  const setWeight = (weight, to) => (Number.isFinite(to) ? cut("held", weight, true, to) : notice("A weight is a number."));

  function showParameters() {
    const { parameters } = states[now.model].answer;
    const rows = models[now.model].names.slice(0, 500).map((name, i) => html("tr", {}, html("th", { scope: "row" }, name), html("td", {}, text(parameters[i]))));
    find("#parameters").replaceChildren(...rows);
  }
  find("#parameters-part").ontoggle = () => { changed = true; wake(); };

  // The first numbers, as many as fit into a cell; in a column with a minus, the others have room for one.
  function few(numbers, isSigned) {
    const words = [...numbers].slice(0, 6).map((x) => text(x, 6)).map((word) => (isSigned && !word.startsWith("−") ? `+${word}` : word));
    while (words.length > 1 && words.join(" ").length > 25) words.pop();
    const parts = words.flatMap((word) => (word[0] === "+" ? [html("span", { className: "unsigned" }, "−"), `${word.slice(1)} `] : `${word} `));
    return numbers.length > words.length ? [...parts, "…"] : parts;
  }
  function showTable({ table }) {
    const among = examples.points.length > ROWS ? `the first ${ROWS} of ${counted(examples.points.length)} examples` : "";
    const hollow = examples.held.length ? ", hollow ones validation data" : "";
    find("#rows").textContent = isCurve ? `The line is the model's output; points are examples${hollow}.${among && ` Below: ${among}.`}` : among;
    if (isCurve) drawCurve(find("#curve"), ...plotted, grid.map(([x], i) => [x, table[i][0]]));
    const rows = table.slice(grid.length).map((outputs, i) => [examples.points[i].slice(inputs), outputs]);
    const isSigned = [0, 1].map((column) => rows.some((row) => row[column].some((x) => x < 0)));
    find("#table").replaceChildren(...rows.map((row, i) => {
      const cells = row.map((numbers, column) => html("td", {}, ...few(numbers, isSigned[column])));
      const given = examples.points[i].slice(0, columns).map((x) => html("td", { className: "input" }, text(x, 5)));
      if (kinds?.length) {
        const [kind, probability] = classOf(row[1]), isRight = kind === row[0][0];
        cells[1] = html("td", { className: isRight ? "" : "wrong" }, `${text(kind)}${isRight ? "" : " ✗"} `, html("small", {}, probability));
      }
      if (inputs > columns) given.push(html("td", {}, "…"));
      return html("tr", {}, ...given, ...cells);
    }));
  }

  // Settings

  const settings = {
    speed: [...[1, 10, 60, 600].map((x) => [x, text(x)]), [Infinity, "fastest"]],
    rate: [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10].map((x) => [x, text(x)]),
    batch: [...[1, 2, 5, 10, 20, 50, 100].map((x) => [x, text(x)]), [Infinity, "all"]],
    decay: [0, 0.0001, 0.001, 0.01, 0.1].map((x) => [x, text(x)]),
  };
  function set(name, value) {
    const isFine = name === "batch" ? value >= 1 && (value % 1 === 0 || value === Infinity) : value >= 0 && (name === "speed" || value < Infinity);
    if (!isFine) throw new RangeError(`${name} cannot be ${value}`);
    if (!settings[name].some(([known]) => known === value)) settings[name] = [...settings[name], [value, text(value)]].sort(([a], [b]) => a - b);
    find(`#${name}`).replaceChildren(...settings[name].map(([known, words]) => html("option", { value: known, selected: known === value }, words)));
    now[name] = value;
    due = 0;
  }
  const readSeed = () => {
    const typed = find("#seed").value.trim();
    if (typed === "") return null;
    if (/^\d{1,15}$/.test(typed)) return +typed;
    showSeed(); // of the weights, since they stay as they are
    notice("A seed is a whole number, 0 or above. Leave it empty for the weights that Python wrote.");
  };
  // Shows another model. Unless it has been trained, the seed in the field draws its weights, too.
  async function open(model) {
    const { seed } = states[now.model], { answer, seed: known } = states[model];
    choices?.show(model); // at once, so that the next click starts from it
    find("#notice").hidden = true;
    await request(answer?.steps || known === seed ? { model } : { model, reset: seed });
    if (models[model].rate !== models[now.model].rate) set("rate", models[model].rate); // of another optimizer
    now.model = model;
    showSeed();
    hovered = -1;
    find("#network-part").hidden = !models[model].units.length;
    find("#network-name").textContent = models.length > 1 ? models[model].title : "Network";
    find("#count").textContent = counted(models[model].names.length);
    const { optimizer, decay, file } = models[model], content = Array.isArray(file) ? "parameters" : "state dict";
    find("#rule").textContent = `Learning rate of ${optimizer}`;
    find("#decays").textContent = `Weight decay${decay ? ` on top of ${text(decay)}` : ""}`; // of the optimizer's own
    find("#save-is").textContent = file.format ? "downloads a file that nn.load can read." : `downloads the ${content}, as JSON.`;
    network.open(models[model], scalpels[model]);
    draw();
  }

  // The address

  let linked = "";
  function link() {
    const { model, rate, batch, decay } = now, { seed } = states[model], parts = { rate, batch, decay, ...examples.address };
    if (choices) Object.assign(parts, choices.labelsOf(model));
    if (seed !== null) parts.seed = seed;
    const address = new URLSearchParams(parts), { held, off } = scalpels[model], { names, units } = models[model];
    for (const weight of held) address.append("held", `${names[weight]}=${states[model].answer.parameters[weight]}`);
    for (const unit of off) address.append("off", units[unit][0]);
    linked = `#${address}`;
    location.hash = linked;
    linked = location.hash; // as the browser writes it
    navigator.clipboard?.writeText(location.href).catch(() => {});
    notice("The address of this page now has these settings: copy it, or bookmark it.", true);
  }
  // Goes back to how the page opened, and resets all models trained since: for the next part of a lesson.
  async function restart() {
    pause();
    Object.entries(opening.settings).forEach(([name, value]) => set(name, value));
    if (isPlane) await examples.open(...opening.examples);
    for (const [model, { answer }] of states.entries()) {
      if (!answer) continue;
      scalpels[model].clear();
      await request({ model, fixed: scalpels[model].cut, reset: null });
    }
    await open(0);
    await reset(null);
  }
  // Applies the settings in the address or in a part of a lesson. The page says which ones it cannot apply.
  async function follow(address) {
    const parts = new URLSearchParams(address), left = new Set(parts.keys()), data = parts.get("data");
    const number = (name, least, most, other) => {
      const given = parts.get(name) ? Number(parts.get(name)) : NaN, isFine = given >= least && given <= most;
      if (isFine) left.delete(name);
      return isFine ? given : other;
    };
    left.delete("embed");
    for (const [name, labels] of content.choices)
      if (labels.includes(parts.get(name))) {
        await choices.change({ [name]: parts.get(name) });
        left.delete(name);
      }
    for (const name of ["rate", "batch", "decay"])
      if (parts.get(name)) try { set(name, Number(parts.get(name))); left.delete(name); } catch { /* it stays */ }
    if (isPlane && Object.hasOwn(content.sets, data)) {
      await examples.open(data, number("noise", 0, 0.5, content.sets[data][0]), Math.round(number("n", 1, 10000, content.sets[data][1])));
      left.delete("data");
    }
    const numbers = parts.get("points")?.split("_").filter(Boolean).map(Number) ?? [];
    const points = Array.from({ length: Math.ceil(numbers.length / 3) }, (_, i) => numbers.slice(3 * i, 3 * i + 3));
    if (isPlane && parts.has("points") && points.length <= 10000 && examples.edit(points)) {
      await examples.changed();
      left.delete("points");
    }
    if (/^\d{1,15}$/.test(parts.get("seed") ?? "")) {
      await reset(+parts.get("seed"));
      left.delete("seed");
    }
    for (const group of ["held", "off"])
      try {
        for (const [name, number] of parts.getAll(group).map((cut) => cut.split("="))) {
          const to = number === undefined ? undefined : Number(number);
          if (to !== undefined && !Number.isFinite(to)) throw new RangeError(`${name} cannot be ${number}`);
          await cut(group, scalpels[now.model].numberOf(group, name), true, to);
        }
        left.delete(group);
      } catch { /* the page says below what is left */ }
    const words = [...left].map((name) => `${name}=${parts.get(name)}`.slice(0, 40)).join(", ");
    if (words) notice(`The address has settings that this page cannot apply: ${words.slice(0, 400)}.`, true);
  }

  function save() {
    const { parameters } = states[now.model].answer;
    if (!parameters.every(Number.isFinite)) return notice("Some parameters are not finite: press Reset before you save.");
    let filled = 0; // nulls so far: each stands for a parameter
    const file = `${JSON.stringify(models[now.model].file, (_, part) => (part === null ? parameters[filled++] : part))}\n`;
    const address = URL.createObjectURL(new Blob([file], { type: "application/json" }));
    html("a", { href: address, download: "model.json" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  // The page, connected

  for (const name in settings) {
    set(name, now[name]);
    find(`#${name}`).onchange = (event) => set(name, Number(event.target.value));
  }
  find("#first").onclick = () => { const seed = readSeed(); if (seed !== undefined) reset(seed); };
  // In turn: while a part of a lesson is opening, it would pause and reset what begins.
  find("#play").onclick = () => (now.playing ? pause() : inTurn(play));
  find("#forward").onclick = () => inTurn(() => isReady() && step());
  find("#seed").onchange = find("#first").onclick;
  find("#dice").onclick = () => reset(100 + Math.floor(900 * Math.random())); // Python seldom draws by three digits
  find("#save").onclick = save;
  find("#link").onclick = link;
  const press = (id) => () => find(id).click();
  connectKeys({ Home: press("#first"), " ": press("#play"), ArrowRight: press("#forward") });
  matchMedia("screen and (prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); }); // at once, as printing does not wait
  window.addEventListener("hashchange", () => location.hash !== linked && follow(location.hash.slice(1)));
  new ResizeObserver(() => { changed = true; wake(); }).observe(find("#chart"));

  if (isPlane) {
    for (const id of ["data", "plane-part"]) find(`#${id}`).hidden = false;
    const line = models[0].outputs === 1 && boundary ? ` (out: below ${boundary === 0.5 ? "½" : text(boundary)})` : "";
    find("#cards-show").textContent = `Cards show outputs over the plane, with stripes below 0${line}.`;
    plane.open(examples.points, examples.held);
    plane.resize();
    examples.offer((x) => plane.tint(x));
    plane.offerTools(find("#tools"), heights);
  } else {
    find(".columns").classList.add("no-data");
    find("#table-part").hidden = false;
    find("#cards-show").textContent = "Cards show biases.";
    const names = Array.from({ length: columns }, (_, i) => `x${i}`), more = inputs > columns ? ["…"] : [];
    find("#head").append(...[...names, ...more, "target", "prediction"].map((words, i) => html("th", { scope: "col", className: i < names.length ? "input" : "" }, words)));
  }
  const opening = { settings: { rate: now.rate, batch: now.batch, decay: now.decay }, examples: [examples.name, examples.noise, examples.n] };
  const choices = content.choices.length ? new Choices(find("#choices"), content.choices, models.map(({ twin }) => twin), open, (why) => notice(why, true)) : null;
  const lesson = content.lesson.length && !isEmbedded ? new Lesson(find("#lesson"), content.lesson, ({ text, answers, after, steps, choice, ...more }) => inTurn(async () => {
    await restart();
    await follow(new URLSearchParams({ ...choice, ...more }));
  }), showReady) : null;
  network.open(models[0], scalpels[0]);
  const ofAll = (name) => models.map((model) => model[name]);
  await sendExamples({ open: { starts: ofAll("starts"), outputs: ofAll("outputs"), kinds, at: boundary }, inputs });
  await open(0);
  if (lesson) await lesson.go(0);
  if (location.hash.length > 1) await follow(location.hash.slice(1));
  window.micrograd = scripting({ inTurn, now, states, models, scalpels, content, choices, request, cut, set, step, reset, pause, obstacle });
  document.documentElement.dataset.ready = "";
})();
