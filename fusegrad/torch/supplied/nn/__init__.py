"""Modules of `torch.nn`."""
