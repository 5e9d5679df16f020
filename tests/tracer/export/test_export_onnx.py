"""Exporting to ONNX: onnxruntime computes what eager computes, or the op is refused by name."""

from __future__ import annotations

import builtins
import os
import re

import numpy as np
import pytest
from exporting import FILE, branching, network, positive, recorded, run_onnx, tensor
from op_samples import SAMPLES

import fusegrad as fg
from fusegrad.eager.core.op import REGISTRY, bind, wrap
from fusegrad.eager.ops.pointwise.elementwise import cast
from fusegrad.nn import functional as F
from fusegrad.tracer.export import ExportError, export
from fusegrad.tracer.export.onnx.emission import forward_graph, sayable
from fusegrad.tracer.export.onnx.model_file import onnx_file
from fusegrad.tracer.export.onnx.ops import OTHERS
from fusegrad.tracer.export.onnx.scalars import ENTRIES, PRIMITIVES


def test_onnx_gives_eagers_results_under_named_inputs_with_static_shapes(tmp_path):
    onnx = pytest.importorskip("onnx")
    x, bias = tensor(2, 6), tensor(4)
    export(network, (x, bias), tmp_path / "graph.onnx")
    data = (tmp_path / "graph.onnx").read_bytes()
    total, h = run_onnx(data, x.array, bias.array)
    np.testing.assert_allclose(h, network(x, bias)[1].array, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(total, network(x, bias)[0].array, rtol=1e-5)
    model = onnx.load_model_from_string(data)
    assert [i.name for i in model.graph.input] == ["x", "bias"]
    assert [o.name for o in model.graph.output] == ["output0", "output1"]
    assert [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == [2, 6]
    assert any("fg.tanh" in node.doc_string for node in model.graph.node)


def test_onnx_refuses_another_size_rather_than_answer_wrongly():
    data = onnx_file(recorded(lambda x: x.mean(), tensor(5)))
    with pytest.raises(Exception, match=r"[Ii]nvalid dimensions"):
        run_onnx(data, tensor(6).array)


def test_onnx_refuses_branches_on_data_with_their_lines():
    with pytest.raises(ExportError) as caught:
        onnx_file(recorded(branching, positive()))
    message = str(caught.value)
    assert f"{FILE}:{branching.__code__.co_firstlineno + 2}" in message
    assert "if h.sum() > 0:" in message and "fusegrad.where" in message


def test_onnx_allows_branches_that_the_files_own_data_decide():
    weight = positive()

    def function(x):
        return x * weight if weight.sum() > 0 else x

    x = tensor(3)
    (result,) = run_onnx(onnx_file(recorded(function, x)), x.array)
    np.testing.assert_allclose(result, x.array * weight.array)


def test_onnx_without_the_package_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **kwargs):
        if name.split(".")[0] == "onnx":
            raise ImportError(name)
        return real(name, *rest, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ExportError, match=re.escape('pip install "fusegrad[onnx]"')):
        onnx_file(recorded(lambda x: x * 2.0, tensor(2)))


def test_onnx_names_an_op_that_it_cannot_say_and_its_line():
    with pytest.raises(ExportError, match="the op erfinv cannot be written as ONNX") as caught:
        onnx_file(recorded(lambda x: fg.erfinv(x), tensor(2)))
    assert os.path.basename(__file__) in str(caught.value) and "fg.erfinv(x)" in str(caught.value)


def test_onnx_refuses_complex_numbers():
    with pytest.raises(ExportError, match="complex"):
        onnx_file(recorded(lambda x: x * 2.0, wrap(np.ones(2, "complex64"))))


def test_onnx_writes_nothing_when_onnxruntime_disagrees(monkeypatch, tmp_path):
    pytest.importorskip("onnxruntime")
    monkeypatch.setitem(PRIMITIVES, "tanh", lambda x: x)
    with pytest.raises(ExportError, match="another result 0"):
        export(lambda x: fg.tanh(x), (tensor(2),), tmp_path / "graph.onnx")
    assert os.listdir(tmp_path) == []


# Every op of the registry, by its samples.

# Why an op that ONNX can say may be refused for some dtypes or parameters.
REASONS = (
    "complex numbers|onnxruntime has no|onnxruntime loses|convert to floats|without antialiasing|is a part of"
)


def sample_cases():
    """Every sample whose results do not depend on chance, under the name of its op."""
    for name, samples in SAMPLES.items():
        for number, sample in enumerate(samples):
            if not sample.random:
                yield pytest.param(sample, id=f"{name}-{number}")


def recorded_sample(sample):
    """The sample's program in float32, and its arrays."""
    arrays = [a.astype("float32") if a.dtype == np.float64 else a for a in sample.inputs]
    return recorded(lambda *tensors: sample.call(fg, *tensors), *map(fg.tensor, arrays)), arrays


@pytest.mark.one_in(8)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("sample", list(sample_cases()))
def test_every_sample_of_every_op_agrees_with_eager_or_is_refused_by_name(sample):
    program, arrays = recorded_sample(sample)
    if program.open_guards("branch"):
        with pytest.raises(ExportError, match="branched"):
            onnx_file(program)
        return
    try:
        data = onnx_file(program)
    except ExportError as refused:
        found = re.search("the op (\\w+) cannot be written as ONNX: (.*)", str(refused))
        assert found, str(refused)
        assert found[1] in {e.op.name for e in forward_graph(program.graph).equations}
        assert not sayable(REGISTRY[found[1]]) or re.search(REASONS, found[2]), str(refused)
        return
    assert all(sayable(e.op) for e in forward_graph(program.graph).equations)
    for result, expected in zip(run_onnx(data, *arrays), program.expected, strict=True):
        assert result.dtype == np.asarray(expected).dtype and result.shape == np.shape(expected)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_every_entry_is_about_an_op():
    assert {*ENTRIES, *OTHERS} <= set(REGISTRY)


SPECIAL = [-np.inf, -3.5, -2.0, -1.0, -0.5, -1e-3, -0.0, 0.0, 1e-3, 0.5, 1.0, 2.5, 3.0, 20.5, np.inf, np.nan]
SINGLE_ONLY = {"asin", "acos", "atan", "atan2", "sinh", "erf", "gelu"}  # onnxruntime has no float64 kernel
ELEMENTWISE = sorted(n for n, op in REGISTRY.items() if op.family == "elementwise" and sayable(op))
# Parameters for the ops that have some.
PARAMS = {
    "pow_number": {"exponent": 3},
    "clamp": {"min": -1, "max": 2},
    "addcmul": {"value": 2},
    "addcdiv": {"value": 2},
    "leaky_relu": {"negative_slope": 0.1},
    "elu": {"alpha": 1.5},
    "celu": {"alpha": 1.5},
    "hardtanh": {"min_val": -1.0, "max_val": 2.0},
    "nan_to_num": {"nan": 0.5, "posinf": 4.0, "neginf": -4.0},
    "softplus": {"beta": 1.5, "threshold": 3.0},
    "threshold": {"threshold": 0.5, "value": 2.0},
    "hardshrink": {"lambd": 0.5},
    "softshrink": {"lambd": 0.5},
    "cast": {"dtype": fg.float32},
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "int8", "uint8", "bool"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_ops_agree_with_eager_also_on_special_values(name, dtype):
    if name == "where" or (dtype == "bool" and name in ("clamp", "addcmul")):
        pytest.skip("has a test of its own, or is not called so: its parameters promote")
    op = REGISTRY[name]
    values = np.array(SPECIAL if dtype.startswith("f") else [-3, -2, -1, 0, 0, 1, 2, 3, 7]).astype(
        "int64" if "int" in dtype else dtype
    )
    x, y = (np.repeat(values, len(values)), np.tile(values, len(values)))
    params = PARAMS.get(name, {})
    if name in ("pow", "floor_divide", "remainder", "fmod") and np.dtype(dtype).kind in "iu":
        y = np.where(y == 0, 1, np.abs(y))  # negative powers and dividing by 0 are refused
    args = [wrap(x.astype(dtype)), wrap(y.astype(dtype)), wrap(y[::-1].astype(dtype))][: len(op.arguments)]
    try:
        expected = bind(op, tuple(args), params)
    except RuntimeError:
        pytest.skip("eager refuses it")
    program = recorded(lambda *tensors: bind(op, tensors, params), *args)
    if name == "pow" and np.dtype(dtype).kind in "iu":
        with pytest.raises(ExportError, match="convert to floats"):
            onnx_file(program)
        return
    if dtype == "float64" and name in SINGLE_ONLY:
        with pytest.raises(ExportError, match="float64"):
            onnx_file(program)
        return
    (result,) = run_onnx(onnx_file(program), *(a.array for a in args))
    assert result.dtype == expected.array.dtype
    np.testing.assert_allclose(result, expected.array, rtol=2e-5 if dtype != "float64" else 1e-12, atol=1e-15)


REDUCED = wrap(np.array([[1.5, np.nan, -2.0], [-np.inf, 3.0, 0.5], [0.25, 4.0, 4.0]], "float32"))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dim", [None, (0,), (1,), (0, 1)])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(
    "name", ["sum", "prod", "amax", "amin", "any", "all", "mean", "var", "logsumexp", "norm"]
)
def test_reductions_agree_with_eager_also_with_nan_in_the_middle(name, dim, keepdim):
    params = {"dim": dim, "keepdim": keepdim}
    if name == "var":
        params = {"dim": dim, "correction": 1, "keepdim": keepdim}
    for array in (REDUCED.array, tensor(3, 3).array, tensor(3, 3, dtype="float64").array):
        x = wrap(array)
        expected = bind(REGISTRY[name], (x,), params)
        (result,) = run_onnx(onnx_file(recorded(lambda x: bind(REGISTRY[name], (x,), params), x)), array)
        np.testing.assert_allclose(result, expected.array, rtol=1e-5)
        assert result.shape == expected.array.shape and result.dtype == expected.array.dtype


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "any", "all", "argmax", "argmin"])
def test_reductions_of_integers_agree_with_eager(name, dtype):
    x = wrap(np.array([[0, 1, 2], [3, 0, 1]]).astype(dtype))
    params = {"dim": 1 if name.startswith("arg") else (1,), "keepdim": False}
    program = recorded(lambda x: bind(REGISTRY[name], (x,), params), x)
    (result,) = run_onnx(onnx_file(program), x.array)
    np.testing.assert_array_equal(result, program.expected[0])


