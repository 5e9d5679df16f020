"""Libraries that read the environment as they load, and malloc, which learns how it is used."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

# A thread of NumPy's BLAS that is done waits 2 to this power cycles for more before it sleeps: some 25
# microseconds. By default it is 2 to the 26: for milliseconds it then takes time from threads of other
# pools, such as those of compiled loops, and on two cores a compiled call next to a product took twice the
# sum of both.
CYCLES_POWER = "16"
# The largest block that glibc's malloc may keep when it is freed.
LARGEST_KEPT = 1 << 25


@contextlib.contextmanager
def environment(**settings: str) -> Iterator[None]:
    """Environment variables set for as long as a library loads; other libraries and child processes do not
    see them.
    """
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def load_numpy() -> None:
    """Import NumPy with threads that soon sleep, unless it is imported or the user asks for another time."""
    if "numpy" not in sys.modules and "OPENBLAS_THREAD_TIMEOUT" not in os.environ:
        with environment(OPENBLAS_THREAD_TIMEOUT=CYCLES_POWER):
            import numpy  # noqa: F401


def keep_freed_memory() -> None:
    """Let malloc keep what arrays leave, where it would give it back to the system.

    glibc gives memory at the end of its heap back at once, and the next array has to have its pages cleared
    again: ops on arrays of a megabyte in a loop then take several times as long. That ends for good when it
    sees that large blocks are freed, of which one is enough; it keeps up to twice as much then.
    """
    import numpy as np  # here, since it has to be loaded with care

    np.empty(LARGEST_KEPT - (1 << 14), np.uint8)
