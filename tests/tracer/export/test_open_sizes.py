"""ONNX files whose sizes are open: one file gives eager's results at all sizes, or is refused with a reason.

`PYTHONPATH=tests python tests/tracer/export/test_open_sizes.py` opens each axis of each sample of each op.
"""

from __future__ import annotations

import collections
import itertools
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exporting import OPEN_PROGRAMS, drawn
from op_samples import SAMPLES, Sample

import fusegrad as fg
from fusegrad import nn
from fusegrad.eager.core.pytree import flatten
from fusegrad.tracer.export.dims import Dim
from fusegrad.tracer.export.open_sizes import _Opening

onnxruntime = pytest.importorskip("onnxruntime")


def file_of(tmp_path: Path, function: Any, args: tuple[Any, ...], shapes: Any) -> Any:
    path = tmp_path / "open.onnx"
    fg.export(function, args, path, dynamic_shapes=shapes)
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def agree(session: Any, function: Any, args: Iterable[fg.Tensor]) -> None:
    given = {i.name: a.numpy() for i, a in zip(session.get_inputs(), args, strict=True)}
    found = session.run(None, given)
    with fg.no_grad():
        expected = function(*args)
    leaves: list[fg.Tensor] = []
    flatten(expected, leaves)
    for one, other in zip(found, leaves, strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OPEN_PROGRAMS)
def test_one_file_is_right_at_all_sizes(tmp_path: Path, name: str):
    fg.manual_seed(0)
    make, shapes, axes = OPEN_PROGRAMS[name]
    function = make()
    if isinstance(function, nn.Module):
        function.eval()
    args = tuple(drawn(shape, {}) for shape in shapes)
    session = file_of(tmp_path, function, args, axes)
    names = sorted({dim for each in axes for dim in each.values()})
    for sizes in itertools.product((5, 8, 13), repeat=len(names)):
        chosen = dict(zip(names, sizes, strict=True))
        given = [{axis: chosen[dim] for axis, dim in each.items()} for each in axes]
        agree(session, function, [drawn(shape, each) for shape, each in zip(shapes, given, strict=True)])
    told = [[n for n in i.shape if isinstance(n, str)] for i in session.get_inputs()]
    assert told == [list(each.values()) for each in axes]


@pytest.mark.parametrize(
    "function, words",
    [
        (lambda x: x * 2 if x.shape[0] > 8 else x, "does more, or less, for other sizes"),
        (lambda x: x * 2 if x.shape[0] > 8 else x + 1, "does something else for other sizes"),
        (lambda x: sum(x[i] for i in range(x.shape[0])), "does more, or less"),
        (lambda x: x * fg.tensor(np.arange(float(x.shape[0])))[:, None], "makes data in Python"),
        (lambda x: x * x.shape[0] ** 0.5, "has numbers that no rule gives"),
        (lambda x: x.reshape(2, -1), "raises"),
        (lambda x: fg.linalg.det(x[:4]) + x.unfold(0, 2, 1).sum(), "written for one size"),
    ],
)
def test_what_other_sizes_change_is_refused(tmp_path: Path, function: Any, words: str):
    with pytest.raises(fg.compiler.library.api.ExportError, match=words):
        file_of(tmp_path, function, (fg.randn(6, 4),), {"x": {0: "n"}})
    assert not (tmp_path / "open.onnx").exists()


@pytest.mark.parametrize(
    "shapes, words",
    [
        ({"z": {0: "n"}}, "names 'z'; the arguments are x, y"),
        ({"x": {5: "n"}}, "the axis 5 of a tensor of shape"),
        ({"x": 3}, "has 3 for a tensor"),
        ({"x": {0: 3.5}}, "give a Dim, a name or None"),
        ([{0: "n"}, {1: "n"}], "'n' is 6 in one of the examples and 4 in another"),
        ([None, None, None], "for 3 arguments, of which there are 2"),
    ],
)
def test_shapes_that_fit_no_argument_are_errors(tmp_path: Path, shapes: Any, words: str):
    with pytest.raises(fg.compiler.library.api.ExportError, match=words):
        file_of(tmp_path, lambda x, y: x + y, (fg.randn(6, 4), fg.randn(6, 4)), shapes)


