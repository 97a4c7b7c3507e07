// Python's random numbers: `new Random(7)` draws what `random.Random(7)` does, by the Mersenne Twister of Matsumoto and
// Nishimura (1998). So a seed on the page means what it means as the `rng` of a model, of a data set and of `fit`.

class Random {
  constructor(seed) {
    const state = (this.state = new Uint32Array(624)), key = [seed >>> 0];
    if (seed >= 2 ** 32) key.push(Math.floor(seed / 2 ** 32));
    const before = (i) => state[i - 1] ^ (state[i - 1] >>> 30);
    state[0] = 19650218;
    for (let i = 1; i < 624; i++) state[i] = Math.imul(1812433253, before(i)) + i;
    let i = 1;
    const next = () => { if (++i > 623) { state[0] = state[623]; i = 1; } };
    for (let k = 0; k < 624; k++, next()) {
      const j = k % key.length;
      state[i] = (state[i] ^ Math.imul(before(i), 1664525)) + key[j] + j;
    }
    for (let k = 0; k < 623; k++, next()) state[i] = (state[i] ^ Math.imul(before(i), 1566083941)) - i;
    state[0] = 2 ** 31;
    this.position = 624;
    this.spare = null; // gauss makes two numbers at a time
  }

  // 32 random bits
  bits() {
    const state = this.state;
    if (this.position === 624) {
      for (let k = 0; k < 624; k++) {
        const y = (state[k] & 0x80000000) | (state[(k + 1) % 624] & 0x7fffffff);
        state[k] = state[(k + 397) % 624] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
      }
      this.position = 0;
    }
    let y = state[this.position++];
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }

  // A number from 0 to 1
  random() {
    const high = this.bits() >>> 5;
    return (high * 2 ** 26 + (this.bits() >>> 6)) / 2 ** 53;
  }

  uniform(low, high) {
    return low + (high - low) * this.random();
  }

  gauss(mean, deviation) {
    let z = this.spare;
    this.spare = null;
    if (z === null) {
      const angle = 2 * Math.PI * this.random(), radius = Math.sqrt(-2 * Math.log(1 - this.random()));
      z = Math.cos(angle) * radius;
      this.spare = Math.sin(angle) * radius;
    }
    return mean + z * deviation;
  }

  shuffle(array) {
    for (let i = array.length - 1; i > 0; i--) {
      let j;
      do j = this.bits() >>> Math.clz32(i + 1); // of i + 1 numbers, by as many bits as they need
      while (j > i);
      [array[i], array[j]] = [array[j], array[i]];
    }
    return array;
  }
}
