"""What may be set on a tensor, and deleted from it: as PyTorch allows it, for every value."""

from __future__ import annotations

import warnings

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.autograd import accumulation

NAMES = """data grad requires_grad shape dtype device is_leaf T mT H mH real imag ndim itemsize nbytes
    output_nr retains_grad""".split()
KINDS = ["plain", "leaf", "made by an op", "integers", "complex"]
VALUES = ["None", "a number", "True", "a list", "alike", "another shape", "float64", "int64", "complex64"]


def tensor_of(T, kind):
    if kind == "made by an op":
        return T.ones(2, 2, requires_grad=True) * 2
    dtype = {"integers": T.int64, "complex": T.complex64}.get(kind, T.float32)
    return T.ones(2, 2, dtype=dtype, requires_grad=kind == "leaf")


def value_of(T, kind):
    dtype = getattr(T, kind) if kind[-1].isdigit() else T.float32
    plain = {"None": None, "a number": 1, "True": True, "a list": [1.0], "another shape": T.ones(3)}
    return plain[kind] if kind in plain else T.ones(2, 2, dtype=dtype)


def seen(T, name, kind, value):
    """What the attribute is after it was set (or deleted, for no value), or the type of the error."""
    tensor = tensor_of(T, kind)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            delattr(tensor, name) if value is None else setattr(tensor, name, value_of(T, value))
            found = getattr(tensor, name)
    except Exception as error:
        return type(error)
    return (str(found.dtype), found.tolist()) if isinstance(found, T.Tensor) else found


def differing():
    # PyTorch crashes where a real part is deleted, and takes no lists where we take them as values.
    apart = {(part, value) for part in ("real", "imag") for value in (None, "None", "a list")}
    cases = [(n, k, v) for n in NAMES for k in KINDS for v in [None, *VALUES] if (n, v) not in apart]
    return [case for case in cases if seen(fg, *case) != seen(torch, *case)]


def test_attributes_are_set_and_deleted_as_in_pytorch():
    assert not differing()


def test_a_gradient_that_nobody_checks_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(accumulation, "check_gradient", lambda tensor, value: None)
    assert {kind for _, _, kind in differing()} >= {"a number", "another shape", "float64", "int64"}


def test_jitted_functions_refuse_what_is_no_gradient():
    def put(x, value):
        x.grad = value
        return x * 2

    jitted = fg.jit(put)
    for _ in range(3):
        x = fg.ones(2, requires_grad=True)
        jitted(x, fg.full((2,), 3.0))
        assert x.grad is not None and x.grad.tolist() == [3.0, 3.0]
        with pytest.raises(RuntimeError, match="attempting to assign a gradient of size"):
            jitted(x, fg.ones(3))
        with pytest.raises(RuntimeError, match="with dtype 'float64' to a tensor of dtype 'float32'"):
            jitted(x, fg.ones(2, dtype=fg.float64))


def test_a_gradient_that_never_comes_is_warned_of_in_every_call():
    def read(x):
        y = x * 2
        return y if y.grad is None else x

    for function in (read, fg.jit(read)):
        for _ in range(3):
            with pytest.warns(UserWarning, match=r"The \.grad attribute of a Tensor that is not a leaf"):
                function(fg.ones(2, requires_grad=True))
    kept = fg.ones(2, requires_grad=True) * 2
    kept.retain_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kept.grad is None and fg.ones(2, requires_grad=True).grad is None and fg.ones(2).grad is None


def test_deleted_gradients_come_again():
    x = fg.ones(2, requires_grad=True)
    for _ in range(2):
        (x * 3).sum().backward()
        del x.grad
        assert x.grad is None
    (x * 3).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3.0, 3.0]
