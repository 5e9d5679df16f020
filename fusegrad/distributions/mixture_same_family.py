"""`MixtureSameFamily`, as `torch.distributions.mixture_same_family`."""

from fusegrad.eager.distributions.mixture import MixtureSameFamily as MixtureSameFamily

__all__ = ["MixtureSameFamily"]
