"""Native functions and their plain twins, on objects drawn at random."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pytest
from native_core import native_only

import fusegrad as fg
from fusegrad.compiler.llvm import llvm_jit
from fusegrad.compiler.llvm.function_writer import module_text
from fusegrad.compiler.native import calls, core
from fusegrad.compiler.native.apart import Apart
from fusegrad.compiler.native.calls import Call, Calls
from fusegrad.compiler.native.classes import Classes
from fusegrad.compiler.native.items import Items
from fusegrad.compiler.native.making import Making
from fusegrad.compiler.native.match import Match
from fusegrad.compiler.native.rounds import RoundsOfCalls
from fusegrad.eager.core.op import wrap
from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.values import Expected

pytestmark = native_only


@pytest.fixture(params=range(20))
def random(request: pytest.FixtureRequest) -> np.random.Generator:
    return np.random.default_rng(request.param)


def plain(monkeypatch: pytest.MonkeyPatch, make: Any) -> Any:
    """What `make` makes where the core is off."""
    with monkeypatch.context() as patch:
        patch.setattr(core, "_off", ["for a test"])
        return make()


def drawn_tensor(random: np.random.Generator) -> Any:
    """A small tensor, one of few kinds, so that some are alike."""
    dtype = (np.float32, np.int64)[random.integers(2)]
    array = np.zeros((4, 6), dtype)
    array = (array, array[:, ::2], array.T, array[0], array.reshape(2, 12)[1:])[random.integers(5)]
    tensor = wrap(array)
    tensor.needs_grad = bool(random.integers(4) == 0)
    if random.integers(6) == 0:
        array.flags.writeable = False
    return tensor


def test_match(random: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    with fg.inference_mode():
        odd: list[Any] = [1.5, None, np.zeros(3), fg.tensor([1.0]), fg.nn.Parameter(fg.ones(4, 6))]
    for _ in range(20):
        known = [drawn_tensor(random) for _ in range(random.integers(4))]
        alike, own = bool(random.integers(2)), bool(random.integers(2))
        natively = Match(known, alike, own).matches
        plainly = plain(monkeypatch, lambda known=known, a=alike, o=own: Match(known, a, o)).matches
        for _ in range(10):
            others = [drawn_tensor(random) if random.integers(5) == 0 else x for x in known]
            if known and random.integers(5) == 0:
                others[random.integers(len(known))] = odd[random.integers(len(odd))]
            if known and random.integers(5) == 0:
                others[random.integers(len(known))] = others[0]
            assert natively(*others) is plainly(*others)


def test_apart(random: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = np.zeros(200, np.float32)
    frozen = memory.copy()
    frozen.flags.writeable = False

    def part(of: np.ndarray) -> np.ndarray:
        begin = random.integers(180)
        return of[begin : begin + 8 : 2] if random.integers(2) else of[begin : begin + 8]

    for _ in range(20):
        read = [part(memory) for _ in range(random.integers(3))]
        tensors = [wrap(part(memory)) for _ in range(random.integers(1, 4))]
        stay = int(random.integers(len(tensors) + 1))
        written = {id(tensor) for tensor in tensors if random.integers(2)}

        def made(stay=stay, tensors=tensors, written=written, read=read) -> Apart:
            return Apart(tensors[:stay], tensors[stay:], written, read)

        both = made(), plain(monkeypatch, made)
        for turn in range(10):
            given: list[Any] = [part(memory) if random.integers(2) else array for array in read]
            for number, tensor in enumerate(tensors):
                moves = number >= stay or random.integers(8) == 0
                given.append(wrap(part(frozen if random.integers(6) == 0 else memory)) if moves else tensor)
            assert both[0].holds(*given) is both[1].holds(*given)
            if turn == 5:
                for one in both:
                    one.seen(given[len(read) :][:stay])


class Thing:
    """Of these there are weak references."""


def test_items(random: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    def value() -> Any:
        return (Thing(), None, True, False, [1], Thing)[random.integers(6)]

    for _ in range(20):
        held = {f"name{number}": value() for number in range(random.integers(6))}
        rows = [(name, Expected(x)) for name, x in held.items()] + [("absent", Expected(MISSING))]
        native, other = Items(rows), plain(monkeypatch, lambda rows=rows: Items(rows))
        for _ in range(10):
            given = {name: value() if random.integers(8) == 0 else x for name, x in held.items()}
            if random.integers(8) == 0:
                given["absent"] = value()
            if given and random.integers(8) == 0:
                del given[next(iter(given))]
            assert native.holds(given) is other.holds(given)


class Slots:
    """Of these another one is made."""

    __slots__ = ("a", "b", "c")


def test_making(random: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(10):
        like: Any = Slots() if random.integers(2) else None
        if like is not None:
            for name in Slots.__slots__[: random.integers(4)]:
                setattr(like, name, object())
        dtypes = [np.dtype(name) for name in ("f4", "f8", "i8", "?")]
        shapes = [tuple(random.integers(0, 4, random.integers(4)).tolist()) for _ in range(3)]
        arrays = [(slot, shape, dtypes[random.integers(4)]) for slot, shape in enumerate(shapes, 2)]
        wrapped = random.permutation(3)[: random.integers(4)].tolist()

        def make(arrays=arrays, wrapped=wrapped, like=like) -> Making:
            return Making(None, 64, arrays, wrapped, like)

        rows = [one.run(*[np.zeros(1)] * 4) for one in (make(), plain(monkeypatch, make))]
        natively, plainly = rows
        assert len(natively) == len(plainly) == 3 + len(wrapped) + (like is not None)
        for ours, theirs in zip(natively[:3], plainly[:3], strict=True):
            for what in ("shape", "strides", "dtype"):
                assert getattr(ours, what) == getattr(theirs, what)
            assert ours.flags.num == theirs.flags.num  # type: ignore[attr-defined]
        for row in rows:
            for tensor, number in zip(row[3:], wrapped, strict=False):
                assert tensor.array is row[number] and tensor.version == [0, 0]
            if like is not None:
                names = [name for name in Slots.__slots__ if hasattr(like, name)]
                assert [name for name in Slots.__slots__ if hasattr(row[-1], name)] == names
                assert all(getattr(row[-1], name) is getattr(like, name) for name in names)


def test_calls(random: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    (kernel,) = llvm_jit.compile_module(module_text([calls.trial_kernel()]), ["fusegrad_trial"])
    numbers = random.integers(0, 100, 5).tolist()

    def make() -> Calls:
        return Calls([Call(kernel, [number], shared=False) for number in numbers])

    for one in (make(), plain(monkeypatch, make)):
        for times in (1, 3):
            given, result = np.arange(5)[2:], np.zeros(4, np.int64)
            assert RoundsOfCalls(one, times, (), ()).run(given, result) is None
            assert result.tolist() == [times * (sum(numbers) + 5 * 2), 0, 0, 0]


def test_classes_have_no_versions_where_the_core_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "_off", ["for a test"])
    classes = Classes([Thing])
    assert classes.versions(Thing) == [0]
    classes.note(classes.versions(Thing))
    assert not classes.unchanged(Thing)


def test_nothing_is_held_of_what_is_asked() -> None:
    x, y, held = wrap(np.zeros(3)), wrap(np.zeros((2, 2))), Thing()
    matches, holds = Match([x, y]).matches, Apart([x], [y], {id(y)}).holds
    asked = Items([("held", Expected(held)), ("absent", Expected(MISSING))])
    things = [x, y, x.array, y.array, x.array.dtype, x.version, held, np.ndarray, Thing]
    given = {"held": held}
    before = [sys.getrefcount(thing) for thing in things]
    for one, other in itertools.product((x, y), (x, y, 1.5)):
        for _ in range(50):
            assert matches(one, other) is (one is x and other is y)
        if other is y:
            assert holds(one, other) is (one is x)
    del one, other
    for _ in range(50):
        assert asked.holds(given) and not asked.holds({})
    assert [sys.getrefcount(thing) for thing in things] == before
