"""Files that a program has opened, as they are read: from where they stand, by what methods they have."""

from __future__ import annotations

import io
import os
from typing import IO, Any


class Window:
    """The rest of a file that is open for reading, as a file of its own.

    Raises what the file raises where it cannot be sought in, with what to do.
    """

    def __init__(self, file: IO[bytes]) -> None:
        try:
            self.start = file.tell()
            file.seek(0, os.SEEK_END)
            self.size = file.tell() - self.start
            file.seek(self.start)
        except (io.UnsupportedOperation, AttributeError) as error:
            if "seek" not in str(error) and "tell" not in str(error):
                raise
            raise type(error)(
                f"{error}. You can only torch.load from a file that is seekable. Please pre-load the data "
                "into a "
                "buffer like io.BytesIO and try to load from it instead."
            ) from None
        self.file = file
        self._into = getattr(file, "readinto", None)

    def read(self, count: int = -1) -> bytes:
        """So many bytes, or fewer at the end."""
        left = self.size - self.tell()
        count = left if count is None or count < 0 else min(count, left)
        if self._into is None:
            return self.file.read(count)
        content = bytearray(max(count, 0))
        return bytes(content[: self.readinto(content)])

    def readinto(self, target: Any) -> int:
        """Fill `target`, as far as there is something; says how far."""
        view = memoryview(target).cast("B")
        done = 0
        while done < len(view):
            if self._into is not None:
                some = self._into(view[done:])
            else:
                content = self.file.read(len(view) - done)
                some = len(content)
                view[done : done + some] = content
            if not some:
                break
            done += some
        return done

    def readline(self, limit: int = -1) -> bytes:
        """The next line."""
        return self.file.readline(limit)

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place, counted from where the window begins."""
        if whence == os.SEEK_END:
            place += self.size
        elif whence == os.SEEK_CUR:
            place += self.tell()
        self.file.seek(self.start + place)
        return place

    def tell(self) -> int:
        """The place, counted from where the window begins."""
        return self.file.tell() - self.start

    def seekable(self) -> bool:
        """It is."""
        return True
