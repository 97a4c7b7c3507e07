/* Prints the results of two exported functions. */
#include <stdio.h>
#include "one.h"
#include "the_other.h"

int main(void)
{
    double x[1] = {0.5}, y[2], g[1] = {0.0};
    one_forward(one_parameters, x, y);
    printf("%.17g\n", y[0]);
    the_other_backward(the_other_parameters, x, g, y);
    printf("%.17g\n%.17g\n", y[0], g[0]);
    return 0;
}
