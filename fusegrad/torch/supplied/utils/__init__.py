"""Modules of `torch.utils`."""
