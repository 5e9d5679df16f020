"""Finding the user's line, and saying it: every message ends with where it happened.

Errors that the engine raises itself come from `failure`; what NumPy or a rule raises inside an op
is explained by `op.bind`. Both name the op and the user's line, in the same form.
"""

from __future__ import annotations

import os
import sys
import warnings
from types import CodeType, FrameType
from typing import Any

# Where in the user's program something happened: a code object and an offset in it. Kept instead of
# file and line, which are only worked out when an error asks for them.
Spot = tuple[CodeType, int]

_PACKAGE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
_OWN_FOLDERS = (
    *(
        os.path.join(root, name) + os.sep
        for root in (_PACKAGE, os.path.join(_PACKAGE, "fusegrad"))
        for name in ("eager", "tracer", "compiler")
    ),
    os.path.join(_PACKAGE, "fusegrad", "__init__.py"),
)
# What stands there for code of the user's has names of public functions by chance: `item`.
_OBSERVING = tuple(folder for folder in _OWN_FOLDERS if folder.endswith(f"tracer{os.sep}"))


def is_own_file(filename: str) -> bool:
    """Whether `filename` belongs to fusegrad itself."""
    return filename.startswith(_OWN_FOLDERS)


known_files: dict[str, bool] = {}
_own_file = known_files.get
_frame = sys._getframe


def user_spot(depth: int = 2) -> Spot | None:
    """Where the user's program is now; `depth`: how many frames above are known to be fusegrad's own.

    Called for every recorded op, so it costs a tenth of a microsecond and a dict look-up per frame.
    """
    frame: FrameType | None
    try:
        frame = _frame(depth)
    except ValueError:  # there are not so many
        return None
    while frame is not None:
        code = frame.f_code
        own = _own_file(code.co_filename)
        if own is None:
            own = known_files[code.co_filename] = is_own_file(code.co_filename)
        if not own:
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def spot_text(spot: Spot | None) -> str:
    """`train.py:12: y = x * 2`; empty where the spot is not known."""
    if spot is None:
        return ""
    code, offset = spot
    line = next((n for start, end, n in code.co_lines() if start <= offset < end and n), code.co_firstlineno)
    text = source_line(code.co_filename, line)
    return f"{code.co_filename}:{line}" + (f": {text}" if text else "")


def user_frame() -> FrameType | None:
    """The innermost frame on the stack that is not fusegrad's own."""
    frame: FrameType | None = _frame(1)
    while frame is not None:
        name = frame.f_code.co_filename
        own = _own_file(name)
        if own is None:
            own = known_files[name] = is_own_file(name)
        if not own:
            return frame
        frame = frame.f_back
    return None


def user_location() -> tuple[str, int]:
    """The user's file and line that the engine is working for; ("", 0) where there is none."""
    frame = user_frame()
    if frame is None:
        return "", 0
    return frame.f_code.co_filename, frame.f_lineno


def source_line(filename: str, line: int) -> str:
    """The text of a source line, stripped; empty where the source cannot be read."""
    import linecache  # here, since it is slow to import and few programs fail

    return linecache.getline(filename, line).strip()


def located(message: str) -> str:
    """`message` followed by the user's file, line and source text."""
    filename, line = user_location()
    if not filename:
        return message
    text = source_line(filename, line)
    return f"{message}\n  at {filename}:{line}" + (f": {text}" if text else "")


class NoValues(RuntimeError):
    """Values were asked for of what stands for a batch of them."""


class NoMemoryError(MemoryError, RuntimeError):
    """There is no memory for what an op gives: MemoryError as for Python, RuntimeError as for PyTorch."""


def failure(kind: type[Exception], message: str) -> Exception:
    """An exception for the user: the public function that was called, `message`, the user's line.

    Functions raise it where they check their arguments: `raise failure(RuntimeError, "...")`.
    """
    name = _public_name()
    if name and not message.startswith(name):
        message = f"{name}: {message}"
    error = kind(located(message))
    error.fusegrad_located = True  # type: ignore[attr-defined]
    return error


def warn(text: Any, category: type[Warning] = UserWarning) -> None:
    """Warn the user, at the line that called the engine."""
    frame: FrameType | None = _frame(1)
    level = 2
    while frame is not None and is_own_file(frame.f_code.co_filename):
        frame = frame.f_back
        level += 1
    warnings.warn(text, category, stacklevel=level)


def type_name(value: Any) -> str:
    """What a value is, for a message: `list`, but `torch.Tensor`, so that it is not taken for ours."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _public_name() -> str:
    """The name of the innermost function on the stack that users can call; empty if there is none."""
    modules = [sys.modules.get(f"fusegrad{part}") for part in ("", ".special", ".nn.functional")]
    places = (*modules, getattr(modules[0], "Tensor", None))
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_own_file(frame.f_code.co_filename):
        name, path = frame.f_code.co_name, frame.f_code.co_qualname
        # A function within another one may have a public one's name by chance.
        if (
            not name.startswith("_")
            and "<locals>" not in path
            and not frame.f_code.co_filename.startswith(_OBSERVING)
            and any(hasattr(p, name.removeprefix("special_")) for p in places)
        ):
            return name
        frame = frame.f_back
    return ""
