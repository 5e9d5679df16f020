"""A library that is not there, as `torch.backends.mkldnn`."""

from fusegrad.eager.devices.absent import is_available as is_available

enabled = False

__all__ = ["enabled", "is_available"]
