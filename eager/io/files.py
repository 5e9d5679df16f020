"""Writing files: bytes and a path go in; the file is there whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.nn.module import Module
from fusegrad.eager.optim.optimizer import Optimizer


def write_whole(path: str, fill: Callable[[str], None]) -> None:
    """Have `fill` write a file beside `path`, then give it that name: a reader sees old or new, never half.

    What a link leads to is written, and the link stays. What is no file (a device, a pipe) stays what it is,
    and gets the bytes. Raises OSError where the system refuses; what stood there before is then untouched.
    """
    target = os.path.realpath(path)
    special = os.path.exists(target) and not os.path.isfile(target)
    folder = None if special else os.path.dirname(target)
    handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(target)[:100]}.", dir=folder)
    os.close(handle)
    try:
        fill(temporary)
        if special:
            with open(temporary, "rb") as source, open(target, "wb") as sink:
                sink.write(source.read())
            return
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _mode(target: str) -> int:
    """The permissions that the file has, or that a new one gets."""
    try:
        return stat.S_IMODE(os.stat(target).st_mode)
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def refused(value: Any, place: tuple[Any, ...], what: str, kinds: str) -> Exception:
    """The error for a value that cannot be saved: where it stands, `what` it is, and what can be."""
    where = "".join(f"[{key!r}]" for key in place)
    hint = f"only {kinds} can be saved"
    if isinstance(value, (Module, Optimizer)):
        hint = "save its state_dict()"
    return failure(TypeError, f"obj{where}: {what}; {hint}")
