"""`Normal`, as `torch.distributions.normal`."""

from fusegrad.eager.distributions.real_line import Normal as Normal

__all__ = ["Normal"]
