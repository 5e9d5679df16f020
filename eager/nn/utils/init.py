"""Modules without their first values. Source: `torch.nn.utils.init`."""

from __future__ import annotations

import inspect
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.nn.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module of the class, whose parameters and buffers have memory, and no values yet.

    For large modules whose values are loaded. Raises RuntimeError for what is no module, or has no `device`.
    Source: `torch.nn.utils.skip_init`.

    >>> import fusegrad as fg
    >>> fg.nn.utils.skip_init(fg.nn.Linear, 5, 1).weight.shape
    torch.Size([1, 5])
    """
    if not issubclass(module_cls, Module):
        raise failure(RuntimeError, f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise failure(RuntimeError, "Module must support a 'device' arg to skip initialization")
    place = kwargs.pop("device", "cpu")
    make: Any = module_cls
    made: Module = make(*args, **kwargs, device="meta").to_empty(device=place)
    return made
