"""`Dirichlet`, as `torch.distributions.dirichlet`."""

from fusegrad.eager.distributions.shares import Dirichlet as Dirichlet

__all__ = ["Dirichlet"]
