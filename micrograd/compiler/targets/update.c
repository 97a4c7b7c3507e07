/* Computes the next numbers of n parameters and of their moments, which follow each parameter `all` numbers apart.
   Returns 1, or 0 if a parameter would be infinite or NaN, or if an operation failed. The old numbers stay. */
static int update(
    const real *restrict p, const real *restrict g, real *restrict next, int64_t all, int64_t n, double rate,
    double steps, double norm)
{
    (void)rate; (void)steps; (void)norm;
    INTEGER failed = 0; /* 1 once x - x is not 0: an x is infinite or NaN */
HEAD
#pragma GCC ivdep /* parameters and moments do not overlap; else gcc makes no vectors with four moments */
    for (int64_t i = 0; i < n; i++) {
RULE
        failed |= r0 - r0 != 0;
    }
    return !failed;
}
