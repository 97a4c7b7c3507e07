/* Carries out a program that is data, one operation after another. bytecode.py says when and why. It writes the words,
   and the cases for operations on numbers. */

enum { CODES };

/* A program begins with its head; then come its constants, and then its words. */
typedef struct {
    int64_t n_constants, n_parameters, n_results, is_ieee;
} head;

/* What the i-th word of an operation refers to, in one of four arrays: temporaries, parameters, constants, gradients. */
#define AT(i) (arrays[at[i] >> 30] + (at[i] & 0x3fffffff))
#define NUMBER(i) (*AT(i))
#define OPERATION(code, n, value) \
    case code: { \
        const real a = NUMBER(2), b = n > 1 ? NUMBER(3) : 0, c = n > 2 ? NUMBER(4) : 0; \
        (void)b, (void)c; \
        NUMBER(1) = value; \
        at += n + 2; \
        break; \
    }

/* Adds to `to` rows of n numbers, each times a factor. A term has two words: the places of its factor and its row. */
static void combine(real *to, int64_t step, int64_t n, int64_t terms, const uint32_t *at, real *const *arrays)
{
    int64_t i = 0;
    for (; step == 1 && i + 8 <= n; i += 8) {
        W sums[VECTORS] = {{0}};
        for (int64_t t = 0; t < 2 * terms; t += 2) {
            const real by = NUMBER(t), *row = AT(t + 1) + i;
            UNROLLED(VECTORS) sums[k] += by * ((const W *)row)[k];
        }
        UNROLLED(VECTORS) ((W *)(to + i))[k] += sums[k];
    }
    for (; i < n; i++) {
        real sum = 0;
        for (int64_t t = 0; t < 2 * terms; t += 2)
            sum += NUMBER(t) * AT(t + 1)[i];
        to[i * step] += sum;
    }
}

/* Carries out the program for one example, whose results go to y. */
static void compute(const call *given, int64_t example, const uint32_t *at, real *const *arrays, real *y, M *failed)
{
    for (;;)
        switch (*at) {
        case END:
            return;
        case ARGUMENT:
            memcpy(AT(1), numbers_of(given->x + at[2], at[4] ? 0 : example, at[3]), sizeof(real) * at[3]);
            at += 5;
            break;
        case RESULT:
            y[at[1]] = at[3] ? 0 + NUMBER(2) : NUMBER(2); /* no gradient is -0.0 */
            at += 4;
            break;
        case GATHER:
            for (uint32_t i = 0; i < at[2]; i++)
                AT(1)[i] = NUMBER(3 + i);
            at += 3 + at[2];
            break;
        case DOT:
            NUMBER(1) = dot(NUMBER(2), AT(3), AT(4), at[5]);
            at += 6;
            break;
        case SUM:
            NUMBER(1) = scaled(-0.0, 1, AT(2), at[3]);
            at += 4;
            break;
        case MAX:
            NUMBER(1) = max(-INFINITY, AT(2), at[3]);
            at += 4;
            break;
        case TAKE:
            NUMBER(1) = take_at(AT(3), 1, at[4], checked_index(NUMBER(2), at[4], failed));
            at += 5;
            break;
        case CLEAR:
            memset(AT(1), 0, sizeof(real) * at[2]);
            at += 3;
            break;
        case COMBINE:
            combine(AT(1), at[2], at[3], at[4], at + 5, arrays);
            at += 5 + 2 * at[4];
            break;
        case ADD_AT:
            add_at(AT(1), at[2], at[3], NUMBER(4), NUMBER(5));
            at += 6;
            break;
CASES
        }
}

int run(call *c)
{
    const head *of = c->program;
    const real *constants = (const real *)(of + 1);
    const uint32_t *words = (const uint32_t *)(constants + of->n_constants);
    real *const arrays[] = {c->work, (real *)c->p, (real *)constants, c->g};
    M failed = 0;
    if (c->sets && c->g)
        memset(c->g, 0, sizeof(real) * of->n_parameters);
    *c->work = c->seed;
    for (int64_t i = 0; i < c->n; i++)
        compute(c, c->at ? c->at[i] : i, words, arrays, c->y + i * of->n_results, &failed);
    return summed(c, !of->is_ieee && failed);
}
