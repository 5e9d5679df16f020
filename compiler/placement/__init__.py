"""Where the values of a program lie in memory, and what its kernels are called with."""
