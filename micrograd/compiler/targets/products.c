/* Blocked products: what a block of examples adds to gradients of weights, and several sums of a layer at once. On a
   core with a limit of 132 GFLOP/s, products reach 118 and sums 127; with vectors of 256 bits, 63 and 65 of 66. */

/* PART in_register */
#ifdef __AVX__ /* else gcc reads a vector from memory for each sum: products take 1.25 times as long */
#define IN_REGISTER(v) __asm__("" : "+v"(v))
#else
#define IN_REGISTER(v)
#endif

/* PART product */
#ifdef __AVX512F__ /* it has 32 registers; with 4 rows, products take 1.5 times as long, with 12, 1.03 */
enum { AT_ONCE = 8, VECTORS = 2, PANELS = 1 };
#else
enum { AT_ONCE = 3, VECTORS = 4, PANELS = 2 };
#endif
enum { PANEL = VECTORS * LANES, CHUNK = 44 * AT_ONCE }; /* columns of g at once, and rows that stay in the cache */

/* Adds sums of n products to `count` rows of g, up to AT_ONCE, in registers, or if it `sets` them, to zeros. The
   numbers of b are in a panel. With a variable number of columns, gcc would take 1.3 times as long for the library. */
#define ROWS_OF(count)                                                                                                 \
    static CONTRACTED __attribute__((noinline)) void rows_##count(                                                     \
        const real *a, const real *b, real *g, long g_row, long n, int sets)                                           \
    {                                                                                                                  \
        CONTRACT                                                                                                       \
        V sums[count][VECTORS], factors[count];                                                                        \
        const V zero = {0};                                                                                            \
        _Pragma("GCC unroll 8") for (int i = 0; i < count; i++) {                                                      \
            _Pragma("GCC unroll 4") for (int k = 0; k < VECTORS; k++)                                                  \
                sums[i][k] = zero;                                                                                     \
            for (int k = 0; k < PANEL; k += 64 / sizeof(real))                                                         \
                __builtin_prefetch(g + i * g_row + k, 1); /* for the sums below */                                     \
            __builtin_prefetch(g + i * g_row + PANEL - 1, 1);                                                          \
        }                                                                                                              \
        for (long e = 0; e < n; e++, a++, b += PANEL) {                                                                \
            _Pragma("GCC unroll 8") for (int i = 0; i < count; i++)                                                    \
                factors[i] = U(a[i * ROW]);                                                                            \
            _Pragma("GCC unroll 4") for (int k = 0; k < VECTORS; k++) {                                                \
                V shared = ((const V *)b)[k];                                                                          \
                IN_REGISTER(shared);                                                                                   \
                _Pragma("GCC unroll 8") for (int i = 0; i < count; i++)                                                \
                    sums[i][k] += factors[i] * shared;                                                                 \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 8") for (int i = 0; i < count; i++, g += g_row)                                            \
            _Pragma("GCC unroll 4") for (int k = 0; k < VECTORS; k++)                                                  \
                ((W *)g)[k] = sums[i][k] + (sets ? zero : (V)((const W *)g)[k]);                                       \
    }
ROWS_OF(1)
ROWS_OF(2)
#ifdef __AVX512F__
ROWS_OF(4)
ROWS_OF(8)
#else
ROWS_OF(3)
#define rows_4 rows_2
#define rows_8 rows_3
#endif

/* To g[g_row*i + j], or if it `sets` g, to zeros, adds the sum over e of a[ROW*i + e] * b[b_next*j + e]; with `at`, of
   a[ROW*i + e] * b[b_next*j + b_example*at[e]]. Without `at`, rows of b become columns, eight at a time: one number at a
   time, 10 x 100 weights take 7.2 us instead of 4.9 for 128 examples. With vectors of 256 bits, several panels share a
   chunk of rows: one after the other, with all rows, 512 x 512 weights take 1.05 to 1.15 times as long. */
static void product(const real *a, const real *b, long b_next, long b_example, const int64_t *at, real *g, long g_row,
                    long rows, long width, long n, int sets)
{
    real panels[PANELS][BLOCK * PANEL] __attribute__((aligned(BYTES))), last[AT_ONCE * PANEL];
    for (long first = 0, many; first < width; first += many, b += b_next * many, g += many) {
        many = width - first < PANELS * PANEL ? width - first : PANELS * PANEL;
        for (long j = 0; (j < many || j % PANEL) && !at; j += 8) { /* no sums of columns past the last reach g */
            const real *from[8];
            for (long f = 0; f < 8; f++)
                from[f] = b + b_next * (j + f < many ? j + f : 0);
            across(panels[j / PANEL] + j % PANEL, PANEL, from, 8, n);
        }
        for (long e = 0; e < n && at; e++) {
            const real *from = b + b_example * at[e];
            for (long j = 0; j < many; j += PANEL) {
                real *to = panels[j / PANEL] + e * PANEL;
                for (long k = 0; k < PANEL; k += LANES)
                    __builtin_prefetch(from + j + PANELS * PANEL + k, 0, 2); /* for the next panels */
                if (many - j >= PANEL && b_next == 1)
                    for (long k = 0; k < PANEL; k += LANES)
                        *(V *)(to + k) = *(const W *)(from + j + k);
                else
                    for (long k = 0; k < PANEL; k++)
                        to[k] = j + k < many ? from[(j + k) * b_next] : 0;
            }
        }
        for (long top = 0; top < rows; top += CHUNK)
            for (long j = 0; j < many; j += PANEL) {
                const long m = many - j < PANEL ? many - j : PANEL, end = rows < top + CHUNK ? rows : top + CHUNK;
                const int apart = m < PANEL;
                for (long i = top, count; i < end; i += count) {
                    const long left = end - i;
                    real *own = g + i * g_row + j;
                    count = left >= AT_ONCE ? AT_ONCE : left >= 4 ? 4 : left >= 2 ? 2 : 1;
                    (count == AT_ONCE ? rows_8 : count == 4 ? rows_4 : count == 2 ? rows_2 : rows_1)(
                        a + i * ROW, panels[j / PANEL], apart ? last : own, apart ? PANEL : g_row, n, apart | sets);
                    for (long f = 0; f < count && apart; f++, own += g_row)
                        for (long k = 0; k < m; k++)
                            own[k] = last[f * PANEL + k] + (sets ? 0 : own[k]);
                }
            }
    }
}

/* PART layer_lanes */
#ifdef __AVX512F__ /* vectors of sums in registers: with 16 of 32, sums take 1.28 times as long */
enum { MOST = 24, DEEP = 128 };
#else
enum { MOST = 12, DEEP = 512 };
#endif
enum { SUMS = MOST / TILE < 8 ? MOST / TILE : 8 }; /* of DEEP terms at once, or else 3072-128-10 takes 3% longer */

#define SUMS_OF(count, name)                                                                                           \
    static CONTRACTED __attribute__((noinline)) void name(                                                             \
        T *to, long to_next, const real *a, long a_row, long a_next, const T *x, long x_next, long n)                  \
    {                                                                                                                  \
        CONTRACT                                                                                                       \
        T sums[count];                                                                                                 \
        V factors[count];                                                                                              \
        _Pragma("GCC unroll 8") for (int i = 0; i < count; i++)                                                        \
            FOR_LANES sums[i][k] = to[i * to_next][k];                                                                 \
        for (long e = 0; e < n; e++, a += a_next, x += x_next) {                                                       \
            _Pragma("GCC unroll 8") for (int i = 0; i < count; i++) {                                                  \
                factors[i] = U(a[i * a_row]);                                                                          \
                if (TILE < 4) /* of few vectors, all are in registers, but not all of the factors */                   \
                    FOR_LANES sums[i][k] += factors[i] * (*x)[k];                                                      \
            }                                                                                                          \
            FOR_LANES if (TILE == 4) {                                                                                 \
                V shared = (*x)[k];                                                                                    \
                IN_REGISTER(shared);                                                                                   \
                _Pragma("GCC unroll 8") for (int i = 0; i < count; i++)                                                \
                    sums[i][k] += factors[i] * shared;                                                                 \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 8") for (int i = 0; i < count; i++)                                                        \
            FOR_LANES to[i * to_next][k] = sums[i][k];                                                                 \
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
            count = left >= SUMS ? SUMS : left >= 2 ? 2 : 1;
            (count == SUMS ? several_sums : count == 2 ? two_sums : one_sum)(
                to + i * to_next, to_next, a + first * a_next + i * a_row, a_row, a_next, x + first * x_next, x_next, m);
        }
    }
}

/* PART layer_one */
#define SUMS_OF(name, vector, count)                                                                                   \
    static __attribute__((noinline)) void name(                                                                        \
        real *to, const real *a, const real *x, long a_next, long x_next, long n)                                      \
    {                                                                                                                  \
        vector sums[count];                                                                                            \
        UNROLLED(count) sums[k] = ((const vector *)to)[k];                                                             \
        for (long e = 0; e < n; e++, a += a_next, x += x_next)                                                         \
            UNROLLED(count) sums[k] += *x * ((const vector *)a)[k];                                                    \
        UNROLLED(count) ((vector *)to)[k] = sums[k];                                                                   \
    }
SUMS_OF(eight_vectors, W, 8)
SUMS_OF(two_vectors, W, 2)
SUMS_OF(one_vector, W, 1)
SUMS_OF(four_numbers, H, 1)
SUMS_OF(one_number, real, 1)

/* to[i] += the sum over e of a[i + a_next*e] * x[x_next*e]. */
static void layer(real *to, const real *a, const real *x, long to_next, long a_row, long a_next, long x_next,
                  long rows, long n)
{
    (void)to_next, (void)a_row; /* they are 1 */
    for (long count; rows > 0; rows -= count, to += count, a += count)
        if (rows >= (count = 8 * NUMBERS))
            eight_vectors(to, a, x, a_next, x_next, n);
        else if (rows >= (count = 2 * NUMBERS))
            two_vectors(to, a, x, a_next, x_next, n);
        else if (rows >= (count = NUMBERS))
            one_vector(to, a, x, a_next, x_next, n);
        else if (rows >= (count = 4))
            four_numbers(to, a, x, a_next, x_next, n);
        else {
            count = 1;
            one_number(to, a, x, a_next, x_next, n);
        }
}

/* PART layer_file */
/* to[i] += the sum over e of a[i + a_next*e] * x[x_next*e], four terms between two writes to memory. */
static void layer(real *restrict to, const real *a, const real *x, long to_next, long a_row, long a_next, long x_next,
                  long rows, long n)
{
    (void)to_next, (void)a_row; /* they are 1 */
    for (; n >= 4; n -= 4, a += 4 * a_next, x += 4 * x_next)
        for (long i = 0; i < rows; i++)
            to[i] = to[i] + a[i] * x[0] + a[i + a_next] * x[x_next] + a[i + 2 * a_next] * x[2 * x_next]
                    + a[i + 3 * a_next] * x[3 * x_next];
    for (; n > 0; n--, a += a_next, x += x_next)
        for (long i = 0; i < rows; i++)
            to[i] += a[i] * *x;
}
