"""From a function to its graph.

The files, in the order in which to read them:

    operations   what each operation does to numbers
    tracer       numbers that record what is done with them, in a Trace
    redirect     Values whose numbers are elsewhere for a while: parameters hold Symbols, or are in training
    rows         many numbers as one operand: rows of weights, and sums of products however they are phrased
    rounds       loops: one round of a `scan`, traced once for all
    graph        the forward and the backward pass of a function, as one Trace, and as bytes
    interpret    a Graph executed one operation at a time
    wrappers     what stands in for the function: with arrays as arguments, or for a sparse matrix
"""
