CALL

typedef struct {
    int (*run)(call *);
    call *c; /* with the arguments of all examples, and room for the losses of a batch and for temporaries */
} program;
typedef struct {
    real *p, *spare_p;         /* the parameters, followed by their moments; room for the next ones, which becomes p:
                                  what no step changes is there already */
    real *g, *spare_g;         /* the gradients of the latest step; room for the next gradients, which becomes g */
    int64_t *indices;            /* room for the indices of a batch's examples within the batch of their program */
    const program *programs;     /* one for each shape of examples; none if gradients, in spare_g, and losses are given */
    const int64_t *bucket, *slot; /* of each example: its program, and its index in the batch of that program */
    const int64_t *ranges;       /* of the parameters that are changed: the first of each range, and how many it has */
    int64_t *order;              /* of the examples in this epoch; NULL for the order they are in */
    uint32_t *random;            /* the state of the generator that shuffles them for new epochs; NULL for none */
    const double *rates;           /* the learning rate of each step */
    double *losses;                /* receives the loss of each step */
    int64_t n, n_programs, n_ranges; /* how many parameters, programs and ranges there are */
    int64_t n_examples, size;    /* in an epoch; in a batch (the last batch of an epoch may be smaller) */
    int64_t position;            /* of the next batch in the epoch: before these steps, and afterwards */
    int64_t steps;               /* how many to take */
    int64_t taken;               /* how many were taken before these, and afterwards with these */
} job;


/* The sum of squares, added up in eight parts at a time: one sum would wait for each addition. */
static double squares(const real *g, int64_t n)
{
    double parts[8] = {0.0}, sum = 0.0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            parts[k] += (double)g[i + k] * g[i + k];
    for (; i < n; i++)
        sum += (double)g[i] * g[i];
    for (int k = 0; k < 8; k++)
        sum += parts[k];
    return sum;
}


UPDATE

/* Shuffles as Python's random.shuffle does. Its generator is the Mersenne Twister MT19937 of Matsumoto and Nishimura
   (1998), whose state is 624 words and a position in them. */
static uint32_t word(uint32_t *state)
{
    if (state[624] >= 624) {
        for (int i = 0; i < 624; i++) {
            uint32_t y = (state[i] & 0x80000000u) | (state[i < 623 ? i + 1 : 0] & 0x7fffffffu);
            state[i] = state[i < 227 ? i + 397 : i - 227] ^ (y >> 1) ^ (y & 1u ? 0x9908b0dfu : 0u);
        }
        state[624] = 0;
    }
    uint32_t y = state[state[624]++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

void shuffle(uint32_t *state, int64_t *order, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    int bits = 32;
    for (int64_t i = n - 1; i > 0; i--) {
        while (!((i + 1) >> (bits - 1)))
            bits--;
        int64_t j;
        do
            j = (int64_t)(word(state) >> (32 - bits));
        while (j > i);
        int64_t swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
}


/* Sets g to the gradients of a batch. Returns the sum of its losses, or NaN if an operation may have failed. */
static double losses(const job *t, const int64_t *batch, int64_t n)
{
    double sum = 0.0;
    int failed = 0, sets = 1;
    for (int64_t k = 0; k < t->n_programs; k++) {
        const program *q = t->programs + k;
        int64_t m = 0;
        if (batch)
            for (int64_t i = 0; i < n; i++)
                if (t->bucket[batch[i]] == k)
                    t->indices[m++] = t->slot[batch[i]];
        if (batch ? m : (m = n)) {
            call *c = q->c;
            c->p = t->p, c->at = batch ? t->indices : 0, c->seed = 1.0 / (double)n, c->g = t->g, c->n = m;
            c->sets = sets, sets = 0;
            failed |= 1 & q->run(c);
            sum += c->sum;
        }
    }
    return failed ? NAN : sum;
}

static void swap(real **numbers, real **spare)
{
    real *first = *numbers;
    *numbers = *spare;
    *spare = first;
}

/* Computes the next parameters and moments. Returns whether that succeeds. */
static int updated(const job *t, double rate, double taken)
{
    double sum = 0.0;
    if (CLIPS)
        for (int64_t r = 0; r < t->n_ranges; r++)
            sum += squares(t->g + t->ranges[2 * r], t->ranges[2 * r + 1]);
    int whole = isfinite(sum) != 0;
    for (int64_t r = 0; whole && r < t->n_ranges; r++) {
        int64_t first = t->ranges[2 * r], many = t->ranges[2 * r + 1];
        whole = update(t->p + first, t->g + first, t->spare_p + first, t->n, many, rate, taken, sqrt(sum));
    }
    return whole;
}

/* Takes the steps, up to one that fails and changes nothing. Returns how many it has taken. */
int64_t train(job *t)
{
    int64_t s = 0;
    for (; s < t->steps; s++) {
        if (t->position == t->n_examples) {
            if (t->random)
                shuffle(t->random, t->order, t->n_examples);
            t->position = 0;
        }
        int64_t left = t->n_examples - t->position, n = t->size < left ? t->size : left;
        swap(&t->g, &t->spare_g);
        if (t->n_programs)
            t->losses[s] = losses(t, t->order ? t->order + t->position : 0, n) / (double)n;
        if (!isfinite(t->losses[s]) || !updated(t, t->rates[s], (double)(t->taken + s))) {
            swap(&t->g, &t->spare_g);
            break;
        }
        swap(&t->p, &t->spare_p);
        t->position += n;
    }
    t->taken += s;
    return s;
}
