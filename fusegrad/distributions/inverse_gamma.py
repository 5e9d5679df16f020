"""`InverseGamma`, as `torch.distributions.inverse_gamma`."""

from fusegrad.eager.distributions.transformed import InverseGamma as InverseGamma

__all__ = ["InverseGamma"]
