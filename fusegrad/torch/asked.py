"""What was asked for and is not there: each name of torch's with the lines that asked, and how often."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from fusegrad.eager.core.public import home

HERE = str(Path(__file__).parent)
# How often each name was asked for in vain, by name, file and line.
ASKED: Counter[tuple[str, str, int]] = Counter()


def complaint(name: str) -> str:
    """What errors say of a name that is not there."""
    return f"fusegrad has no {name}"


def note(name: str) -> None:
    """Somebody asked for `name` in vain: count it for the line that did."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        # `from torch import name` looks three times; the last look is made by the line itself.
        if frame.f_code.co_name == "_handle_fromlist" and file.startswith("<frozen importlib"):
            return
        if not file.startswith((HERE, "<frozen importlib")) and "importlib" not in Path(file).parts:
            ASKED[name, file, frame.f_lineno] += 1
            return
        frame = frame.f_back  # type: ignore[assignment]


def refuse(name: str) -> NoReturn:
    """Somebody uses what is not there."""
    note(name)
    raise AttributeError(complaint(name))


def note_error(error: BaseException) -> None:
    """Count what a program ended for, where that is an attribute that an object of fusegrad's has not."""
    trace = error.__traceback__
    if not isinstance(error, AttributeError) or error.obj is None or trace is None:
        return
    kind = error.obj if isinstance(error.obj, type) else type(error.obj)
    if home(kind) is None or issubclass(kind, ModuleType):
        return
    while trace.tb_next is not None:
        trace = trace.tb_next
    place = (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    ASKED[f"{kind.__module__.replace('fusegrad', 'torch', 1)}.{kind.__qualname__}.{error.name}", *place] += 1


def report() -> str:
    """The list for people; nothing where nothing was asked for in vain.

    >>> ASKED["torch.nn.NoSuchLayer", "train.py", 3] += 2
    >>> print(report())
    fusegrad lacks 1 name of torch's that was asked for:
      torch.nn.NoSuchLayer   train.py:3   2 times
    >>> ASKED.clear()
    >>> report()
    ''
    """
    if not ASKED:
        return ""
    names = {name for name, _, _ in ASKED}
    many = "1 name of torch's that was" if len(names) == 1 else f"{len(names)} names of torch's that were"
    here = os.getcwd() + os.sep
    rows = [
        (name, f"{file.removeprefix(here)}:{line}", "once" if count == 1 else f"{count} times")
        for (name, file, line), count in sorted(ASKED.items())
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"  {name:{widths[0]}}   {place:{widths[1]}}   {count}" for name, place, count in rows]
    return "\n".join([f"fusegrad lacks {many} asked for:", *lines])
