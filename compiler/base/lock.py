"""The lock of compiling."""

from __future__ import annotations

from fusegrad.eager.forks import lock

# All that a call waits for is compiled under this one, whichever function it is for: most of it is Python
# code, which runs in one thread at a time anyway, and Numba's and LLVM's own locks are then free when a
# process is forked. What is compiled beside the program takes it where it comes to LLVM, or to what functions
# share, and for short: whoever forks, or compiles something small, does not wait for something long.
compiling = lock()
