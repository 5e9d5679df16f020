"""`Laplace`, as `torch.distributions.laplace`."""

from fusegrad.eager.distributions.real_line import Laplace as Laplace

__all__ = ["Laplace"]
