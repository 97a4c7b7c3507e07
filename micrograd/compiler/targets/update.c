/* A step with n of all parameters: 1, or 0 if one is infinite or NaN then, or an operation failed. */
static int update(double *p, double *g, double *m, int64_t all, int64_t n, wide rate, wide steps, wide norm)
{
    (void)m; (void)all; (void)rate; (void)steps; (void)norm;
    W sums = {0.0};
    double sum = 0.0; /* of x - x, which is 0 for all that is finite */
HEAD
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
VECTORS
        sums += r0 - r0;
    }
    for (; i < n; i++) {
SCALARS
        sum += r0 - r0;
    }
    for (int64_t l = 0; l < LANES; l++)
        sum += sums[l];
    return sum == 0.0;
}
