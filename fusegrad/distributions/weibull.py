"""`Weibull`, as `torch.distributions.weibull`."""

from fusegrad.eager.distributions.transformed import Weibull as Weibull

__all__ = ["Weibull"]
