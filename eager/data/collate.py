"""Collation: a list of samples becomes a batch of tensors in the samples' structure.

Source: `torch.utils.data._utils.collate`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor

Functions = Mapping[Any, Callable[..., Any]]


def _refused(what: object) -> Exception:
    return failure(
        TypeError,
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {what}",
    )


def _holds_text(array: np.ndarray) -> bool:
    """Whether an array has strings, bytes or objects, of which no tensor is made."""
    return array.dtype.kind in "SUO"


def _like_mapping(example: Any, values: dict[Any, Any]) -> Any:
    """A mapping of the example's kind, with what else it holds; a dict where the kind does not allow that."""
    try:
        if isinstance(example, MutableMapping):
            twin = copy.copy(example)
            twin.update(values)
            return twin
        return type(example)(values)
    except TypeError:
        return values


def _like_sequence(example: Any, values: list[Any]) -> Any:
    """A sequence of the example's kind, with what else it holds; a list where the kind forbids it."""
    try:
        if isinstance(example, MutableSequence):
            twin = copy.copy(example)
            for i, value in enumerate(values):
                twin[i] = value
            return twin
        return type(example)(values)
    except TypeError:
        return values


def default_convert(data: Any) -> Any:
    """NumPy's arrays and scalars in a structure as tensors; everything else as it is.

    What a loader does to samples that it does not batch. Source: `torch.utils.data.default_convert`.

    >>> import fusegrad as fg, numpy as np
    >>> fg.utils.data.default_convert({"a": np.array([0, 1]), "b": "text"})
    {'a': tensor([0, 1]), 'b': 'text'}
    """
    if isinstance(data, Tensor):
        return data
    if type(data).__module__ == "numpy" and type(data).__name__ != "str_":
        is_text = isinstance(data, np.ndarray) and _holds_text(data)
        return data if is_text else ops.as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple):
        values = [default_convert(value) for value in data]
        return type(data)(*values) if hasattr(data, "_fields") else values
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like_sequence(data, [default_convert(value) for value in data])
    return data


def collate(batch: Any, *, collate_fn_map: Functions | None = None) -> Any:
    """A list of samples as one batch: structures are kept, and leaves go to the function of their type.

    collate_fn_map: functions by type, or by tuple of types; what is of no type in it by subclass, in order.
    Each takes the list of leaves, and the map as `collate_fn_map`.
    Source: `torch.utils.data._utils.collate.collate`.

    >>> from fusegrad.utils.data._utils.collate import collate
    >>> collate([{"a": 1}, {"a": 2}], collate_fn_map={int: lambda batch, *, collate_fn_map: sum(batch)})
    {'a': 3}
    """
    example = batch[0]
    function = _function_for(example, collate_fn_map or {})
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(example, Mapping):
        columns = {key: [sample[key] for sample in batch] for key in example}
        return _like_mapping(
            example, {key: collate(column, collate_fn_map=collate_fn_map) for key, column in columns.items()}
        )
    if isinstance(example, tuple) and hasattr(example, "_fields"):
        return type(example)(
            *(collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=False))
        )
    if isinstance(example, Sequence):
        if any(len(sample) != len(example) for sample in batch):
            raise failure(RuntimeError, "each element in list of batch should be of equal size")
        values = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=False)]
        return values if isinstance(example, tuple) else _like_sequence(example, values)
    raise _refused(type(example))


def _function_for(example: Any, functions: Functions) -> Callable[..., Any] | None:
    kind = type(example)
    if kind in functions:
        return functions[kind]
    return next((function for types, function in functions.items() if isinstance(example, types)), None)


def collate_tensor_fn(batch: Any, *, collate_fn_map: Functions | None = None) -> Tensor:
    """Tensors of one shape, stacked."""
    return ops.stack(list(batch), 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Functions | None = None) -> Any:
    """Arrays as tensors; TypeError for arrays of strings and objects."""
    if _holds_text(batch[0]):
        raise _refused(batch[0].dtype)
    return collate([ops.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Functions | None = None) -> Tensor:
    """NumPy's scalars as a tensor of their dtype."""
    return ops.as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: Functions | None = None) -> Tensor:
    """Python's floats as a float64 tensor."""
    return ops.tensor(batch, dtype=dtypes.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Functions | None = None) -> Tensor:
    """Python's ints and bools as a tensor."""
    return ops.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: Functions | None = None) -> Any:
    """Strings and bytes as they are."""
    return batch


default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """A list of samples as one batch, in their structure: tensors and arrays stacked, numbers as tensors.

    Mappings, sequences and namedtuples are collated part by part; strings and bytes stay lists. TypeError for
    what is none of these. Source: `torch.utils.data.default_collate`.

    >>> import fusegrad as fg
    >>> fg.utils.data.default_collate([{"x": 1.5, "name": "a"}, {"x": 2.5, "name": "b"}])
    {'x': tensor([1.5000, 2.5000], dtype=torch.float64), 'name': ['a', 'b']}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


__all__ = [
    "collate",
    "collate_float_fn",
    "collate_int_fn",
    "collate_numpy_array_fn",
    "collate_numpy_scalar_fn",
    "collate_str_fn",
    "collate_tensor_fn",
    "default_collate",
    "default_collate_fn_map",
    "default_convert",
]
locate("fusegrad.utils.data", globals(), ["default_collate", "default_convert"])
locate("fusegrad.utils.data._utils.collate", globals(), __all__)
