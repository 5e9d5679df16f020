"""What functions take in the place of numbers, dimensions and sizes, against torch.

All of them: PYTHONPATH=tests/helpers python tests/eager/arguments/test_kinds_of_arguments.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch_calls as calls
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.ops import arguments

Make = Callable[[Any], Any]


class Index:
    """What counts as an integer, and is none."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class Fraction:
    """What can become a float, and is none."""

    def __float__(self) -> float:
        return 1.0


# By a name: what is given in the place of an int n.
OF_INTS: dict[str, Callable[[int], Make]] = {
    "of NumPy": lambda n: lambda T: np.int64(n),
    "a small one of NumPy": lambda n: lambda T: np.int8(n),
    "a tensor": lambda n: lambda T: T.tensor(n),
    "an int32 tensor": lambda n: lambda T: T.tensor(n, dtype=T.int32),
    "a float tensor": lambda n: lambda T: T.tensor(float(n)),
    "two in a tensor": lambda n: lambda T: T.tensor([n, n]),
    "a bool": lambda n: lambda T: bool(n),
    "a bool of NumPy": lambda n: lambda T: np.bool_(n),
    "a float": lambda n: lambda T: float(n),
    "a float of NumPy": lambda n: lambda T: np.float64(n),
    "complex": lambda n: lambda T: n * 1j,
    "text": lambda n: lambda T: "a",
    "__float__": lambda n: lambda T: Fraction(),
    "negative": lambda n: lambda T: -1,
    "out of range": lambda n: lambda T: -9,
    "beyond 64 bits": lambda n: lambda T: 2**70,
    "one in a list": lambda n: lambda T: [n],
    "one of NumPy in a list": lambda n: lambda T: [np.int64(n)],
    "a tensor in a list": lambda n: lambda T: [T.tensor(n)],
    "__index__ in a list": lambda n: lambda T: [Index(n)],
    "a bool in a list": lambda n: lambda T: [bool(n)],
    "a float in a list": lambda n: lambda T: [float(n)],
    "None in a list": lambda n: lambda T: [None],
    "twice": lambda n: lambda T: (0, 0),
    "twice, from both ends": lambda n: lambda T: (0, -1),
    "a Size": lambda n: lambda T: T.Size((n,)),
}
OF_ROWS: dict[str, Callable[[tuple[int, ...]], Make]] = {
    "a list": lambda row: lambda T: list(row),
    "of NumPy": lambda row: lambda T: tuple(map(np.int64, row)),
    "of tensors": lambda row: lambda T: tuple(map(T.tensor, row)),
    "of __index__": lambda row: lambda T: tuple(map(Index, row)),
    "of bools": lambda row: lambda T: tuple(map(bool, row)),
    "of floats": lambda row: lambda T: tuple(map(float, row)),
    "text": lambda row: lambda T: "ab",
    "with text": lambda row: lambda T: (row[0], "a"),
    "nested": lambda row: lambda T: [list(row)],
    "out of range": lambda row: lambda T: tuple(9 for _ in row),
    "beyond 64 bits": lambda row: lambda T: tuple(2**70 for _ in row),
}
MORE = """
m, (0, 1)
t, 0, 1, 2
t, 1, 2
m, (2, 2)
m, (3, 3)
t, (1, 2)
t, (2, 0, 1)
t, -1
""".strip().splitlines()
# Overloads told by what is given, and numbers in the place of tensors. Of a row of sizes PyTorch looks at the
# first one only, and takes a bool behind it.
APART = frozenset(
    """einsum broadcast_shapes margin_ranking_loss hinge_embedding_loss kl_div logit logit_ addcmul addcdiv
    addcmul_ addcdiv_ repeat_interleave tile resize_ new_zeros new_ones permute flip repeat zeros ones pinv
    matrix_rank subtract subtract_ sub sub_ rsub histogram histogramdd copy_ fill_diagonal_ fill_ lstsq
    rfftfreq cosine_similarity split""".split()
)
Case = tuple[str, str, str, int, str]


def given(case: Case, T: Any) -> Any:
    """What a function of a library gives with one argument replaced."""
    space, name, text, place, kind = case
    values = list(eval(f"({text},)", calls.known(T)))
    values[place] = others(values[place])[kind](T)
    return calls.called_with(T, space, name, values)


def others(value: Any) -> dict[str, Make]:
    """By a name, what is given in the place of an argument."""
    if type(value) is int:
        return {name: make(value) for name, make in OF_INTS.items()}
    if isinstance(value, (tuple, list)) and all(type(n) is int for n in value):
        return {name: make(tuple(value)) for name, make in OF_ROWS.items()}
    return {}


