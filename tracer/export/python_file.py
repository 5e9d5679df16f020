"""The `.py` format: a module that runs with fusegrad alone, and reads as the graph it is."""

from __future__ import annotations

import base64
import re
import textwrap
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.export import language
from fusegrad.tracer.export.files import ExportError
from fusegrad.tracer.export.program import Program, difference
from fusegrad.tracer.ir.graph import Value, literal_text, one_line, print_graph
from fusegrad.tracer.ir.text import parse_graph, python_text

INLINE_ELEMENTS = 32  # larger tensors are written as bytes


def python_file(program: Program) -> bytes:
    """The module's text. Raises ExportError when running it does not give eager's results, and for calls of
    functions that the graph language has no words for.
    """
    try:
        text = module_text(program)
    except TypeError as error:
        raise ExportError(f"export: {program.name}: {error}") from None
    _check(program, text)
    return text.encode()


def module_text(program: Program) -> str:
    """The whole module: what it is, imports, the graph, its data, `run`."""
    function = python_text(print_graph(program.graph, with_text=True))
    data = _data(program)
    arguments = ", ".join(repr(v.name) for v in program.arguments)
    parts = [
        _header(program),
        "from __future__ import annotations\n",
        _imports(function + data),
        f"\n{function}\n",
        f"\nARGUMENTS = ({arguments}{',' if len(program.arguments) == 1 else ''})\n",
        data,
        _run(program),
    ]
    return "\n".join(parts)


def _header(program: Program) -> str:
    name = one_line(program.name).replace("\\", "\\\\").replace('"', '\\"')
    lines = [
        f'"""{name}, captured by fusegrad and exported as typed Python.',
        "",
        "`graph` is the captured run, one op a line, with the lines it came from. `run(*args)` calls it with",
        "the tensors below. It holds for arguments of these types alone: others raise TypeError.",
    ]
    if program.open_guards("branch"):
        lines += ["It branched on data: a `guard` raises GuardFailed for data that take the other side."]
    if program.dropped:
        lines += [f"{program.dropped} parts of the function's result were None and are left out."]
    return "\n".join([*lines, '"""', ""])


def _imports(text: str) -> str:
    """The import of the ops and dtypes that `text` mentions."""
    code = re.sub(r"#.*|\"[^\"]*\"|'[^']*'", "", text)
    words = set(re.findall(r"[A-Za-z_]\w*", code))
    known = {*language.NAMES, "inf", "nan"}
    listed = ", ".join(sorted((words & known) | {"bound", "data"}))
    body = textwrap.fill(listed, 100, initial_indent="    ", subsequent_indent="    ")
    return f"from fusegrad.tracer.export.language import (\n{body},\n)\n"


def _data(program: Program) -> str:
    """`DATA`: the tensors that are no arguments, by name."""
    lines = ["DATA = {"]
    for value in program.graph.inputs:
        if value in program.data:
            tensor = program.captured.get(value)
            needs_grad = tensor is not None and tensor.needs_grad
            lines.append(f"    {value.name!r}: {_tensor_text(value, program.data[value], needs_grad)},")
    return "\n".join([*lines, "}\n"]) if len(lines) > 1 else "DATA = {}\n"


def _tensor_text(value: Value, array: np.ndarray, needs_grad: bool) -> str:
    dtype = dtypes.FROM_NUMPY[array.dtype]
    shape = literal_text(tuple(value.shape))
    tail = ", requires_grad=True" if needs_grad else ""
    if array.size <= INLINE_ELEMENTS:
        short = _short_numbers(array)
        if short is not None:
            return f"data({dtype.short}, {shape}, {short}{tail})"
    raw = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    lines = textwrap.wrap(base64.b64encode(raw).decode(), 96) or [""]
    body = "\n".join(f'        "{line}"' for line in lines)
    return f"data({dtype.short}, {shape}, (\n{body}\n    ){tail})"


def _short_numbers(array: np.ndarray) -> str | None:
    """The elements as numbers, where these give the very bits back."""

    def text(number: Any) -> str:
        if array.dtype.kind == "f":
            return str(number) if np.isfinite(number) else literal_text(float(number))
        return literal_text(number.item())

    def nested(part: np.ndarray) -> str:
        return text(part[()]) if part.ndim == 0 else f"[{', '.join(nested(p) for p in part)}]"

    written = nested(array)
    read = np.array(eval(written, {"inf": np.inf, "nan": np.nan}), array.dtype).reshape(array.shape)
    return written if read.tobytes() == np.ascontiguousarray(array).tobytes() else None


def _run(program: Program) -> str:
    result = "results[0]" if len(program.graph.outputs) == 1 else "results"
    return "\n".join(
        [
            "",
            "def run(*args):",
            '    """What the exported function returns for tensors (or arrays) of the types of ARGUMENTS."""',
            "    results = graph(**bound(graph, ARGUMENTS, args), **DATA)",
            f"    return {result}",
            "",
        ]
    )


def load_module(text: str, name: str = "<exported>") -> dict[str, Any]:
    """The names that the module defines."""
    names: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec", dont_inherit=True), names)
    return names


def _check(program: Program, text: str) -> None:
    """Run the module on the examples, and read its graph back."""
    function = text[text.index("\ndef graph(") : text.index("\nARGUMENTS = ")]
    names = load_module(text)
    results = names["graph"](**dict(zip(names["ARGUMENTS"], program.examples, strict=True)), **names["DATA"])
    # Rounds of loops are compiled or not, and round as they do.
    rounds = any(e.op.family == "rolled" for e in program.graph.equations)
    same = all(_same(a, b, rounds) for a, b in zip(results, program.expected, strict=True))
    if parse_graph(function) != program.graph or not same:
        raise ExportError(
            f"export: the Python written for {program.name} is not its graph; please report this"
        )


def _same(result: Any, expected: Any, but_for_rounding: bool) -> bool:
    if not isinstance(result, Tensor):
        return repr(result) == repr(expected)
    kind, found = expected.dtype.kind, result.array
    if found.dtype == expected.dtype and but_for_rounding and kind == "f":
        return difference(found, expected) is None
    return found.dtype == expected.dtype and np.array_equal(found, expected, equal_nan=kind in "fc")
