"""Modules of `torch.optim`."""
