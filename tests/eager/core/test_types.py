"""Type promotion and printing: PyTorch's, to the letter."""

# ruff: noqa: E501

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
OPERANDS = [(d, s) for d in DTYPES for s in ((2,), ())]


def made(namespace, dtype: str, shape: tuple[int, ...]):
    return namespace.ones(shape, dtype=getattr(namespace, dtype))


@pytest.mark.parametrize("x", OPERANDS)
def test_result_type_of_all_pairs(x):
    others = [*OPERANDS, True, 3, 2.5, 1j]
    for y in others:
        ours = fg.result_type(made(fg, *x), made(fg, *y) if isinstance(y, tuple) else y)
        theirs = torch.result_type(made(torch, *x), made(torch, *y) if isinstance(y, tuple) else y)
        if theirs is not torch.complex32:  # which NumPy has not
            assert repr(ours) == repr(theirs), (x, y)


NUMBERS = [True, 3, 2.5, 1j]
PAIRED = """add sub mul div floor_divide remainder fmod pow float_power maximum minimum fmax atan2 hypot eq ne lt ge where
logical_and bitwise_and bitwise_left_shift copysign heaviside nextafter gcd xlogy isclose lerp clamp_min rsub""".split()


def outcome(namespace, name: str, *operands):
    """The dtype and shape that a function gives, or the error that it raises."""
    operands = [made(namespace, *x) if isinstance(x, tuple) else x for x in operands]
    if name == "where":
        operands.insert(0, namespace.ones(2, dtype=namespace.bool))
    if name == "lerp":
        operands.append(0.5)
    try:
        result = found(namespace, name)(*operands)
        return repr(result.dtype), tuple(result.shape)
    except TypeError:
        return "TypeError"
    except RuntimeError:
        return "RuntimeError"


def found(namespace, name: str):
    for part in name.split("."):
        namespace = getattr(namespace, part)
    return namespace


def has_no_twin(name: str, x, y) -> bool:
    """Whether PyTorch answers in complex32, which NumPy has not, or as it does nowhere else."""
    types = [torch.result_type(*(made(torch, *o) if isinstance(o, tuple) else o for o in (x, y)))]
    bools = name == "pow" and torch.bool in types  # PyTorch gives bool for some of these and refuses others
    return torch.complex32 in types or bools


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PAIRED)
def test_results_have_the_promoted_dtype(name: str):
    for x, y in itertools.product([*OPERANDS, *NUMBERS], repeat=2):
        if not has_no_twin(name, x, y):
            assert outcome(fg, name, x, y) == outcome(torch, name, x, y), (x, y)


ALONE = """neg reciprocal square abs sign exp exp2 expm1 log log1p sqrt rsqrt sin tan asin cosh tanh asinh acosh atanh
sigmoid erf erfc erfinv floor ceil trunc round frac logical_not bitwise_not isnan isinf isposinf isreal relu sgn positive
angle real imag conj deg2rad lgamma digamma i0 sinc signbit logit clone selu celu nan_to_num special.ndtr special.entr
nn.functional.silu nn.functional.logsigmoid nn.functional.gelu nn.functional.elu nn.functional.hardtanh
nn.functional.softplus nn.functional.hardshrink nn.functional.softshrink nn.functional.hardsigmoid
nn.functional.hardswish nn.functional.leaky_relu nn.functional.relu6""".split()


@pytest.mark.parametrize("name", ALONE)
def test_functions_of_one_tensor_have_pytorchs_dtype(name: str):
    for x in (*OPERANDS, 2.5):
        assert outcome(fg, name, x) == outcome(torch, name, x), x


@pytest.mark.filterwarnings("ignore")
def test_casts_between_all_dtypes():
    values = np.array([0.0, 1.0, -1.5, 100.25, 7.0])
    for source, target in itertools.product(DTYPES, repeat=2):
        if source == "uint8" or (target == "uint8" and source not in ("bool", "int64")):
            values = np.abs(values)  # a negative fraction has no unsigned value that C agrees on
        x = values.astype(source)
        with np.errstate(all="ignore"):
            ours = fg.tensor(x).to(getattr(fg, target))
        theirs = torch.tensor(x).to(getattr(torch, target))
        assert repr(ours.dtype) == repr(theirs.dtype)
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_limits_of_dtypes():
    for name in DTYPES:
        for limits in ("finfo", "iinfo"):
            found_limits = []
            for namespace in (fg, torch):
                try:
                    found_limits.append(repr(getattr(namespace, limits)(getattr(namespace, name))))
                except TypeError:
                    found_limits.append("TypeError")
            assert found_limits[0] == found_limits[1]
        for other in DTYPES:
            ours = fg.can_cast(getattr(fg, name), getattr(fg, other))
            assert ours == torch.can_cast(getattr(torch, name), getattr(torch, other))


