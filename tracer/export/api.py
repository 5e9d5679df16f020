"""`export`: one captured graph to a file, in the format that the suffix names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.export.dims import OpenAxes, open_axes
from fusegrad.tracer.export.dot_file import dot_file
from fusegrad.tracer.export.files import ExportError, check_target, write_whole
from fusegrad.tracer.export.graph_file import graph_file
from fusegrad.tracer.export.onnx.model_file import onnx_file
from fusegrad.tracer.export.open_sizes import open_program
from fusegrad.tracer.export.page import page_file
from fusegrad.tracer.export.program import Program, captured_program
from fusegrad.tracer.export.python_file import python_file
from fusegrad.tracer.export.ways import branching_program, whole_program

__all__ = ["ExportError", "export"]


FORMATS: dict[str, tuple[str, Callable[[Program], bytes]]] = {
    ".py": ("the graph as typed Python that runs", python_file),
    ".onnx": ("the forward graph for ONNX runtimes", onnx_file),
    ".dot": ("a drawing for Graphviz", dot_file),
    ".html": ("a page that shows the graph", page_file),
    ".fgx": ("the graph itself, for `fusegrad.export.load`", graph_file),
}

OPEN = (".fgx", ".onnx", ".so", ".o")  # those that may leave sizes open

COMMON = "x86-64"

# Formats of several files of native code: what they are, and a function of the program, the path and the
# architecture that gives the bytes of each file by its suffix. `compiler/library` has them.
SEVERAL: dict[str, tuple[str, Callable[[Program, str, str], dict[str, bytes]]]] = {}


def export(
    function: Callable[..., Any],
    example_args: Any,
    path: str | os.PathLike[str],
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    architecture: str = COMMON,
) -> None:
    """Write what `function` computes for arguments like `example_args` to `path`.

    function: a plain or jitted function, a bound method or a module. It runs on
    `example_args` (a tuple; one tensor may stand alone) and `kwargs`. The suffix of `path`
    chooses the format: `.py`, `.onnx`, `.dot`, `.html`, `.fgx`, `.so` or `.o`. What is written holds for
    tensors of the examples' shapes and dtypes, and for the Python values that are among them;
    modules' parameters and other tensors from outside are written with their present values.

    Where the run branched on the values of tensors, `.onnx`, `.so` and `.o` have both sides, for which the
    function runs again; `.py`, `.dot` and `.html` say so at the branch (the `.py` file raises for data that
    take the other side, and so does `.fgx`).
    dynamic_shapes: sizes that stay open in `.onnx`, `.fgx`, `.so` and `.o`, as in `torch.export`: by
    parameter's name or position, for each tensor a dict of axes and `Dim`s (or names): `{"x": {0: "batch"}}`.
    The function runs at a few sizes then, and must do the same for all. In C they are its first arguments.
    architecture: of the machines that `.so` and `.o` are for: "x86-64", or "aarch64" (for 64-bit ARM; it is
    not run here, but the same steps are, compiled for this machine).

    What can be run (`.py`; `.fgx`; `.onnx` where onnxruntime is installed; `.so`) is run on the examples
    before it is put in place. Each file appears whole or not at all. Beside `.so`, a shared
    library that needs nothing of Python, and `.o` stands a C header, `.h`.

    Raises ExportError for another suffix, a path that cannot be written, a function that does
    what no file can repeat, and what the format cannot say. Source: `torch.onnx.export`.

    >>> import fusegrad as fg, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "double.dot")
    >>> fg.export(lambda x: x * 2, (fg.tensor([1.0, 2.0]),), path)
    >>> os.path.exists(path)
    True
    """
    target = os.fspath(path)
    suffix = os.path.splitext(target)[1].lower()
    if suffix not in FORMATS and suffix not in SEVERAL:
        known = ", ".join(f"{s} ({what})" for s, (what, _) in {**FORMATS, **SEVERAL}.items())
        given = f"the suffix {suffix!r}" if suffix else "no suffix"
        raise ExportError(f"export: {target} has {given}; the suffix chooses the format: {known}")
    check_target(target)
    if dynamic_shapes and suffix not in OPEN:
        raise ExportError(
            f"export: {suffix} holds for the examples' shapes; dynamic_shapes are for {' and '.join(OPEN)}"
        )
    if architecture != COMMON and suffix not in SEVERAL:
        raise ExportError(
            f"export: there is no {suffix} for {architecture!r}: {' and '.join(SEVERAL)} are written for an "
            "architecture, the others for no machine in particular"
        )
    # By format: what has both sides of branches on data, and loops, and what has one alone.
    capture = (
        whole_program if suffix == ".onnx" else branching_program if suffix in SEVERAL else captured_program
    )
    program = captured(function, example_args, kwargs, dynamic_shapes, capture)
    if suffix in FORMATS:
        files = {suffix: FORMATS[suffix][1](program)}
    else:
        files = SEVERAL[suffix][1](program, target, architecture)
    for other, data in files.items():
        write_whole(target if other == suffix else os.path.splitext(target)[0] + other, data)


def save(
    function: Callable[..., Any],
    example_args: Any,
    path: str | os.PathLike[str],
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> None:
    """Write the graph of what `function` computes, and its tensors, to `path`, which `load` reads.

    As `export`, of which this is the `.fgx` format, whatever the suffix. Source: `torch.export.save`.
    """
    target = os.fspath(path)
    check_target(target)
    write_whole(target, graph_file(captured(function, example_args, kwargs, dynamic_shapes)))


def captured(
    function: Callable[..., Any],
    example_args: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any = None,
    capture: Callable[..., Program] = captured_program,
) -> Program:
    """What the function does with the examples: a tuple, or one tensor alone. capture: says it for those."""
    args = (example_args,) if isinstance(example_args, Tensor) else tuple(example_args)
    if not dynamic_shapes:
        return capture(function, args, kwargs or {})
    axes = dynamic_shapes
    if not isinstance(axes, OpenAxes):
        axes = open_axes(function, args, kwargs or {}, dynamic_shapes)
    return open_program(function, args, kwargs or {}, axes, capture)
