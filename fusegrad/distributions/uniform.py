"""`Uniform`, as `torch.distributions.uniform`."""

from fusegrad.eager.distributions.real_line import Uniform as Uniform

__all__ = ["Uniform"]
