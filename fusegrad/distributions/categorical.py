"""`Categorical`, as `torch.distributions.categorical`."""

from fusegrad.eager.distributions.classes import Categorical as Categorical

__all__ = ["Categorical"]
