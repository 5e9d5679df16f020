"""NumPy's arrays in the memory of tensors, read for numbers within a run.

    count = int((labels > 0).sum().cpu().numpy())
    step = self.global_step.numpy()[0]

What Python asks of such an array it might have asked of its tensor: that is what is recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.eager.core.public import form
from fusegrad.eager.core.shared import another
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create.creation import as_tensor, asarray, from_numpy, tensor
from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.numbers import Taken

if TYPE_CHECKING:
    from fusegrad.tracer.observe.observer import Observer


def owner_of(observer: Observer, value: Any) -> Tensor | None:
    """The tensor in whose memory an array is, or of which one of NumPy's numbers was found there."""
    taken = observer.numbers.of(value) if isinstance(value, (np.ndarray, np.generic)) else None
    return None if taken is None or taken.value is not None else taken.tensor


def number(observer: Observer, value: Any) -> Any:
    """The number of an array without dimensions, followed as `item()` of its tensor is; else MISSING."""
    owner = owner_of(observer, value)
    if owner is None or value.ndim:
        return MISSING
    return observer.numbers.take(owner.item)


def item(observer: Observer, array: Any, key: Any) -> Any:
    """What a subscript finds in an array, as what it finds in the tensor has it in its memory; MISSING for
    subscripts that tensors and arrays take otherwise.
    """
    owner = owner_of(observer, array)
    keys = key if type(key) is tuple else (key,)
    if owner is None or type(array) is not np.ndarray or not all(_is_simple(observer, k) for k in keys):
        return MISSING
    found = array[key]
    if isinstance(found, np.bool_):  # of which there are two objects, which others have as well
        bool(owner[key])
        return found
    looked, part = functools.partial(observer.numbers.look, array), owner[key]
    # A number is a copy, which stays what it is when the array is written.
    part = part.clone() if isinstance(found, np.generic) else part
    return observer.numbers.follow(Taken(found, looked, tensor=part))


def tensor_of(
    observer: Observer, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """What one of ours gives that makes a tensor of an array: it is made of the tensor in whose memory that
    is. MISSING for others.
    """
    owner = owner_of(observer, args[0]) if args else None
    makes = next((ours for ours in _MAKING if function is form(ours)), None)
    if owner is None or makes is None or len(args) > 1 or not kwargs.keys() <= {"dtype", "device"}:
        return MISSING
    if makes is not tensor:
        made = owner.detach()
        made.version = another(owner.version)  # nobody hears of writes by way of an array
        return made if makes is from_numpy else makes(made, **kwargs)  # type: ignore[arg-type]
    copied = owner.detach().clone()
    return copied.to(kwargs["dtype"]) if kwargs.get("dtype") is not None else copied


_MAKING = (from_numpy, as_tensor, asarray, tensor)


def _is_simple(observer: Observer, key: Any) -> bool:
    if type(key) is slice:
        parts = (key.start, key.stop, key.step)
        return key.step in (None, 1) and all(p is None or _is_simple(observer, p) for p in parts)
    return type(key) is int and not observer.numbers.has(key)


def answers(observer: Observer, array: Any, name: str) -> bool:
    """Whether an attribute of an array says no more than its tensor's type, or gives its one number."""
    is_known = name in _OF_TYPES or (name == "item" and not array.ndim)
    return is_known and owner_of(observer, array) is not None


_OF_TYPES = frozenset({"shape", "ndim", "size", "dtype", "itemsize", "nbytes"})
