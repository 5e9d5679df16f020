"""Programs put together at random of tensors that are of other sizes at each call: caches that grow, in
objects, lists and dicts, that begin anew, or are cut; parts of tensors up to a number; sizes that decide.

More of them: `PYTHONPATH=tests/helpers python tests/compiler/random/test_random_growth.py COUNT SEED`.
"""

from __future__ import annotations

import linecache
import random
from typing import Any

import numpy as np
import pytest
import random_functions

import fusegrad as fg
from fusegrad.compiler.deferred.op_trie import Plan
from fusegrad.compiler.deferred.polymorphic_region import Form

WIDTH, CALLS, ROOM = 4, 26, 120
GROWTH = [
    "held.rows = fg.cat([held.rows, x])", "held.rows = fg.cat([x * 2, held.rows], 0)",
    "held.rows = fg.cat([held.rows, a])", "held.rows = fg.cat([held.rows, x])[-{k}:]",
    "held.named['rows'] = fg.cat([held.named['rows'], x]); held.rows = held.named['rows'] * 1",
    "held.listed[0] = fg.cat([held.listed[0], x.T], 1); held.rows = held.listed[0].T",
    "held.rows, held.count = fg.cat([held.rows, x]), held.count + len(x)",
    "held.count = held.count + 1; held.rows = room[: held.count] * 1",
]  # fmt: skip
ROWS = [
    "held.rows",
    "held.rows * 2",
    "room[:n]",
    "room[: len(held.rows)]",
    "room[n - 1 : 2 * n]",
    "held.rows[{k}:]",
]
USES = [
    "a = a + (x @ ({r}).T).softmax(-1) @ ({r})", "a = a + ({r}).sum(0)", "a = a + ({r}).amax()",
    "a = a + ({r}).mean(1).sum()", "a = a + fg.cumsum({r}, 0)[-1]", "a = a + ({r}).flip(0)[0]",
    "a = a + ({r}).roll(1, 0)[0]", "a = a + ({r}).sort(0).values[0]", "a = a + ({r}).reshape(-1)[:4]",
    "if len({r}) > {k}: a = a * 0.5", "if ({r}).shape[0] % 3 == 0: a = a + 1", "a = a + ({r}).shape[0]",
    "a = a + ({r}).numel() * 0.1", "a = a / len({r})", "held.count = held.count + len({r})",
    "a = a + (({r}) * (fg.arange(len({r})) <= {k})[:, None]).sum(0)",
    "a = a + ({r})[fg.arange(len({r})) % 2 == 0].sum(0)", "a = a + ({r})[[0, -1]].sum(0)",
    "a = a + ({r})[fg.arange(len({r})), fg.arange(len({r})) % 4].sum()",
    "a = a + ({r}).expand(2, -1, -1).mean((0, 1))", "a = a + fg.ones(len({r}), dtype=a.dtype) @ ({r})",
    "a = a + fg.tril(({r}) @ ({r}).T).sum()", "a = a + fg.nn.functional.pad({r}, (0, 0, 1, 2))[1]",
    "a = a + fg.stack([{r}, {r}]).mean((0, 1))", "a = a + ({r}).chunk(2)[0].sum(0)",
    "a = a + ({r}).split(3)[-1].mean(0)", "a = a + ({r}).view(-1, 2, 2).amax((0, 1)).sum()",
    "for row in ({r})[:3]: a = a + row * 0.1", "out.append(({r}) * 1)",
    "a = a + ({r}).unsqueeze(1).sum((0, 1))", "a = a + fg.where({r} > 0, {r}, 0.5).sum(0)",
    "a = a + fg.nn.functional.scaled_dot_product_attention(x[None], ({r})[None], ({r})[None])[0]",
    "a = a + fg.cat([{r}, x]).logsumexp(0)", "a = a + ({r}).norm()",
    "a = a + room[({r}).argmax(0)].sum(0)", "a = a + ({r}).repeat(2, 1).std()", "out.append(x * len({r}))",
]  # fmt: skip


def source(seed: int) -> str:
    """A program."""
    draw = random.Random(seed)
    lines = []
    for growth in [True] + [draw.random() < 0.25 for _ in range(draw.randint(1, 4))]:
        k = draw.choice(["1", "2", "5", "9", "n"])
        rows = draw.choice(ROWS).format(k=draw.choice(["1", "-3", "-6"]))
        lines.append(draw.choice(GROWTH if growth else USES).format(r=rows, k=k))
    if draw.random() < 0.5:
        lines.append("held.rows = held.rows.detach()")
    body = "\n    ".join(lines)
    return (
        "def function(x, held, n):\n    out, a = [], x @ weight\n"
        f"    {body}\n    return a.sum(), a * 2, *[o * 1 for o in out]\n"
    )


class _Held:
    def __init__(self, rows: int) -> None:
        self.rows = fg.zeros(rows, WIDTH, dtype=fg.float64)
        self.named, self.listed, self.count = {"rows": self.rows + 1}, [self.rows.T * 1], rows + 1


def _history(seed: int, text: str, jitted: bool) -> list[Any]:
    name = f"<growth {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    draw, choose = np.random.default_rng(seed), random.Random(seed)
    derived = choose.random() < 0.4
    weight = fg.tensor(draw.standard_normal((WIDTH, WIDTH))).requires_grad_(derived)
    world: dict[str, Any] = {"fg": fg, "weight": weight}
    world["room"] = fg.tensor(draw.standard_normal((ROOM, WIDTH)))
    exec(compile(text, name, "exec"), world)
    function = fg.jit(world["function"]) if jitted else world["function"]
    found: list[Any] = []
    for call in range(CALLS):
        if call % 9 == 0 and (call == 0 or choose.random() < 0.5):
            held = _Held(choose.choice([0, 1, 3]))
        elif call % 9 == 0:
            held.__init__(choose.choice([1, 2]))  # type: ignore[misc]
        x = fg.tensor(draw.standard_normal((choose.choice([1, 1, 1, 1, 2, 5]), WIDTH)))
        try:
            made = function(x, held, 1 + (call * 5) % 13)
            if derived and choose.random() < 0.7:
                made[0].backward(retain_graph=True)
                found.append(weight.grad.numpy().copy())
                weight.grad = None
            found += [m.detach().numpy().copy() for m in made]
        except (IndexError, RuntimeError) as error:
            found.append(type(error).__name__)
        found += [held.rows.detach().numpy().copy(), held.count]
    return found


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.shape == other.shape and np.allclose(one, other, 1e-9, 1e-9, equal_nan=True)
    return type(one) is type(other) and bool(one == other)


def check(seed: int) -> None:
    """Compare one program; every other one is deferred whether that is faster or not."""
    text = source(seed)
    defers = Plan.defers
    if seed % 2:
        Plan.defers = lambda plan: True  # type: ignore[method-assign]
    try:
        right, found = (_history(seed, text, jitted) for jitted in (False, True))
    finally:
        Plan.defers = defers  # type: ignore[method-assign]
    for place, (one, other) in enumerate(zip(found, right, strict=False)):
        assert _is_same(one, other), f"{text}at {place}:\n{one}\nand not\n{other}"
    assert len(found) == len(right), text


@pytest.mark.parametrize("seed", range(8))
def test_random_growth(seed: int) -> None:
    check(seed)


def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A form answers for sizes that it was not made for."""
    known = Form.at
    monkeypatch.setattr(Form, "at", lambda form, sizes: known(form, sizes) or form.stretch)
    assert random_functions.differing(check, range(1, 30, 2))


if __name__ == "__main__":
    random_functions.run(check)
