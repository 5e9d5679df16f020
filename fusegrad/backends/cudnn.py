"""Settings of a library that is not there, as `torch.backends.cudnn`; nobody reads them."""

from fusegrad.eager.devices.absent import is_available as is_available
from fusegrad.eager.devices.cudnn import flags as flags, version as version

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True

__all__ = [
    "allow_tf32",
    "benchmark",
    "benchmark_limit",
    "deterministic",
    "enabled",
    "flags",
    "is_available",
    "version",
]
