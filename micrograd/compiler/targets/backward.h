/* The output and its gradient.

   p  the COUNT parameters
   x  the inputs
   g  the gradient with respect to the parameters is added to SUMS
   y  y[0] receives the outputGRADIENT */
void NAME_backward(const TYPE *p, const TYPE *x, TYPE *g, TYPE *y);
