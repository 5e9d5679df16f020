"""Debug mode: ranks tell each other what they are about to do, and compare."""

from __future__ import annotations

import os

import numpy as np

from fusegrad.eager.core.errors import failure, user_location
from fusegrad.eager.ranks import exchanges
from fusegrad.eager.ranks.channel import Channel

_RECORD = 512


def is_debugging() -> bool:
    """Whether ranks compare what they are about to do."""
    asked = os.environ.get("FUSEGRAD_DISTRIBUTED_DEBUG", os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF"))
    return asked.upper() not in ("", "0", "OFF")


def compare(channel: Channel, alike: str, what: str, seconds: float) -> None:
    """In debug mode, raise RuntimeError on all ranks where they are about to do different things."""
    if not is_debugging():
        return
    file, line = user_location()
    record = f"{alike}\n{what} at {file}:{line}".encode()[:_RECORD].ljust(_RECORD)
    found = np.empty((channel.size, _RECORD), np.uint8)
    steps = exchanges.all_gather_on(channel.checks, np.frombuffer(record, np.uint8), found)
    channel.exchange(what, steps, seconds).wait()
    told = [row.tobytes().decode(errors="replace").rstrip().partition("\n") for row in found]
    if len({first for first, _, _ in told}) > 1:
        text = "\n".join(f"  rank {rank}: {told[rank][2]}, {told[rank][0]}" for rank in range(channel.size))
        raise failure(RuntimeError, f"ranks are about to do different things:\n{text}")
