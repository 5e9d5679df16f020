"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.devices.absent import is_available as is_available
from fusegrad.eager.devices.cudnn import flags as flags, version as version

allow_tf32: bool
benchmark: bool
benchmark_limit: int
deterministic: bool
enabled: bool
