// Functions of the engine that JavaScript lacks, for drawn pages and exported modules: each after an empty line

// x - y * floor(x / y), with the sign of y as Python has it
function remainder(x, y) {
  const r = x % y;
  return r === 0 ? (y < 0 ? -0 : 0) : r < 0 !== y < 0 ? r + y : r;
}

function erf(x) {
  return Math.abs(x) < 2 ? series(x) : x < 0 ? fraction(-x) - 1 : 1 - fraction(x);
}

function erfc(x) {
  return Math.abs(x) < 0.5 ? 1 - series(x) : x < 0 ? 2 - erfc(-x) : fraction(x);
}

// erf as e^(-x^2) times a power series without a change of sign
function series(x) {
  let term = x,
    sum = x;
  for (let k = 1; Math.abs(term) > 1e-17 * Math.abs(sum); k++) sum += term *= (2 * x * x) / (2 * k + 1);
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

// erfc as a continued fraction, from the back
function fraction(x) {
  if (!(x < 27)) return x > 0 ? 0 : NaN;
  let rest = 0;
  for (let k = Math.ceil(20 + 300 / (x * x)); k > 0; k--) rest = k / 2 / (x + rest);
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + rest);
}

// log |gamma(x)|: Stirling's series of a larger number, and the reflection of those below 1/2
function lgamma(x) {
  if (!Number.isFinite(x)) return x * x;
  if (x < 0.5) return Math.log(Math.PI / Math.abs(Math.sin(Math.PI * (x - Math.round(x))))) - lgamma(1 - x);
  let product = 1;
  for (; x < 12; x++) product *= x;
  const w = 1 / (x * x);
  const series = 1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w * (1 / 1188 - (w * 691) / 360360))));
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series / x - Math.log(product);
}

// The number at an index of a row in an array: NaN for one that is not in the row
function take(numbers, first, step, size, index) {
  return index >= 0 && index < size && index % 1 === 0 ? numbers[first + step * index] : NaN;
}

// Adds a number there, and nothing for an index that is not in the row
function add(numbers, first, step, size, index, number) {
  if (index >= 0 && index < size && index % 1 === 0) numbers[first + step * index] += number;
}
