"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.devices.parallel import DataParallel as DataParallel
from fusegrad.eager.distributed.data_parallel import DistributedDataParallel as DistributedDataParallel
