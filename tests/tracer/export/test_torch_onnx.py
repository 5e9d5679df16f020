"""`fusegrad.onnx`: what `export` writes, under PyTorch's name and with the names that the user gives."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.tracer.export import ExportError

onnx = pytest.importorskip("onnx")


def written(**options: Any) -> Any:
    file = io.BytesIO()
    fg.onnx.export(fg.nn.Linear(3, 2), (fg.ones(1, 3),), file, **options)
    return onnx.load_from_string(file.getvalue())


def test_inputs_and_outputs_have_the_users_names(tmp_path: Path):
    graph = written(input_names=["pixels"], output_names=["scores"], opset_version=11, verbose=False).graph
    assert [v.name for v in (*graph.input, *graph.output)] == ["pixels", "scores"]
    assert any("pixels" in node.input for node in graph.node)
    net, x = fg.nn.Linear(3, 2), fg.rand(1, 3)
    fg.onnx.export(net, x, tmp_path / "net.onnx", input_names=["pixels"])
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(tmp_path / "net.onnx"))
    result = fg.tensor(session.run(None, {"pixels": x.numpy()})[0])
    fg.testing.assert_close(result, net(x).detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options, told",
    [
        ({"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}, "y": {0: "batch"}}}, "batch"),
        ({"dynamic_axes": {"input": [0]}}, "input_dynamic_axes_1"),
        ({"dynamic_shapes": {"input": {0: "rows"}}}, "rows"),
    ],
)
def test_open_axes_have_the_users_names(options: dict[str, Any], told: str):
    graph = written(**options).graph
    sizes = [v.type.tensor_type.shape.dim[0].dim_param for v in (*graph.input, *graph.output)]
    assert sizes == [told, told]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"dynamic_axes": {"x": [0]}}, "names no input; the inputs are input"),
        ({"export_params": False}, "with the parameters"),
        ({"input_names": ["a", "b"]}, "2 names for inputs, of which the graph has 1"),
        ({"input_names": ["a"], "output_names": ["a"]}, "the name 'a' is taken"),
    ],
)
def test_what_a_file_cannot_say_is_refused(options: dict[str, Any], words: str):
    with pytest.raises(ExportError, match=words):
        written(**options)
    assert not fg.onnx.is_in_onnx_export()
