"""Modules of `torch.distributions`."""
