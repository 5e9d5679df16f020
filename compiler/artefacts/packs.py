"""Packs: the cache's entries as one file, which another folder may take in.

A pack is an artefact whose parts are the entries, with a MAC of the folder that it was made in. Another
folder has another key: there it is taken in only where the user says that it is to be trusted, since code in
it is run. What is taken in is checked like any entry, gets the folder's own MAC, and is named by its keys,
which are digests.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping

from fusegrad.compiler.artefacts import folder
from fusegrad.compiler.artefacts.form import MOST_PARTS, Artefact, Malformed, packed, unpacked

KIND = "pack"
LARGEST = 1 << 30  # bytes of a file
MOST_KEYS = 1 << 10  # of an entry
_KEY = re.compile(r"[0-9a-f]{64}")


class Refused(Exception):
    """Why a file is not taken in."""


def pack(path: str) -> int:
    """Write all sound entries to a file, those that were used last first, as far as they fit. Gives how many.
    Raises OSError and Unusable.
    """
    parts: dict[str, bytes] = {}
    size = 0
    for told in folder.contents():
        size += len(told)
        if len(parts) == MOST_PARTS or size > LARGEST // 2:
            break
        parts[str(len(parts))] = told
    data = packed(Artefact(KIND, {}, parts))
    new = f"{path}.new"
    with open(new, "wb") as file:
        file.write(folder.signed(data))
    os.replace(new, path)
    return len(parts)


def load(path: str, is_trusted: bool) -> int:
    """Take the entries of a pack in. Gives how many are there now. Raises OSError, Unusable and Refused.

    is_trusted: whether the user says that a file of another folder's may be run.
    """
    data = _read(path)
    if not is_trusted and not folder.is_signed(data):
        raise Refused(
            "it was not packed from this folder, and its code would be run: --trust takes it nevertheless"
        )
    try:
        whole = unpacked(folder.content(data))
        if whole.kind != KIND:
            raise Malformed("it is no pack")
        entries = [_entry(part) for part in whole.parts.values()]
    except Malformed as error:
        raise Refused(str(error)) from error
    return sum(folder.keep(keys, artefact) for keys, artefact in entries)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            raise Refused("it is no plain file, or too large")
        return file.read(LARGEST + 1)


def _entry(part: bytes) -> tuple[list[str], Artefact]:
    """An entry's keys, and what it is. Raises Malformed."""
    artefact = unpacked(part)
    keys = artefact.facts.get("keys")
    is_sound = isinstance(keys, list) and 0 < len(keys) <= MOST_KEYS and len(part) <= folder.LARGEST
    if not is_sound or not all(isinstance(key, str) and _KEY.fullmatch(key) for key in keys or ()):
        raise Malformed("an entry has keys that are no digests")
    facts: Mapping[str, object] = {name: fact for name, fact in artefact.facts.items() if name != "keys"}
    return keys or [], Artefact(artefact.kind, facts, artefact.parts)
