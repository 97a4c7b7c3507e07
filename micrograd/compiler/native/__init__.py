"""Native code: compilers, libraries, and the loop that trains in C."""
