"""What a jitted function compiled, what it guards, and why it runs eagerly where it does."""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, Any

from fusegrad.eager.errors import source_line
from fusegrad.tracer.capture import Reason
from fusegrad.tracer.graph import Source

if TYPE_CHECKING:
    from fusegrad.compiler.deferred import Plan
    from fusegrad.compiler.jit import Entry, JitFunction


class Explanation:
    """The text (`str`) and structure (`as_dict`) of what happened to a jitted function."""

    def __init__(self, function: JitFunction) -> None:
        self._function = function

    def as_dict(self) -> dict[str, Any]:
        """Counters, and for each kind of arguments its paths, guards, reads and reasons."""
        function = self._function
        return {
            "function": str(getattr(function, "__qualname__", function.__wrapped__)),
            "stats": dict(vars(function.stats)),
            "entries": [_entry_dict(e) for e in function.entries.values()],
        }

    def __str__(self) -> str:
        return "\n".join(_lines(self.as_dict()))

    __repr__ = __str__


def _where(file: str, line: int) -> str:
    text = source_line(file, line)
    return f"{file}:{line}" + (f"  {text}" if text else "")


def _at(source: Source | None) -> str:
    return _where(source.file, source.line) if source is not None else "?"


def _reason(reason: Reason) -> dict[str, str]:
    return {"reason": reason.reason, "at": _where(reason.file, reason.line) if reason.file else ""}


def _entry_dict(entry: Entry) -> dict[str, Any]:
    return {
        "arguments": entry.key_text,
        "paths": [_path_dict(chain) for v in entry.variants for chain in v.tree.root.chains()],
        "deferred": _plan_dict(entry.plan),
        "given_up": entry.given_up,
        "reasons": [_reason(r) for r in entry.reasons],
        "last_failure": entry.last_failure,
    }


def _plan_dict(plan: Plan) -> dict[str, Any]:
    """The runs in which the body ran and its ops were deferred."""
    return {
        "way": "deferred",
        "calls": plan.calls,
        "compiled_calls": plan.answered,
        "choice": plan.choice or "",
        "stretches": [[line for part in s.parts for line in part.describe()] for s in plan.stretches],
    }


def _path_dict(chain: list[Any]) -> dict[str, Any]:
    """One path from the root to its leaf."""
    path = chain[-1].path
    guards = []
    for segment, following in itertools.pairwise(chain):
        seen = next(k for k, c in segment.children.items() if c is following)
        guards.append({"at": _at(segment.guard.source), "seen": _seen(seen)})
    backward, joint = chain[-1].backward, chain[-1].joint
    return {
        "way": "replay",
        "calls": path.calls,
        "guards": guards,
        "reads": [{"what": r.describe(), "at": str(r.site)} for r in path.capture.reads],
        "forward": [line for s in chain for line in s.program.describe()],
        "backward": backward.describe() if backward is not None else [],
        "joint": joint.program.describe() if joint is not None else [],
    }


def _seen(key: Any) -> str:
    """The value that a guard compares with, from its key."""
    if isinstance(key, tuple):
        return repr(key[1])
    return repr(struct.unpack("<d", key)[0])


def _lines(found: dict[str, Any]) -> list[str]:
    stats = found["stats"]
    lines = [
        f"{found['function']}: {stats['calls']} calls, {stats['compiled_calls']} compiled, "
        f"{stats['eager_calls']} eager; {stats['compiles']} compiles, "
        f"{stats['guard_failures']} guard failures"
    ]
    for entry in found["entries"]:
        lines.append(f"  arguments ({entry['arguments']})")
        for number, path in enumerate(entry["paths"], 1):
            lines += _path_lines(number, path)
        if entry["given_up"]:
            lines.append(f"    {entry['given_up']}")
        lines += _plan_lines(entry["deferred"])
        if entry["reasons"]:
            lines.append(
                "    could not be captured:"
                if not entry["paths"]
                else "    another run could not be captured:"
            )
            for reason in entry["reasons"]:
                lines.append(
                    f"      {reason['reason']}" + (f"\n        at {reason['at']}" if reason["at"] else "")
                )
        if entry["last_failure"] and entry["paths"]:
            lines.append(f"    last guard failure: {entry['last_failure']}")
    return lines


_CHOICES = {
    "": "the faster of the two is not known yet",
    "deferred": "deferred, which was the faster in a trial",
    "eager": "eager, which was the faster in a trial, or there was nothing to compile",
}


def _plan_lines(plan: dict[str, Any]) -> list[str]:
    if not plan["calls"]:
        return []
    lines = [
        f"    the body runs, its ops deferred: {plan['calls']} calls, {plan['compiled_calls']} with compiled "
        "stretches",
        f"      now {_CHOICES[plan['choice']]}",
    ]
    for number, stretch in enumerate(plan["stretches"], 1):
        lines += [f"      stretch {number}  {line}" for line in stretch]
    return lines


def _path_lines(number: int, path: dict[str, Any]) -> list[str]:
    lines = [f"    path {number} ({path['way']}): {path['calls']} calls"]
    for guard in path["guards"]:
        lines.append(f"      guard {guard['seen']} at {guard['at']}")
    for read in path["reads"]:
        lines.append(f"      reads {read['what']}  ({read['at']})")
    lines += [f"      forward   {line}" for line in path["forward"]]
    lines += [f"      backward  {line}" for line in path["backward"]]
    lines += [f"      at once   {line}" for line in path["joint"]]
    return lines
