"""Tensors as text, in files, and in other libraries."""
