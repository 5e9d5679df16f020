"""Modules on several devices, as `torch.nn.parallel`."""

from fusegrad.eager.devices.parallel import DataParallel as DataParallel

__all__ = ["DataParallel"]
