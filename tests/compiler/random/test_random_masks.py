"""Training steps put together at random, with sizes that values decide: PyTorch, eager and jit must agree.

A step chooses rows by masks (arguments, buffers, comparisons), by `nonzero`, `unique` and repetitions,
computes with them, writes through masks, and trains by what comes out. How many rows there are is another
number from call to call. What it returns and leaves is compared. More:
`PYTHONPATH=tests/helpers python tests/compiler/random/test_random_masks.py COUNT SEED`.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import planted
import pytest
import random_functions
from oracle import torch

import fusegrad as fg
from fusegrad.compiler.placement import memory_plan
from fusegrad.tracer.record.doors import Doors

PROGRAMS, CALLS, ROWS = 4, 10, (7, 19)
# {k}: a mask of rows; {v}, {w}: tensors of rows; {c}, {d}: rows that were chosen by one mask, {m}.
MASKS = """
m | ~m | m & (h[:, 0] > 0) | h.detach().sum(1) > 0.5 | keep | m | x[:, 0] < 0.3 | labels > 0
"""
CHOSEN = """
{v}[{k}] | {v}[{k}.nonzero().squeeze(1)] | {v}[{k}.nonzero(as_tuple=True)] | {v}[T.where({k})] | {v}[{k}]
{v}.index_select(0, {k}.nonzero().flatten()) | {v}[{k}, :] | T.masked_select({v}, {k}[:, None]).reshape(-1, 4)
"""
OTHERS = """
{v}[({k}.long() * 2).unique()] | {v}.repeat_interleave({k}.long() + 1, 0) | T.masked_select({v}, {v} > 0.3)
{v}[{v} > 0] | {v}[{k}].flatten() | {v}[{k}, :2] | {v}[{k}][:, 1] | {v}.T[:, {k}]
{v}[{v}.abs() < 1].reshape(-1) | {v}[{v} > 0].log() | 1 / {v}[{v}.abs() > 0.2]
({v}[{v} > 0.1] + bias[0]).abs().sqrt() | {v}[{k} & ({v}[:, 0] > 0.1)][:, 0].log()
{v}[{k}].T @ {v}[{k}] | square[labels[{k}]] * {v}[{k}]
"""
COMPUTED = """
T.tanh({c}) | {c} * 2 + 1 | {c} * bias | {c} - {d} | {c}.square() | {c} / ({d}.square() + 1) | -{c}
{c}.exp() * 0.1 | {c} - {c}.mean(1, keepdim=True) | F.layer_norm({c}, (4,)) | {c} @ square
T.where({c} > 0, {c}, {d}) | F.gelu({c}) | F.log_softmax({c}, 1) | {c} * {d}.detach()
{c}.clamp(min=0) | 1 / ({c}.abs() + 0.5) | T.log({c}.abs() + 0.1) | {c} + {v}[{m}]
"""
REDUCED = """
{c}.sum() | {c}.mean() | {c}.square().sum() | {c}.sum(0).square().sum() | {c}.mean(0).square().sum()
{c}.square().sum() / max(len({c}), 1) | F.mse_loss({c}, {d}) | F.cross_entropy({c}, labels[{m}])
F.cross_entropy({c}, labels[{m}], reduction="sum") | {c}.sum(1).tanh().sum() | {c}.abs().mean()
{c}.square().sum() / {c}.shape[0] if {c}.shape[0] else {c}.sum() | {c}.sum() * (2 if len({c}) > 3 else 1)
{c}.exp().sum() / {c}.numel() ** 0.5 | ({c} * {c}.size(0)).mean() | {c}.sum() if {c}.numel() else bias.sum()
F.smooth_l1_loss({c}, {d}.detach()) | {c}.sum() / {m}.sum() | F.cross_entropy({c}, labels[{m}]) * 0.5
"""
WRITES = """
{v}[{k}] = 0.5 | {v}[{k}] += 1 | {v}[{k}] *= {w}[{k}] | {v}[{k}] = {w}[{k}] * 2
{v}[{k}] = 0 | {v}[{k}] += bias
{v}[{k}, 0] = 1.5 | {v}[{k}] = bias | {v}.masked_fill_({k}[:, None], 0.25) | {v}[{v} > 1] = 0.5
"""
HEAD = """
def make(T, w, bias, square, keep, optimizer):
    F = T.nn.functional
    def step(x, m, labels):
        optimizer.zero_grad()
        h = x @ w
"""
TAIL = """
        loss.backward()
        optimizer.step()
        return loss, {results}
    return step