def cases(space: str, name: str, most: int) -> Iterator[Case]:
    """Calls that PyTorch takes, with one argument replaced."""
    found = 0
    for text in (*calls.ARGUMENTS, *MORE):
        if space == "Tensor" and text[0] in "[(0123456789":
            continue
        values = list(eval(f"({text},)", calls.known(torch)))
        plain = [
            calls.called_with(T, space, name, list(eval(f"({text},)", calls.known(T)))) for T in (torch, fg)
        ]
        if any(isinstance(result, Exception) for result in plain):  # as test_names_of_arguments.py tells
            continue
        for place in range(space == "Tensor", len(values)):
            yield from ((space, name, text, place, kind) for kind in others(values[place]))
        found += 1
        if found == most:
            return


def wrong(listed: list[tuple[str, str]], most: int) -> list[Any]:
    """What PyTorch takes and we refuse, where the results differ, and bools that we take for numbers."""
    found = []
    for space, name in listed:
        for case in cases(space, name, most):
            right, mine = given(case, torch), given(case, fg)
            refuses = isinstance(right, Exception)
            if isinstance(mine, Exception):
                if not refuses:
                    found.append((*case, f"{type(mine).__name__}: {str(mine).splitlines()[0]}"))
            elif refuses and isinstance(right, TypeError) and "bool" in case[4]:
                found.append((*case, "TAKES", str(right).splitlines()[0]))
            elif not refuses and name not in calls.NOT_COMPARED and not calls.alike(mine, right):
                found.append((*case, "DIFFERS", mine, right))
    return found


TRIED = [f for f in calls.functions() if f[1] not in APART]
NAMED = [
    ("", "sum"),
    ("Tensor", "select"),
    ("fft", "fftn"),
    ("", "roll"),
    ("Tensor", "unsqueeze_"),
    ("", "hsplit"),
]


def test_what_torch_takes_and_refuses() -> None:
    assert wrong(TRIED[::11] + NAMED, 3) == []


def test_no_result_is_another_one() -> None:
    # Frequencies of no elements, and losses of integers, whose sums here are floats.
    known = {"rfftfreq", "hinge_embedding_loss"}
    apart = [f for f in calls.functions() if f[1] in APART - known]
    assert [w for w in wrong(apart, 2) if w[5] == "DIFFERS"] == []


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: fg.select(x, True, 0), r"argument 'dim' \(position 2\) must be int, not bool"),
        (lambda x: x.select("a", 0), r"argument 'dim' \(position 1\) must be int, not str"),
        (lambda x: fg.sum(x, 0, 1), r"sum\(\): argument 'keepdim' \(position 3\) must be bool, not int"),
        (
            lambda x: fg.sum(x, axis="a"),
            r"sum\(\): argument 'dim' \(position 2\) must be tuple of ints, not str",
        ),
        (lambda x: x.reshape(True, 9), "must be tuple of ints, but found element of type bool at pos 0"),
        (lambda x: fg.zeros((2**70,)), "failed to unpack the object at pos 1"),
        (lambda x: fg.sum(x, (0, -2)), "dim 0 appears multiple times in the list of dims"),
    ],
)
def test_errors_name_the_argument(call: Any, words: str) -> None:
    with pytest.raises((TypeError, RuntimeError), match=words):
        call(fg.ones(2, 3))


def test_a_plain_call_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("read")

    x = fg.ones(3, 3)
    fg.select(x, 0, 1), x.topk(2, 0)
    for function in (fg.select, fg.Tensor.select, fg.Tensor.topk):
        for name in [n for n in function.__globals__ if n.startswith("read_")]:
            monkeypatch.setitem(function.__globals__, name, never)
    assert fg.select(x, 0, 1).shape == x.select(0, 1).shape == (3,)
    assert x.topk(2, 0).values.shape == (2, 3)


def test_numbers_that_nobody_reads_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "as_int", lambda value: value)
    assert finds(lambda: [][len(wrong([("", "roll")], 2))])


def test_compiled() -> None:
    compiled = fg.jit(lambda x, n: (x * 2).sum(np.int64(1)) + x.select(0, fg.tensor(1)) + x.narrow(0, n, 1))
    for factor in range(4):
        x = fg.arange(9.0).reshape(3, 3) * factor
        right = (x * 2).sum(1) + x[1] + x[1:2]
        assert np.allclose(compiled(x, np.int64(1)).tolist(), right.tolist())
    assert compiled.stats.compiled_calls


if __name__ == "__main__":
    different = wrong(TRIED, 6)
    for case in different:
        print(*case)
    print(f"{len(different)} of the calls of {len(TRIED)} functions are refused, taken or differ")
