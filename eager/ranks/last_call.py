"""What a rank was last doing with the others, where those who outlive it can read it.

`fusegrad run` gives its ranks a folder. Each writes its collectives into a file there, which is memory of
both: it stays when the process is killed.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from fusegrad.eager.core.errors import user_location
from fusegrad.eager.ranks.supervised import FOLDER

_SIZE = 512


class _Last:
    """The last collective: in words, and as the file shows it."""

    def __init__(self) -> None:
        self.text = "none"
        self.count = 0
        self._shown: mmap.mmap | None = None

    def open(self, rank: int) -> None:
        """Begin to show it, if somebody has asked for that."""
        folder = os.environ.get(FOLDER)
        if folder is None or not os.path.isdir(folder):
            return
        path = Path(folder) / f"last-{rank}"
        path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._shown = mmap.mmap(file.fileno(), _SIZE)

    def note(self, what: str) -> None:
        """A collective begins: its number is one more than that of the last."""
        self.count += 1
        if self._shown is None:
            self.text = what
            return
        file, line = user_location()
        self.text = f"{what} at {file}:{line}" if file else what
        written = f"#{self.count} {self.text}".encode()[:_SIZE]
        self._shown[:] = written.ljust(_SIZE, b"\0")


last = _Last()


def shown(folder: str | Path, rank: int) -> str:
    """The last collective of a rank, as it stands in the folder."""
    path = Path(folder) / f"last-{rank}"
    text = path.read_bytes().rstrip(b"\0").decode(errors="replace") if path.exists() else ""
    return text or "none"
