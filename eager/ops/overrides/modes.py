"""Modes: what is asked about every function of tensors that is called inside a block.

    with Counting():            # derived from `TorchFunctionMode`
        fg.zeros(2) + 1         -> Counting.__torch_function__(fg.zeros, ...), then (Tensor.add, ...)

Source: `torch.overrides.TorchFunctionMode`.
"""

from __future__ import annotations

import inspect
from typing import Any, Self

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.state import state
from fusegrad.eager.ops.overrides import asking


class TorchFunctionMode:
    """What asks, as `with` block, a method of its own about functions, methods, operators and factories.

    What `__torch_function__` calls goes to the mode around it. Raises RuntimeError for one that is a class
    method. Source: `torch.overrides.TorchFunctionMode`.

    >>> import fusegrad as fg
    >>> class Names(TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     x = fg.ones(2) * 2
    ones
    mul
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> Self:
        if not inspect.isfunction(inspect.getattr_static(type(self), "__torch_function__")):
            raise failure(
                RuntimeError,
                "Defining your mode's `__torch_function__` as a classmethod is not supported, "
                "please make it a plain method",
            )
        asking.begin_everything()
        state.function_modes = (*state.function_modes, self)
        return self

    def __exit__(self, *_: object) -> None:
        state.function_modes = state.function_modes[:-1]
