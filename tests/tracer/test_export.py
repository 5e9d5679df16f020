"""Exporting: files say what eager computes, refuse what they cannot say, appear whole or not at all."""

from __future__ import annotations

import builtins
import itertools
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.eager.op import REGISTRY, bind, wrap
from fusegrad.eager.ops.elementwise import cast
from fusegrad.eager.state import state
from fusegrad.eager.tensor import Tensor
from fusegrad.tracer.export import ExportError, export, files
from fusegrad.tracer.export.drawing import drawing
from fusegrad.tracer.export.layout import Box, crossings, layout
from fusegrad.tracer.export.onnx_file import onnx_file
from fusegrad.tracer.export.onnx_ops import OTHERS, REDUCTIONS
from fusegrad.tracer.export.onnx_scalars import ENTRIES, PRIMITIVES
from fusegrad.tracer.export.page import page
from fusegrad.tracer.export.program import Program
from fusegrad.tracer.export.python_file import load_module, module_text
from fusegrad.tracer.graph import Graph
from fusegrad.tracer.record import Recorder
from fusegrad.tracer.text import GuardFailed, parse_graph

sys.path.insert(0, str(Path(__file__).parent.parent))
from op_samples import SAMPLES


def recorded(function, *tensors, name="function"):
    """A program from one run under the recorder alone."""
    recorder = Recorder()
    for i, tensor in enumerate(tensors):
        recorder.argument(tensor, f"x{i}")
    previous, state.interpreter = state.interpreter, recorder
    try:
        result = function(*tensors)
    finally:
        state.interpreter = previous
    results = result if isinstance(result, tuple) else (result,)
    outputs = tuple(recorder.value_of(r) if isinstance(r, Tensor) else r for r in results)
    inputs = (*recorder.inputs, *recorder.captured, *recorder.constants)
    graph = Graph(inputs, tuple(recorder.equations), outputs)
    return Program(
        name, graph, tuple(recorder.inputs), dict(recorder.captured), dict(recorder.constants), tensors
    )


def run_onnx(data, *arrays):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    feeds = {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)}
    return session.run(None, feeds)


def tensor(*shape, seed=0, dtype="float32"):
    return wrap(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


WEIGHT = tensor(6, 4, seed=1)
LARGE = tensor(30, 20, seed=2)
SMALL = wrap(np.array([np.nan, -0.0, np.inf, -np.inf, 0.1, 1e-45], "float32"))


def network(x, bias):
    h = fg.tanh(x @ WEIGHT + bias)
    return (h * h).sum(), h


def branching(x):
    h = x * 2.0
    if h.sum() > 0:
        return h + 1.0
    return h - 1.0


def positive(n=3):
    return wrap(np.abs(np.random.default_rng(4).standard_normal(n)).astype("float32"))


# The target path.


@pytest.mark.parametrize("suffix", [".png", "", ".pyc"])
def test_another_suffix_is_refused_with_the_supported_ones_and_the_users_line(tmp_path, suffix):
    with pytest.raises(ExportError) as caught:
        export(network, (tensor(2, 6), tensor(4)), tmp_path / f"graph{suffix}")
    message = str(caught.value)
    assert all(s in message for s in (".py", ".onnx", ".dot", ".html"))
    assert __file__ in message and "export(network" in message
    assert os.listdir(tmp_path) == []


def test_paths_that_cannot_be_written_are_named_and_the_function_is_not_run(tmp_path):
    def never(x):
        raise AssertionError("ran")

    (tmp_path / "folder.py").mkdir()
    (tmp_path / "file").write_text("")
    for path, what in [
        (tmp_path / "missing" / "graph.py", "does not exist"),
        (tmp_path / "file" / "graph.py", "is not a directory"),
        (tmp_path / "folder.py", "is a directory"),
    ]:
        with pytest.raises(ExportError, match=what) as caught:
            export(never, (tensor(2),), path)
        assert str(path) in str(caught.value) and __file__ in str(caught.value)


def test_a_directory_without_permission_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(files.os, "access", lambda *_: False)
    with pytest.raises(ExportError, match="no permission"):
        export(network, (tensor(2, 6), tensor(4)), tmp_path / "graph.dot")


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_in_the_middle_leaves_what_was_there_and_nothing_else(tmp_path, monkeypatch, step, error):
    def fail(*_):
        raise error

    path = tmp_path / "graph.dot"
    path.write_text("old")
    with monkeypatch.context() as patched:
        patched.setattr(files.os, step, fail)
        with pytest.raises((ExportError, KeyboardInterrupt)) as caught:
            files.write_whole(str(path), b"new")
    assert os.listdir(tmp_path) == ["graph.dot"] and path.read_text() == "old"
    if isinstance(error, OSError):
        assert "No space left on device" in str(caught.value) and str(path) in str(caught.value)


def test_an_error_while_the_file_is_made_leaves_nothing(tmp_path):
    def broken(x):
        raise ZeroDivisionError("in the user's function")

    for suffix in (".py", ".onnx", ".dot", ".html"):
        with pytest.raises(ZeroDivisionError):
            export(broken, (tensor(2),), tmp_path / f"graph{suffix}")
    assert os.listdir(tmp_path) == []


def test_a_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path):
    real, link = tmp_path / "real.dot", tmp_path / "link.dot"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    files.write_whole(str(link), b"new")
    assert link.is_symlink() and real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o640


