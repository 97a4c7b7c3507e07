"""Native code: what writes C, compilers, libraries, and the loop that trains in C."""
