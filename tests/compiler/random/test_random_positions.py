"""Programs put together at random that read and write tensors at numbers which are others at each call.

More of them: `PYTHONPATH=tests/helpers python tests/compiler/random/test_random_positions.py COUNT SEED`.
"""

from __future__ import annotations

import linecache
import random
from typing import Any

import numpy as np
import pytest
import random_functions

import fusegrad as fg
from fusegrad.tracer.observe.arrays import positions

SIZE, WIDTH, CALLS = 12, 4, 14
WIDE = 20  # what is as short as WIDTH may be taken apart
NUMBERS = [
    "i", "i + 1", "i - 2", "-i - 1", "i % 4", "2 * i", "j", "j + i % 2", "held.n", "int(t)", "t.item() + 1",
    "min(i, 5)", "held.n - j", "len(a) - 1 - i",
]  # fmt: skip
INDICES = [
    "{n}", "{n} : {n} + 2", "{n} - 1 : {n} + 1", "..., {m}", ":, {m}", "{n}, 1:", "None, {n}",
    "{n} : {n} + 3, {m}",
]  # fmt: skip
STATEMENTS = [
    "a = a + {x}[{index}].sum()", "b = {x}[{index}] * 2; a = a + b.mean()", "{x}[{index}] = {k}",
    "{x}[{index}] = {y}[{index}] * 2", "{x}[{index}] = {y}[{index}]", "{x}[{index}] += {k}",
    "{x}[{index}].mul_({k})", "a = a * {x}[{n}]", "a = a + {y}; c = {x} * 1", "held.n = held.n + 1",
    "if {n} > 3: a = a * 0.5", "cache[i] = a[0]", "cache[:, i % 4] = a[:, 1]", "out.append({x}[{index}])",
    "mask = fg.arange(12) <= {n}; a = a * mask[:, None]", "for k in range(2): a = a + cache[i + k]",
    "with fg.no_grad(): cache[i : i + 2] = a[:2]", "r = {x}[{index}]; r += {k}; a = a + r.mean()",
    "r = {x}[{index}]; {y}[{n}] = {k}; a = a + r.sum()", "{x}[{index}] *= {k}; a = a + {y}[{index}].mean()",
    "r = {x}[{index}]; s = {x}[{n}]; r.mul_({k}); a = a + s.sum(); s += 1; a = a * r.mean()",
    "r = {x}[{index}]; r += a.mean(); a = a + r.sum()", "cache[{n}] += a[0]; a = a + cache[{m0}].sum()",
    "{x}[{n}][1:] += {y}[{n}][:-1]", "out.append({x}[{n}]); {x}[{n}] -= {k}",
]  # fmt: skip


def source(seed: int) -> tuple[str, bool]:
    """A program, and whether it is derived."""
    draw = random.Random(seed)

    def number() -> str:
        return draw.choice(NUMBERS)

    lines = []
    for _ in range(draw.randint(1, 4)):
        line = draw.choice(STATEMENTS)
        index = draw.choice(INDICES)
        n = number()
        index = index.format(n=f"({n})", m=f"({number()}) % {WIDTH}")
        x, y = draw.choice(["a", "cache", "c"]), draw.choice(["a", "cache", "c"])
        lines.append(
            line.format(index=index, n=n, x=x, y=y, m0=number(), k=draw.choice(["1.5", "2", "i", "0.25"]))
        )
    body = "\n    ".join(lines)
    return (
        "def function(a, c, i, t):\n    out, a = [], a * 1\n    j = random.randint(0, 6)\n"
        f"    {body}\n    return a.sum(), a * 2, c + 0, *[o * 1 for o in out]\n"
    ), draw.random() < 0.3


class _Held:
    n = 2


def _history(text: str, name: str, derived: bool, jitted: bool, width: int) -> list[Any]:
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    draw, held = np.random.default_rng(0), _Held()
    cache = fg.tensor(draw.standard_normal((SIZE, width)))
    world: dict[str, Any] = {"fg": fg, "random": random, "held": held, "cache": cache}
    exec(compile(text, name, "exec"), world)
    function = fg.jit(world["function"]) if jitted else world["function"]
    random.seed(5)
    found: list[Any] = []
    for call in range(CALLS):
        i = [1, 2, 3, 4, 5, 2, 7, 0, 9, 10, 3, -1, 12, 4][call]
        a, c = (fg.tensor(draw.standard_normal((SIZE, width))) for _ in range(2))
        a.requires_grad_(derived)
        held.n = 2 + call % 5
        try:
            made = function(a, c, i, fg.tensor(call % 6))
            if derived and made[0].requires_grad:
                made[0].backward()
                found.append(a.grad.numpy())
            found += [m.detach().numpy().copy() for m in made]
        except (IndexError, RuntimeError) as error:
            found.append(type(error).__name__)
            cache.detach_()  # what an error leaves half done is not compared
            with fg.no_grad():
                cache.copy_(fg.tensor(draw.standard_normal((SIZE, width))))
            continue
        found += [cache.detach().numpy().copy(), c.detach().numpy().copy(), held.n]
        cache.detach_()
    return found


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.shape == other.shape and np.allclose(one, other, 1e-9, 1e-11, equal_nan=True)
    return type(one) is type(other) and bool(one == other)


def check(seed: int) -> None:
    """Compare one program."""
    text, derived = source(seed)
    width = WIDTH if seed % 2 else WIDE
    name = f"<positions {seed}>"
    right, found = (_history(text, name, derived, jitted, width) for jitted in (False, True))
    for place, (one, other) in enumerate(zip(found, right, strict=False)):
        assert _is_same(one, other), f"{text}derived: {derived}, at {place}:\n{one}\nand not\n{other}"
    assert len(found) == len(right), text


@pytest.mark.parametrize("seed", range(12))
def test_random_positions(seed: int) -> None:
    check(seed)


def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices from behind count as those from the begin."""
    monkeypatch.setattr(positions.operator, "ge", lambda a, b: True, raising=False)
    monkeypatch.setitem(globals(), "STATEMENTS", STATEMENTS[:17])  # of which more read windows
    assert random_functions.differing(check, range(200))


if __name__ == "__main__":
    random_functions.run(check)