@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes_agree_with_eager_also_with_nan(name, dim, keepdim):
    params = {"dim": dim, "keepdim": keepdim}
    program = recorded(lambda x: bind(REGISTRY[name], (x,), params), REDUCED)
    (result,) = run_onnx(onnx_file(program), REDUCED.array)
    np.testing.assert_array_equal(result, program.expected[0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.reshape(6, 4),
        lambda x: x.permute(2, 0, 1),
        lambda x: x.transpose(0, 1) @ x.transpose(0, 1).transpose(1, 2),
        lambda x: x.unsqueeze(0).expand(2, 2, 3, 4),
        lambda x: x[1],
        lambda x: x[:, 1:3, ::2],
        lambda x: x[0, None, ..., -1],
        lambda x: x[1, 2, 3],
        lambda x: x[0:0],
        lambda x: x.flip(0, 2),
        lambda x: x.detach() + x,
        lambda x: x.clone(),
        lambda x: cast(cast(x, fg.float64), fg.int64),
        lambda x: fg.where(x > 0, x, 0.0),
        lambda x: fg.where(x > 0, 1, 0),
        lambda x: x * 2 + 1,
        lambda x: (x > 0) & (x < 1),
        lambda x: fg.full((2, 3), 7.5) + x.sum(),
        lambda x: fg.arange(4) * x,
        lambda x: (x @ x[0, 0], x[0, 0] @ x[0, 0]),
        lambda x: (x, x, 3.5, x + 1.0),
    ],
)
def test_views_creation_promotion_and_products_agree_with_eager(function):
    x = tensor(2, 3, 4)
    program = recorded(function, x)
    results = run_onnx(onnx_file(program), x.array)
    for result, expected in zip(results, program.expected, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
        assert result.shape == np.shape(expected)


@pytest.mark.parametrize(
    "index", [(1,), (slice(0, 5, 2),), (slice(1, 5, 3), 2), (slice(None), None, slice(1, 4, 2))]
)
def test_the_gradient_of_indexing_agrees_with_eager(index):
    x = tensor(5, 4)
    from fusegrad.eager.ops.shape.slicing import basic_index

    frozen = basic_index(index, (5, 4))
    program = recorded(
        lambda g: bind(REGISTRY["embed"], (g,), {"shape": (5, 4), "index": frozen}), x[index].clone()
    )
    (result,) = run_onnx(onnx_file(program), program.examples[0].array)
    np.testing.assert_array_equal(result, program.expected[0])


@pytest.mark.parametrize("exponent", [0, 1, 2, 5, 13])
def test_powers_of_whole_numbers_wrap_as_eagers_do(exponent):
    x = wrap(np.array([-7, -1, 0, 3, 99, 2**40 + 1]))
    program = recorded(lambda x: x**exponent, x)
    (result,) = run_onnx(onnx_file(program), x.array)
    np.testing.assert_array_equal(result, program.expected[0])


def test_concatenation_promotes_as_eager_does():
    x, y = tensor(2, 3), tensor(2, 1, dtype="float64")
    program = recorded(lambda x, y: bind(REGISTRY["cat"], (x, y), {"dim": 1}), x, y)
    (result,) = run_onnx(onnx_file(program), x.array, y.array)
    np.testing.assert_array_equal(result, program.expected[0])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_whole_numbers_divided_by_zero_do_not_end_the_process(name):
    x, y = wrap(np.array([5, -5, 0])), wrap(np.array([0, 0, 0]))
    program = recorded(lambda x, y: bind(REGISTRY[name], (x, y), {}), x, wrap(np.array([2, 3, 4])))
    (result,) = run_onnx(onnx_file(program), x.array, y.array)
    np.testing.assert_array_equal(result, [0, 0, 0])


ORDERED = wrap(
    np.array(
        [[np.nan, 1, np.inf, 1, np.nan, -np.inf, np.inf, -0.0, 0.0], [3, 1, 2, 1, 2, 3, 1, 2, 3]], "float32"
    )
)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "bool"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: fg.sort(x, 1),
        lambda x: fg.sort(x, 1, descending=True),
        lambda x: fg.topk(x, 4),
        lambda x: fg.topk(x, 4, largest=False),
        lambda x: fg.median(x, 1),
        lambda x: fg.max(x, 1),
        lambda x: fg.min(x, 0, keepdim=True),
        lambda x: fg.cumsum(x, 1),
    ],
)
def test_order_agrees_with_eager_also_for_equal_elements_and_nan(function, dtype):
    with np.errstate(invalid="ignore"):
        x = wrap((ORDERED if "float" in dtype else ORDERED[1:]).array.astype(dtype))
    program = recorded(function, x)
    for result, expected in zip(run_onnx(onnx_file(program), x.array), program.expected, strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("name", ["put", "scatter"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8"])
def test_writes_to_one_place_happen_in_order_and_negative_indices_count_from_the_end(name, accumulate, dtype):
    random = np.random.default_rng(0)
    shape = (300,) if name == "put" else (5, 300)
    x, index = wrap(np.zeros((5, 4), dtype)), wrap(random.integers(-4 if name == "put" else 0, 4, shape))
    source = wrap(random.integers(0, 3, (5, 300)).astype(dtype))
    params = {"dim": 1, "accumulate": accumulate}
    program = recorded(lambda *tensors: bind(REGISTRY[name], tensors, params), x, source, index)
    (result,) = run_onnx(onnx_file(program), x.array, source.array, index.array)
    np.testing.assert_array_equal(result, program.expected[0])


# Windows.

IMAGES = np.random.default_rng(3).standard_normal((2, 4, 9, 8)).astype("float32")
IMAGES[0, 0, 2, 3], IMAGES[0, 1, :4, :4], IMAGES[1, 0, 0, 0] = np.nan, -np.inf, np.inf
IMAGES[1, 1, 5:, 5:] = np.finfo("float32").min
KERNEL = tensor(6, 2, 3, 2, seed=1)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.conv2d(x, KERNEL.to(x.dtype), stride=(4, 3), groups=2),  # an end that no window covers
        lambda x: F.conv2d(x[0], KERNEL.to(x.dtype), fg.ones(6, dtype=x.dtype), padding=2, groups=2),
        lambda x: F.conv2d(x, KERNEL.to(x.dtype), padding="same", dilation=(2, 3), groups=2),
        lambda x: F.conv_transpose2d(x[:, :, ::2], KERNEL[:4].to(x.dtype), stride=3, output_padding=(2, 1)),
        lambda x: F.conv_transpose2d(x, KERNEL[:4].to(x.dtype), fg.ones(2, dtype=x.dtype), padding=2),
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.max_pool2d(x[0], (3, 2), dilation=2),
        lambda x: F.max_pool2d(x, 2, 3, ceil_mode=True),
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        lambda x: F.avg_pool2d(x[0], (2, 3), divisor_override=5),
        lambda x: F.adaptive_avg_pool2d(x[:, ::2], (3, 2)),
        lambda x: F.adaptive_avg_pool2d(x[:, ::2], (4, 3)),  # windows of several sizes
        lambda x: F.adaptive_max_pool2d(x, (4, 3), return_indices=True)[1].float(),
        lambda x: F.unfold(x, (3, 2), padding=1, stride=2),
        lambda x: F.fold(F.unfold(x.nan_to_num(0.0, 1.0, -1.0), 3), (9, 8), 3),
        lambda x: F.interpolate(x, (4, 20)),
        lambda x: F.interpolate(x, (4, 20), mode="bilinear", align_corners=True),
        lambda x: F.interpolate(x, (18, 16), mode="bicubic"),
        lambda x: x.diagonal(1, -1, -2) + x.unfold(2, 5, 2).sum(),
    ],
)
def test_windows_agree_with_eager_also_on_special_values(function, dtype):
    x = fg.tensor(IMAGES.astype(dtype))
    program = recorded(function, x)
    (result,) = run_onnx(onnx_file(program), x.array)
    (expected,) = program.expected
    assert result.dtype == expected.dtype and result.shape == expected.shape
    single = dtype == "float32"
    np.testing.assert_allclose(result, expected, rtol=1e-4 if single else 1e-2, atol=1e-5 if single else 1e-2)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_the_largest_of_small_whole_numbers_agrees_with_eager(dtype):
    x = wrap(np.random.default_rng(0).integers(-100, 100, (1, 2, 5, 5)).astype(dtype))
    program = recorded(lambda x: F.max_pool2d(x, 3, 2, 1), x)
    np.testing.assert_array_equal(run_onnx(onnx_file(program), x.array)[0], program.expected[0])


@pytest.mark.parametrize(
    "function, why",
    [
        (lambda x: F.conv1d(x, fg.ones(2, 3, 2, dtype=x.dtype)), "no Conv for float64"),
        (lambda x: F.avg_pool1d(x, 2), "no AveragePool for float64"),
        (lambda x: F.max_pool1d(x, 2, 3, dilation=3, ceil_mode=True), "kernel's size"),
        (lambda x: F.max_pool1d(x, 2, return_indices=True)[1], "no form of it"),
    ],
)
def test_what_onnxruntime_lacks_is_refused_with_the_op_and_the_reason(function, why):
    with pytest.raises(ExportError, match=f"the op \\w+ cannot be written as ONNX: .*{why}"):
        onnx_file(recorded(function, tensor(1, 3, 8, dtype="float64")))
