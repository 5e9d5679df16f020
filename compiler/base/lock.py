"""Locks that a fork waits for.

A child has only the thread that forked. A lock that another thread held at that moment would stay taken in it
for ever; so whoever forks takes these locks before.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager


def made() -> AbstractContextManager[bool]:
    """A lock that no other thread holds when the process is forked."""
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


# All that a call waits for is compiled under this one, whichever function it is for: most of it is Python
# code, which runs in one thread at a time anyway, and Numba's and LLVM's own locks are then free when a
# process is forked. What is compiled beside the program takes it where it comes to LLVM, or to what functions
# share, and for short: whoever forks, or compiles something small, does not wait for something long.
compiling = made()
