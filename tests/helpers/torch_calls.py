"""Calls of all functions that PyTorch has by the same name, and their results, of both libraries."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from oracle import torch

import fusegrad as fg

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


def called_with(T: Any, space: str, name: str, values: list[Any], names: tuple[str, ...] = ()) -> Any:
    """What a function gives for `values`, of which the last are given by `names`, or its error."""
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
