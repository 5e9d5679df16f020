"""A library that is not there, as `torch.backends.openmp`."""

from fusegrad.eager.devices.absent import is_available as is_available

__all__ = ["is_available"]
