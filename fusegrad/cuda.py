"""What programs ask `torch.cuda` before they use the CPU: there is no such device."""

from fusegrad.eager.devices import device_count, is_available, manual_seed, manual_seed_all

__all__ = ["device_count", "is_available", "manual_seed", "manual_seed_all"]
