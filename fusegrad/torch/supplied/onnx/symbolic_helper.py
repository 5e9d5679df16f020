"""`torch.onnx.symbolic_helper`."""

from collections.abc import Callable
from typing import Any


def parse_args(*arg_descriptors: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that leaves a function as it is: nobody calls it."""
    return lambda function: function