# Through `export`: functions, methods, callables.


class Affine:
    def __init__(self):
        self.weight = tensor(6, 4, seed=3)

    def apply(self, x):
        return x @ self.weight

    def __call__(self, x):
        return fg.relu(self.apply(x))


def test_functions_bound_methods_and_callables_are_exported(tmp_path):
    x, bias, affine = tensor(2, 6), tensor(4), Affine()
    for function, args, expected in [
        (network, (x, bias), network(x, bias)[1]),
        (affine.apply, [x], affine.apply(x)),
        (affine, (x,), affine(x)),
        (lambda x: x.exp(), x, x.exp()),
    ]:
        export(function, args, tmp_path / "graph.py")
        names = load_module((tmp_path / "graph.py").read_text())
        given = {"x": x, "bias": bias}
        result = names["run"](*(given[name] for name in names["ARGUMENTS"]))
        last = result[-1] if isinstance(result, tuple) else result
        np.testing.assert_array_equal(last.array, expected.array)


def test_keyword_arguments_and_containers_become_arguments(tmp_path):
    def function(pair, *, scale):
        return {"sum": pair[0] + pair[1], "scaled": pair[0] * scale}

    x, y, scale = tensor(3), tensor(3, seed=1), tensor(3, seed=2)
    export(function, ([x, y],), tmp_path / "graph.py", kwargs={"scale": scale})
    names = load_module((tmp_path / "graph.py").read_text())
    assert names["ARGUMENTS"] == ("pair_0", "pair_1", "scale")
    total, scaled = names["run"](x, y, scale)
    np.testing.assert_array_equal(total.array, x.array + y.array)
    np.testing.assert_array_equal(scaled.array, x.array * scale.array)


def test_one_tensor_for_two_arguments_is_refused(tmp_path):
    x = tensor(3)
    with pytest.raises(ExportError, match="separate tensors"):
        export(lambda x, y: x * y, (x, x), tmp_path / "graph.onnx")


def test_an_open_run_is_refused_with_its_reasons_and_lines(tmp_path):
    def printing(x):
        print("side effect")
        return x * 2.0

    with pytest.raises(ExportError) as caught:
        export(printing, (tensor(2),), tmp_path / "graph.html")
    assert 'print("side effect")' in str(caught.value)
    assert f"{__file__}:{printing.__code__.co_firstlineno + 1}" in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_results_that_are_arguments_numbers_or_none_keep_their_place(tmp_path):
    x = tensor(3)
    export(lambda x: (x, x * 2.0, 7, None, x), (x,), tmp_path / "graph.py")
    first, second, number, last = load_module((tmp_path / "graph.py").read_text())["run"](x)
    assert first is x and last is x and number == 7
    np.testing.assert_array_equal(second.array, x.array * 2)
    assert "1 parts of the function's result were None" in (tmp_path / "graph.py").read_text()


def test_a_view_of_an_argument_may_be_exported(tmp_path):
    export(lambda x: x.reshape(-1), (tensor(2, 3),), tmp_path / "graph.onnx")
    (result,) = run_onnx((tmp_path / "graph.onnx").read_bytes(), tensor(2, 3).array)
    assert result.shape == (6,)


def test_a_result_that_no_file_can_hold_is_refused(tmp_path):
    with pytest.raises(ExportError, match="str"):
        export(lambda x: (x * 2.0, "name"), (tensor(2),), tmp_path / "graph.py")


# .py