"""


def _one(pick: random.Random, text: str) -> str:
    return pick.choice([t.strip() for line in text.strip().splitlines() for t in line.split("|")])


def source_of(pick: random.Random) -> str:
    """The text of a program: a maker of a step."""
    tensors, terms, results = ["h"], [], ["h.detach().sum(0)"]
    lines: list[str] = []

    def say(template: str, **names: str) -> str:
        return template.format(v=pick.choice(tensors), w=pick.choice(tensors), **names)

    for number in range(pick.choice([1, 1, 2])):
        mask = f"k{number}"
        lines.append(f"{mask} = {_one(pick, MASKS)}")
        if pick.random() < 0.4:
            lines.append(f"t{number} = {pick.choice(tensors)} * 1")
            tensors.append(f"t{number}")
            lines.append(say(_one(pick, WRITES), k=mask).replace("h[", f"t{number}[", 1))
            if lines[-1].startswith("h."):
                lines[-1] = f"t{number}{lines[-1][1:]}"
            terms.append(f"{tensors[-1]}.square().mean()")
        if pick.random() < 0.25:
            lines.append(f"o{number} = {say(_one(pick, OTHERS), k=mask)}")
            terms.append(f"o{number}.tanh().sum()")
            results += [f"o{number}.detach()"] * (pick.random() < 0.4)
        rows = [f"r{number}_0", f"r{number}_1"]
        for row in rows:
            lines.append(f"{row} = {say(_one(pick, CHOSEN), k=mask)}")
        for step in range(pick.randrange(0, 4)):
            made = f"r{number}_{step + 2}"
            names = {"c": pick.choice(rows), "d": pick.choice(rows), "m": mask}
            lines.append(f"{made} = {say(_one(pick, COMPUTED), **names)}")
            rows.append(made)
        terms.append(say(_one(pick, REDUCED), c=rows[-1], d=pick.choice(rows), m=mask))
        if pick.random() < 0.1:
            results.append(f"{rows[-1]}.detach()")
    lines.append(f"loss = {' + '.join(terms)} + h.square().mean()")
    body = "".join(f"        {line}\n" for line in lines)
    return HEAD.strip() + "\n" + body + TAIL.strip("\n").format(results=", ".join(results)) + "\n"


FOLDER = tempfile.TemporaryDirectory()


class World:
    """A step, made in one library."""

    def __init__(self, text: str, name: str, library: Any, rows: int, jitted: bool = False) -> None:
        path = Path(FOLDER.name) / f"{name}.py"
        path.write_text(text)
        scope: dict[str, Any] = {}
        exec(compile(text, str(path), "exec", dont_inherit=True), scope)
        numbers = np.random.default_rng(3)
        self.library = library
        self.first = [numbers.normal(size=s).astype("f4") for s in ((5, 4), (4,), (4, 4))]
        self.parameters = [library.tensor(a).requires_grad_(True) for a in self.first]
        keep = library.tensor(numbers.random(rows) < 0.6)
        optimizer = library.optim.SGD(self.parameters, lr=0.05)
        self.step = scope["make"](library, *self.parameters, keep, optimizer)
        self.called = fg.jit(self.step) if jitted else self.step

    def call(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """What a call gives and leaves, from parameters that are as at first."""
        with self.library.no_grad():
            for parameter, array in zip(self.parameters, self.first, strict=True):
                parameter.copy_(self.library.tensor(array))
        with np.errstate(all="ignore"):
            made = self.called(*map(self.library.tensor, arrays))
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        return [t.detach().numpy() for t in (*made, *self.parameters, *gradients)]


def drawn(pick: random.Random, seed: int, rows: int) -> list[np.ndarray]:
    """Arguments: how many of the mask are true differs from call to call."""
    numbers = np.random.default_rng(seed)
    mask = numbers.random(rows) < pick.choice([0.0, 0.15, 0.5, 0.5, 0.8, 1.0])
    return [numbers.normal(size=(rows, 5)).astype("f4"), mask, numbers.integers(0, 4, rows)]


def _called(world: World, arrays: list[np.ndarray]) -> Any:
    """What a call gives and leaves; None where backward needs what was written over."""
    try:
        return world.call(arrays)
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error), error
        return None


def check(seed: int, calls: int = CALLS) -> World:
    """Run a program in all ways."""
    pick = random.Random(seed)
    text = source_of(pick)
    names = [("torch", torch, False), ("eager", fg, False), ("jit", fg, True)]
    rows = ROWS[seed % len(ROWS)]
    worlds = [World(text, f"{name}{seed}", library, rows, jitted) for name, library, jitted in names]
    for call in range(calls):
        arrays = drawn(pick, 1000 * seed + call, rows)
        theirs, eagers, jits = (_called(world, [a.copy() for a in arrays]) for world in worlds)
        if theirs is None:  # PyTorch keeps more for backward
            theirs = eagers
        assert (eagers is None) is (jits is None), text
        if eagers is None:
            continue
        words = f"seed {seed}, call {call}, {arrays[1].astype(int)}\n{text}"
        for expected, found, library in ((eagers, jits, "eager"), (theirs, eagers, "torch")):
            assert [a.shape for a in found] == [a.shape for a in expected], f"{library}, {words}"
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=3e-4, atol=3e-5, err_msg=f"{library}, {words}")
    return worlds[2]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_steps_with_masks_agree(seed: int) -> None:
    check(seed)


def test_a_size_that_is_not_guarded_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the guard of the capture nor by what looks at results before native code goes on."""

    def unguarded(self: Doors, tensor: Any, asked: Any, count: Any) -> int:
        return int(self._recorder.later.at_once(count).array)

    monkeypatch.setattr(Doors, "size", unguarded)
    monkeypatch.setattr(memory_plan, "_check_types", lambda *types: None)
    assert any(planted.finds(check, seed) for seed in range(PROGRAMS))


if __name__ == "__main__":
    random_functions.run(check)
