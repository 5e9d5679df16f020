"""Tensors from nothing, or from Python data."""
