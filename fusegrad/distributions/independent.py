"""`Independent`, as `torch.distributions.independent`."""

from fusegrad.eager.distributions.composed import Independent as Independent

__all__ = ["Independent"]
