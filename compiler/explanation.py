"""What a jitted function compiled, what it depends on, what did not fit last, and what to do about it."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

from fusegrad.compiler.artefacts import folder
from fusegrad.compiler.base.background import Work
from fusegrad.compiler.codegen.kernel_cache import found as found_earlier
from fusegrad.compiler.deferred.interpreter import Plan
from fusegrad.compiler.entries import Entry
from fusegrad.compiler.explain.advice import for_difference, for_reason
from fusegrad.compiler.explain.miss_reasons import Difference, value_text
from fusegrad.compiler.jitted import Jitted
from fusegrad.compiler.paths.path import Path
from fusegrad.eager.core.errors import is_own_file, source_line
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.capture.captured import Reason
from fusegrad.tracer.ir.graph import Source
from fusegrad.tracer.observe.reads import Read
from fusegrad.tracer.observe.symbols import Outcome, Scalar, places


class Explanation:
    """The text (`str`) and structure (`as_dict`) of what happened to a jitted function."""

    def __init__(self, function: Jitted, kernels: bool = False) -> None:
        self._function, self._kernels = function, kernels

    def as_dict(self) -> dict[str, Any]:
        """What is known, as dicts, lists, strings and numbers (JSON); see docs/explain.md for each field."""
        function = self._function
        return {
            "function": _name(function),
            "stats": dict(vars(function.stats)),
            "last_miss": [_difference(d) for d in function.last_miss],
            "misses": dict(function.misses.most_common()),
            "machine_code": _machine_code(function),
            # What is known of sizes and numbers alone is told once calls have gone by it.
            "entries": [
                _entry_dict(entry, self._kernels)
                for entry in list(function.entries.values())
                if entry.family is None or entry.plan.asked
            ],
        }

    def __str__(self) -> str:
        return "\n".join(_lines(self.as_dict()))

    __repr__ = __str__


def _name(function: Jitted) -> str:
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else type(function.__wrapped__).__name__


# The structure.


def _difference(difference: Difference) -> dict[str, Any]:
    return {**difference.as_dict(), "advice": for_difference(difference)}


def _place(file: str, line: int, text: str = "") -> dict[str, Any]:
    text = text or (source_line(file, line) if file else "")
    return {"file": file, "line": line, "text": text, "at": _at(file, line, text)}


def _at(file: str, line: int, text: str) -> str:
    """`train.py:12  x * scale`, the file as it is found from the working directory."""
    if not line:
        return ""
    if file.startswith(os.getcwd() + os.sep):
        file = os.path.relpath(file)
    return f"{file}:{line}" + (f"  {text}" if text else "")


def _machine_code(function: Jitted) -> dict[str, Any]:
    """Of its kernels, how many had been compiled by an earlier process, and how many were here."""
    kernels = {
        bound.kernel.digest: bound.kernel for some in vars(function.kernels()).values() for bound in some
    }
    left = [there for there in map(found_earlier, kernels.values()) if there is not None]
    cache = folder.state()
    why = cache.why_not or ("" if all(left) else "no earlier process had compiled them for such a machine")
    return {"found": sum(left), "compiled": len(left) - sum(left), "cache": cache.path, "why_compiled": why}


def _source(source: Source | None) -> dict[str, Any]:
    return _place("", 0) if source is None else _place(source.file, source.line)


def _reason(reason: Reason) -> dict[str, Any]:
    kind, advice = for_reason(reason.reason)
    return {"reason": reason.reason, "kind": kind, "advice": advice, **_place(reason.file, reason.line)}


def _loop(loop: Reason) -> dict[str, Any]:
    return {"reason": loop.reason, **_place(loop.file, loop.line)}


def _entry_dict(entry: Entry, kernels: bool) -> dict[str, Any]:
    failure = entry.last_failure
    return {
        "arguments": entry.key_text,
        "leaves": [{"name": n, "value": t} for n, t in zip(entry.names, entry.texts, strict=False)],
        "differs": [_difference(d) for d in entry.because],
        "paths": [
            {**_path_dict(chain, kernels), "numbers": _numbers(chain[-1].path, entry.names)}
            for v in entry.variants
            for chain in v.tree.root.chains()
        ],
        "deferred": _plan_dict(entry.plan, kernels),
        "compiling": _work(entry.compiling),
        "earlier": {
            "found": entry.recalled,
            "why_recorded": entry.not_recalled,
            "why_not_kept": entry.not_kept,
        },
        "given_up": entry.given_up,
        "reasons": [_reason(r) for r in entry.reasons],
        "not_rolled": [_loop(r) for r in entry.not_rolled],
        "last_failure": str(failure or ""),
        "failure": _difference(failure) if failure is not None else None,
    }


def _work(work: Work[Any] | None) -> dict[str, Any] | None:
    """What is compiled beside the program."""
    if work is None:
        return None
    return {
        "stage": "done, for the next call to take over:" if work.over else work.stage,
        "ops": work.ops,
        "most": work.most,
        "line": work.line,
        "seconds": round(time.monotonic() - work.begun, 1),
    }


def _numbers(path: Path, names: Sequence[str]) -> list[str]:
    """The Python numbers that a replay of the path finds anew, in words."""
    symbols = [host.symbol for host in path.hosts if isinstance(host, (Outcome, Scalar))]
    symbols += [output.item for output in path.capture.outputs if output.kind == "computed"]
    found = [(symbol.place, symbol) for symbol in places(symbols) if not issubclass(symbol.kind, Tensor)]
    return sorted(f"argument `{names[p]}`" if isinstance(p, int) else str(symbol) for p, symbol in found)


def _plan_dict(plan: Plan, kernels: bool) -> dict[str, Any]:
    """The runs in which the body ran and its ops were deferred."""
    return {
        "way": "deferred",
        "calls": plan.calls,
        "compiled_calls": plan.answered,
        "choice": plan.choice or "",
        "stretches": [[line for part in s.parts for line in part.describe(kernels)] for s in plan.stretches],
        "sizes": [s.uses if s.open else 0 for s in plan.stretches],
    }


def _path_dict(chain: list[Any], kernels: bool) -> dict[str, Any]:
    """One path from the root to its leaf."""
    path = chain[-1].path
    guards = []
    for segment, following in itertools.pairwise(chain):
        seen = next(k for k, c in segment.children.items() if c is following)
        if following.calls:  # what comes before a call runs apart
            continue
        guards.append({**_source(segment.guard.source), "seen": value_text(seen)})
        for call in segment.calls:
            guards[-1]["cut"] = str(call)
    backward, joint, joining = chain[-1].backward, chain[-1].joint, chain[-1].joining
    return {
        "way": "replay",
        "calls": path.calls,
        "guards": guards,
        "reads": [_read_dict(r) for r in path.capture.reads],
        "not_rolled": [_loop(r) for r in path.capture.not_rolled],
        "forward": [line for s in chain if s.code for line in s.code.program.describe(kernels)],
        "backward": backward.program.describe(kernels) if backward is not None else [],
        "joint": joint.program.describe(kernels) if joint is not None else [],
        "compiling": _work(joining),
    }


def _read_dict(read: Read) -> dict[str, Any]:
    site = read.site
    return {
        "kind": read.kind,
        "what": read.subject(),
        "was": read.was(),
        "holds": read.holds(),
        "own": is_own_file(site.file) or not site.file,
        **_place(site.file, site.line, site.text),
    }


# The text.


def _lines(found: dict[str, Any]) -> list[str]:
    stats = found["stats"]
    lines = [
        f"{found['function']}: {stats['calls']} calls, {stats['compiled_calls']} compiled, "
        f"{stats['eager_calls']} eager; {stats['compiles']} compiles, "
        f"{stats['guard_failures']} guard failures"
    ]
    lines += _machine_code_lines(found["machine_code"])
    for entry in found["entries"]:
        lines += _entry_lines(entry)
    if found["last_miss"]:
        lines.append("  the last call that no compiled code fitted:")
        lines += ["    " + line for d in found["last_miss"] for line in _difference_lines(d)]
    often = [f"{what} ({n} times)" for what, n in found["misses"].items() if n > 1]
    if often:
        lines.append(f"  what was other than before again and again: {', '.join(often[:5])}")
    return lines


def _machine_code_lines(code: dict[str, Any]) -> list[str]:
    found, compiled = code["found"], code["compiled"]
    if not code["cache"] or not found + compiled:
        return []
    why = f"; {compiled} compiled, since {code['why_compiled']}" if compiled else ""
    return [f"  machine code of {found} kernels found in {code['cache']}{why}"]


def _difference_lines(difference: dict[str, Any]) -> list[str]:
    advice = difference["advice"]
    return [difference["message"], *([f"  -> {advice}"] if advice else [])]


def _entry_lines(entry: dict[str, Any]) -> list[str]:
    named = ", ".join(f"{leaf['name']}: {leaf['value']}" for leaf in entry["leaves"])
    lines = [f"  arguments ({named or entry['arguments']})"]
    lines += [f"    other than before: {difference['message']}" for difference in entry["differs"]]
    for number, path in enumerate(entry["paths"], 1):
        lines += _path_lines(number, path)
    lines += [f"    {line}" for line in _work_lines(entry["compiling"])]
    lines += [f"    {line}" for line in _earlier_lines(**entry["earlier"])]
    if entry["given_up"]:
        lines.append(f"    {entry['given_up']}")
    lines += _plan_lines(entry["deferred"])
    if entry["reasons"]:
        which = "another run" if entry["paths"] else "the body"
        lines.append(f"    {which} could not be captured:")
        for reason in entry["reasons"]:
            lines.append(f"      {reason['reason']}")
            lines += [f"        at {reason['at']}"] if reason["at"] else []
        lines += [f"    {line}" for loop in entry["not_rolled"] for line in _loop_lines(loop)]
        for advice in dict.fromkeys(reason["advice"] for reason in entry["reasons"]):
            lines.append(f"      -> {advice}")
    return lines


def _earlier_lines(found: int, why_recorded: str, why_not_kept: str) -> list[str]:
    lines = [f"{_count(found, 'run', 'runs')} that earlier processes have recorded"] if found else []
    lines += [f"recorded here: {why_recorded}"] if why_recorded else []
    return lines + ([f"not kept for later processes: {why_not_kept}"] if why_not_kept else [])


def _work_lines(work: dict[str, Any] | None) -> list[str]:
    if work is None:
        return []
    most = f", {work['most']:,} of them from {work['line']}" if work["line"] else ""
    return [
        f"compiled beside the program for {work['seconds']:g} s, and calls go on without: {work['stage']} "
        f"{work['ops']:,} ops{most}"
    ]


def _loop_lines(loop: dict[str, Any]) -> list[str]:
    return [loop["reason"], f"  at {loop['at']}"]


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
    for number, (stretch, sizes) in enumerate(zip(plan["stretches"], plan["sizes"], strict=True), 1):
        lines += [f"      stretch {number}  compiled for any sizes, used with {sizes}"] if sizes else []
        lines += [f"      stretch {number}  {line}" for line in stretch]
    return lines


def _path_lines(number: int, path: dict[str, Any]) -> list[str]:
    lines = [f"    path {number} ({path['way']}): {path['calls']} calls"]
    for guard in path["guards"]:
        cut = f"cut at {guard['at']}: calls {guard['cut']}" if "cut" in guard else ""
        lines.append(f"      {cut}" if cut else f"      guard {guard['seen']} at {guard['at']}")
    lines += [f"      takes the number that is now in {number}" for number in path["numbers"]]
    lines += _read_lines(path["reads"])
    lines += [f"      {line}" for loop in path["not_rolled"] for line in _loop_lines(loop)]
    lines += [f"      forward   {line}" for line in path["forward"]]
    lines += [f"      backward  {line}" for line in path["backward"]]
    lines += [f"      at once   {line}" for line in path["joint"]]
    lines += [f"      at once   {line}" for line in _work_lines(path["compiling"])]
    return lines


# What nobody changes while a program runs, as a rule: only counted, as long as it holds.
_USUAL = ("function", "type", "class attribute")


def _read_lines(reads: Iterable[dict[str, Any]]) -> list[str]:
    """The reads of a path; those of fusegrad's own code, and of functions and modules, are only counted."""
    shown, code, own = [], [], []
    for read in reads:
        usual = read["kind"] in _USUAL or read["was"].startswith(("a module", "function ", "class "))
        if read["own"]:
            own.append(read)
        elif usual and read["holds"]:
            code.append(read)
        else:
            place = f"  ({read['at']})" if read["at"] else ""
            changed = "" if read["holds"] else "  (no longer so)"
            shown.append(f"      reads {read['what']} is {read['was']}{changed}{place}")
    if code:
        what = _count(len(code), "function, class or module", "functions, classes and modules")
        shown.append(f"      reads {what}, unchanged")
    if own:
        what = _count(len(own), "value", "values")
        changed = _count(sum(not read["holds"] for read in own), "has changed", "have changed")
        shown.append(f"      reads {what} inside fusegrad's own modules and optimizers: {changed}")
    return shown


def _count(number: int, one: str, many: str) -> str:
    return f"{number or 'none'} {one if number <= 1 else many}"
