"""`Gamma`, as `torch.distributions.gamma`."""

from fusegrad.eager.distributions.positive import Gamma as Gamma

__all__ = ["Gamma"]
