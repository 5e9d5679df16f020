"""Why compiled code did not answer a call: what is other than it was when the code was made.

Worked out when a call has missed (it then runs eagerly and is recorded, which costs far more), never on
the way of a call that is answered.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusegrad.compiler.guards.guards import Guards
from fusegrad.compiler.paths.segments import Stopped
from fusegrad.eager.core.errors import source_line
from fusegrad.eager.core.handlers import handler_raised
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.capture.carried import Carried
from fusegrad.tracer.capture.signatures import argument_names, plain_function
from fusegrad.tracer.ir.graph import Source
from fusegrad.tracer.observe.arrays.known import is_numbers
from fusegrad.tracer.observe.reads import Read
from fusegrad.tracer.observe.symbols import Outcome
from fusegrad.tracer.observe.values import MISSING, text_of

# What stands in a key before the leaves: see `keys.call_key`.
MODES = ("structure", "grad mode", "default dtype", "deterministic algorithms")
_FIELDS = ("shape", "dtype", "strides", "requires_grad", "class", "sharing", "inference")


@dataclass(frozen=True)
class Difference:
    """One thing that differs.

    kind: "argument" (of what `aspect`: shape, dtype, strides, requires_grad, class, sharing, value, type,
        object), "structure", "mode", a kind of `Read` ("global", "closure", "attribute", ...), "branch",
        "tensor" (a captured one), "number" (one that Python computes), "state" (anything else).
    aspect: of a read, "number" where the place held one, "shape" where it holds a tensor of other sizes, and
        "gone" where it holds another tensor and the one that it held is gone. what: the place, in words. was,
        now: what was captured there and what was found, in words.
    file, line, text: the user's line, where there is one. source: of a read, what the observer calls the
        place.
    """

    kind: str
    what: str
    was: str = ""
    now: str = ""
    aspect: str = ""
    file: str = ""
    line: int = 0
    text: str = ""
    source: Any = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        place = f"{os.path.basename(self.file)}:{self.line}" if self.file else ""
        if self.kind in ("argument", "structure", "mode"):
            return f"{self.what}: {self.now} where {self.was} was captured"
        if self.kind == "branch":
            return f"{self.what} at {place} `{self.text}` was {self.was}, now {self.now}"
        changed = f": now {self.now}, was {self.was}" if self.was or self.now else ""
        return self.what + changed + (f" ({place}  {self.text})" if place else "")

    def as_dict(self) -> dict[str, Any]:
        """The fields, and the sentence that they make."""
        fields = {name: value for name, value in vars(self).items() if name != "source"}
        return {**fields, "message": str(self)}


# What a run found.


def of_read(read: Read) -> Difference:
    """A read that does not hold any more."""
    site = read.site
    aspect = "number" if is_number(read) else "gone" if _is_replaced(read) else ""
    words = read.kind, read.subject(), read.was(), read.now(), aspect
    return Difference(*words, site.file, site.line, site.text, getattr(read, "source", None))


def _is_replaced(read: Read) -> bool:
    """Whether there is a tensor now in the place of something that is gone."""
    expected = getattr(read, "expected", None)
    if expected is None or expected.key is not MISSING or expected.reference() is not None:
        return False
    try:
        return isinstance(read.place().find(), Tensor)
    except Exception:
        if handler_raised():
            raise
        return False


def of_carried(host: Carried) -> Difference:
    """A tensor that one call leaves for the next, and that is another one now."""
    read, (now, is_resized) = host.read, host.now()
    words = read.kind, read.subject(), host.was(), now, "shape" if is_resized else ""
    return Difference(*words, read.site.file, read.site.line, read.site.text, getattr(read, "source", None))


def of_outcome(outcome: Outcome) -> Difference:
    """A number, or a comparison of numbers, that Python computes, and that came out otherwise."""
    file, line = outcome.site
    was = outcome.was()
    now = str(not outcome.expected) if type(outcome.expected) is bool else "another"
    return Difference(
        "number", outcome.subject(), was, now, file=file, line=line, text=source_line(file, line)
    )


def is_number(read: Read) -> bool:
    """Whether the place held a Python number."""
    key = getattr(getattr(read, "expected", None), "key", MISSING)
    return type(key) is tuple and len(key) == 2 and key[0] in (int, float)


def of_branch(source: Source | None, seen: Iterable[Any], now: Any) -> Difference:
    """A guard in the graph that met another value; seen: the keys of those that have code."""
    was = " or ".join(sorted(value_text(key) for key in seen))
    file, line = (source.file, source.line) if source is not None else ("", 0)
    text = source_line(file, line)
    word = "branch" if text.startswith(("if ", "elif ", "while ", "assert ")) else "value"
    return Difference("branch", word, was, value_text(now), file=file, line=line, text=text)


def value_text(key: Any) -> str:
    """A value from its `path.guard_key`."""
    return repr(key[1] if isinstance(key, tuple) else struct.unpack("<d", key)[0])


# Arguments.


def leaf_names(function: Callable[..., Any], args: Any, kwargs: Any, count: int) -> list[str]:
    """What the user calls each of the leaves of a call."""
    function, args = plain_function(function, args)
    names = argument_names(function, args, kwargs)[-count:] if count else []  # `self` may come first
    return names if len(names) == count else [f"argument {i}" for i in range(count)]


def leaf_text(leaf: Any, any_number: bool = False) -> str:
    """A leaf of the arguments in words: `float32[32, 784] requires_grad`, `3`, `any float`, `<Model>`."""
    if any_number:
        return f"any {type(leaf).__name__}"
    if isinstance(leaf, Tensor):
        text = f"{leaf.array.dtype.name}{list(leaf.array.shape)}"
        return text + (" requires_grad" if leaf.needs_grad else "")
    return f"array {leaf.dtype.name}{list(leaf.shape)}" if is_numbers(leaf) else text_of(leaf)


def closest(
    key: tuple[Any, ...],
    texts: Sequence[str],
    names: Sequence[str],
    others: Iterable[tuple[tuple[Any, ...], Sequence[str], Sequence[str]]],
) -> list[Difference]:
    """How a call differs from the most similar one that was captured: that with the fewest differences.

    key, texts, names: of the call (`keys.call_key`, each leaf in words, and what the user calls it); others:
    of those that were captured.
    """
    found: list[Difference] = []
    for other in others:
        differences = _between(key, texts, names, *other)
        if not found or len(differences) < len(found):
            found = differences
    return list(dict.fromkeys(found))


def _between(
    key: tuple[Any, ...],
    texts: Sequence[str],
    names: Sequence[str],
    other: Any,
    other_texts: Sequence[str],
    other_names: Sequence[str],
) -> list[Difference]:
    if key[0] != other[0]:
        was, now = structure_text(other[0]), structure_text(key[0])
        if names != other_names:
            was, now = f"({', '.join(other_names)})", f"({', '.join(names)})"
        # As far as can be from everything that at least is nested alike.
        return [Difference("structure", "the arguments", was, now)] * (1 + max(len(texts), len(other_texts)))
    found = [
        Difference("mode", mode, _mode_text(was), _mode_text(now))
        for mode, was, now in zip(MODES[1:], other[1:], key[1:], strict=False)
        if was != now
    ]
    places = zip(names, key[len(MODES) :], other[len(MODES) :], texts, other_texts, strict=False)
    for name, now, was, text, other_text in places:
        if now != was:
            found += _of_leaf(f"argument `{name}`", was, now, other_text, text, names)
    return found


def _of_leaf(
    what: str, was: Any, now: Any, was_text: str, now_text: str, names: Sequence[str]
) -> list[Difference]:
    """How one leaf differs, from its parts of two keys."""
    if not (_is_tensor_part(was) and _is_tensor_part(now)):
        if _is_tensor_part(was) or _is_tensor_part(now) or was[0] is not now[0]:
            if not _is_tensor_part(was) and not _is_tensor_part(now):
                was_text, now_text = (f"{t} ({_kind_text(p)})" for t, p in ((was_text, was), (now_text, now)))
            return [Difference("argument", what, was_text, now_text, "type")]
        if was_text == now_text:
            return [Difference("argument", what, was_text, f"another {_kind_text(now)}", "object")]
        return [Difference("argument", what, was_text, now_text, "value")]
    pairs = zip(_FIELDS, itertools.zip_longest(was, now), strict=False)
    differing = [field for field, (a, b) in pairs if a != b]
    if "shape" in differing or "dtype" in differing:
        aspect = "shape" if "shape" in differing else "dtype"
        return [Difference("argument", what, was_text, now_text, aspect)]
    aspect = differing[0]
    was_text, now_text = (_aspect_text(part, aspect, what, names) for part in (was, now))
    return [Difference("argument", what, was_text, now_text, aspect)]


def _aspect_text(part: Any, aspect: str, what: str, names: Sequence[str]) -> str:
    """One aspect of a tensor's part of a key in words."""
    _, _, strides, needs_grad, kind, first, *inference = part
    if aspect == "strides":
        return f"strides of {list(strides)} bytes"
    if aspect == "requires_grad":
        return f"requires_grad={needs_grad}"
    if aspect == "class":
        return f"a {kind.__name__}"
    if aspect == "sharing":
        other = f"`{names[first]}`"
        return "a tensor of its own" if other in what else f"the same tensor as {other}"
    return f"a tensor {'' if inference else 'not '}made in inference_mode"


