/* Calls generated code with the numbers in a file, and writes the results to another. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const double *numbers;
    const int64_t *rows;
} column;
typedef struct {
    const double *p;
    const column *x;
    const int64_t *at;
    double seed;
    double *g, *y, *work;
    int64_t n;
    double sum;
    int64_t sets;
} call;
#ifdef MODEL
#include "model.h"
static int64_t room = 0;
static int run(call *c)
{
    if (c->g)
        model_backward(c->p, c->x->numbers, c->g, c->y);
    else
        model_forward(c->p, c->x->numbers, c->y);
    return 0;
}
#else
typedef int function(call *);
#ifdef _WIN32
#include <windows.h>
#else
extern function run;
extern const int64_t room;
#endif
#endif

int main(int argc, char **argv)
{
#if defined(_WIN32) && !defined(MODEL)
    HMODULE library = LoadLibraryA("program.dll");
    if (!library)
        return 2;
    function *run = (function *)(void (*)(void))GetProcAddress(library, "run");
    int64_t room = *(const int64_t *)(void (*)(void))GetProcAddress(library, "room");
#endif
    double sizes[5]; /* numbers of parameters, inputs and outputs, of examples in a call, and of calls */
    FILE *from = fopen(argv[1], "rb"), *to = fopen(argv[2], "wb");
    if (argc != 3 || !from || !to || fread(sizes, sizeof(double), 5, from) != 5)
        return 3;
    size_t n = sizes[0], inputs = sizes[1] * sizes[3], outputs = sizes[2] * sizes[3];
    double *p = calloc(n + 1, sizeof(double)), *g = calloc(n + 1, sizeof(double));
    double *x = calloc(inputs + 1, sizeof(double)), *y = calloc(outputs + 1, sizeof(double)), *work = malloc(room + 1);
    if (fread(p, sizeof(double), n, from) != n)
        return 4;
    for (int i = 0; i < sizes[4]; i++) {
        if (fread(x, sizeof(double), inputs, from) != inputs)
            return 5;
        const column argument = {x, 0};
        double flags = run(&(call){p, &argument, 0, 1.0, n ? g : 0, y, work, (int64_t)sizes[3], 0.0});
        fwrite(&flags, sizeof(double), 1, to);
        fwrite(y, sizeof(double), outputs, to);
    }
    fwrite(g, sizeof(double), n, to);
    return fclose(to);
}
