"""A device that is not there, as `torch.backends.mps`."""

from fusegrad.eager.devices.absent import is_available as is_available, is_built as is_built

__all__ = ["is_available", "is_built"]
