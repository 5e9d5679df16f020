"""Memory that arrays have left stays with the process."""

from __future__ import annotations

# The largest block that glibc's malloc may keep when it is freed.
LARGEST_KEPT = 1 << 25


def keep_freed_memory() -> None:
    """Let malloc keep what arrays leave, where it would give it back to the system.

    glibc gives memory at the end of its heap back at once, and the next array has to have its pages cleared
    again: ops on arrays of a megabyte in a loop then take several times as long. That ends for good when it
    sees that large blocks are freed, of which one is enough; it keeps up to twice as much then.
    """
    import numpy as np  # here, since `eager/__init__.py` sees to how it is loaded

    np.empty(LARGEST_KEPT - (1 << 14), np.uint8)
