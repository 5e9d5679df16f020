"""The form of an artefact: facts and named parts go in, bytes come out, and the other way round.

    8 bytes   "fusegrad"
    4 bytes   the version of this form, little-endian
    4 bytes   how long the facts are
    ...       the facts: JSON, an object with `kind`, `parts` (name and size of each) and what the kind adds
    ...       the parts, one behind the other

Nothing of it is executed in reading: the facts are JSON, and what a part is, is its kind's to say. All of it
is bounded: what is longer, or says otherwise than it is, is no artefact.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAGIC = b"fusegrad"
VERSION = 1
_HEAD = struct.Struct("<8sII")
MOST_FACTS = 1 << 24  # bytes of JSON
MOST_PARTS = 1 << 12
MOST_NAME = 200  # characters of a part's name


class Malformed(ValueError):
    """Bytes that are no artefact, or none of this version; the message says what is wrong with them."""


@dataclass(frozen=True)
class Artefact:
    """What was compiled, and what there is to know about it.

    kind: what it is, in words. facts: what the kind says of itself, as JSON has it. parts: bytes by name.

    >>> artefact = Artefact("machine code", {"symbols": ["kernel"]}, {"object": b"..."})
    >>> unpacked(packed(artefact)) == artefact
    True
    """

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, bytes] = field(default_factory=dict)


def packed(artefact: Artefact) -> bytes:
    """An artefact as bytes: equal ones as equal bytes."""
    sizes = [[name, len(part)] for name, part in artefact.parts.items()]
    told = {**artefact.facts, "kind": artefact.kind, "parts": sizes}
    facts = json.dumps(told, sort_keys=True, separators=(",", ":")).encode()
    return b"".join([_HEAD.pack(MAGIC, VERSION, len(facts)), facts, *artefact.parts.values()])


def unpacked(data: bytes) -> Artefact:
    """The artefact that bytes are. Raises Malformed."""
    artefact, end = _first(data)
    if end != len(data):
        raise Malformed("its parts are not those that its facts tell of")
    return artefact


def embedded(data: bytes) -> Artefact:
    """The artefact that stands somewhere in a file: what a library tells of itself. Raises Malformed."""
    place = data.find(_HEAD.pack(MAGIC, VERSION, 0)[:-4])
    if place < 0:
        raise Malformed("there is nothing of fusegrad's in it")
    return _first(data[place:])[0]


def _first(data: bytes) -> tuple[Artefact, int]:
    """The artefact that bytes begin with, and where it ends. Raises Malformed."""
    if len(data) < _HEAD.size:
        raise Malformed("it ends within its head")
    magic, version, length = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise Malformed("it is not fusegrad's")
    if version != VERSION:
        raise Malformed(f"its form has version {version}, and this fusegrad reads {VERSION}")
    if length > MOST_FACTS or _HEAD.size + length > len(data):
        raise Malformed("it ends within its facts")
    try:
        facts = json.loads(data[_HEAD.size : _HEAD.size + length])
        kind, sizes = facts.pop("kind"), facts.pop("parts")
        sizes = {str(name): size for name, size in sizes}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Malformed("its facts are no JSON object of the form") from error
    sound = isinstance(kind, str) and len(sizes) <= MOST_PARTS
    sound = sound and all(len(n) <= MOST_NAME and type(s) is int and s >= 0 for n, s in sizes.items())
    if not sound or _HEAD.size + length + sum(sizes.values()) > len(data):
        raise Malformed("its parts are not those that its facts tell of")
    parts, place = {}, _HEAD.size + length
    for name, size in sizes.items():
        parts[name] = data[place : place + size]
        place += size
    return Artefact(kind, facts, parts), place
