"""`Chi2`, as `torch.distributions.chi2`."""

from fusegrad.eager.distributions.positive import Chi2 as Chi2

__all__ = ["Chi2"]
