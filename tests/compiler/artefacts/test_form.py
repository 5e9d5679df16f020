"""The form of artefacts: what is packed comes back, and what is no artefact is refused with words."""

from __future__ import annotations

import contextlib
import json
import random
import struct

import pytest

from fusegrad.compiler.artefacts import form
from fusegrad.compiler.artefacts.form import Artefact, Malformed, packed, unpacked

SAMPLE = Artefact(
    "machine code", {"symbols": ["a", "b.task"], "keys": ["00" * 32]}, {"object": b"\x00\x01", "more": b""}
)


def with_facts(facts: object, rest: bytes = b"") -> bytes:
    text = facts if isinstance(facts, bytes) else json.dumps(facts).encode()
    return struct.pack("<8sII", form.MAGIC, form.VERSION, len(text)) + text + rest


@pytest.mark.parametrize("artefact", [SAMPLE, Artefact("", {}, {}), Artefact("k", {"n": [1, {"m": None}]})])
def test_what_is_packed_comes_back(artefact: Artefact) -> None:
    assert unpacked(packed(artefact)) == artefact


def test_equal_artefacts_are_equal_bytes() -> None:
    turned = Artefact(SAMPLE.kind, dict(reversed(SAMPLE.facts.items())), SAMPLE.parts)
    assert packed(turned) == packed(SAMPLE)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "within its head"),
        (b"#!/bin/sh\n" * 9, "not fusegrad's"),
        (struct.pack("<8sII", form.MAGIC, 2, 0), "has version 2"),
        (struct.pack("<8sII", form.MAGIC, form.VERSION, form.MOST_FACTS + 1) + b" " * 99, "within its facts"),
        (with_facts(b"[" * 100_000), "JSON object"),
        (with_facts([1, 2]), "JSON object"),
        (with_facts({"parts": []}), "JSON object"),
        (with_facts({"kind": 3, "parts": []}), "parts"),
        (with_facts({"kind": "k", "parts": [["a", -1]]}), "parts"),
        (with_facts({"kind": "k", "parts": [["a", True]]}, b"x"), "parts"),
        (with_facts({"kind": "k", "parts": [["a", 1.0]]}, b"x"), "parts"),
        (with_facts({"kind": "k", "parts": [["a" * 201, 1]]}, b"x"), "parts"),
        (with_facts({"kind": "k", "parts": [[str(n), 0] for n in range(form.MOST_PARTS + 1)]}), "parts"),
        (with_facts({"kind": "k", "parts": [["a", 1 << 60]]}), "parts"),
    ],
)
def test_what_is_none_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        unpacked(data)


def test_damaged_bytes_are_refused_or_other_facts_never_an_error_of_another_kind() -> None:
    data, generator = packed(SAMPLE), random.Random(0)
    for length in range(len(data)):
        with pytest.raises(Malformed):
            unpacked(data[:length])
    for _ in range(2000):
        changed = bytearray(data)
        changed[generator.randrange(len(data))] = generator.randrange(256)
        with contextlib.suppress(Malformed):
            unpacked(bytes(changed))
