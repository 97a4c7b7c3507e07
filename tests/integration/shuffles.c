/* Prints how C lays out a job, and how it shuffles. The source of the loop comes before it. */
#include <stddef.h>
#include <stdio.h>
static int64_t order[70000];

static void shuffled(int n, int times)
{
    uint32_t state[625] = {WORDS};
    for (int i = 0; i < times; i++)
        shuffle(state, order + n * i, n);
    for (int i = 0; i < n * times; i++)
        printf("%d ", (int)order[i]);
}

int main(void)
{
    printf("%d %d ", (int)sizeof(job), (int)offsetof(job, taken));
    shuffled(7, 20);
    shuffled(257, 2);
    shuffled(70000, 1);
    return 0;
}
