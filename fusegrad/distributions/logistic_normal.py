"""`LogisticNormal`, as `torch.distributions.logistic_normal`."""

from fusegrad.eager.distributions.transformed import LogisticNormal as LogisticNormal

__all__ = ["LogisticNormal"]