def test_integer_scalars_out_of_range_wrap():
    x = [250, 3]
    for value in (300, -1):
        ours = fg.tensor(x, dtype=fg.uint8) + value
        theirs = torch.tensor(x, dtype=torch.uint8) + value
        assert ours.tolist() == theirs.tolist()


def test_default_dtype():
    try:
        fg.set_default_dtype(fg.float64)
        assert fg.tensor(1.5).dtype is fg.float64 and fg.get_default_dtype() is fg.float64
        assert (fg.tensor([1, 2]) / 2).dtype is fg.float64
        assert repr(fg.tensor(1.5, dtype=fg.float32)) == "tensor(1.5000, dtype=torch.float32)"
    finally:
        fg.set_default_dtype(fg.float32)
    with pytest.raises(TypeError, match="only floating-point"):
        fg.set_default_dtype(fg.int64)


_random = np.random.default_rng(3)
VALUES = [
    1.0, 0.5, 3, True, -7, [], [[]], [1, 2, 3], [True, False], [1.0, 2.0], [1.5, -2.25], [0.0, -0.0], [1e-3, 4e5],
    [1e-5, 1.0], [1e9, 1.0], [1000.0, 1.0], [1001.0, 1.0], [100000.0, 200000.0], [1e8, 1e8 + 8], [float("nan"), 1.0],
    [float("inf"), -1.5], [float("nan")], [float("-inf"), float("nan")], [float("inf"), 2.0], [[1, -2], [30, 400]],
    [[[1.5, 2.0]], [[3.0, 4.0]]], [1e-10], [12345.678], [0.1, 100.0], [1e-4, 1e-3], [99999.0, 0.5], list(range(40)),
    (_random.normal(size=30)).tolist(), (_random.normal(size=(5, 12)) * 100).tolist(),
    (_random.normal(size=(2, 3, 4))).tolist(), (_random.normal(size=(3, 30))).tolist(), [[[[1.0]]]],
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_repr_of_values(value):
    assert repr(fg.tensor(value)) == repr(torch.tensor(value))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 0), (2, 13), (1001,), (7, 200), (2, 9, 80)])
def test_repr_of_dtypes_and_shapes(dtype: str, shape):
    array = np.random.default_rng(5).uniform(-100, 100, shape)
    array = np.asarray(array).astype(dtype) if dtype != "uint8" else np.abs(array).astype(dtype)
    assert repr(fg.tensor(array)) == repr(torch.tensor(array))


@pytest.mark.parametrize("shape", [(3,), (10,), (2, 3), (30,), (1200,)])
def test_repr_with_gradients(shape):
    array = np.random.default_rng(6).normal(size=shape).astype("float32")
    a, b = fg.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
    assert repr(a) == repr(b)
    for use in (
        lambda x, f: x * 2, lambda x, f: f.tanh(x), lambda x, f: x.sum(), lambda x, f: x.sum(0), lambda x, f: x.mean(),
        lambda x, f: x[0], lambda x, f: x[:2], lambda x, f: -x, lambda x, f: x.reshape(-1), lambda x, f: x - 1,
        lambda x, f: x / 3, lambda x, f: x**2, lambda x, f: f.exp(x), lambda x, f: f.nn.functional.softmax(x, -1),
        lambda x, f: f.nn.functional.relu(x), lambda x, f: f.cat([x, x]), lambda x, f: x.double(),
        lambda x, f: x.max(), lambda x, f: x + x, lambda x, f: f.where(x > 0, x, x),
    ):  # fmt: skip
        assert repr(use(a, fg)) == repr(use(b, torch))


def test_repr_of_products():
    for a, b in (
        ((2,), (2,)),
        ((3, 2), (2,)),
        ((3, 2), (2, 4)),
        ((2, 3, 2), (2, 2, 1)),
        ((2, 3, 2), (2, 4)),
        ((2,), (2, 3)),
    ):
        x, y = (m.ones(a, requires_grad=True) @ m.ones(b) for m in (fg, torch))
        assert repr(x) == repr(y)