def test_the_python_file_runs_in_a_fresh_process_and_reads_back(tmp_path):
    x, bias = tensor(2, 6), tensor(4)
    path = tmp_path / "exported.py"
    export(network, (x, bias), path)
    text = path.read_text()
    function = text[text.index("def graph(") : text.index("ARGUMENTS =")]
    graph = parse_graph(function)
    assert [e.op.name for e in graph.equations] == ["matmul", "add", "tanh", "mul", "sum"]
    assert {str(e.source).split(":")[0] for e in graph.equations} == {os.path.basename(__file__)}
    np.savez(tmp_path / "in.npz", x=x.array, bias=bias.array)
    code = (
        "import numpy as np, exported\n"
        "given = np.load('in.npz')\n"
        "total, h = exported.run(given['x'], given['bias'])\n"
        "np.savez('out.npz', total=total.numpy(), h=h.numpy())\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    given = np.load(tmp_path / "out.npz")
    total, h = network(x, bias)
    np.testing.assert_array_equal(given["h"], h.array)
    np.testing.assert_array_equal(given["total"], total.array)


def test_weights_come_back_bit_for_bit():
    program = recorded(lambda x: (x + SMALL, LARGE * 2.0), tensor(6))
    names = load_module(module_text(program))
    by_size = {t.array.size: t.array for t in names["DATA"].values()}
    assert by_size[6].tobytes() == SMALL.array.tobytes()
    assert by_size[600].tobytes() == LARGE.array.tobytes()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int64", "float16", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3,), (9, 9)])
def test_weights_of_every_dtype_and_shape_come_back(dtype, shape):
    weight = wrap(np.random.default_rng(0).integers(0, 2, shape).astype(dtype))
    names = load_module(module_text(recorded(lambda x: (x * 2.0, weight.clone()), tensor(2))))
    (back,) = names["DATA"].values()
    assert back.array.dtype == weight.array.dtype and back.array.shape == shape
    assert back.array.tobytes() == weight.array.tobytes()


def test_the_python_file_keeps_the_guard_and_its_line():
    text = module_text(recorded(branching, positive()))
    assert "if h.sum() > 0:" in text
    names = load_module(text)
    np.testing.assert_array_equal(names["run"](positive()).array, branching(positive()).array)
    with pytest.raises(GuardFailed):
        names["run"](-positive())


def test_the_python_file_refuses_other_types_and_counts():
    run = load_module(module_text(recorded(lambda x, y: x * y, tensor(3), tensor(3))))["run"]
    with pytest.raises(TypeError, match=r"x0 must be f32\[3\].*float32\[4\]"):
        run(tensor(4), tensor(3))
    with pytest.raises(TypeError, match="float64"):
        run(tensor(3), tensor(3, dtype="float64"))
    with pytest.raises(TypeError, match="takes 2 arguments"):
        run(tensor(3))


def test_parameters_that_require_gradients_do_so_again():
    weight = tensor(3)
    weight.requires_grad_()
    names = load_module(module_text(recorded(lambda x: (x * weight).sum(), tensor(3))))
    names["run"](tensor(3)).backward()
    (data,) = names["DATA"].values()
    np.testing.assert_array_equal(data.grad.array, tensor(3).array)


# .onnx


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
    assert f"{os.path.basename(__file__)}:{branching.__code__.co_firstlineno + 2}" in message
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


# What ONNX cannot say, and why. Every other op can: a new one needs an entry, or a line here.
NOT_IN_ONNX = {
    "erfc": "ONNX has Erf alone, and 1 - erf(x) has no digits left for large x",
    "erfinv": "not in ONNX",
    "nonzero": "never in a graph: the shape of its result depends on the values",
}


def said(op):
    """Whether ONNX export has a way for `op` (composite ops are taken apart before)."""
    if op.family == "elementwise":
        return op.name in ENTRIES or callable(op.scalar) or op.scalar in {*PRIMITIVES, "select", "cast"}
    if op.family == "reduction":
        return op.combine in REDUCTIONS
    return op.name in OTHERS or op.family in ("creation", "composite", "random", "guard")


def test_every_op_that_onnx_can_say_has_an_entry():
    assert {n for n, op in REGISTRY.items() if not said(op)} == set(NOT_IN_ONNX)
    assert {*ENTRIES, *OTHERS} <= set(REGISTRY)


def sample_cases():
    """Every sample whose results do not depend on chance, under the name of its op."""
    for name, samples in SAMPLES.items():
        if name not in NOT_IN_ONNX:
            for number, sample in enumerate(samples):
                if not sample.random:
                    yield pytest.param(sample, id=f"{name}-{number}")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("sample", list(sample_cases()))
def test_every_sample_of_every_op_agrees_with_eager(sample):
    arrays = [a.astype("float32") if a.dtype == np.float64 else a for a in sample.inputs]
    program = recorded(lambda *tensors: sample.call(fg, *tensors), *map(fg.tensor, arrays))
    if program.open_guards("branch"):
        with pytest.raises(ExportError, match="branched"):
            onnx_file(program)
        return
    try:
        data = onnx_file(program)
    except ExportError as refused:
        assert re.search("complex", str(refused))
        return
    for result, expected in zip(run_onnx(data, *arrays), program.expected, strict=True):
        assert result.dtype == np.asarray(expected).dtype and result.shape == np.shape(expected)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


SPECIAL = [-np.inf, -3.5, -2.0, -1.0, -0.5, -1e-3, -0.0, 0.0, 1e-3, 0.5, 1.0, 2.5, 3.0, 20.5, np.inf, np.nan]
SINGLE_ONLY = {"asin", "acos", "atan", "atan2", "sinh", "erf", "gelu"}  # onnxruntime has no float64 kernel
ELEMENTWISE = sorted(n for n, op in REGISTRY.items() if op.family == "elementwise")
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
    from fusegrad.eager.ops.shape import basic_index

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
    x, index = wrap(np.zeros((5, 4), dtype)), wrap(random.integers(-4, 4, shape))
    source = wrap(random.integers(0, 3, (5, 300)).astype(dtype))
    params = {"dim": 1, "accumulate": accumulate}
    program = recorded(lambda *tensors: bind(REGISTRY[name], tensors, params), x, source, index)
    (result,) = run_onnx(onnx_file(program), x.array, source.array, index.array)
    np.testing.assert_array_equal(result, program.expected[0])


# .dot and .html


def test_the_dot_file_has_a_box_for_each_equation_and_diamonds_for_guards(tmp_path):
    export(branching, (positive(),), tmp_path / "graph.dot")
    text = (tmp_path / "graph.dot").read_text()
    assert text.startswith('digraph "branching" {') and text.endswith("}\n")
    assert text.count("shape=diamond") == 1 and "guard" in text
    assert f"{os.path.basename(__file__)}:{branching.__code__.co_firstlineno + 1}" in text
    assert "shape=oval" in text and "->" in text


def test_names_with_quotes_are_escaped_in_dot():
    from fusegrad.tracer.export.dot_file import dot_text

    text = dot_text(drawing(recorded(lambda x: x * 2.0, tensor(2))), 'a "quoted" \\ name')
    assert 'digraph "a \\"quoted\\" \\\\ name" {' in text


class Page(HTMLParser):
    """Collects elements, and fails on tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.words = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_shows_every_equation_with_its_line_and_needs_no_network(tmp_path):
    export(branching, (positive(),), tmp_path / "graph.html")
    text = (tmp_path / "graph.html").read_text()
    shown = Page(text)
    boxes = [a for _, a in shown.elements if a.get("class", "").startswith("node ")]
    assert [b["data-title"] for b in boxes] == ["x", "mul", "sum", "gt", "guard", "add", "output"]
    guard = next(b for b in boxes if b["data-kind"] == "guard")
    assert guard["data-source"] == "if h.sum() > 0:"
    assert "guard(v2, expected=True, kind='branch')" in "".join(shown.words)
    assert not re.search(r"""(src|href)=|url\((?!#)|https?://|@import|fetch\(""", text)
    assert "prefers-color-scheme: dark" in text


def test_the_page_escapes_what_the_user_wrote():
    text = page(recorded(lambda x: (x < 3) & (x > 2), tensor(2), name="<script>alert(1)</script>"))
    Page(text)
    assert "<script>alert" not in text


def test_layouts_keep_boxes_apart_and_edges_downward():
    boxes = [Box(str(i), 60.0 + 10 * (i % 3), 30.0, i % 4 == 0) for i in range(40)]
    edges = [(str(a), str(b)) for b in range(1, 40) for a in {b - 1, b // 2, b // 3} if a < b]
    placed = layout(boxes, edges)
    for path in placed.paths:
        assert all(y < below for (_, y), (_, below) in itertools.pairwise(path))
    for i, one in enumerate(boxes):
        for other in boxes[:i]:
            (x, y), (a, b) = placed.centres[one.key], placed.centres[other.key]
            assert abs(x - a) >= (one.width + other.width) / 2 - 1e-6 or abs(y - b) >= 29.99
    assert all(0 <= x <= placed.width and 0 <= y <= placed.height for x, y in placed.centres.values())


def test_layouts_remove_crossings_that_need_not_be():
    edges = [("a", "z"), ("b", "y"), ("c", "x")]
    placed = layout([Box(k, 50, 30) for k in "abcxyz"], edges)
    order = sorted("xyz", key=lambda k: placed.centres[k][0])
    assert crossings([["a", "b", "c"], order], edges) == 0


def test_graphs_without_equations_can_be_drawn():
    assert "output" in page(recorded(lambda x: x, tensor(2)))
