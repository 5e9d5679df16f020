"""Versions: what results depend on beside the program, as the digest of fusegrad's source and of the versions
of NumPy and the interpreter.

Every file is read, whatever its time says; that begins when this is imported, beside what else is.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fusegrad.compiler.artefacts import folder
from fusegrad.compiler.artefacts.world import Unsayable
from fusegrad.compiler.base.uninterrupted import Running

ROOMS = ("eager", "tracer", "compiler")
ROOT = Path(__file__).parents[2]


def _files(path: str) -> Iterator[str]:
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith(".py"):
                yield entry.path


def digest() -> str:
    """The digest of all source and versions; empty where there is no source."""
    found, count = hashlib.sha256(), 0
    for room in ROOMS:
        for file in _files(str(ROOT / room)):
            with open(file, "rb", buffering=0) as source:
                text = source.read()
            found.update(f"{os.path.relpath(file, ROOT)} {len(text)}\n".encode())
            found.update(text)
            count += 1
    others = np.__version__, sys.version, sys.flags.optimize, sys.implementation.cache_tag
    found.update(repr(others).encode())
    return found.hexdigest() if count else ""


_known: list[str] = []
_reading: list[Running[str]] = []


def _begin() -> None:
    if folder.place():
        _reading.append(Running(digest))


def _in_child() -> None:
    """A forked child has none of its parent's threads."""
    if not _known:
        _reading.clear()


def known() -> str:
    """The digest, for as long as the process lives. Raises Unsayable where it cannot be told."""
    if not _known:
        try:
            _known.append(_reading[0].result() if _reading else digest())
        except OSError:
            _known.append("")
    if not _known[0]:
        raise Unsayable("the source of fusegrad cannot be read here")
    return _known[0]


_begin()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
