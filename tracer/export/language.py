"""The names that an exported Python file imports: every op, the dtypes, `guard`, and its data.

`from fusegrad.tracer.export.language import f32, guard, matmul, tanh` gives each op as a
function that runs it eagerly.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.graph import Graph, array_type, type_text
from fusegrad.tracer.ir.text import namespace, parse_graph

inf, nan = math.inf, math.nan
NAMES = namespace()


def __getattr__(name: str) -> Any:
    """An op, a dtype or `guard` by name."""
    if name in NAMES:
        return NAMES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def data(dtype: DType, shape: tuple[int, ...], values: Any, requires_grad: bool = False) -> Tensor:
    """A tensor from nested numbers, or from the base64 text of its little-endian bytes."""
    if isinstance(values, str):
        array = np.frombuffer(base64.b64decode(values), dtype.numpy.newbyteorder("<")).astype(dtype.numpy)
    else:
        array = np.array(values, dtype.numpy)
    tensor = wrap(array.reshape(shape).copy())
    tensor.needs_grad = requires_grad
    return tensor


def bound(graph: Any, arguments: tuple[str, ...], args: tuple[Any, ...]) -> dict[str, Tensor]:
    """The arguments by name, as tensors of the types that `graph` was captured for.

    Raises TypeError for another number of arguments, shape or dtype: the graph holds for no other.
    """
    types = {v.name: v.type for v in _signature(graph).inputs}
    if len(args) != len(arguments):
        raise TypeError(
            f"the graph takes {len(arguments)} arguments ({', '.join(arguments)}), got {len(args)}"
        )
    result = {}
    for name, value in zip(arguments, args, strict=True):
        tensor = value if isinstance(value, Tensor) else wrap(np.asarray(value))
        given = array_type(tensor.array)
        if given != types[name]:
            said = f"{given.dtype.name}{list(given.shape)}"
            raise TypeError(
                f"{name} must be {type_text(types[name])}, as the graph was captured for; got {said}"
            )
        result[name] = tensor
    return result


def _signature(function: Any) -> Graph:
    """The typed inputs of a graph function, from its annotations."""
    notes = {k: v for k, v in function.__annotations__.items() if k != "return"}
    inputs = ", ".join(f"{k}: {v}" for k, v in notes.items())
    return parse_graph(f"def graph({inputs}) -> tuple[()]:\n    return ()")
