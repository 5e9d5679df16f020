"""`Gumbel`, as `torch.distributions.gumbel`."""

from fusegrad.eager.distributions.real_line import Gumbel as Gumbel

__all__ = ["Gumbel"]
