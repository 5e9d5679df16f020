"""`torch._C._nn`: what layers are made with."""

from __future__ import annotations

from typing import Any

import fusegrad as fg
from fusegrad.eager.core.tensor import Tensor

__all__ = ["_parse_to"]


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """What `Module.to` was asked for: the device, the dtype, whether not to wait, the memory format.

    >>> _parse_to("cpu", fg.float64)
    (device(type='cpu'), torch.float64, False, None)
    """
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    non_blocking = kwargs.pop("non_blocking", False)
    kwargs.pop("copy", None)
    memory_format = kwargs.pop("memory_format", None)
    if kwargs:
        raise TypeError(f"to() received an invalid combination of arguments: {', '.join(kwargs)}")
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        device, dtype = rest[0].device, rest.pop(0).dtype
    elif rest and isinstance(rest[0], fg.dtype):
        dtype = rest.pop(0)
    elif rest:
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], fg.dtype)):
            dtype = rest.pop(0)
    if rest:
        non_blocking = bool(rest[0])
    return None if device is None else fg.device(device), dtype, non_blocking, memory_format
