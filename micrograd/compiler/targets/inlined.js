// Functions that are written out where they are used, behind their tables, since engines call what they find too large
// to inline, and allocate the numbers of a call. All lines but the last are the same in both functions, and are written
// once where both are taken of a number.

// PART TANH
// tanh and its slope at every 1/32 from -22, beyond which tanh is 1 and -1, to 22
const TANH = Float64Array.from({ length: 1409 }, (_, i) => Math.tanh((i - 704) / 32));
const TANH_SLOPE = Float64Array.from({ length: 1409 }, (_, i) => 1 / Math.cosh((i - 704) / 32) ** 2);

// PART tanh
// tanh(c + d) is (tanh(c) + tanh(d)) / (1 + tanh(c) tanh(d)): c from the table, tanh(d) by its series; -0 stays as it is
function tanh(x) {
  const within = x > -22 && x < 22, k = within ? (32 * x + 704.5) | 0 : 704, d = x - (k - 704) / 32, s = d * d;
  const a = TANH[k], b = d - d * s * (1 / 3 - s * (2 / 15 - s * (17 / 315))), c = 1 + a * b;
  return within && x !== 0 ? (a + b) / c : Math.tanh(x);
}

// PART tanh_slope
// The product of the slopes at c and d is that at c + d times the square of 1 + tanh(c) tanh(d)
function tanh_slope(x) {
  const within = x > -22 && x < 22, k = within ? (32 * x + 704.5) | 0 : 704, d = x - (k - 704) / 32, s = d * d;
  const a = TANH[k], b = d - d * s * (1 / 3 - s * (2 / 15 - s * (17 / 315))), c = 1 + a * b;
  return within ? (TANH_SLOPE[k] * (1 - b * b)) / (c * c) : 4 * Math.exp(-2 * Math.abs(x));
}
