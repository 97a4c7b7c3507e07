// Maps as pictures. A map has a byte for each of n by n points, row by row from below: 128 for 0, more above, less
// below, and 0 for what is not finite. That of a class holds its margins over the others, as numbers.

const shades = ["shade0", "shade1", "shade2", "shade3", "shade4", "shade5"], colours = {};
const tints = { plain: [], striped: [], ...shades.map(() => []) }; // the pixel for each byte, of units and of classes

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["paper", "plus", "minus", ...shades]) {
    const hex = style.getPropertyValue("--" + name).trim();
    colours[name] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  }
  for (let byte = 1; byte < 256; byte++) {
    const share = Math.abs(byte - 128) / 127, full = byte < 128 ? colours.minus : colours.plus;
    tints.plain[byte] = mixed(colours.paper, full, share);
    tints.striped[byte] = mixed(colours.paper, full, byte < 128 ? 0.4 * share : share);
    shades.forEach((shade, k) => (tints[k][byte] = mixed(colours.paper, colours[shade], 0.35 + 0.65 * share)));
  }
}

// A pixel between two colours.
function mixed(a, b, share) {
  const [red, green, blue] = a.map((x, i) => Math.round(x + (b[i] - x) * share));
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

// Draws n by n pixels by the function `pixel`, the first row at the bottom; 0 is transparent.
function picture(n, pixel, canvas) {
  if (canvas.width !== n) canvas.width = canvas.height = n;
  const context = canvas.getContext("2d"), image = context.createImageData(n, n);
  const pixels = new Uint32Array(image.data.buffer);
  for (let y = 0; y < n; y++) for (let x = 0; x < n; x++) pixels[(n - 1 - y) * n + x] = pixel(x, y);
  context.putImageData(image, 0, 0);
  return canvas;
}

// A unit's map, interpolated to `fine` by `fine` pixels, with stripes below 0: colour alone never tells a sign.
function unitPicture(bytes, n, canvas, fine = 3 * n) {
  const step = (n - 1) / (fine - 1);
  return picture(fine, (x, y) => {
    const left = Math.min(Math.floor(x * step), n - 2), below = Math.min(Math.floor(y * step), n - 2);
    const at = below * n + left, right = x * step - left, up = y * step - below;
    const a = bytes[at], b = bytes[at + 1], c = bytes[at + n], d = bytes[at + n + 1];
    if (!a || !b || !c || !d) return 0;
    const byte = Math.round((a + (b - a) * right) * (1 - up) + (c + (d - c) * right) * up);
    return ((x + y) % 9 < 2 ? tints.striped : tints.plain)[byte];
  }, canvas);
}

// The plane by the margins of its classes, in the shade of the one that leads, the deeper the larger its margin. They are
// interpolated to 3 n by 3 n pixels; in a cell with one stroke, the lead grows with the distance from it.
function planePicture(margins, lines, n, canvas) {
  const fine = 3 * n, step = (n - 1) / (fine - 1);
  const halves = lines.map((strokes, at) => strokes.length === 1 && halved(strokes[0], at, margins, n));
  return picture(fine, (x, y) => {
    const left = Math.min(Math.floor(x * step), n - 2), below = Math.min(Math.floor(y * step), n - 2);
    const at = below * n + left, right = x * step - left, up = y * step - below;
    let first = 0, most = -Infinity;
    if (halves[at]) {
      const far = halves[at].side(x * step, y * step);
      [first, most] = [halves[at].leaders[+(far > 0)], halves[at].slope * Math.abs(far)];
    } else
      for (let k = 0; k < margins.length; k++) {
        const map = margins[k], low = map[at] + (map[at + 1] - map[at]) * right;
        const lead = low + (map[at + n] + (map[at + n + 1] - map[at + n]) * right - low) * up;
        if (!Number.isFinite(lead)) return 0;
        if (lead > most) [first, most] = [k, lead];
      }
    return tints[first % 6][128 + Math.round((127 * most) / (0.25 + Math.abs(most)))];
  }, canvas);
}

// The halves of a cell with one stroke: the sign and the size of `side` tell on which side a place is, and how far away;
// `leaders` are the classes that lead on the two sides; their lead grows by `slope`. null if a corner is not finite.
function halved([[x, y], [toX, toY]], at, margins, n) {
  const side = (px, py) => (toX - x) * (py - y) - (toY - y) * (px - x), leaders = [0, 0], most = [-1, -1];
  let distance = 0, lead = 0;
  for (const corner of [at, at + 1, at + n, at + n + 1]) {
    const far = side(corner % n, Math.floor(corner / n)), half = +(far > 0);
    const leader = margins.findIndex((map) => map[corner] >= 0 && map[corner] < Infinity);
    if (leader < 0) return null;
    distance += Math.abs(far);
    lead += margins[leader][corner];
    if (Math.abs(far) > most[half]) [most[half], leaders[half]] = [Math.abs(far), leader];
  }
  return { side, leaders, slope: lead / distance };
}

// The lines between classes as strokes, a list for each cell of a map that they cross. Ends are counted in cells from the
// left and the bottom. A stroke joins two sides or, where more than two classes meet, a side and the point in the middle.
function strokes(crossings, n) {
  const found = [];
  for (let row = 0; row < n - 1; row++)
    for (let column = 0; column < n - 1; column++) {
      const at = row * n + column, along = n * n + at;
      const ends = [[column, row + crossings[along]], [column + crossings[at + n], row + 1], [column + 1, row + crossings[along + 1]], [column + crossings[at], row]];
      const crossed = ends.filter(([x, y]) => !Number.isNaN(x + y));
      const middle = [0, 1].map((k) => crossed.reduce((sum, end) => sum + end[k], 0) / crossed.length);
      if (crossed.length > 1) found[at] = crossed.length === 2 ? [crossed] : crossed.map((end) => [end, middle]);
    }
  return found;
}

// What Python has compressed into an element: bytes.
async function unpacked(id) {
  const bytes = Uint8Array.from(atob(at(id).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The CSS class for the sign of a number.
const signOf = (x) => (!Number.isFinite(x) ? "bad" : x > 0 ? "plus" : x < 0 ? "minus" : "none");