def test_repr_of_parameters_modules_and_results():
    a, b = fg.nn.Parameter(fg.ones(2)), torch.nn.Parameter(torch.ones(2))
    assert repr(a) == repr(b)
    for make in (
        lambda nn: nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 1, bias=False))),
        lambda nn: nn.ModuleDict({"a": nn.LayerNorm(4), "b": nn.Embedding(3, 2)}),
        lambda nn: nn.ModuleList(
            [nn.Dropout(0.1), nn.GELU(), nn.Softmax(dim=1), nn.Flatten(), nn.LeakyReLU(0.2)]
        ),
    ):
        got, want = repr(make(fg.nn)), repr(make(torch.nn))
        if isinstance(make(fg.nn), fg.nn.ModuleList):
            assert got.splitlines()[1:] == want.splitlines()[1:]
        else:
            assert got == want
    values = [[1.0, 3.0], [2.0, 0.0]]
    assert repr(fg.tensor(values).max(1)) == repr(torch.tensor(values).max(1))
    assert repr(fg.tensor(values).shape) == repr(torch.tensor(values).shape)
    assert f"{fg.tensor(1.5):.2f}" == "1.50"


def test_what_a_tensor_tells_of_itself_is_what_pytorchs_tells():
    for make in (
        lambda library: library.ones(2, 3),
        lambda library: library.zeros((), dtype=library.int16),
        lambda library: library.ones(0, dtype=library.bool),
    ):
        ours, theirs = make(fg), make(torch)
        for name in ("nbytes", "itemsize", "is_cpu", "is_cuda"):
            assert getattr(ours, name) == getattr(theirs, name)
        for name in ("ndimension", "element_size", "is_signed", "get_device", "numel", "dim"):
            assert getattr(ours, name)() == getattr(theirs, name)()
        assert ours.is_same_size(make(fg)) and not ours.is_same_size(fg.ones(7))
    assert fg.ones(1).is_nonzero() and not fg.zeros(1).is_nonzero()
    with pytest.raises(RuntimeError, match="CPU"):
        fg.ones(1).cuda()


def test_tensors_are_strided_and_on_the_cpu() -> None:
    ours, theirs = fg.ones(2), torch.ones(2)
    assert str(ours.layout) == str(theirs.layout) == "torch.strided"
    assert ours.layout is fg.strided and isinstance(fg.strided, fg.layout)
    names = "is_cpu is_cuda is_meta is_mkldnn is_mps is_nested is_quantized is_sparse is_sparse_csr is_xpu".split()
    for name in names:
        assert getattr(ours, name) == getattr(theirs, name), name
    assert pickle.loads(pickle.dumps(fg.strided)) is fg.strided


def test_questions_about_tensors_are_functions_too() -> None:
    for lib in (fg, torch):
        assert [lib.is_signed(lib.ones(1, dtype=d)) for d in (lib.uint8, lib.bool, lib.int8)] == [
            False,
            False,
            True,
        ]
        assert [d.is_signed for d in (lib.uint8, lib.bool, lib.int8, lib.complex64)] == [
            False,
            False,
            True,
            True,
        ]
        assert lib.is_nonzero(lib.tensor(2)) and not lib.is_nonzero(lib.tensor([0.0]))
        assert lib.is_same_size(lib.ones(2), lib.zeros(2)) and not lib.is_same_size(lib.ones(2), lib.ones(1))
        with lib.inference_mode():
            made = lib.ones(1)
        assert lib.is_inference(made) and not lib.is_inference(lib.ones(1))


def test_in_place_forms_that_are_functions_in_torch() -> None:
    names = [n for n in dir(torch) if n.endswith("_") and not n.startswith("_") and hasattr(fg.Tensor, n)]
    assert not [n for n in names if not hasattr(fg, n)]
    x = fg.tensor([-1.0, 2.0])
    assert fg.abs_(x) is x and x.tolist() == [1.0, 2.0]


def test_deterministic_algorithms_are_remembered() -> None:
    for lib in (fg, torch):
        lib.use_deterministic_algorithms(True, warn_only=True)
        assert lib.are_deterministic_algorithms_enabled()
        assert lib.is_deterministic_algorithms_warn_only_enabled()
        lib.use_deterministic_algorithms(False)
        assert not lib.are_deterministic_algorithms_enabled()
        assert not lib.is_deterministic_algorithms_warn_only_enabled()


def test_strided_tensors_are_dense() -> None:
    for lib in (fg, torch):
        x = lib.ones(2, 3)
        assert x.to_dense() is x
        assert (x.dense_dim(), x.sparse_dim()) == (2, 0)
