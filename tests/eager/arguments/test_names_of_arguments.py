"""Arguments by place, by PyTorch's names and by NumPy's, of all functions and methods, against torch.

All of them: PYTHONPATH=tests/helpers python tests/eager/arguments/test_names_of_arguments.py
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.ops import by_name

# Arguments, of which each function gets the first few that PyTorch's takes.
ARGUMENTS = """
x
m
c
b
x, y
m, m
m, 1
m, 0
x, 2
x, y, 0.5
x, y, y
m, x
x, m, x
m, m, m
t, t
i, i
i
b, b
m, x, x
x, b, y
x, 0.1, 0.2
m, 0, i
m, 0, j, m
m, 0, i, 1.0
m, 0, i, m
m, m, 0, 1
m, (1, 0)
m, (0,), (1,)
m, [1, 2], 0
[x, y], 0
[m, m], 1
[m, m]
m, 2, 1
m, 0, True
m, 1, 1, 1
m, 0, 0, 2
m, 0, 1, 2
m, 0.5, 1
m, 2.0, 1, True
m, 2.0, 0, 1.0
m, (3, 3), (3, 1)
m, x, 1
m, True
x, 3, 0.0, 1.0
0, 3
0, 1, 3
3
2, x
3, x
x, 2, y
x, 2, y, y
""".strip().splitlines()
SPACES = {"": "", "fft": "fft_", "linalg": "linalg_", "special": "special_", "Tensor": ""}
ALIASES = {"dim": ["axis"], "keepdim": ["keepdims"], "input": ["x", "a", "x1"], "other": ["x2"]}
# What gives other numbers each time, sets something, or reads memory that nobody has written.
NOT_CALLED = frozenset(
    """manual_seed seed initial_seed set_rng_state get_rng_state set_printoptions save load compile vmap
    rand randn randint randperm normal bernoulli multinomial poisson rand_like randn_like randint_like
    binomial dropout dropout_ alpha_dropout alpha_dropout_ feature_dropout feature_alpha_dropout rrelu
    rrelu_ native_dropout empty empty_like empty_strided empty_permuted new new_empty new_empty_strided
    set_num_threads cauchy_ exponential_ log_normal_ normal_ uniform_ geometric_ random_ bernoulli_
    data_ptr untyped_storage storage typed_storage set_default_dtype set_num_interop_threads svd_lowrank
    pca_lowrank""".split()
)
# Results that are not unique, or written over their own operands.
NOT_COMPARED = frozenset(("svd", "eig", "eigh", "addmv_", "baddbmm_", "addbmm_", "addmm_", "lu", "to"))
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


def known(T: Any) -> dict[str, Any]:
    m = T.tensor([[0.9, 0.2, 0.1], [0.3, 0.8, 0.05], [0.15, 0.25, 0.7]])
    return {
        "x": T.tensor([0.25, 0.5, 0.75]),
        "y": T.tensor([0.5, 0.125, 1.0]),
        "m": m,
        "t": T.stack([m, m * m]),
        "c": T.tensor([1 + 2j, 0.5j, 1.0]),
        "b": T.tensor([True, False, True]),
        "i": T.tensor([1, 2, 0]),
        "j": T.tensor([[1, 2, 0]]),
    }


def called(T: Any, case: Case) -> Any:
    """Dtypes, shapes and values of what a call gives, or its error."""
    space, name, text, names = case
    values = list(eval(f"({text},)", known(T)))
    owner = values.pop(0) if space == "Tensor" else getattr(T, space) if space else T
    count = len(values) - len(names)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = dict(zip(names, values[count:], strict=True))
            return flat(getattr(owner, name)(*values[:count], **given), T)
    except Exception as error:
        return error


def flat(value: Any, T: Any) -> list[Any]:
    if isinstance(value, T.Tensor):
        return [(str(value.dtype), tuple(value.shape), np.array(value.detach().tolist()))]
    if isinstance(value, (tuple, list)):
        return [part for element in value for part in flat(element, T)]
    return [value if isinstance(value, (int, float)) else type(value).__name__]


def alike(mine: list[Any], right: list[Any]) -> bool:
    if len(mine) != len(right):
        return False
    for a, b in zip(mine, right, strict=True):
        if isinstance(a, tuple) and isinstance(b, tuple):
            close = a[:2] == b[:2] and np.allclose(a[2], b[2], 1e-3, 1e-4, equal_nan=True)
            if not close:
                return False
        elif isinstance(a, tuple) or isinstance(b, tuple):
            return False
    return True


def functions() -> list[tuple[str, str]]:
    found = []
    for space in SPACES:
        theirs, mine = (getattr(T, space) if space else T for T in (torch, fg))
        for name in dir(theirs):
            function = getattr(theirs, name)
            public = not name.startswith("_") and name not in NOT_CALLED and hasattr(mine, name)
            if public and callable(function) and not isinstance(function, type):
                found.append((space, name))
    return found


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


if __name__ == "__main__":
    different = wrong(functions(), 6)
    for case in different:
        print(*case)
    print(f"{len(different)} of the calls of {len(functions())} functions are refused or differ")
