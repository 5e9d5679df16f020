"""`Distribution`, as `torch.distributions.distribution`."""

from fusegrad.eager.distributions.distribution import Distribution as Distribution

__all__ = ["Distribution"]
