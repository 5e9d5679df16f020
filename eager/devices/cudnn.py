"""`torch.backends.cudnn`: not there."""

from __future__ import annotations

import contextlib
from typing import Any

from fusegrad.eager.core.public import locate

__all__ = ["flags", "version"]


def version() -> None:
    """None: it is not there. Source: `torch.backends.cudnn.version`."""
    return None


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Any:
    """A `with` block as any other: there is nothing to set. Source: `torch.backends.cudnn.flags`."""
    return contextlib.nullcontext()


locate("fusegrad.backends.cudnn", globals(), __all__)
