"""`torch.nn.parameter`, but for what has values: no parameter is lazy."""

from __future__ import annotations

from typing import Any


def is_lazy(param: Any) -> bool:
    """Whether a parameter has no shape yet: there are none. Source: `torch.nn.parameter.is_lazy`."""
    return False
