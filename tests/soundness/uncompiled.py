"""Which programs of the corpus no compiled code answered, and what `explain()` says about each.

`python tests/soundness/uncompiled.py [WARM]` prints docs/uncompiled_cases.md.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import adapter
from corpus.programs import CASES
from corpus.runs import run_case

import fusegrad as fg

HEAD = """# Programs of the soundness corpus without a compiled call

Of the {total} programs in `tests/soundness/corpus`, {compiled} ({share:.1%}) have at least
one call that compiled code answered, replayed or deferred, when each call is made {warm} times before the
hazard. These have none; the reasons are what `explain()` gives. `python tests/soundness/uncompiled.py`
writes this page.
"""


def run(case: Any, warm: int) -> list[Any]:
    """The jitted functions of a program, after it has run."""
    functions: list[Any] = []

    def jit(function: Callable[..., Any]) -> Any:
        functions.append(fg.jit(function))
        return functions[-1]

    backend = types.ModuleType("remembers_its_functions")
    backend.__dict__.update(vars(adapter), jit=jit)
    backend.__getattr__ = adapter.__getattr__  # type: ignore[method-assign]
    run_case(case, backend, warm)
    return functions


def reasons(function: Any) -> list[str]:
    """Why no compiled code answered a call of the function."""
    explained = function.explain().as_dict()
    found: dict[str, None] = {}
    for entry in explained["entries"]:
        found.update(dict.fromkeys(r["reason"] for r in entry["reasons"]))
        if not entry["reasons"]:
            found.update(dict.fromkeys(t for t in (entry["given_up"], entry["last_failure"]) if t))
    calls, kinds = explained["stats"]["calls"], len(explained["entries"])
    return list(found) or [f"calls: {calls}; kinds of arguments: {kinds}, none of which came again"]


def uncompiled(warm: int = 3) -> dict[str, list[str]]:
    """For each program without a compiled call its hazard and then the reasons."""
    found = {}
    for case in CASES:
        functions = run(case, warm)
        if not any(f.stats.compiled_calls for f in functions):
            found[case.id] = [case.hazard, *dict.fromkeys(t for f in functions for t in reasons(f))]
    return found


if __name__ == "__main__":
    warm = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    cases = uncompiled(warm)
    total = len(CASES)
    compiled = total - len(cases)
    print(HEAD.format(total=total, compiled=compiled, share=compiled / total, warm=warm))
    for name, (hazard, *texts) in cases.items():
        print(f"- **{name}** ({hazard})\n" + "\n".join(f"  - {text}" for text in texts))
