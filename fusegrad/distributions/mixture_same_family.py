"""`MixtureSameFamily`, as `torch.distributions.mixture_same_family`."""

from fusegrad.eager.distributions.composed import MixtureSameFamily as MixtureSameFamily

__all__ = ["MixtureSameFamily"]
