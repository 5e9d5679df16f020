"""`HalfNormal`, as `torch.distributions.half_normal`."""

from fusegrad.eager.distributions.transformed import HalfNormal as HalfNormal

__all__ = ["HalfNormal"]
