// Functions of the engine that JavaScript lacks, for drawn pages and exported modules, in parts.

// PART remainder
// x - y * floor(x / y), with the sign of y as Python has it
function remainder(x, y) {
  const r = x % y;
  return r === 0 ? (y < 0 ? -0 : 0) : r < 0 !== y < 0 ? r + y : r;
}

// PART exp2
function exp2(x) {
  return 2 ** x;
}

// PART larger
// the larger of two numbers, NaN if either is
function larger(a, b) {
  return b > a || b !== b ? b : a;
}

// PART largest
// the largest of several numbers
function largest(numbers) {
  return numbers.reduce((a, b) => larger(a, b));
}

// PART erf
function erf(x) {
  return Math.abs(x) < 2 ? series(x) : x < 0 ? fraction(-x) - 1 : 1 - fraction(x);
}

// PART erfc
function erfc(x) {
  return Math.abs(x) < 0.5 ? 1 - series(x) : x < 0 ? 2 - erfc(-x) : fraction(x);
}

// PART series
// erf as e^(-x^2) times a power series without a change of sign
function series(x) {
  let term = x,
    sum = x;
  for (let k = 1; Math.abs(term) > 1e-17 * Math.abs(sum); k++) sum += term *= (2 * x * x) / (2 * k + 1);
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

// PART fraction
// erfc as a continued fraction, from the back
function fraction(x) {
  if (!(x < 27)) return x > 0 ? 0 : NaN;
  let rest = 0;
  for (let k = Math.ceil(20 + 300 / (x * x)); k > 0; k--) rest = k / 2 / (x + rest);
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + rest);
}

// PART power
// x ** y, with the 1 that IEEE 754 has where Math.pow has NaN
function power(x, y) {
  return x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : Math.pow(x, y);
}

// PART lgamma2
// log(gamma(2 + z)) of a z near 0: its power series, whose coefficients are (-1)^k (zeta(k) - 1) / k from the second on
function lgamma2(z) {
  const coefficients = [
    0.42278433509846713, 0.3224670334241132, -0.0673523010531981, 0.020580808427784546, -0.007385551028673986,
    0.0028905103307415234, -0.001192753911703261, 0.0005096695247430425, -0.00022315475845357939,
    9.945751278180853e-05, -4.492623673813314e-05, 2.050721277567069e-05, -9.439488275268397e-06,
    4.374866789907488e-06, -2.039215753801366e-06, 9.55141213040742e-07, -4.492469198764566e-07,
    2.1207184805554665e-07,
  ];
  return z * coefficients.reduceRight((sum, coefficient) => sum * z + coefficient, 0);
}

// PART lgamma
// log |gamma(x)|: Stirling's series of a larger number, the reflection of those below 1/2, and series about 0, 1 and 2
function lgamma(x) {
  if (!Number.isFinite(x)) return x * x;
  if (Math.abs(x) < 1e-20) return -Math.log(Math.abs(x));
  if (Math.abs(x - 1) < 0.25) return lgamma2(x - 1) - Math.log1p(x - 1);
  if (Math.abs(x - 2) < 0.25) return lgamma2(x - 2);
  if (x < 0.5) return Math.log(Math.PI / Math.abs(Math.sin(Math.PI * (x - Math.round(x))))) - lgamma(1 - x);
  let product = 1;
  for (; x < 12; x++) product *= x;
  const w = 1 / (x * x);
  const series = 1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w * (1 / 1188 - (w * 691) / 360360))));
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series / x - Math.log(product);
}

// PART take
// The number at an index of a row in an array: NaN for one that is not in the row
function take(numbers, first, step, size, index) {
  return index >= 0 && index < size && index % 1 === 0 ? numbers[first + step * index] : NaN;
}

// PART add
// Adds a number there, and nothing for an index that is not in the row
function add(numbers, first, step, size, index, number) {
  if (index >= 0 && index < size && index % 1 === 0) numbers[first + step * index] += number;
}
