"""`Exponential`, as `torch.distributions.exponential`."""

from fusegrad.eager.distributions.positive import Exponential as Exponential

__all__ = ["Exponential"]
