"""`Cauchy`, as `torch.distributions.cauchy`."""

from fusegrad.eager.distributions.real_line import Cauchy as Cauchy

__all__ = ["Cauchy"]
