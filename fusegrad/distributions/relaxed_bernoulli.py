"""`LogitRelaxedBernoulli` and `RelaxedBernoulli`, as `torch.distributions.relaxed_bernoulli`."""

from fusegrad.eager.distributions.relaxed import (
    LogitRelaxedBernoulli as LogitRelaxedBernoulli,
    RelaxedBernoulli as RelaxedBernoulli,
)

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]