def test_dims_and_nested_arguments(tmp_path: Path):
    batch = Dim("batch", min=1, max=64)

    def function(pair: tuple[fg.Tensor, fg.Tensor], others: dict[str, fg.Tensor]) -> fg.Tensor:
        return pair[0] + pair[1] + others["z"]

    args = ((fg.randn(2, 3), fg.randn(2, 3)), {"z": fg.randn(2, 3)})
    shapes = {"pair": ({0: batch}, (batch, None)), "others": {"z": {0: batch, 1: Dim.AUTO}}}
    with pytest.raises(fg.compiler.library.api.ExportError, match="raises"):
        file_of(tmp_path, function, args, shapes)
    shapes["others"] = {"z": {0: batch}}
    shapes_of = [i.shape for i in file_of(tmp_path, function, args, shapes).get_inputs()]
    assert shapes_of == [["batch", 3]] * 3


def test_sizes_below_what_a_rule_holds_for_are_tried(tmp_path: Path):
    """The last three rows are all of two: for these the rule of six, from the end, is wrong."""
    args = (fg.randn(6, 4),)
    with pytest.raises(fg.compiler.library.api.ExportError, match=r"so for n = [12]; if no such sizes"):
        file_of(tmp_path, lambda x: x[-3:].mean(0), args, {"x": {0: "n"}})
    session = file_of(tmp_path, lambda x: x[-3:].mean(0), args, {"x": {0: Dim("n", min=3, max=9)}})
    for size in range(3, 10):
        agree(session, lambda x: x[-3:].mean(0), [fg.randn(size, 4)])


def test_a_rule_that_is_no_rule_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With a fault in how numbers are found, the file is run at other sizes and refused."""
    monkeypatch.setattr(_Opening, "_expression", lambda self, found, inputs, params: found[0])
    with pytest.raises(fg.compiler.library.api.ExportError):
        file_of(tmp_path, lambda x: x.reshape(-1).cumsum(0), (fg.randn(6, 4),), [{0: "n"}])


def outcome(sample: Sample, folder: str) -> str:
    """What became of a sample with its first tensor's first axis open."""
    arrays = [a.astype("float32") if a.dtype == np.float64 else a for a in sample.inputs]
    tensors = [fg.tensor(a) for a in arrays]
    sizes = [t.shape[0] for t in tensors if t.ndim]
    if not sizes or max(sizes) < 2:
        return "nothing to open"
    shapes = [{0: "n"} if t.ndim and t.shape[0] == max(sizes) else None for t in tensors]
    path = Path(folder) / "open.onnx"

    def function(*given: fg.Tensor) -> Any:
        return sample.call(fg, *given)

    try:
        fg.export(function, tuple(tensors), path, dynamic_shapes={"given": tuple(shapes)})
    except fg.compiler.library.api.ExportError as error:
        return "refused" if "another result" not in str(error) else f"WRONG: {error}"
    except (TypeError, ValueError, RuntimeError, IndexError, NotImplementedError) as error:
        return f"WRONG: {error!r}"
    return "written"


@pytest.mark.one_in(20)
@pytest.mark.parametrize("name", SAMPLES)
def test_ops_with_an_open_axis_are_right_or_refused(tmp_path: Path, name: str):
    for sample in [s for s in SAMPLES[name] if not s.random][:1]:
        assert not outcome(sample, str(tmp_path)).startswith("WRONG")


def every_sample(most: int) -> collections.Counter[str]:
    found: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for name, samples in SAMPLES.items():
            for number, sample in enumerate([s for s in samples if not s.random][:most]):
                became = outcome(sample, folder)
                if became.startswith("WRONG"):
                    print(name, number, became, flush=True)
                found[became.split(":")[0]] += 1
    return found


if __name__ == "__main__":
    print(every_sample(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
