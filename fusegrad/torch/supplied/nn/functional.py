"""`torch.nn.functional`: max pools under their names for values with their positions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from fusegrad.nn import functional


def _with_indices(pool: Callable[..., Any]) -> Callable[..., Any]:
    """The pool, which gives positions, too, whatever it is told."""
    taken = inspect.signature(pool)

    def paired(*args: Any, **kwargs: Any) -> Any:
        given = taken.bind(*args, **kwargs)
        given.arguments["return_indices"] = True
        return pool(*given.args, **given.kwargs)

    paired.__name__ = paired.__qualname__ = f"{pool.__name__}_with_indices"
    paired.__doc__ = f"`{pool.__name__}` with positions. Source: `torch.nn.functional.{paired.__name__}`."
    return paired


max_pool1d_with_indices = _with_indices(functional.max_pool1d)
max_pool2d_with_indices = _with_indices(functional.max_pool2d)
max_pool3d_with_indices = _with_indices(functional.max_pool3d)
adaptive_max_pool1d_with_indices = _with_indices(functional.adaptive_max_pool1d)
adaptive_max_pool2d_with_indices = _with_indices(functional.adaptive_max_pool2d)
adaptive_max_pool3d_with_indices = _with_indices(functional.adaptive_max_pool3d)
fractional_max_pool2d_with_indices = _with_indices(functional.fractional_max_pool2d)
fractional_max_pool3d_with_indices = _with_indices(functional.fractional_max_pool3d)
