"""Arguments by place, by PyTorch's names and by NumPy's, of all functions and methods, against torch.

All of them: PYTHONPATH=tests/helpers python tests/eager/arguments/test_names_of_arguments.py
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from oracle import torch
from planted import finds
from torch_calls import ARGUMENTS, NOT_COMPARED, SPACES, alike, called_with, functions, known

import fusegrad as fg
from fusegrad.eager.ops import by_name

ALIASES = {"dim": ["axis"], "keepdim": ["keepdims"], "input": ["x", "a", "x1"], "other": ["x2"]}
# What is still to be done: names that only few functions have, and what is refused for other reasons.
POLYNOMIALS = [
    *(f"{kind}_polynomial_{k}" for kind in ("chebyshev", "shifted_chebyshev") for k in "tuvw"),
    *("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"),
]
APART = frozenset(
    """split_copy result_type isin orgqr lstsq margin_ranking_loss triplet_margin_loss take_along_dim to
    add_ sub_ subtract_ addcdiv_ addcmul_ copy_ rsub hsplit vsplit dsplit tensor_split
    hinge_embedding_loss binary_cross_entropy_with_logits repeat_interleave unique_consecutive
    rfftfreq""".split()
    + POLYNOMIALS
)
Case = tuple[str, str, str, tuple[str, ...]]  # the space, the function, its arguments, the names of the last


def called(T: Any, case: Case) -> Any:
    """Dtypes, shapes and values of what a call gives, or its error."""
    space, name, text, names = case
    return called_with(T, space, name, list(eval(f"({text},)", known(T))), names)


def names_of(space: str, name: str) -> list[list[str]]:
    """The names that PyTorch's overloads have for each place, and NumPy's."""
    places: list[list[str]] = []
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{SPACES[space]}{name}"):
        for place, argument in enumerate(a for a in schema.arguments if not a.kwarg_only):
            called = "input" if argument.name == "self" else argument.name
            places += [[]] if len(places) == place else []
            places[place] += [n for n in (called, *ALIASES.get(called, ())) if n not in places[place]]
    return places


def cases(space: str, name: str, most: int) -> Iterator[Case]:
    """Calls of a function that PyTorch takes: by place, the last argument by its names, and all by names."""
    places = names_of(space, name)
    own = space == "Tensor"
    found = 0
    for text in ARGUMENTS:
        if own and text[0] in "[(0123456789":
            continue
        plain = (space, name, text, ())
        if isinstance(called(torch, plain), Exception):
            continue
        yield plain
        count = len(eval(f"({text},)", known(torch)))
        here = places[own:count]
        if len(here) == count - own and here:
            yield from ((space, name, text, (last,)) for last in here[-1])
            yield from (
                (space, name, text, names) for names in itertools.islice(itertools.product(*here), 12)
            )
        found += 1
        if found == most:
            return


def wrong(listed: list[tuple[str, str]], most: int) -> list[Any]:
    """The calls that PyTorch takes, and we refuse or answer otherwise."""
    found = []
    for space, name in listed:
        for case in cases(space, name, most):
            right = called(torch, case)
            if isinstance(right, Exception):
                continue
            mine = called(fg, case)
            if isinstance(mine, Exception):
                found.append((*case, f"{type(mine).__name__}: {str(mine).splitlines()[0]}"))
            elif name not in NOT_COMPARED and not alike(mine, right):
                found.append((*case, "DIFFERS", mine, right))
    return found


SAMPLE = [f for f in functions() if f[1] not in APART][::7]
NAMED = [("", "sum"), ("", "cat"), ("Tensor", "softmax"), ("fft", "fft"), ("linalg", "norm"), ("", "add")]


def test_calls_that_torch_takes():
    assert wrong(SAMPLE + NAMED, 2) == []


def test_what_is_apart_answers_nothing_else():
    # Losses of integers, an inverse that torch leaves empty, and no frequencies.
    known = {*NOT_COMPARED, "hinge_embedding_loss", "unique_consecutive", "rfftfreq"}
    others = [f for f in functions() if f[1] in APART - known]
    assert [w for w in wrong(others, 2) if w[4] == "DIFFERS"] == []


@pytest.mark.parametrize(
    "call",
    [
        lambda x: fg.sum(x, axis=1, keepdims=True),
        lambda x: x.softmax(axis=0),
        lambda x: fg.cat([x, x], axis=1),
        lambda x: fg.add(x1=x, x2=x),
        lambda x: fg.linalg.norm(x=x, axis=0),
        lambda x: fg.fft.fft(x, axis=0).abs(),
        lambda x: x.cumsum_(axis=0),
        lambda x: fg.sum(x, 0, out=fg.empty(3)),
    ],
)
def test_compiled(call: Any):
    compiled = fg.jit(lambda x: call(x * 2))
    for factor in range(4):
        x = fg.arange(9.0).reshape(3, 3) * factor
        assert np.allclose(compiled(x).tolist(), call(x * 2).tolist())
    assert compiled.stats.compiled_calls


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: fg.sum(x, 1, axis=0), r"sum\(\) got multiple values for argument 'dim', also as 'axis'"),
        (lambda x: fg.add(x, x, x1=x), r"add\(\) got multiple values for argument 'input', also as 'x1'"),
        (lambda x: x.softmax(0, axes=1), "axes"),
        (lambda x: fg.sin(x, x), r"sin\(\) takes 1 positional argument"),
        (lambda x: fg.sin(), r"sin\(\) missing 1 required positional argument: 'input'"),
        (lambda x: fg.unsqueeze(x), r"unsqueeze\(\) missing 1 required positional argument: 'dim'"),
        (lambda x: fg.sum(x, 0, True, fg.empty(3)), r"sum\(\) takes from 1 to 3 positional arguments"),
        (lambda x: fg.relu(x, out=x), r"relu\(\) got an unexpected keyword argument 'out'"),
    ],
)
def test_what_is_no_call(call: Any, words: str):
    with pytest.raises(TypeError, match=words):
        call(fg.ones(3, 3))


def test_a_plain_call_does_not_come_by_names(monkeypatch: pytest.MonkeyPatch):
    def never(*_: Any) -> Any:
        raise AssertionError("came by names")

    for function in (fg.sum, fg.cat, fg.softmax, fg.Tensor.softmax, fg.Tensor.sum):
        monkeypatch.setitem(function.__globals__, "by_name", never)
    x = fg.ones(3, 3)
    assert fg.sum(x, 1, True).shape == x.softmax(1).sum(1, keepdim=True).shape == (3, 1)
    assert fg.cat([x, x], dim=1).shape == (3, 6) and fg.softmax(x, dim=0).shape == (3, 3)


def test_names_that_nobody_resolves_are_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(by_name, "in_our_names", lambda function, args, named: named)
    assert all(finds(lambda f=f: [][len(wrong([f], 2))]) for f in NAMED)


def test_signatures_show_numpys_names() -> None:
    """Programs ask for them, as the tests of the array API do."""
    for function in (fg.argmax, fg.Tensor.sum, fg.fft.fft, fg.linalg.matrix_norm, fg.nn.functional.softmax):
        shown = inspect.signature(function).parameters
        assert shown["axis"].kind is inspect.Parameter.KEYWORD_ONLY
        assert shown["axis"].default == shown["dim"].default
        assert ("keepdims" in shown) == ("keepdim" in shown)
    assert "axis" not in inspect.signature(fg.relu).parameters


if __name__ == "__main__":
    different = wrong(functions(), 6)
    for case in different:
        print(*case)
    print(f"{len(different)} of the calls of {len(functions())} functions are refused or differ")
