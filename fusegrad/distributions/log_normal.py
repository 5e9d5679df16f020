"""`LogNormal`, as `torch.distributions.log_normal`."""

from fusegrad.eager.distributions.transformed import LogNormal as LogNormal

__all__ = ["LogNormal"]
