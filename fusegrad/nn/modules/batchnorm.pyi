"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.distributed.sync_batch_norm import SyncBatchNorm as SyncBatchNorm
from fusegrad.eager.nn.normalization import (
    BatchNorm1d as BatchNorm1d,
    BatchNorm2d as BatchNorm2d,
    BatchNorm3d as BatchNorm3d,
)
