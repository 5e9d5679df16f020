"""Programs with effects: statements in one of the ways to leave rounds, or calls, out; eager beside jitted.

Each is source text, run twice in namespaces of its own. `seen()` gives all that a program can have left in
the world.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import math
from collections.abc import Callable
from typing import Any

import fusegrad as fg
from effects.world import HEAD

ROUNDS = 40
CALLS = 3

# The ways to leave rounds, or calls, out. {s} is the statement.
WAYS: dict[str, str] = {
    "plain": """
    for t in range({n}):
        h = fg.tanh(h * 0.5 + x[t])
        {s}
    return h
""",
    "tested": """
    for t in range({n}):
        h = h * 0.5 + x[t]
        {s}
        if h.norm() > 1:
            h = h / h.norm()
    return h
""",
    "tested first": """
    for t in range({n}):
        if x[t].sum() > 0:
            h = h * 0.5 + x[t]
        else:
            h = h * 0.4 - x[t]
        {s}
    return h
""",
    "stops": """
    t = 0
    h = h.abs() + x[0].abs() * 50
    while h.norm() > 0.5:
        t += 1
        h = h * 0.9
        {s}
        if t > 200: break
    return h
""",
    "list": """
    outs = []
    for t in range({n}):
        h = fg.tanh(h * 0.5 + x[t])
        {s}
        outs.append(h)
    return fg.stack(outs).sum(0)
""",
    "called": """
    for t in range({n}):
        h = step(h * 0.5 + x[t], t)
        if h.norm() > 1:
            h = h / h.norm()
    return h

def step(h, t):
    {s}
    return fg.tanh(h)
""",
    "deferred": """
    print("open")
    t = 3
    h = fg.tanh(h * 0.5 + x[0])
    {s}
    h = fg.sin(h) + x[1]
    {s}
    return h + x[2]
""",
    "replay": """
    t = 3
    h = fg.tanh(h * 0.5 + x[0])
    {s}
    h = fg.sin(h) + x[1]
    {s}
    return h + x[2]
""",
}


def source_of(statements: str, way: str, rounds: int = ROUNDS) -> str:
    """The source of a program."""
    body = WAYS[way]
    indent = next(line for line in body.splitlines() if "{s}" in line).partition("{")[0]
    lines = f"\n{indent}".join(statements.splitlines())
    return HEAD + "\ndef function(x, h):" + body.replace("{s}", lines).replace("{n}", str(rounds))


def namespace(source: str, name: str) -> dict[str, Any]:
    """What a program defines."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    found: dict[str, Any] = {"__name__": "made"}
    exec(compile(source, name, "exec", dont_inherit=True), found)
    return found


def is_same(ours: Any, theirs: Any) -> bool:
    """Whether two values are alike, but for rounding."""
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, fg.Tensor):
        if ours.requires_grad != theirs.requires_grad:
            return False
        return bool(fg.allclose(ours.detach(), theirs.detach(), rtol=1e-7, atol=1e-9, equal_nan=True))
    if isinstance(ours, (list, tuple)):
        return len(ours) == len(theirs) and all(map(is_same, ours, theirs))
    if isinstance(ours, dict):
        return [*ours] == [*theirs] and all(is_same(ours[k], theirs[k]) for k in ours)
    if isinstance(ours, float):
        return math.isclose(ours, theirs, rel_tol=1e-7, abs_tol=1e-9) or ours != ours
    return type(ours).__module__ == "made" or bool(ours == theirs)


def _outcome(world: dict[str, Any], function: Callable[..., Any], call: int, derived: bool) -> list[Any]:
    fg.manual_seed(call)
    x = fg.randn(ROUNDS, 3, dtype=fg.float64).requires_grad_(derived)
    h = fg.randn(3, dtype=fg.float64)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            made = function(x, h)
            if derived:
                made.sum().backward()
        except Exception as error:
            made = type(error), str(error)
        return [made, x.grad, printed.getvalue(), *world["seen"]()]


def difference(source: str, name: str, derived: bool = False, calls: int = CALLS) -> tuple[str, Any]:
    """What is other when a program is jitted, or ""; and the jitted function."""
    ours, theirs = namespace(source, name), namespace(source, name)
    jitted = fg.jit(ours["function"])
    for call in range(calls):
        expected = _outcome(theirs, theirs["function"], call, derived)
        found = _outcome(ours, jitted, call, derived)
        for number, (a, b) in enumerate(zip(found, expected, strict=True)):
            if not is_same(a, b):
                return f"call {call}, {number}: {a!r:.150} where eager has {b!r:.150}", jitted
    return "", jitted
