"""What `torch.signal` has: `windows`."""

from fusegrad.torch.supplied.signal import windows as windows

__all__ = ["windows"]
