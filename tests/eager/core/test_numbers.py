"""Numbers that are no plain ints and floats: enumerations, users' subclasses, NumPy's scalars.

Wherever a function takes a number (as operand, bound, index, fill value, size, dim), each of them is the
number that it is, in eager and in compiled code; what is no number is refused with a documented error.
NumPy's complex numbers and bools are left out: PyTorch drops the imaginary part of those, and takes these
as floats.
"""

from __future__ import annotations

import decimal
import enum
import fractions
import warnings

import numpy as np
import pytest
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.ops.pointwise import declare_pointwise


class Place(enum.IntEnum):
    TWO = 2


class Flag(enum.IntFlag):
    ONE = 1


class Fraction(float):
    pass


class Count(int):
    pass


class Countable:
    def __index__(self):
        return 1


NUMBERS = {
    "IntEnum": Place.TWO,
    "IntFlag": Flag.ONE,
    "float": Fraction(1.5),
    "int": Count(1),
    "np.float64": np.float64(1.5),
    "np.float32": np.float32(1.5),
    "np.int64": np.int64(1),
    "np.int32": np.int32(1),
    "np.uint8": np.uint8(1),
    "__index__": Countable(),
}
OTHERS = ["a", b"a", None, [1], {}, object(), decimal.Decimal(1), fractions.Fraction(1, 2)]
USES = """
x * v
v * x
i * v
i + v
b + v
x - v
v - x
x / v
v / x
x ** v
v ** x
x // v
x % v
i // v
x == v
x != v
x < v
v < x
x @ v
i & v
i << v
v << i
T.add(x, v)
T.mul(x, v)
T.mul(i, v)
x.add(x, alpha=v)
i.add(i, alpha=v)
x.sub(x, alpha=v)
T.where(x > 1, x, v)
T.where(x > 1, v, x)
T.where(i > 1, i, v)
x.clamp(max=v)
x.clamp(min=v)
i.clamp(v)
x.clamp(v, v)
x.clip(v)
T.maximum(x, v)
x.lerp(x, v)
T.pow(v, x)
T.fmod(x, v)
T.remainder(x, v)
T.atan2(x, v)
x.masked_fill(x > 1, v)
i.masked_fill(i > 1, v)
x.fill_(v)
i.fill_(v)
T.full((2,), v)
T.full((2,), v, dtype=T.float32)
T.full_like(x, v)
x.new_full((2,), v)
T.zeros(v)
T.zeros((v, 2))
T.ones(2, v)
T.eye(v)
T.arange(v)
T.arange(0, v)
T.arange(0, 4, v)
T.linspace(0, v, 3)
T.linspace(0, 1, v)
T.tensor(v)
T.tensor([v, v])
T.as_tensor(v)
x[v]
m[v]
m[v, 0]
m[0:v]
m[::v]
m[(0, v)]
m.__setitem__(v, 5.)
x.__setitem__(0, v)
i.__setitem__(0, v)
x.__setitem__(slice(0, 2), v)
m.sum(v)
m.sum((v,))
m.mean(dim=v)
m.softmax(v)
m.max(v)[0]
m.argmax(v)
m.cumsum(v)
m.transpose(0, v)
m.permute(v, 0)
m.squeeze(v)
m.unsqueeze(v)
m.flatten(v)
m.reshape(v, -1)
m.view(-1, v)
m.expand(v, 3, 3)
m.repeat(v, 1)
m.roll(v)
m.roll(1, v)
m.flip(v)
m.flip((v,))
m.narrow(0, v, 1)
m.narrow(0, 0, v)
m.select(v, 0)
m.select(0, v)
m.split(v)
m.chunk(v)[0]
m.unbind(v)[0]
m.size(v)
m.stride(v)
m.topk(v)[0]
m.kthvalue(v)[0]
m.sort(v)[0]
m.diagonal(v)
m.tril(v)
m.norm(v)
m.norm(p=2, dim=v)
m.var(v)
m.var(correction=v)
m.std(0, correction=v)
m.gather(v, T.zeros(1, 1, dtype=T.int64))
m.index_select(v, T.tensor([0]))
m.index_fill(0, T.tensor([0]), v)
T.stack([m, m], v)
T.nn.functional.pad(m, (v, 0))
T.nn.functional.pad(m, (1, 0), value=v)
T.nn.functional.one_hot(T.tensor([0]), v)
T.nn.functional.leaky_relu(x, v)
T.nn.functional.elu(x, v)
T.nn.functional.hardtanh(x, -1., v)
T.nn.functional.threshold(x, v, v)
T.nn.functional.dropout(x, v, False)
T.nn.functional.conv1d(T.ones(1, 1, 4), T.ones(1, 1, 2), stride=v)
T.nn.functional.conv1d(T.ones(1, 1, 4), T.ones(1, 1, 2), padding=v)
T.nn.functional.max_pool1d(T.ones(1, 1, 4), v)
T.nn.functional.avg_pool1d(T.ones(1, 1, 4), v)
T.nn.functional.layer_norm(m, (3,), eps=v)
T.nn.functional.layer_norm(m, v)
T.nn.functional.group_norm(T.ones(2, 2), v)
T.nn.functional.cross_entropy(m, T.tensor([0, 1, 2]), ignore_index=v)
T.nn.functional.cross_entropy(m, T.tensor([0, 1, 2]), label_smoothing=v)
T.nn.functional.smooth_l1_loss(x, x * 2, beta=v)
T.nn.functional.huber_loss(x, x * 2, delta=v)
T.nn.functional.interpolate(T.ones(1, 1, 4), scale_factor=v)
T.nn.functional.interpolate(T.ones(1, 1, 4), size=v)
T.addmm(m, m, m, beta=v)
T.addcmul(x, x, x, value=v)
T.baddbmm(m[None], m[None], m[None], alpha=v)
T.nn.LayerNorm(v)(T.ones(2, 2)).shape
T.cdist(m, m, v)
T.diff(m, v)
T.quantile(x, v)
T.bincount(T.tensor([0]), minlength=v)
T.histc(x, v)
T.repeat_interleave(x, v)
T.tensordot(m, m, v)
T.logsumexp(m, v)
T.renorm(m, v, 0, 1.)
T.renorm(m, 2, v, 1.)
T.clamp_min(x, v)
x.add_(v)
i.add_(v)
x.mul_(v)
x.pow_(v)
x.copy_(v)
T.isclose(x, x, rtol=v)
T.allclose(x, x, atol=v)
T.unflatten(m, 0, (v, -1))
m.movedim(0, v)
T.linalg.vector_norm(x, v)
T.linalg.matrix_power(m, v)
T.polygamma(v, x)
T.round(x, decimals=v)
T.nan_to_num(x, v)
x.requires_grad_(v).requires_grad
T.heaviside(x, v)
T.special.xlogy(x, v)
T.float_power(x, v)
T.ldexp(x, v)
T.logaddexp(x, v)
T.hypot(x, v)
T.copysign(x, v)
T.gcd(i, v)
T.bitwise_and(i, v)
T.logical_and(x, v)
T.eq(x, v)
T.result_type(x, v)
T.result_type(i, v)
""".strip().splitlines()
DOCUMENTED = (TypeError, RuntimeError, ValueError, IndexError, NotImplementedError)


