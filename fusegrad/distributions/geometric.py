"""`Geometric`, as `torch.distributions.geometric`."""

from fusegrad.eager.distributions.counts import Geometric as Geometric

__all__ = ["Geometric"]
