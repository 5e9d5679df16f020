"""What files may name that are loaded with `weights_only=True`: as PyTorch has it, name by name."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import io
import os
import pickle
from typing import Any

import numpy as np
import pytest
from archives import repack
from oracle import torch

import fusegrad as fg
from fusegrad.eager.io.allowed import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from fusegrad.torch.supplied.serialization import get_unsafe_globals_in_checkpoint

LIBRARIES = (
    (fg, safe_globals, get_unsafe_globals_in_checkpoint),
    (torch, torch.serialization.safe_globals, torch.serialization.get_unsafe_globals_in_checkpoint),
)
Point = collections.namedtuple("Point", ["x", "y"])


@dataclasses.dataclass
class Plain:
    x: Any
    y: Any = None


@dataclasses.dataclass
class Slots:
    __slots__ = ["x", "y"]
    x: Any
    y: Any


@dataclasses.dataclass
class SomeSlots(Slots):
    z: Any


class Stated:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __getstate__(self) -> Any:
        return ("state", self.x)

    def __setstate__(self, state: Any) -> None:
        self.x = state[1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stated) and self.x == other.x

    __hash__ = None  # type: ignore[assignment]


class Reduced:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.reduced = function, arguments

    def __reduce__(self) -> Any:
        return self.reduced


class Listed(list[Any]):
    pass


def fails(*_: Any) -> Any:
    raise LookupError("of the program's own")


CASES: dict[str, tuple[Any, list[Any]]] = {
    "a named tuple": (Point(1, [2]), [Point]),
    "a dataclass": (Plain(1, {"a": (2,)}), [Plain]),
    "slots": (Slots(1, "b"), [Slots]),
    "some slots": (SomeSlots(1, 2, "c"), [SomeSlots]),
    "its own state": (Stated(3), [Stated]),
    "two classes": ([Point(Plain(1), 2)], [Point, Plain]),
    "one of two": ([Point(Plain(1), 2)], [Point]),
    "a function": (Reduced(max, 1, 2), [max]),
    "another name": (Plain(1), [(Plain, f"{Plain.__module__}.Plain")]),
    "a wrong name": (Plain(1), [(Plain, "no.such.Plain")]),
    "of the library": (datetime.timedelta(2, 3), [datetime.timedelta]),
    "a class by itself": ([Plain], [Plain]),
    "a list of a class": (Listed([1]), [Listed]),
    "what raises": (Reduced(fails, 1), [fails]),
    "blocked": (Reduced(os.getpid), [os.getpid]),
    "a bound method": (Reduced(getattr, "a", "upper"), [str]),
    "bytes of two kinds": ([b"\x00\xff", bytearray(b"ab")], []),
    "plain": ({"a": [1, (2.5, None, True)], "s": {1}, "c": 1 - 2j}, []),
}


def outcome(lib: Any, content: bytes) -> Any:
    try:
        return lib.load(io.BytesIO(content), weights_only=True)
    except Exception as error:
        return type(error), *(word in str(error) for word in ("not an allowed global", "is blocked"))


@pytest.mark.parametrize("name", CASES)
def test_what_may_be_named_is_what_pytorch_lets(name: str) -> None:
    value, kinds = CASES[name]
    for save in (fg.save, torch.save):
        file = io.BytesIO()
        save(value, file)
        found = []
        for lib, allow, unsafe in LIBRARIES:
            before = outcome(lib, file.getvalue())
            names = sorted(unsafe(io.BytesIO(file.getvalue())))
            with allow(kinds):
                within, left = outcome(lib, file.getvalue()), sorted(unsafe(io.BytesIO(file.getvalue())))
            again = outcome(lib, file.getvalue())
            # Where what is called may not be, PyTorch's words are others.
            found.append((before, names, None if name == "a list of a class" else within, left, again))
        assert found[0] == found[1]


def test_a_list_of_what_is_allowed() -> None:
    clear_safe_globals()
    add_safe_globals([Plain, Point])
    with safe_globals([Slots]):
        assert set(get_safe_globals()) == {Plain, Point, Slots}
    assert set(get_safe_globals()) == {Plain, Point}
    clear_safe_globals()
    assert get_safe_globals() == []
    for wrong, error in (((Plain,), ValueError), ((Plain, 3), TypeError)):
        file = io.BytesIO()
        fg.save([1], file)
        file.seek(0)
        with safe_globals([wrong]), pytest.raises(error, match="Expected"):
            fg.load(file)


def test_modules_are_allowed_by_pytorchs_names() -> None:
    """A file of either library names PyTorch's classes; here they are ours."""
    kinds = "Sequential Linear ReLU".split()
    for save, lib in ((fg.save, fg), (torch.save, torch)):
        file = io.BytesIO()
        save(lib.nn.Sequential(lib.nn.Linear(2, 1), lib.nn.ReLU()), file)
        with pytest.raises(pickle.UnpicklingError, match=r"torch\.nn\.modules\.container\.Sequential"):
            fg.load(io.BytesIO(file.getvalue()))
        with safe_globals([getattr(fg.nn, kind) for kind in kinds]):
            loaded = fg.load(io.BytesIO(file.getvalue()))
        assert type(loaded) is fg.nn.Sequential and loaded(fg.ones(1, 2)).shape == (1, 1)


def test_damaged_instructions_run_nothing_that_is_not_allowed(tmp_path: Any) -> None:
    """Bytes of pickles that name allowed classes are changed: only these are ever called."""
    called = []

    class Watched:
        def __new__(cls, *given: Any) -> Any:
            called.append(cls)
            return object.__new__(cls)

    Watched.__qualname__, Watched.__module__ = "Watched", __name__
    globals()["Watched"] = Watched
    file = io.BytesIO()
    made = Watched()
    vars(made).update(x=[1, (2, "a")], y=fg.arange(4))
    fg.save({"w": made, "t": fg.ones(3), "n": np.arange(3)}, file, pickle_protocol=2)
    random = np.random.default_rng(0)
    outcomes: collections.Counter[str] = collections.Counter()
    for _ in range(400):

        def change(described: bytes) -> bytes:
            changed = bytearray(described)
            for _ in range(random.integers(1, 4)):
                changed[random.integers(len(changed))] = random.integers(256)
            return bytes(changed)

        with safe_globals([Watched]):
            try:
                fg.load(io.BytesIO(repack(file.getvalue(), {"data.pkl": change})))
                outcomes["loaded"] += 1
            except (RuntimeError, pickle.UnpicklingError):
                outcomes["refused"] += 1
            except (TypeError, AttributeError, ValueError):
                outcomes["of the class"] += 1  # it was given what does not fit it
    assert set(called) == {Watched} and outcomes["refused"] > 150


@pytest.mark.filterwarnings("ignore:Environment variable")
def test_the_environment_decides_as_it_does_for_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    fg.save(Plain(1), file)

    def found(lib: Any, **options: Any) -> Any:
        try:
            return lib.load(io.BytesIO(file.getvalue()), **options)
        except Exception as error:
            return type(error)

    for force in ("", "1", "True"):
        for forbid in ("", "y"):
            monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", force)
            monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", forbid)
            for options in ({}, {"weights_only": None}, {"weights_only": True}, {"weights_only": False}):
                for module in ({}, {"pickle_module": pickle}):
                    assert found(fg, **options, **module) == found(torch, **options, **module)