def tensors(T):
    return {
        "T": T,
        "x": T.tensor([1.0, 2.0, 3.0]),
        "i": T.tensor([1, 2, 3]),
        "b": T.tensor([True, False, True]),
        "m": T.arange(9.0).reshape(3, 3),
    }


def said(result):
    """What can be compared of a result of either library."""
    if isinstance(result, (tuple, list)) and not hasattr(result, "numel"):
        return tuple(map(said, result))
    if hasattr(result, "tolist") and hasattr(result, "numel"):
        return str(result.dtype), tuple(result.shape), np.round(result.tolist(), 4).tolist()
    return repr(result)


def run(T, use, value, call=lambda function: function()):
    """What `use` gives, or the tensors that it may have written."""
    known = {**tensors(T), "v": value}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = call(lambda: eval(use, known))
        return said((known["x"], known["i"], known["m"]) if result is None else result)


@pytest.mark.parametrize("use", USES)
def test_numbers_are_what_they_are(use):
    wrong = []
    for name, value in NUMBERS.items():
        try:
            right = run(torch, use, value)
        except Exception:
            continue
        try:
            found = run(fg, use, value)
        except Exception as error:
            found = repr(error)
        if found != right:
            wrong.append((name, found, right))
    assert not wrong


@pytest.mark.parametrize("use", USES)
def test_what_is_no_number_is_refused(use):
    for value in OTHERS:
        try:
            run(fg, use, value)
        except DOCUMENTED:
            continue


JITTED = [use for use in USES if "T.tensor(v)" not in use][::3]


@pytest.mark.parametrize("use", JITTED)
def test_compiled_code_takes_them(use):
    def compiled(function):
        function = fg.jit(function)
        return [function() for _ in range(3)][-1]

    for name in ("IntEnum", "float", "np.float64", "np.int64"):
        try:
            right = run(fg, use, NUMBERS[name])
        except Exception:
            continue
        if "_(" in use or "__setitem__" in use:
            continue  # three calls write three times
        assert run(fg, use, NUMBERS[name], compiled) == right, name


def test_arguments_of_compiled_functions():
    function = fg.jit(lambda x, v: x * v + x[v])
    for value in (Place.TWO, Flag.ONE, Count(2), np.int64(1), Place.TWO):
        x = fg.tensor([1.0, 2.0, 3.0])
        for _ in range(3):
            assert function(x, value).tolist() == (x * int(value) + x[int(value)]).tolist()
    scaled = fg.jit(lambda x, v: x * v)
    for value in (Fraction(1.5), np.float64(2.5), np.float32(0.5), 3.5):
        for _ in range(3):
            result = scaled(fg.tensor([1, 2]), value)
            assert result.dtype == fg.float32
            assert result.tolist() == [float(value), 2 * float(value)]


@pytest.mark.parametrize(
    ("kind", "dtype"), [(float, "float64"), (complex, "complex128"), (int, "int64"), (bool, "bool")]
)
def test_types_of_python_as_dtypes(kind, dtype):
    for T in (torch, fg):
        x = T.ones(2)
        made = [
            T.zeros(2, dtype=kind),
            T.tensor([1], dtype=kind),
            x.to(kind),
            x.new_zeros(2, dtype=kind),
            T.ones_like(x, dtype=kind),
            T.full((2,), 1, dtype=kind),
            T.empty(2, dtype=kind),
            T.eye(2, dtype=kind),
            x.sum(dtype=kind),
            T.as_tensor([1], dtype=kind),
        ]
        assert {str(m.dtype) for m in made} == {f"torch.{dtype}"}


def test_numbers_known_by_their_very_type_are_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(declare_pointwise, "plain_number", lambda value: value)
    assert sum(finds(test_numbers_are_what_they_are, use) for use in USES) >= 50
