"""`torch.onnx`."""

from collections.abc import Callable
from typing import Any


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Nothing: fusegrad writes ONNX of its own ops, by `fusegrad.export`, and looks for no other."""


unregister_custom_op_symbolic = register_custom_op_symbolic
