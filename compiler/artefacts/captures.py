"""Whole captures between processes: what a jitted function has recorded goes in, and comes out where it
holds.

An entry is found by a digest of the function's code, the kind of its arguments, the modes of the thread and
the versions of all that had a part in recording. It has a few captures, each with what its run has read of
the world, which is read again before anything is believed. Where that says otherwise, or an entry cannot be
read, the run is recorded as ever.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from fusegrad.compiler.artefacts import capture_data, folder, structures, versions
from fusegrad.compiler.artefacts.form import Artefact
from fusegrad.compiler.artefacts.world import Data, Unsayable, World, plain
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.handlers import handler_raised
from fusegrad.eager.core.state import modes
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.capture.captured import Capture
from fusegrad.tracer.observe.symbols import Changing

KIND = "captures"
FORM = 1
MOST = 32  # captures of an entry: what was recorded first goes first


class Remembered:
    """The entry of one kind of call in the cache. Raises Unsayable where such calls have no key.

    function: which is called. structure: the key of the structure of its arguments; leaves: of them. how:
    what else was asked for, plain. changing: the leaves that are numbers, others from call to call.
    """

    def __init__(
        self, function: Any, structure: Any, leaves: Sequence[Any], how: Any, changing: Collection[int] = ()
    ) -> None:
        self._function, self._leaves, self._changing, self.why = function, leaves, changing, ""
        world, roots = self._world()
        said = [FORM, versions.known(), plain(modes()), str(dtypes.default_float()), plain(how)]
        said += [structures.structure(structure), roots, world.facts, _methods_of_tensors()]
        self._key = hashlib.sha256(json.dumps(said).encode()).hexdigest()

    def _world(self) -> tuple[World, list[Data]]:
        """The world as far as a call names it."""
        world = World()
        said = [world.value(self._function)]
        for place, leaf in enumerate(self._leaves):
            said.append(["number", type(leaf).__name__] if place in self._changing else world.value(leaf))
        return world, said

    def find(self, known: set[str]) -> Iterator[Capture]:
        """The captures that earlier processes have left and that hold now, but those that are `known`, to
        which they are added; `why` says in the end why there are no more.
        """
        self.why = "no earlier process has kept a run of this code with such arguments"
        artefact = folder.find(self._key)
        for number, data in enumerate(_captures(artefact)):
            assert artefact is not None
            if _text(data) in known:
                continue
            parts = {n.partition(":")[2]: p for n, p in artefact.parts.items() if n.startswith(f"{number}:")}
            try:
                found = capture_data.again(data, parts, self._world()[0], self._leaves)
            except Exception as error:
                if handler_raised():
                    raise
                found = str(error) if isinstance(error, Unsayable) else "what the run read is not there"
            if isinstance(found, Capture):
                found.changing = Changing(frozenset(self._changing))
                known.add(_text(data))
                yield found
            else:
                self.why = f"of the run that an earlier process has kept, {found}"

    def told(self, made: Capture) -> tuple[Data, dict[str, bytes]]:
        """What `keep` takes of a capture, which compiling takes apart. Raises Unsayable."""
        return capture_data.told(made, self._world()[0], self._leaves)

    def keep(self, told: tuple[Data, dict[str, bytes]], known: set[str]) -> bool:
        """Leave a capture for later processes, beside those that are there. Gives whether it is there now.
        known: as in `find`.
        """
        known.add(_text(told[0]))
        artefact = folder.find(self._key)
        captures, parts = [told[0]], {f"0:{name}": part for name, part in told[1].items()}
        for number, data in enumerate(_captures(artefact)):
            if _text(data) == _text(told[0]) or len(captures) == MOST or artefact is None:
                continue
            for name, part in artefact.parts.items():
                if name.startswith(f"{number}:"):
                    parts[f"{len(captures)}:{name.partition(':')[2]}"] = part
            captures.append(data)
        return folder.keep([self._key], Artefact(KIND, {"captures": captures}, parts))


def _text(data: Data) -> str:
    return json.dumps(data, sort_keys=True)


def _captures(artefact: Artefact | None) -> list[Any]:
    """The captures of an entry, as data."""
    if artefact is None or artefact.kind != KIND:
        return []
    found = artefact.facts.get("captures")
    return found[:MOST] if isinstance(found, list) else []


def is_wanted() -> bool:
    """Whether there is a place to keep captures in."""
    return bool(folder.place())


def _methods_of_tensors() -> str:
    """The digest of what tensors can do: programs may have changed it, and runs do not look."""
    found = (
        (name, type(value).__name__, getattr(value, "__module__", ""), getattr(value, "__qualname__", ""))
        for name, value in vars(Tensor).items()
    )
    return hashlib.sha256(repr(sorted(map(repr, found))).encode()).hexdigest()
