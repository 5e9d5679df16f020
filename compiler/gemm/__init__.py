"""Matrix products: BLAS on our own threads, and kernels of our own for small ones."""
