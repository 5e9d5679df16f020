"""`HalfCauchy`, as `torch.distributions.half_cauchy`."""

from fusegrad.eager.distributions.transformed import HalfCauchy as HalfCauchy

__all__ = ["HalfCauchy"]
