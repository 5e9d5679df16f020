"""`torch.cuda.amp`: the names of `torch.amp` from when there was one device."""

from __future__ import annotations

import functools
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.public import locate
from fusegrad.eager.devices import amp

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):
    """`torch.amp.autocast("cuda")`: it warns and does nothing. Source: `torch.cuda.amp.autocast`."""

    def __init__(self, enabled: bool = True, dtype: Any = dtypes.float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`torch.amp.GradScaler("cuda")`: it warns and does nothing. Source: `torch.cuda.amp.GradScaler`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Any = None, **options: Any) -> Any:
    """`torch.amp.custom_fwd` of "cuda". Source: `torch.cuda.amp.custom_fwd`."""
    return functools.partial(custom_fwd, **options) if fwd is None else fwd


def custom_bwd(bwd: Any) -> Any:
    """`torch.amp.custom_bwd` of "cuda". Source: `torch.cuda.amp.custom_bwd`."""
    return bwd


locate("fusegrad.cuda.amp", globals(), __all__)
