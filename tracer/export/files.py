"""Writing files: bytes and a path go in; the file is there whole, or not at all."""

from __future__ import annotations

import os

from fusegrad.eager.core.errors import located
from fusegrad.eager.io import files


class ExportError(RuntimeError):
    """An export that could not be done; the message says why and ends with the user's line."""

    def __init__(self, message: str) -> None:
        super().__init__(located(message))


def check_target(path: str, action: str = "export") -> None:
    """Whether a file can be put at `path`, asked before any work is done for it.

    action: what wants to write, for the message.

    Raises ExportError that names the path and what to do.
    """
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise ExportError(f"{action}: {path} is a directory; give the name of a file in it")
    if not os.path.isdir(folder):
        what = "is not a directory" if os.path.exists(folder) else "does not exist"
        raise ExportError(f"{action}: cannot write {path}: {folder} {what}; make that directory first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ExportError(
            f"{action}: cannot write {path}: no permission to write in {folder}; choose another directory"
        )


def write_whole(path: str, data: bytes, action: str = "export") -> None:
    """Write `data` to a temporary file beside `path`, then rename it: a reader sees old or new, never half.

    action: what writes, for the message.

    Raises ExportError where the system refuses; what stood at `path` before is then untouched.
    """
    check_target(path, action)

    def fill(temporary: str) -> None:
        with open(temporary, "wb") as file:
            file.write(data)

    try:
        files.write_whole(path, fill)
    except OSError as error:
        why = error.strerror or str(error)
        raise ExportError(
            f"{action}: cannot write {path}: {why}; choose a path that can be written"
        ) from error
