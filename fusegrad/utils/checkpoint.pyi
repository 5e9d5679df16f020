"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from collections.abc import Iterator as _Iterator

from fusegrad.eager.utils.checkpoint import (
    CheckpointError as CheckpointError,
    checkpoint as checkpoint,
    checkpoint_sequential as checkpoint_sequential,
)

def set_checkpoint_debug_enabled(enabled: bool | None) -> _Iterator[None]: ...
def set_checkpoint_early_stop(enable: bool) -> _Iterator[None]: ...
