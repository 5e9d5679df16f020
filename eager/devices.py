"""Answers to programs that ask for other devices than the CPU: there are none."""

from __future__ import annotations

from fusegrad.eager.core.public import locate

__all__ = ["device_count", "is_available", "manual_seed", "manual_seed_all"]


def is_available() -> bool:
    """False: the CPU is the only device. Source: `torch.cuda.is_available`."""
    return False


def device_count() -> int:
    """0: the CPU does not count. Source: `torch.cuda.device_count`."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing, as in PyTorch without such a device. Source: `torch.cuda.manual_seed`."""


def manual_seed_all(seed: int) -> None:
    """Nothing, as in PyTorch without such a device. Source: `torch.cuda.manual_seed_all`."""


locate("fusegrad.cuda", globals(), __all__)
