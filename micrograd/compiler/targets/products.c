/* Blocked products: what a block of examples adds to gradients of weights, and several sums of a layer at once. On a
   core with a limit of 132 GFLOP/s, products reach 118 and sums 127; with vectors of 256 bits, 63 and 65 of 66. */

/* PART product */
#ifdef __AVX512F__ /* it has 32 registers; with 4 rows, products take 1.5 times as long, with 12, 1.03 */
enum { AT_ONCE = 8 };
#else
enum { AT_ONCE = 6 };
#endif
enum { PANEL = 2 * LANES }; /* columns of g at once */

/* Adds sums of n products to `count` rows of g, up to AT_ONCE, in registers. The numbers of b are in a panel. With a
   variable number of columns, gcc would take 1.3 times as long for the library. */
#define ROWS_OF(count)                                                                                                 \
    static CONTRACTED __attribute__((noinline)) void rows_##count(                                                     \
        const real *a, const real *b, real *g, long g_row, long n)                                                     \
    {                                                                                                                  \
        CONTRACT                                                                                                       \
        V sums[count][2];                                                                                              \
        _Pragma("GCC unroll 8") for (int i = 0; i < count; i++) {                                                      \
            sums[i][0] = sums[i][1] = (V){0};                                                                          \
            __builtin_prefetch(g + i * g_row, 1); /* for the sums below */                                             \
            __builtin_prefetch(g + i * g_row + PANEL - 1, 1);                                                          \
        }                                                                                                              \
        for (long e = 0; e < n; e++, a++, b += PANEL) {                                                                \
            const V left = *(const V *)b, right = *(const V *)(b + LANES);                                             \
            _Pragma("GCC unroll 8") for (int i = 0; i < count; i++) {                                                  \
                sums[i][0] += a[i * ROW] * left;                                                                       \
                sums[i][1] += a[i * ROW] * right;                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 8") for (int i = 0; i < count; i++, g += g_row) {                                          \
            *(W *)g += sums[i][0];                                                                                     \
            *(W *)(g + LANES) += sums[i][1];                                                                           \
        }                                                                                                              \
    }
ROWS_OF(1)
ROWS_OF(2)
ROWS_OF(4)
#ifdef __AVX512F__
ROWS_OF(8)
#else
ROWS_OF(6)
#define rows_8 rows_6
#endif

/* g[g_row*i + j] += the sum over e of a[ROW*i + e] * b[b_next*j + e]; with `at`, of a[ROW*i + e] * b[b_next*j +
   b_example*at[e]]. Without `at`, rows of b become columns, eight at a time: one number at a time, 10 x 100 weights take
   7.2 us instead of 4.9 for 128 examples. */
static void product(const real *a, const real *b, long b_next, long b_example, const int64_t *at, real *g, long g_row,
                    long rows, long width, long n)
{
    real panel[BLOCK * PANEL] __attribute__((aligned(BYTES))), last[AT_ONCE * PANEL];
    for (long j = 0, m; j < width; j += m) {
        m = width - j < PANEL ? width - j : PANEL;
        for (long k = 0; k < PANEL && !at; k += 8) { /* of a column past the last one, no sum is added to g */
            const real *from[8];
            for (long f = 0; f < 8; f++)
                from[f] = b + b_next * (k + f < m ? j + k + f : j);
            across(panel + k, PANEL, from, 8, n);
        }
        for (long e = 0; e < n && at; e++) {
            const real *from = b + b_next * j + b_example * at[e];
            real *to = panel + e * PANEL;
            __builtin_prefetch(from + PANEL, 0, 2); /* for the next panel */
            __builtin_prefetch(from + PANEL + LANES, 0, 2);
            if (m == PANEL && b_next == 1) {
                *(V *)to = *(const W *)from;
                *(V *)(to + LANES) = *(const W *)(from + LANES);
            } else
                for (long k = 0; k < PANEL; k++)
                    to[k] = k < m ? from[k * b_next] : 0;
        }
        const int apart = m < PANEL;
        for (long i = 0, count; i < rows; i += count) {
            const long left = rows - i;
            real *own = g + i * g_row + j;
            if (apart)
                memset(last, 0, sizeof(last));
            count = left >= AT_ONCE ? AT_ONCE : left >= 4 ? 4 : left >= 2 ? 2 : 1;
            (count == AT_ONCE ? rows_8 : count == 4 ? rows_4 : count == 2 ? rows_2 : rows_1)(
                a + i * ROW, panel, apart ? last : own, apart ? PANEL : g_row, n);
            for (long f = 0; f < count && apart; f++, own += g_row)
                for (long k = 0; k < m; k++)
                    own[k] += last[f * PANEL + k];
        }
    }
}

/* PART layer */
enum { DEEP = 128 }; /* terms of a sum at once: their factors stay in L1; else 3072-128-10 takes 3% longer */
#ifdef __AVX512F__ /* with 16 vectors in registers, sums take 1.28 times as long */
enum { MOST = 24, VECTORS = TILE }; /* vectors of sums in registers, and how many of them each sum has */
#else
enum { MOST = 12, VECTORS = TILE < 2 ? TILE : 2 };
#endif
enum { SUMS = MOST / VECTORS < 8 ? MOST / VECTORS : 8 };

#define SUMS_OF(count, name)                                                                                           \
    static CONTRACTED __attribute__((noinline)) void name(                                                             \
        V *to, long to_next, const real *a, long a_row, long a_next, const V *x, long x_next, long n)                  \
    {                                                                                                                  \
        CONTRACT                                                                                                       \
        V sums[count][VECTORS];                                                                                        \
        _Pragma("GCC unroll 8") for (int i = 0; i < count; i++)                                                        \
            _Pragma("GCC unroll 4") for (int k = 0; k < VECTORS; k++)                                                  \
                sums[i][k] = to[i * to_next + k];                                                                      \
        for (long e = 0; e < n; e++, a += a_next, x += x_next)                                                         \
            _Pragma("GCC unroll 8") for (int i = 0; i < count; i++)                                                    \
                _Pragma("GCC unroll 4") for (int k = 0; k < VECTORS; k++)                                              \
                    sums[i][k] += a[i * a_row] * x[k];                                                                 \
        _Pragma("GCC unroll 8") for (int i = 0; i < count; i++)                                                        \
            _Pragma("GCC unroll 4") for (int k = 0; k < VECTORS; k++)                                                  \
                to[i * to_next + k] = sums[i][k];                                                                      \
    }
SUMS_OF(SUMS, several_sums)
SUMS_OF(2, two_sums)
SUMS_OF(1, one_sum)

/* to[to_next*i] += the sum over e of a[a_row*i + a_next*e] * x[x_next*e], for each example of a tile. */
static void layer(T *to, const real *a, const T *x, long to_next, long a_row, long a_next, long x_next, long rows, long n)
{
    for (long first = 0, m; first < n; first += m) {
        m = n - first < DEEP ? n - first : DEEP;
        for (long i = 0, count; i < rows; i += count) {
            const long left = rows - i;
            const real *from = a + first * a_next + i * a_row;
            count = left >= SUMS ? SUMS : left >= 2 ? 2 : 1;
            for (long k = 0; k < TILE; k += VECTORS)
                (count == SUMS ? several_sums : count == 2 ? two_sums : one_sum)(
                    to[i * to_next] + k, to_next * TILE, from, a_row, a_next, x[first * x_next] + k, x_next * TILE, m);
        }
    }
}
