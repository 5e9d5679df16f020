"""Tensors, ops and how one is run; dtypes, errors, state."""