def _is_tensor_part(part: Any) -> bool:
    return type(part[0]) is tuple


def _kind_text(part: Any) -> str:
    return type.__dict__["__name__"].__get__(part[0])


def _mode_text(value: Any) -> str:
    return {True: "on", False: "off"}[value] if type(value) is bool else getattr(value, "name", str(value))


def structure_text(key: Any) -> str:
    """Containers as they are written, with a dot for each leaf: `(., {'a': .})`."""
    if key is None:
        return "."
    kind, tag, parts = key
    items = [structure_text(part) for part in parts]
    if kind is tuple:
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if kind is list:
        return f"[{', '.join(items)}]"
    names = [name for _, name in tag] if tag and isinstance(kind, type) and issubclass(kind, dict) else []
    if names:
        return "{" + ", ".join(f"{name!r}: {item}" for name, item in zip(names, items, strict=True)) + "}"
    return f"{kind.__name__}({', '.join(items)})"


def refused(segment: Any) -> str:
    """Why a segment's program did not run: a captured tensor, or an op's own test of its input."""
    for kind, captured in (segment.joint or segment.code).inputs:
        if kind == "captured" and captured.array() is None:
            return "a tensor from outside is gone, or has another shape, dtype, layout or requires_grad"
    return "an op refuses its input"


# A call.


def difference(missed: Sequence[tuple[Guards, Read | Stopped]]) -> Difference:
    """What sent a call away from the variant that is the most like the present state, of those with these
    guards.
    """
    if not missed:
        return Difference("state", "nothing was compiled yet")
    _, failed = min(missed, key=lambda pair: sum(not read.holds() for read in pair[0].reads))
    if isinstance(failed, Stopped):
        segment, reason, seen = failed
        if isinstance(reason, Read):
            return of_read(reason)
        if isinstance(reason, Outcome):
            return of_outcome(reason)
        if isinstance(reason, Carried):
            return of_carried(reason)
        if seen is not None:
            return of_branch(segment.guard.source if segment.guard else None, segment.children, seen)
        return Difference("state", reason or refused(segment))
    return of_read(failed)
