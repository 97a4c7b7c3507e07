// The words: numbers, names and formulas as text.

const datum = (i, room) =>
  !changes.size && graph.exact[i]?.replace(/^−/, "").length <= (room ?? 12) ? graph.exact[i] : text(V[i], room);
const inFull = x => (Number.isFinite(x) ? `${x}`.replaceAll("-", "−") : text(x));
const inside = x => (x < 0 ? `(${text(x)})` : text(x));
const capital = words => words[0].toUpperCase() + words.slice(1);
const isOne = formula => /^\{\w+\}$/.test(formula);
const standsFor = (k, i) => (k === "y" ? i : operands(i)[k]); // the Value that a formula calls {y}, {0}, {1}, ...
const filled = (formula, i) => {
  const words = formula.replace(/\{(\w+)\}/g, (_, k) => (isOne(formula) ? text : inside)(V[standsFor(k, i)]));
  return words.replace(/\((\(−[\d.e−]+\))\)/g, "$1");
};
const SIGNS = new Map(Object.entries(graph.signs)); // since an operation may be named "constructor"
const opName = i => SIGNS.get(operation(i)[0]) ?? operation(i)[0];
const nameOf = i => {
  const name = constants.has(i) ? datum(i) : graph.names[i];
  return name.length > 24 ? "…" + name.slice(-23) : name;
};
const factor = i => (nameOf(i).includes(" ") ? `(${nameOf(i)})` : nameOf(i)); // the name within a formula
const named = (formula, i) =>
  formula.replace(/\{(\w+)\}/g, (all, k, at) => {
    const isArgument = formula[at - 1] === "(" && formula[at + all.length] === ")";
    return (isArgument || isOne(formula) ? nameOf : factor)(standsFor(k, i));
  });

// An operation with its numbers, such as 1 ÷ 0.
const called = i => {
  const [operand, ...others] = operands(i);
  return filled(operation(i)[1], i) || opName(i) + (others.length ? ` of ${others.length + 1} operands` : `(${datum(operand)})`);
};

// What fails for the numbers that the reader set, in words; nothing if all is well.
function warnings() {
  if (!failure) return [];
  const { i, isForward, raises } = failure,
    what = isForward ? called(i) : `the derivative of ${called(i)}`;
  if (raises) return [`Python raises an error: ${what} cannot be computed.`];
  return [`${capital(what)} is too large for a float. Python continues with ${isForward ? text(V[i]) : "inf"}, without an error.`];
}

// Text in which fractions, such as ∂c/∂a and 1/3, are not broken at the end of a line.
const whole = words =>
  words
    .split(/(∂(?:\(.*?\)|[^\s/]+)\/∂(?:\(.*?\)+|\S+)|\S+\/\S+)/)
    .map((part, k) => (k % 2 ? html("span", { className: "whole", textContent: part }) : part));
const partial = (of, by) => `∂${factor(of)}/∂${factor(by)}`;
