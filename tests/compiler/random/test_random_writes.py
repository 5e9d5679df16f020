"""Programs put together at random of views, writes, hooks and modes: PyTorch, eager and jit must agree.

They compare what is returned, whether it requires grad, what was written into the arguments, the gradients,
and what hooks saw; each program on several calls with other data, some of them in another mode. PyTorch says
which statements make sense. More:
`PYTHONPATH=tests/helpers python tests/compiler/random/test_random_writes.py COUNT SEED`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import random
import re
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
import random_functions
from oracle import torch

import fusegrad as fg
from fusegrad.eager.core.op import REGISTRY
from fusegrad.tracer.record import memory

# {v} and {w}: names of tensors.
VIEWS = """
{v}[1:] | {v}[:-1] | {v}[::2] | {v}[..., 0] | {v}[0] | {v}[-1] | {v}[:, 1:] | {v}[None] | {v}[..., ::2]
{v}.t() | {v}.T | {v}.mT | {v}.transpose(0, -1) | {v}.reshape(-1) | {v}.flatten() | {v}.view(-1)
{v}.unsqueeze(0) | {v}.squeeze() | {v}.squeeze(0) | {v}.narrow(0, 0, 2) | {v}.select(0, 1) | {v}.diagonal()
{v}.expand(2, *{v}.shape) | {v}.movedim(0, -1) | {v}.chunk(2)[0] | {v}.split(1)[-1] | {v}.unbind()[0]
{v}.contiguous() | {v}.detach() | {v}.float() | {v}.view_as({v}) | {v}.reshape({v}.shape)
{v}.swapaxes(0, -1) | {v}.unflatten(-1, (2, -1)) | {v}.permute(*reversed(range({v}.dim())))
{v}.flatten(0, 1) | {v}.to(T.float32) | {v}.expand_as({v}) | {v}.ravel() | {v}.tensor_split(2)[-1]
{v}.data | {v}.as_strided((2,), (1,)) | {v}.view(T.int32).view(T.float32) | {v}.real | {v}.adjoint()
{v}.rot90() | {v}.hsplit(2)[0] | {v}.unfold(0, 2, 1) | {v}.unfold(-1, 2, 2) | {v}.unfold(0, 1, 1)
{v}.unfold(-1, 2, 1).detach() | {v}.detach()[1:] | {v}[1:].detach() | {v}.as_strided((2, 2), (1, 2))
{v}.as_strided((2, 2), (1, 1), 1) | {v}.as_strided((3,), (2,), 1).detach() | T.atleast_3d({v})
{v}.view(1, *{v}.shape) | T.broadcast_to({v}, (2, *{v}.shape)) | T.broadcast_tensors({v}, {w})[0]
{v}.vsplit(3)[1] | {v}.swapdims(0, -1)
"""
COPIES = """
{v} * 2 | {v} + {w} | {v}.clone() | {v}.flip(0) | T.cat([{v}.reshape(-1), {w}.reshape(-1)]) | {v}.sum()
{v}.sin() | T.where({v} > 1, {v}, -{v}) | {v}.mean(0) | T.stack([{v}, {v}]) | {v} @ {v}.mT | {v}[{v} > 1]
{v}[[0, 0]] | {v}.cumsum(0) | {v}.max() | T.zeros_like({v}) | {v}.roll(1) | {v}.masked_fill({v} > 2, 0.5)
{v}.detach() * 1 | {v}.index_select(0, T.tensor([0, 1])) | {v}.detach().clone() | {v}.clone().detach()
{v}.detach().requires_grad_() * 2
"""
WRITES = """
{v}.mul_(1.5) | {v}.add_(1) | {v}.add_({v}) | {v}.sub_({w}) | {v}.copy_({w}) | {v}.fill_(2.5) | {v}.zero_()
{v}[0] = 3 | {v}[...] = {w} | {v} += 1 | {v}[1:] *= 2 | {v}[::2] = {v}[::2].clone() + 1 | {v}.sin_()
{v}.clamp_(0, 3) | {v}.masked_fill_({v} > 2, 0.25) | {v}[{v} > 1] = 0.75 | {v}[[0]] = 1.25 | {v}.relu_()
{v}.index_add_(0, T.tensor([0]), {v}[:1].clone()) | {v}.exp_().clamp_(max=3) | {v}.neg_() | {v}.cumsum_(0)
{v}.index_fill_(0, T.tensor([0]), 0.5) | {v}.scatter_(0, T.zeros_like({v}, dtype=T.int64), 0.125)
{v}[..., -1] -= {v}[..., 0] | {v}.fill_diagonal_(4) | {v}.addcmul_({v}, {v}) | {v}.lerp_({w}, 0.5)
{v}.tril_() | {v}.put_(T.tensor([0]), T.tensor([9.0])) | {v}.resize_({v}.shape)
{v}.bernoulli_(1.0) | {v}[0], {v}[-1] = {v}[-1].clone(), {v}[0].clone() | {v}.fill_({w}.sum())
{v}.copy_({w}.detach()) | {v}.sign_() | {v}.detach().add_(1) | {v}.detach()[1:].zero_()
{v}[1:].detach().mul_(2) | {v}.detach().copy_({w}) | {v}.unfold(0, 2, 2).add_(1)
{v}.unfold(-1, 1, 2).zero_() | {v}.detach_() | {v}.squeeze_() | {v}.unsqueeze_(0) | {v}.transpose_(0, -1)
{v}.as_strided((2,), (1,)).mul_(3) | {v}.view(-1).zero_() | {v}.view(-1).fill_({w}.max())
"""
HOOKS = """
{v}.register_hook(lambda g: g * 2) | {v}.register_hook(lambda g: seen.append(g.sum().item()))
{v}.retain_grad()
"""
# What may stand around a statement.
AROUND = """
with T.no_grad(): | with T.enable_grad(): | with T.set_grad_enabled(False): | for _ in range(2):
if {v}.sum() > {c}: | if {v}.shape[0] > 1: | with T.set_grad_enabled({v}.requires_grad):
"""
# What we refuse, and PyTorch does: writes into parts of windows that overlap; other shapes for what views
# look at, and backwards past them.
REFUSED = (
    "refers to a single memory location",
    "on a leaf that has views",
    "has been modified by an inplace operation",
)
# What float32 sums of some hundred products are off by: four units in the last place, up or down.
ROUNDINGS = (-(2.0**-21), 2.0**-21)
MODES: dict[str, Callable[[ModuleType], Any]] = {
    "none": lambda T: contextlib.nullcontext(),
    "no_grad": lambda T: T.no_grad(),
    "set_grad_enabled": lambda T: T.set_grad_enabled(False),
    "anomaly": lambda T: T.autograd.detect_anomaly(),
    "inference": lambda T: T.inference_mode(),
}


def parts(table: str) -> list[str]:
    return [part.strip() for line in table.strip().split("\n") for part in line.split(" | ")]


TABLES = {
    kind: parts(table) for kind, table in list(globals().items()) if isinstance(table, str) and kind.isupper()
}


class Program(NamedTuple):
    """source: of a function `f(T, a, b, seen)`, which gives a list. gradients: whether `a` requires grad.

    wide: how many times as wide as usual the arguments are. modes: of each call.
    """

    source: str
    gradients: bool
    wide: int
    modes: tuple[str, ...]


class Outcome(NamedTuple):
    """What can be seen of a call: arrays, which of the results require grad, what hooks saw."""

    arrays: list[np.ndarray | None]
    flags: list[bool]
    seen: list[float]


_folder = tempfile.TemporaryDirectory()


def function_of(program: Program, name: str) -> Callable[..., Any]:
    """The program, in a file: of functions without one no replay can tell whether they changed."""
    path = Path(_folder.name) / f"{name}.py"
    path.write_text(program.source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] = module.f
    return function


def written(seed: int) -> Program:
    """Statements drawn one after the other; those that PyTorch refuses are drawn again."""
    rng = random.Random(seed)
    gradients = rng.random() < 0.6
    lines = ["z = a * 1.0"] if gradients or rng.random() < 0.5 else []
    names = ["a", "b", *(["z"] if lines else [])]
    for _ in range(rng.randint(4, 12)):
        for _ in range(20):
            statement, name, target = _statement(rng, names, gradients)
            made = [*names, name] if name else names
            if _makes_sense(lines, statement, made, target, gradients):
                lines += statement
                names += [name] if name else []
                break
    given = [n for n in names if n not in ("a", "b") or rng.random() < 0.5]
    rng.shuffle(given)
    results = [n if rng.random() < 0.2 else f"{n} * 1" for n in given[: rng.randint(1, 5)] or ["a"]]
    body = "".join(f"    {line}\n" for line in [*lines, f"return [{', '.join(results)}]"])
    # Where nothing is recorded no hook can be put on; and PyTorch's views are the odd ones of `is_recorded`.
    own = any(word in body for word in ("_hook(", "retain_grad(", "enable_grad", "grad_enabled"))
    possible = ["anomaly", "none"] if own else [*MODES, "none", "none"]
    modes = [rng.choice(possible) if rng.random() < 0.3 else "none" for _ in range(5)]
    return Program(f"def f(T, a, b, seen):\n{body}", gradients, rng.choice([1, 1, 1, 50]), ("none", *modes))


def _statement(rng: random.Random, names: list[str], gradients: bool) -> tuple[list[str], str, str]:
    """The lines of a statement, and the names that it makes and that it writes or hooks, or none."""
    kinds, weights = ("VIEWS", "COPIES", "WRITES", "HOOKS"), (40, 15, 40, 8 * gradients)
    kind = rng.choices(kinds, weights)[0]
    name = f"v{len(names)}" if kind in ("VIEWS", "COPIES") else ""
    v = rng.choice(names)
    text = rng.choice(TABLES[kind]).format(v=v, w=rng.choice(names))
    line = f"{name} = {text}" if name else text
    if rng.random() < (0.1 if name else 0.2):
        header = rng.choice(TABLES["AROUND"]).format(v=rng.choice(names), c=rng.choice([0, 1, 3, 10]))
        if not name or header.startswith("with"):  # what a branch makes need not be there
            return [header, f"    {line}"], name, "" if name else v
    return [line], name, "" if name else v


def _makes_sense(
    lines: list[str], statement: list[str], names: list[str], target: str, gradients: bool
) -> bool:
    """Whether PyTorch runs the statement after the lines, and all values are few, there and finite.

    target: what it writes or hooks. Writes to one place twice depend on the order. Hooks are put on
    new tensors that are no views, as is detach_(): others PyTorch loses after a write, or crashes.
    """
    scope: dict[str, Any] = {"T": torch, "seen": [], "a": _first(torch, 0, 1)}
    scope["b"] = torch.ones(3, 4) * 0.5
    if gradients:
        scope["a"].requires_grad_()
    try:
        exec("\n".join(lines), scope)
        if target and has_overlap(scope[target]):
            return False
        others = [n for n in re.findall(r"\w+", statement[-1]) if n != target and n in names]
        if target and any(in_part_alike(scope[target], scope[n]) for n in others):
            return False  # PyTorch reads there what it has written already, or not yet
        if target == "a" and gradients and "squeeze_(" in statement[-1]:
            return False  # no gradient fits its shape any more
        if "as_strided" in statement[-1] and any(scope[n]._is_view() for n in names if n in scope):
            return False  # past the view's own elements PyTorch's gradients depend on what was written before
        new = any(word in statement[-1] for word in ("_hook(", "retain_grad(", "detach_("))
        if new and (not lines[-1].startswith(f"{target} = ") or scope[target]._is_view()):
            return False
        exec("\n".join(statement), scope)
        tensors = [scope[n] for n in names]
        sane = all(bool(torch.isfinite(t).all()) and 0 < t.numel() < 2000 for t in tensors)
        return sane and all(is_recorded(t) or not t.requires_grad for t in tensors if t is not scope["a"])
    except Exception:
        return False


def places(tensor: Any) -> Any:
    """Where in its memory each element of a tensor of PyTorch's is."""
    all_places = torch.arange(tensor.untyped_storage().nbytes() // tensor.element_size())
    return all_places.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def has_overlap(tensor: Any) -> bool:
    """Whether two elements have one place in memory."""
    own = places(tensor)
    return own.unique().numel() < own.numel()


def in_part_alike(one: Any, other: Any) -> bool:
    """Whether two tensors have places in common, but are not element for element in the same."""
    if one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr():
        return False
    first, second = places(one), places(other)
    return not torch.equal(first, second) and bool(torch.isin(first, second).any())


def is_recorded(tensor: Any) -> bool:
    """Whether a tensor requires grad.

    In PyTorch views that no_grad made of what requires grad do so, too, against its documentation; not here.
    """
    return bool(tensor.requires_grad and not (tensor._is_view() and tensor.grad_fn is None))


def _first(T: Any, call: int, wide: int) -> Any:
    return T.arange(12.0 * wide).reshape(3, 4 * wide) / (4 * wide) - 1 + call * 0.3


def outcome(T: Any, function: Callable[..., Any], program: Program, call: int, nudge: int = 0) -> Outcome:
    """What a call of the program shows. nudge: other than 0, the arguments' numbers are off by roundings."""
    a, b = _first(T, call, program.wide), T.ones(3, 4 * program.wide) * 0.5
    if nudge:
        draw = np.random.default_rng(nudge)
        shape = a.shape if nudge % 2 else ()  # each number by its own, or all by one
        a, b = (t * T.tensor(1 + draw.choice(ROUNDINGS, shape).astype(np.float32)) for t in (a, b))
    seen: list[float] = []
    if program.gradients:
        a.requires_grad_()
    with MODES[program.modes[call]](T):
        results = function(T, a, b, seen)
    with MODES["anomaly" if program.modes[call] == "anomaly" else "none"](T):
        flags = [is_recorded(r) for r in results]
        arrays = [np.array(t.detach().numpy()) for t in (*results, a, b)]
        losses = [(r * r).sum() for r in results if is_recorded(r)]
        if losses:
            sum(losses[1:], losses[0]).backward()
            arrays.append(None if a.grad is None else np.array(a.grad.numpy()))
    return Outcome(arrays, flags, seen)


def sways(first: Outcome, function: Callable[..., Any], program: Program, call: int) -> list[float]:
    """By how much roundings of the arguments move each array that PyTorch's call, `first`, shows.

    Where sums cancel, or differences are divided by, more than roundings depends on the order of a sum. A run
    that comes out in another form, as past a branch, or raises, does not count.
    """
    moves = [0.0] * len(shown(first))
    for nudge in range(1, 9):
        other = attempt(torch, function, program, call, nudge)
        if not isinstance(other, Outcome) or form(other) != form(first):
            continue
        for index, (x, y) in enumerate(zip(shown(first), shown(other), strict=True)):
            if x is not None and x.size:
                moves[index] = max(moves[index], float(np.abs(x.astype(np.float64) - y).max()))
    return moves


def shown(found: Outcome) -> list[np.ndarray | None]:
    """All numbers of an outcome: its arrays, and what hooks saw."""
    return [*found.arrays, np.array(found.seen)]


def form(found: Outcome) -> Any:
    """What of an outcome is no number: which arrays there are, their dtypes, shapes, what requires grad."""
    return found.flags, [None if x is None else (x.dtype, x.shape) for x in shown(found)]


def differs(ours: Outcome, theirs: Outcome, moves: Sequence[float] = ()) -> str:
    """What is not alike, or nothing. moves: what arrays may be off beside the usual, from `sways`."""
    if form(ours) != form(theirs):
        return f"requires_grad, dtypes and shapes {form(ours)}, not {form(theirs)}"
    for index, (x, y) in enumerate(zip(shown(ours), shown(theirs), strict=True)):
        near = 2e-4 + (4 * moves[index] if moves else 0)
        if x is not None and y is not None and not np.allclose(x, y, 2e-4, near, equal_nan=True):
            return f"{x}, not {y}"
    return ""


def attempt(*call: Any) -> Outcome | Exception:
    """The outcome of a call, or the error that it raised."""
    try:
        return outcome(*call)
    except Exception as error:
        return error


def check(seed: int) -> Any:
    """Run one program; the jitted function. Raises AssertionError for a difference."""
    program = written(seed)
    function = function_of(program, f"random_writes_{seed}")
    jitted = fg.jit(lambda a, b, seen: function(fg, a, b, seen))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in range(len(program.modes)):
            theirs = attempt(torch, function, program, call)
            if not isinstance(theirs, Outcome) or not all(
                a is None or np.isfinite(a).all() for a in theirs.arrays
            ):
                continue
            eager = attempt(fg, function, program, call)
            compiled = attempt(fg, lambda T, a, b, seen: jitted(a, b, seen), program, call)
            for name, ours in (("eager", eager), ("jit", compiled)):
                if isinstance(ours, RuntimeError) and any(text in str(ours) for text in REFUSED):
                    break
                what = repr(ours) if isinstance(ours, Exception) else differs(ours, theirs)
                if isinstance(ours, Outcome) and what:
                    what = differs(ours, theirs, sways(theirs, function, program, call))
                if what:
                    where = f"seed {seed}, call {call} ({program.modes[call]}), {name}: {what}"
                    raise AssertionError(f"{where}\n{program.source}")
    return jitted


@pytest.mark.parametrize("start", range(0, 100, 20))
def test_programs_with_views_and_writes_do_as_in_pytorch(start: int):
    jitted = [check(seed) for seed in range(start, start + 20)]
    assert sum("(replay)" in str(j.explain()) for j in jitted) >= 3


def bits(found: Outcome | Exception) -> Any:
    """All that can be seen, to the bit."""
    if isinstance(found, Exception):
        return type(found)
    return [None if a is None else (a.shape, a.tobytes()) for a in found.arrays], found.flags, found.seen


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(5000, 5030))
def test_what_was_called_before_does_not_tell_in_bits(seed: int):
    program = written(seed)
    function = function_of(program, f"random_bits_{seed}")
    calls = [*range(len(program.modes))] * 2
    random.Random(seed).shuffle(calls)
    fg.use_deterministic_algorithms(True)
    try:
        known = fg.jit(lambda a, b, seen: function(fg, a, b, seen))
        for call in calls:
            fresh = fg.jit(known.__wrapped__)
            found, expected = (
                attempt(fg, lambda T, *given, f=f: f(*given), program, call) for f in (known, fresh)
            )
            assert bits(found) == bits(expected), program.source
            eager = attempt(fg, function, program, call)
            assert isinstance(eager, Exception) or not differs(found, eager), program.source
    finally:
        fg.use_deterministic_algorithms(False)


def is_found(seeds: range) -> bool:
    """Whether one of these programs differs."""
    for seed in seeds:
        try:
            check(seed)
        except AssertionError:
            return True
    return False


# Seeds among which there are programs that meet the fault.


def test_a_view_taken_for_a_copy_is_found(monkeypatch: pytest.MonkeyPatch):
    torch.ones(1)
    monkeypatch.setattr(memory, "_shares", lambda array, source: False)
    monkeypatch.setattr(memory, "_memory", id)
    assert is_found(range(10))


@pytest.mark.parametrize("name, seeds", [("rewritten", range(319, 325)), ("overwritten", range(270, 276))])
def test_a_write_that_loses_a_gradient_is_found(name: str, seeds: range, monkeypatch: pytest.MonkeyPatch):
    torch.ones(1)
    monkeypatch.setattr(REGISTRY[name], "rules", None)
    assert is_found(seeds)


if __name__ == "__main__":
    random_functions.run(check)
