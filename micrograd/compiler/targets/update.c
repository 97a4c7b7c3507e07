/* Updates n of the parameters; m has the moments, each with a number for all of them. Returns 1, or 0 if a parameter is
   infinite or NaN afterwards, or an operation failed. */
static int update(real *p, real *g, real *m, int64_t all, int64_t n, double rate, double steps, double norm)
{
    (void)m; (void)all; (void)rate; (void)steps; (void)norm;
    W sums = {0.0};
    real sum = 0.0; /* of x - x for all that is checked: 0 if x is finite, NaN if not */
HEAD
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
RULE
        sums += r0 - r0;
    }
    for (int64_t l = 0; l < LANES; l++)
        sum += sums[l];
    if (i == n)
        return sum == 0.0;
    real rest[(2 + MOMENTS) * LANES]; /* those that fill no vector; the first of them fills the other lanes */
    for (int64_t k = 0; k < 2 + MOMENTS; k++) {
        const real *from = k == 0 ? p : k == 1 ? g : m + (k - 2) * all;
        for (int64_t l = 0; l < LANES; l++)
            rest[k * LANES + l] = from[l < n - i ? i + l : i];
    }
    int whole = update(rest, rest + LANES, rest + 2 * LANES, LANES, LANES, rate, steps, norm);
    for (int64_t k = 0; k < 2 + MOMENTS; k++)
        for (int64_t l = 0; l < n - i; l++)
            (k == 0 ? p : k == 1 ? g : m + (k - 2) * all)[i + l] = rest[k * LANES + l];
    return whole && sum == 0.0;
}
