"""Exporting: files say what eager computes, refuse what they cannot say, appear whole or not at all."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import runpy
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import scipy.special
from exporting import FILE, LARGE, SMALL, branching, network, positive, recorded, run_onnx, tensor

import fusegrad as fg
from fusegrad.eager.core.op import wrap
from fusegrad.tracer.export import ExportError, export, files
from fusegrad.tracer.export.drawing import drawing
from fusegrad.tracer.export.layout import Box, crossings, layout
from fusegrad.tracer.export.page import page
from fusegrad.tracer.export.python_file import load_module, module_text
from fusegrad.tracer.ir.evaluation import GuardFailed
from fusegrad.tracer.ir.text import parse_graph

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


TABLE = np.linspace(0, 1, 4)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, a: x * fg.from_numpy(TABLE) + float(TABLE[1]),
        lambda x, a: x * fg.tensor(a**2) + a.max() * float(a[2]),
        lambda x, a: (x + 1, x[a.astype(np.int64)], float(a[1])),
    ],
)
def test_what_arrays_hold_is_data_of_the_file(tmp_path, function):
    x, a = fg.ones(4, dtype=fg.float64), np.arange(4.0)
    fg.export(function, (x, a), tmp_path / "f.onnx")
    fg.export(function, (x, a), tmp_path / "f.py")
    ours, right = runpy.run_path(str(tmp_path / "f.py"))["run"](x), function(x, a)
    for one, other in zip(*(r if isinstance(r, tuple) else (r,) for r in (ours, right)), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other))


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
    assert {str(e.source).split(":")[0] for e in graph.equations} == {FILE}
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


# .dot and .html


def test_the_dot_file_has_a_box_for_each_equation_and_diamonds_for_guards(tmp_path):
    export(branching, (positive(),), tmp_path / "graph.dot")
    text = (tmp_path / "graph.dot").read_text()
    assert text.startswith('digraph "branching" {') and text.endswith("}\n")
    assert text.count("shape=diamond") == 1 and "guard" in text
    assert f"{FILE}:{branching.__code__.co_firstlineno + 1}" in text
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


def test_tensors_made_like_transposed_ones_are_exported(tmp_path):
    """How they lie in memory is a parameter, which the file's own functions take."""
    x = tensor(3, 4)
    fg.export(lambda x: fg.ones_like(x.t()) * x.t() + fg.full_like(x.t(), 2), (x,), tmp_path / "like.py")
    result = runpy.run_path(str(tmp_path / "like.py"))["run"](x)
    np.testing.assert_allclose(result.numpy(), x.numpy().T + 2)


@pytest.mark.parametrize("suffix", ["py", "fgx", "onnx", "so"])
def test_functions_that_python_calls_are_refused(suffix: str, tmp_path: Path) -> None:
    def outside(x: fg.Tensor) -> fg.Tensor:
        return x * fg.from_numpy(scipy.special.erf(x.detach().numpy()))

    def unknown(x: fg.Tensor) -> fg.Tensor:
        return x * ctypes.CDLL(None).labs(3)

    for function in (outside, unknown):
        with pytest.raises(ExportError):
            fg.export(function, (fg.ones(3),), str(tmp_path / f"file.{suffix}"))
    assert not [*tmp_path.iterdir()]
