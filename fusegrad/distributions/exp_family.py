"""`ExponentialFamily`, as `torch.distributions.exp_family`."""

from fusegrad.eager.distributions.distribution import ExponentialFamily as ExponentialFamily

__all__ = ["ExponentialFamily"]
