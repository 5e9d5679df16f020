"""`torch.onnx`'s names: a module goes in, what `export` writes comes out, with the user's names in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

from fusegrad.eager.core.public import locate
from fusegrad.tracer.export.api import captured
from fusegrad.tracer.export.dims import axes_of_inputs
from fusegrad.tracer.export.files import ExportError, check_target, write_whole
from fusegrad.tracer.export.onnx.builder import OPSET
from fusegrad.tracer.export.onnx.model_file import onnx_file
from fusegrad.tracer.export.ways import whole_program


def export(
    model: Callable[..., Any],
    args: Any = (),
    f: str | os.PathLike[str] | BinaryIO | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    export_params: bool = True,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Any = None,
    dynamic_shapes: Any = None,
    opset_version: int | None = None,
    **options: Any,
) -> None:
    """Write what a module computes for arguments like `args` to the ONNX file `f`.

    f: a path, or a file that is open for bytes. input_names, output_names: what the first inputs and outputs
    are called in the file. dynamic_axes, dynamic_shapes: the sizes that stay open: by input's name the axes
    (`{"x": {0: "batch"}}` or `{"x": [0]}`), or as in `fusegrad.export`; otherwise the file holds for tensors
    of the examples' shapes. opset_version: that of the ops; below 18 it is 18, and by itself the least one
    that has what there is to say. What else chooses how PyTorch exports (`verbose`, `dynamo`,
    `do_constant_folding`, ...) is taken, and changes nothing: all data lie in the one file (`external_data`).

    Raises ExportError where `fusegrad.export` does, and where no file is given. Source: `torch.onnx.export`.

    >>> import fusegrad as fg, io
    >>> file = io.BytesIO()
    >>> fg.onnx.export(fg.nn.Linear(3, 2), (fg.ones(1, 3),), file, input_names=["x"])
    >>> len(file.getvalue()) > 0
    True
    """
    if f is None or not export_params:
        raise ExportError("onnx.export: a file is written, with the parameters; give its name as `f`")
    path = None if hasattr(f, "write") else os.fspath(f)
    if path is not None:
        check_target(path, "onnx.export")
    given = dynamic_shapes
    if dynamic_axes:
        given = axes_of_inputs(model, args, kwargs or {}, dynamic_axes, input_names or ())
    program = captured(model, args, kwargs, given, whole_program)
    opset = None if opset_version is None else max(opset_version, OPSET)
    data = _named(onnx_file(program, opset), input_names or (), output_names or ())
    if path is None:
        f.write(data)  # type: ignore[union-attr]
    else:
        write_whole(path, data, "onnx.export")


def is_in_onnx_export() -> bool:
    """False: an export runs the function as any other call does. Source: `torch.onnx.is_in_onnx_export`."""
    return False


def _named(data: bytes, inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
    """The model with other names for its first inputs and outputs."""
    if not inputs and not outputs:
        return data
    import onnx

    model = onnx.load_from_string(data)
    graph = model.graph
    names: dict[str, str] = {}
    for given, found, what in ((inputs, graph.input, "inputs"), (outputs, graph.output, "outputs")):
        if len(given) > len(found):
            raise ExportError(
                f"onnx.export: {len(given)} names for {what}, of which the graph has {len(found)}"
            )
        names.update({value.name: name for name, value in zip(given, found, strict=False)})
    others = {v.name for v in (*graph.input, *graph.initializer)} | {o for n in graph.node for o in n.output}
    twice = [n for n in names.values() if n in others - names.keys() or [*names.values()].count(n) > 1]
    if twice:
        raise ExportError(f"onnx.export: the name {twice[0]!r} is taken in the graph; choose another")
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


__all__ = ["export", "is_in_onnx_export"]
locate("fusegrad.onnx", globals(), __all__)
