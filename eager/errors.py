"""Finding the user's line, and saying it: every message ends with where it happened."""

from __future__ import annotations

import linecache
import os
import sys
from types import FrameType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OWN_FOLDERS = tuple(
    os.path.join(root, name) + os.sep
    for root in (_PACKAGE, os.path.join(_PACKAGE, "fusegrad"))
    for name in ("eager", "tracer", "compiler")
) + (os.path.join(_PACKAGE, "fusegrad", "__init__.py"),)


def is_own_file(filename: str) -> bool:
    """Whether `filename` belongs to fusegrad itself."""
    return filename.startswith(_OWN_FOLDERS)


def user_frame() -> FrameType | None:
    """The innermost frame on the stack that is not fusegrad's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def user_location() -> tuple[str, int]:
    """The user's file and line that the engine is working for; ("", 0) where there is none."""
    frame = user_frame()
    if frame is None:
        return "", 0
    return frame.f_code.co_filename, frame.f_lineno


def source_line(filename: str, line: int) -> str:
    """The text of a source line, stripped; empty where the source cannot be read."""
    return linecache.getline(filename, line).strip()


def located(message: str) -> str:
    """`message` followed by the user's file, line and source text."""
    filename, line = user_location()
    if not filename:
        return message
    text = source_line(filename, line)
    return f"{message}\n  at {filename}:{line}" + (f": {text}" if text else "")
