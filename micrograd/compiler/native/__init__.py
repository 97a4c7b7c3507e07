"""Native code: writing C, compilers, libraries, and the loop that trains in C."""
