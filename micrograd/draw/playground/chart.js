// The chart of losses by steps: on a logarithmic axis if all of them are above 0.

const EDGES = { left: 50, right: 16, top: 8, bottom: 24 };

// Round numbers from low to high, in at most `most` steps.
function roundNumbers(low, high, most) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => power * factor >= rough * (1 - 1e-9));
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
  return found;
}

function putChart(place, width, height, label, parts) {
  const attributes = { class: "mg-chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label };
  place.replaceChildren(svg("svg", attributes, ...parts));
}

// Draws examples of one input as points (validation data hollow), and a model's output over that input as a line.
function drawCurve(place, points, held, line) {
  const width = Math.max(240, place.clientWidth), height = Math.round(0.7 * width), { left, right, top, bottom } = EDGES;
  const scale = (k, from, to) => {
    const all = [...points, ...held].map((point) => point[k]), low = Math.min(...all), high = Math.max(...all), by = 0.1 * (high - low) || 1;
    const at = (x) => +(from + ((to - from) * (x - low + by)) / (high - low + 2 * by)).toFixed(1);
    return [at, roundNumbers(low - by, high + by, 4)];
  };
  const [x, across] = scale(0, left, width - right), [y, up] = scale(1, height - bottom, top), parts = [];
  for (const tick of up) {
    parts.push(svg("path", { class: "mg-grid", d: `M${left} ${y(tick)}H${width - right}` }));
    parts.push(svg("text", { class: "mg-soft", x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, text(tick, 6)));
  }
  for (const tick of across.filter((tick) => x(tick) < width - right - 20)) // where the axis has its name
    parts.push(svg("text", { class: "mg-soft", x: x(tick), y: height - bottom + 16, "text-anchor": "middle" }, text(tick, 6)));
  parts.push(svg("text", { class: "mg-soft", x: width - right, y: height - bottom + 16, "text-anchor": "end" }, "x0"));
  for (const [some, look] of [[held, "point held"], [points, "point"]])
    for (const [at, target] of some) parts.push(svg("circle", { class: look, cx: x(at), cy: y(target), r: 3.5 }));
  const d = line.map(([at, output], i) => `${i ? "L" : "M"}${x(at)} ${y(output)}`).join("");
  if (line.every(([, output]) => Number.isFinite(output))) parts.push(svg("path", { class: "mg-line mg-line0", d }));
  putChart(place, width, height, "the model's output over x0, and the examples", parts);
}

function lossTicks(low, high, isLog) {
  if (!isLog) return roundNumbers(low, high, 4);
  for (const factors of [[1], [1, 2, 5], [1, 1.5, 2, 3, 5, 7]]) {
    const found = [];
    for (let power = Math.floor(low); power <= high; power++)
      for (const factor of factors) found.push(Math.log10(factor) + power);
    const within = found.filter((x) => x >= low && x <= high);
    if (within.length > 3 || (within.length === 3 && factors.length > 1)) return within.filter((_, i) => i % Math.ceil(within.length / 6) === 0);
  }
  return roundNumbers(10 ** low, 10 ** high, 6).map(Math.log10);
}

// The texts of numbers along an axis. If any of them needs many digits, those below 0.001 are written with exponents.
function tickTexts(ticks) {
  const isLong = ticks.some((tick) => text(tick).length > 6), isSmall = (tick) => tick && Math.abs(tick) < 1e-3;
  const withExponent = (tick) => tick.toExponential(2).split("e").map(Number).join("e").replaceAll("-", "−");
  return ticks.map((tick) => (isLong && isSmall(tick) ? withExponent(tick) : text(tick, 6)));
}

// Draws lines of {name, style, points}, each point a number of steps and a loss, and marks some numbers of steps. Returns
// whether the axis of losses is logarithmic.
function drawChart(place, lines, marked = []) {
  const width = Math.max(240, place.clientWidth), height = innerHeight < 800 ? 124 : 150, { left, right, top, bottom } = EDGES;
  const drawn = lines.map((line) => ({ ...line, points: line.points.filter(([, y]) => Number.isFinite(y)) }));
  const ys = drawn.flatMap(({ points }) => points.map(([, y]) => y));
  const isLog = ys.every((y) => y > 0), scaled = (y) => (isLog ? Math.log10(y) : y);
  let low = Math.min(...ys.map(scaled)), high = Math.max(...ys.map(scaled));
  if (!ys.length) [low, high] = [-1, 0];
  const least = isLog ? 0.3 : Math.max(1e-9, 0.1 * Math.abs(high));
  if (high - low < least) [low, high] = [low - least / 2, high + least / 2];
  const last = Math.max(10, ...drawn.flatMap(({ points }) => points.slice(-1).map(([x]) => x)));
  const x = (steps) => (left + ((width - left - right) * steps) / last).toFixed(1);
  const y = (value) => (height - bottom - ((height - top - bottom) * (value - low)) / (high - low)).toFixed(1);
  const parts = [];
  const ticks = ys.length ? lossTicks(low, high, isLog) : [], words = tickTexts(ticks.map((tick) => (isLog ? 10 ** tick : tick)));
  for (const [i, tick] of ticks.entries()) {
    parts.push(svg("path", { class: "mg-grid", d: `M${left} ${y(tick)}H${width - right}` }));
    parts.push(svg("text", { class: "mg-soft", x: left - 6, y: +y(tick) + 4, "text-anchor": "end" }, words[i]));
  }
  for (const tick of roundNumbers(0, last, 4).filter((tick) => x(tick) < width - right - 50)) // where the axis has its name
    parts.push(svg("text", { class: "mg-soft", x: x(tick), y: height - bottom + 16, "text-anchor": "middle" }, text(tick, 6)));
  parts.push(svg("text", { class: "mg-soft", x: width - right, y: height - bottom + 16, "text-anchor": "end" }, "steps"));
  for (const steps of marked) parts.push(svg("path", { class: "mg-mark", d: `M${x(steps)} ${top}V${height - bottom}` }));
  for (const { style, points } of drawn)
    if (points.length) {
      const d = points.map(([steps, loss], i) => `${i ? "L" : "M"}${x(steps)} ${y(scaled(loss))}`).join("");
      parts.push(svg("path", { class: `mg-line ${style}`, d: points.length > 1 ? d : `${d}h2` }));
    }
  const label = lines.map(({ name, points }) => `${name}: ${points.length ? text(points.at(-1)[1]) : "none"}`).join(", ");
  putChart(place, width, height, label, parts);
  return isLog && ys.length > 0;
}
