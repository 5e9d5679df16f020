"""Graph rewrites: from ops that eager leaves to NumPy to those that kernels are made of."""
