"""The dtype and the values of nested data, whatever they hold and in whatever, against torch.

All pairs: PYTHONPATH=tests/helpers python tests/eager/arguments/test_nested_data.py
"""

from __future__ import annotations

import array
import collections
import enum
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.core import dtypes
from fusegrad.eager.ops.create import python_numbers

NUMPY = "int16 uint16 uint32 uint64 complex128 bool int8 int32 int64 uint8 float16 float32 float64 complex64"
KINDS = "bool int8 int32 int64 uint8 float16 float32 float64 bfloat16 complex64".split()
Maker = Callable[[Any], Any]


class Level(enum.IntEnum):
    LOW = 1


class Half:
    def __float__(self) -> float:
        return 0.5


class Three:
    def __index__(self) -> int:
        return 3


class Row:
    """A sequence of a user's."""

    def __init__(self, *elements: Any) -> None:
        self.elements = elements

    def __len__(self) -> int:
        return len(self.elements)

    def __getitem__(self, place: int) -> Any:
        return self.elements[place]


# What may be an element, made with a library.
ELEMENTS: dict[str, Maker] = {
    **{repr(n): (lambda T, n=n: n) for n in (True, 3, -1, 2.5, 1j, 2**40, 2**60 + 1, 1e300)},
    **{f"np.{name}": (lambda T, name=name: np.dtype(name).type(1)) for name in NUMPY.split()},
    **{f"tensor {name}": (lambda T, name=name: T.tensor(1, dtype=getattr(T, name))) for name in KINDS},
    "of one": lambda T: T.ones(1, dtype=T.float64),
    "needs grad": lambda T: T.ones((), requires_grad=True),
    "place": lambda T: T.arange(3).argmax(),
    "Level": lambda T: Level.LOW,
    "Half": lambda T: Half(),
    "Three": lambda T: Three(),
}
NESTINGS: dict[str, Callable[[Any, Any], Any]] = {
    "[a, b]": lambda a, b: [a, b],
    "(a, b)": lambda a, b: (a, b),
    "[[a], [b]]": lambda a, b: [[a], [b]],
    "[(a, b)]": lambda a, b: [(a, b)],
    "[[[a, b]], [[b, a]]]": lambda a, b: [[[a, b]], [[b, a]]],
    "deque": lambda a, b: collections.deque([a, b]),
    "Row": lambda a, b: Row(Row(a), [b]),
}
WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "tensor": lambda T, data: T.tensor(data),
    "as_tensor": lambda T, data: T.as_tensor(data),
    "asarray": lambda T, data: T.asarray(data),
    "new_tensor": lambda T, data: T.ones(1, dtype=T.float64).new_tensor(data),
    "Tensor": lambda T, data: T.Tensor(data),
    "tensor int64": lambda T, data: T.tensor(data, dtype=T.int64),
    "tensor uint8": lambda T, data: T.tensor(data, dtype=T.uint8),
    "as_tensor float16": lambda T, data: T.as_tensor(data, dtype=T.float16),
    "asarray bool": lambda T, data: T.asarray(data, dtype=T.bool),
    "as_tensor complex64": lambda T, data: T.as_tensor(data, dtype=T.complex64),
}
# Other data, which no pair gives.
WHOLE: dict[str, Any] = {
    "floats": array.array("d", [1.5]),
    "ints": array.array("i", [1]),
    "bytes": bytearray(b"ab"),
    "memory": memoryview(b"ab"),
    "range": range(3),
    "ranges": [range(2), range(2, 4)],
    "nothing": Row(),
    "rows of nothing": [[], []],
    "integers beside floats": [2**60 + 1, 2.5],
    "largest": [2**63 - 1, 0.5],
    "levels": [Level.LOW, 2.5],
    "dict": {0: 1.5},
    "set": {1},
    "text": ["a"],
    "None": [None],
    "Half": Half(),
}


def outcome(T: Any, way: str, data: Callable[[Any], Any]) -> Any:
    """Values, dtype and shape; None for what is refused."""
    try:
        made = WAYS[way](T, data(T))
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
    return repr(made.tolist()), str(made.dtype), tuple(made.shape), made.requires_grad


def cases() -> Iterator[tuple[str, str, str, str]]:
    return itertools.product(WAYS, NESTINGS, ELEMENTS, ELEMENTS)


def differing(step: int) -> list[Any]:
    """What PyTorch takes, and we give otherwise, of each `step`th case."""
    found = []
    for way, nesting, a, b in itertools.islice(cases(), 0, None, step):

        def data(T: Any, nesting: str = nesting, a: str = a, b: str = b) -> Any:
            return NESTINGS[nesting](ELEMENTS[a](T), ELEMENTS[b](T))

        right = outcome(torch, way, data)
        mine = outcome(fg, way, data) if right is not None else None
        # Behind a complex128 PyTorch does not look for dtypes: there it takes what has none.
        unknown = mine is None and "np.complex128" in (a, b) and {a, b} & {"Half", "Three"}
        if right != mine and not unknown:
            found.append((way, nesting, a, b, right, mine))
    return found


def test_each_dtype_counts():
    assert differing(23) == []


@pytest.mark.parametrize("way", WAYS)
def test_other_data(way: str):
    for name, data in WHOLE.items():
        right = outcome(torch, way, lambda T, data=data: data)
        assert right is None or outcome(fg, way, lambda T, data=data: data) == right, name


def test_dtypes_that_do_not_mix():
    with pytest.raises(RuntimeError, match="Promotion for uint16"):
        fg.tensor([np.uint16(1), 2])


@pytest.mark.parametrize("default", ["float32", "float64"])
def test_the_default_float_counts(default: str):
    try:
        for T in (torch, fg):
            T.set_default_dtype(getattr(T, default))
        for data in ([1, 2.5], [np.float32(1), 2.5], [1j, np.float32(1)], [np.int8(1), 1j]):
            assert str(fg.tensor(data).dtype) == str(torch.tensor(data).dtype)
    finally:
        for T in (torch, fg):
            T.set_default_dtype(T.float32)


def test_compiled():
    def program(T: Any, x: Any) -> Any:
        return T.tensor([x.argmax(), 0.5]) + T.as_tensor([np.int64(1), 2.5]) + T.tensor([x.sum(), 1])

    compiled = fg.jit(lambda x: program(fg, x))
    for i in range(4):
        values = [1.0, 2.0 + i, 0.25]
        assert compiled(fg.tensor(values)).tolist() == program(torch, torch.tensor(values)).tolist()


def test_a_dtype_of_the_first_element_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(python_numbers, "_promoted", lambda found: dtypes.FROM_NUMPY[next(iter(found))])
    assert finds(test_each_dtype_counts) and finds(test_other_data, "tensor")


if __name__ == "__main__":
    different = differing(int(sys.argv[1]) if sys.argv[1:] else 1)
    for case in different:
        print(*case)
    print(f"{len(different)} differ")
