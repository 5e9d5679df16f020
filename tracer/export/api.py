"""`export`: one captured graph to a file, in the format that the suffix names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.export.dot_file import dot_file
from fusegrad.tracer.export.files import ExportError, check_target, write_whole
from fusegrad.tracer.export.onnx_file import onnx_file
from fusegrad.tracer.export.page import page_file
from fusegrad.tracer.export.program import Program, captured_program
from fusegrad.tracer.export.python_file import python_file

__all__ = ["ExportError", "export"]


FORMATS: dict[str, tuple[str, Callable[[Program], bytes]]] = {
    ".py": ("the graph as typed Python that runs", python_file),
    ".onnx": ("the forward graph for ONNX runtimes", onnx_file),
    ".dot": ("a drawing for Graphviz", dot_file),
    ".html": ("a page that shows the graph", page_file),
}


def export(
    function: Callable[..., Any],
    example_args: Any,
    path: str | os.PathLike[str],
    *,
    kwargs: Mapping[str, Any] | None = None,
) -> None:
    """Write what `function` computes for arguments like `example_args` to `path`.

    function: a plain or jitted function, a bound method or a module. It runs once, on
    `example_args` (a tuple; one tensor may stand alone) and `kwargs`. The suffix of `path`
    chooses the format: `.py`, `.onnx`, `.dot` or `.html`. What is written holds for
    tensors of the examples' shapes and dtypes, and for the Python values that are among them;
    modules' parameters and other tensors from outside are written with their present values.

    Where the run branched on the values of tensors, `.py`, `.dot` and `.html` say so at the
    branch (the `.py` file raises for data that take the other side); `.onnx` refuses.
    The `.py` and `.onnx` files are run on the examples before they are put in place (`.onnx`
    where onnxruntime is installed). The file appears whole or not at all.

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
    if suffix not in FORMATS:
        known = ", ".join(f"{s} ({what})" for s, (what, _) in FORMATS.items())
        given = f"the suffix {suffix!r}" if suffix else "no suffix"
        raise ExportError(f"export: {target} has {given}; the suffix chooses the format: {known}")
    check_target(target)
    write_whole(target, FORMATS[suffix][1](captured(function, example_args, kwargs)))


def captured(function: Callable[..., Any], example_args: Any, kwargs: Mapping[str, Any] | None) -> Program:
    """What the function does with the examples: a tuple, or one tensor alone."""
    args = (example_args,) if isinstance(example_args, Tensor) else tuple(example_args)
    return captured_program(function, args, kwargs or {})
