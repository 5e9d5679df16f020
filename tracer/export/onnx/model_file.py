"""The `.onnx` format: the forward graph with its data, checked and run before it is written."""

from __future__ import annotations

import functools
import keyword
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.families import Elementwise, Reduction
from fusegrad.eager.core.op import Op
from fusegrad.tracer.export.files import ExportError
from fusegrad.tracer.export.onnx.builder import Builder, Handle
from fusegrad.tracer.export.onnx.nodes import NODES, is_one_node
from fusegrad.tracer.export.onnx.ops import OTHERS, REDUCTIONS, creation, rearranged
from fusegrad.tracer.export.onnx.scalars import ENTRIES, Scalars, elementwise
from fusegrad.tracer.export.open_sizes import OpenSizes
from fusegrad.tracer.export.program import Program, difference, guard_text
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value
from fusegrad.tracer.ir.passes import dead_code, decompose
from fusegrad.tracer.ir.symbolic_sizes import Dim

IR_VERSION = 9  # onnxruntime 1.15 and later read it


def onnx_file(program: Program) -> bytes:
    """The model's bytes: built, checked, shapes inferred, and run on the examples.

    Raises ExportError for guards on data, for ops and dtypes that ONNX lacks, when the `onnx`
    package is missing, and when onnxruntime computes something else than eager.
    """
    onnx = _package()
    _refuse_guards(program)
    model = _model(onnx, program)
    try:
        onnx.checker.check_model(model, full_check=True)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        data: bytes = model.SerializeToString()
    except ValueError as error:  # protobuf's limit
        raise ExportError(
            f"export: {program.name} does not fit into one ONNX file (2 GB): {error}"
        ) from error
    _run_check(program, data)
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


def _refuse_guards(program: Program) -> None:
    guards = program.open_guards("branch")
    if not guards:
        return
    listed = "".join(f"\n  - {g}" for g in dict.fromkeys(map(guard_text, guards)))
    raise ExportError(
        f"export: {program.name} branched on the values of tensors, and an ONNX file cannot say which "
        f"side other data take:{listed}\n  write the choice with fusegrad.where, or export to .py or .html, "
        "which keep the branch as a guard"
    )


def forward_graph(program: Program) -> Graph:
    """What is written: no guards, no dead code, and composite ops taken apart unless ONNX has them."""
    graph = program.graph
    unguarded = tuple(e for e in graph.equations if e.op is not GUARD)
    return dead_code(decompose(Graph(graph.inputs, unguarded, graph.outputs), is_one_node))


def sayable(op: Op) -> bool:
    """Whether the export has a form for `op` in ONNX, at least for some dtypes and parameters."""
    if op.name in OTHERS or op.name in NODES or op.family in ("view", "creation"):
        return True
    if isinstance(op, Elementwise):
        return op.name in ENTRIES or callable(op.scalar) or hasattr(Scalars(), op.scalar)
    return isinstance(op, Reduction) and op.combine in REDUCTIONS


# Building.


def _model(onnx: Any, program: Program) -> Any:
    graph = forward_graph(program)
    builder = Builder(onnx, program.open)
    known: dict[Value, Handle] = {v: Handle(builder, v.name, v.dtype) for v in program.arguments}
    used = {v for e in graph.equations for v in e.values()} | {
        v for v in graph.outputs if isinstance(v, Value)
    }
    for value, array in program.data.items():
        if value in used:
            known[value] = builder.initializer(value.name, array)
    for equation in graph.equations:
        builder.at(equation)
        _refuse_types(builder, equation)
        for value, made in zip(equation.outputs, _emitted(builder, equation, known), strict=True):
            known[value] = builder.rename(made.to(value.dtype), value.name)
        if program.open is not None:
            program.open.refuse_fixed(equation)
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
    opsets = [onnx.helper.make_opsetid("", builder.opset)]
    model = onnx.helper.make_model(
        model_graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="fusegrad"
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
    listed = [sizes.text(n.code) if sizes and isinstance(n, Dim) else n for n in shape]
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(dtype), listed)


def _refuse_types(builder: Builder, equation: Equation) -> None:
    for value in (*equation.values(), *equation.outputs):
        if value.dtype.kind == "c":
            raise builder.refuse(f"ONNX does not compute with complex numbers, here {value.dtype.name}")


def _emitted(builder: Builder, equation: Equation, known: dict[Value, Handle]) -> tuple[Handle, ...]:
    """The nodes for one equation: by the table, or by what its family knows of it."""
    op = equation.op
    if is_one_node(equation):
        return (NODES[op.name](equation, *(known[v] for v in equation.values())),)
    if not sayable(op):
        raise builder.refuse("ONNX has no form of it, or none as exact; exporting to .py takes every op")
    if op.name in OTHERS:
        made = OTHERS[op.name](equation, *(known[v] for v in equation.inputs))
        return made if isinstance(made, tuple) else (made,)
    if isinstance(op, Elementwise):
        return (_elementwise(builder, equation, op, known),)
    if op.family == "creation":
        return (creation(builder, equation),)
    operands = [known[v] for v in equation.inputs]
    if isinstance(op, Reduction) and op.combine is not None:
        return (REDUCTIONS[op.combine](equation, *operands),)
    return (rearranged(equation, *operands),)


def _elementwise(builder: Builder, equation: Equation, op: Elementwise, known: dict[Value, Handle]) -> Handle:
    """The operands promoted as the op's dtype rule says, then its scalar expression."""
    types = [v.type if isinstance(v, Value) else v for v in equation.inputs]
    if op.name == "pow_number":  # its number is a parameter and takes part in promotion
        types.append(equation.params["exponent"])
    compute = op.compute_dtype(types)
    operands = []
    for i, operand in enumerate(equation.inputs):
        handle = known.get(operand) if isinstance(operand, Value) else None
        if i < op.data:
            operands.append(handle or builder.constant(operand, np.dtype(bool)))
        else:
            operands.append(handle.to(compute) if handle else builder.constant(operand, compute))
    return elementwise(op, operands, dict(equation.params))


def _outputs(
    builder: Builder, graph: Graph, known: dict[Value, Handle]
) -> list[tuple[Handle, tuple[int, ...]]]:
    """The results under the names output, or output0, output1 and so on."""
    many = len(graph.outputs) > 1
    taken = {v.name for v in graph.inputs} | {v.name for e in graph.equations for v in e.outputs}
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
    checks = [guard_text(g) for g in program.open_guards("check")]
    if checks:
        onnx.helper.set_model_props(model, {"fusegrad.unchecked": "\n".join(dict.fromkeys(checks))})


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
