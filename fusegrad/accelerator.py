"""What programs ask `torch.accelerator` before they use the CPU: there is no such device."""

from fusegrad.eager.devices import device_count, is_available

__all__ = ["device_count", "is_available"]
