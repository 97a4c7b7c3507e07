/* Prints the results of an exported function for the numbers on the command line; with BACKWARD, gradients too. */
#include "model.h"
#include <stdio.h>
#include <stdlib.h>

static void show(const REAL *numbers, int n)
{
    int i;
    for (i = 0; i < n; i++)
        printf("%.17g\n", (double)numbers[i]);
}

int main(int argc, char **argv)
{
    REAL x[INPUTS + !INPUTS] = {0.0}, y[SIZE];
#ifdef BACKWARD
    REAL g[PARAMETERS + 1] = {0.0};
#endif
    int i;
    for (i = 1; i < argc; i++)
        x[i - 1] = (REAL)strtod(argv[i], NULL);
    model_forward(model_parameters, x, y);
    show(y, OUTPUTS);
#ifdef BACKWARD
    model_backward(model_parameters, x, g, y);
    model_backward(model_parameters, x, g, y);
    show(y, argc);
    show(g, PARAMETERS);
#endif
    return 0;
}
