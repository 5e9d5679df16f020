"""Kernels rewritten for the machine: a nest goes in, the same with its loops in another order comes out."""
