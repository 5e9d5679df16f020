"""The `.onnx` format: the forward graph with its data, checked and run before it is written."""

from __future__ import annotations

import functools
import keyword
from collections.abc import Iterator
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.tracer.export.files import ExportError
from fusegrad.tracer.export.onnx.builder import Builder, Handle
from fusegrad.tracer.export.onnx.emission import emit, forward_graph
from fusegrad.tracer.export.open_sizes import OpenSizes
from fusegrad.tracer.export.program import Program, branched, difference, guard_text
from fusegrad.tracer.ir.graph import Equation, Graph, Subgraph, Value

IR_VERSION = 9  # onnxruntime 1.15 and later read it


def onnx_file(program: Program, opset: int | None = None) -> bytes:
    """The model's bytes: built, checked, shapes inferred, and run on the examples. opset: see `Builder`.

    Raises ExportError for guards on data, for ops and dtypes that ONNX lacks, when the `onnx`
    package is missing, and when onnxruntime computes something else than eager.
    """
    onnx = _package()
    if guards := program.open_guards("branch"):
        raise branched(program.name, guards)
    model = _model(onnx, program, opset)
    try:
        onnx.checker.check_model(model, full_check=True)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        data: bytes = model.SerializeToString()
    except ValueError as error:  # protobuf's limit
        raise ExportError(
            f"export: {program.name} does not fit into one ONNX file (2 GB): {error}"
        ) from error
    _run_check(program, data)
    for way in program.ways:  # also those that the examples do not go
        _run_check(way, _model(onnx, way, opset).SerializeToString())
    return data


def _package() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.numpy_helper
        import onnx.shape_inference
    except ImportError as error:
        raise ExportError('export: .onnx needs the onnx package: pip install "fusegrad[onnx]"') from error
    return onnx


# Building.


def _model(onnx: Any, program: Program, opset: int | None) -> Any:
    graph = forward_graph(program.graph)
    builder = Builder(onnx, program.open, opset)
    known: dict[Value, Handle] = {v: Handle(builder, v.name, v.dtype) for v in program.arguments}
    used = {v for e in graph.equations for v in e.values()} | {
        v for v in graph.outputs if isinstance(v, Value)
    }
    for value, array in program.data.items():
        if value in used:
            known[value] = builder.initializer(value.name, array)
    emit(builder, graph, known)
    outputs = _outputs(builder, graph, known)
    told = functools.partial(_value_info, onnx, program.open)
    inputs = [told(v.name, v.shape, v.dtype) for v in program.arguments]
    model_graph = onnx.helper.make_graph(
        builder.nodes,
        _graph_name(program),
        inputs,
        [told(h.name, shape, h.dtype) for h, shape in outputs],
        builder.initializers,
        doc_string=f"{program.name}, captured by fusegrad",
        value_info=[told(v.name, v.shape, v.dtype) for e in graph.equations for v in e.outputs],
    )
    newest = onnx.defs.onnx_opset_version()
    if builder.opset > newest:
        raise ExportError(f"export: opset {builder.opset} is asked for; the onnx package here has {newest}")
    opsets = [onnx.helper.make_opsetid("", builder.opset)]
    version = max(IR_VERSION, onnx.helper.find_min_ir_version_for(opsets))
    model = onnx.helper.make_model(
        model_graph, opset_imports=opsets, ir_version=version, producer_name="fusegrad"
    )
    _note_checks(onnx, model, program)
    return model


def _graph_name(program: Program) -> str:
    name = program.name.rsplit(".", 1)[-1]
    return name if name.isidentifier() and not keyword.iskeyword(name) else "graph"


def _value_info(
    onnx: Any, sizes: OpenSizes | None, name: str, shape: tuple[Any, ...], dtype: np.dtype
) -> Any:
    """A value's name and type; open sizes are said in the user's names."""
    listed = [sizes.size_text(n) if sizes and has_symbols((n,)) else n for n in shape]
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(dtype), listed)


def _outputs(
    builder: Builder, graph: Graph, known: dict[Value, Handle]
) -> list[tuple[Handle, tuple[int, ...]]]:
    """The results under the names output, or output0, output1 and so on."""
    many = len(graph.outputs) > 1
    taken = graph.names()
    results = []
    for i, operand in enumerate(graph.outputs):
        name = f"output{i}" if many else "output"
        while name in taken:
            name += "_"
        if isinstance(operand, Value):
            handle, shape = known[operand], operand.shape
        else:
            handle, shape = builder.constant(operand, dtypes.number_dtype(operand).numpy), ()
        result = builder.node("Identity", [handle], handle.dtype)
        results.append((builder.rename(result, name), shape))
    return results


def _note_checks(onnx: Any, model: Any, program: Program) -> None:
    """What eager would refuse and ONNX cannot: kept as metadata, for whoever reads the file."""
    checks = [guard_text(g) for g in (*program.open_guards("check"), *_checks_within(program.graph))]
    if checks:
        onnx.helper.set_model_props(model, {"fusegrad.unchecked": "\n".join(dict.fromkeys(checks))})


def _checks_within(graph: Graph) -> Iterator[Equation]:
    """The guards on the sides of branches."""
    for equation in graph.equations:
        for part in equation.params.values():
            if isinstance(part, Subgraph):
                yield from part.graph.guards()
                yield from _checks_within(part.graph)


# Running it.


def _run_check(program: Program, data: bytes) -> None:
    """Compare onnxruntime's results on the examples with eager's, also those of other sizes; nothing to do
    where it is missing.
    """
    try:
        import onnxruntime
    except ImportError:
        return
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common class
        raise _not_run(program, error) from error
    program.try_each(lambda closed: _compare(closed, session))


def _not_run(program: Program, error: Exception) -> ExportError:
    return ExportError(f"export: onnxruntime does not run the ONNX file of {program.name}: {error}")


def _compare(program: Program, session: Any) -> None:
    """Raises ExportError where onnxruntime gives something else than eager for the program's examples."""
    feeds = {
        v.name: np.ascontiguousarray(t.array).reshape(t.array.shape)
        for v, t in zip(program.arguments, program.examples, strict=True)
    }
    try:
        results = session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})
    except Exception as error:
        raise _not_run(program, error) from error
    for i, (result, expected) in enumerate(zip(results, program.expected, strict=True)):
        off = difference(np.asarray(result), np.asarray(expected))
        if off is not None:
            raise ExportError(
                f"export: onnxruntime gives another result {i} for {program.name} than eager ({off}); "
                "nothing was written"
            )
