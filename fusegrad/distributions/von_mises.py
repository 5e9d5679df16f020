"""`VonMises`, as `torch.distributions.von_mises`."""

from fusegrad.eager.distributions.real_line import VonMises as VonMises

__all__ = ["VonMises"]
