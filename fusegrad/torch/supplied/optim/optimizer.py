"""`torch.optim.optimizer`: what users' optimizers take from it."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["ParamsT", "required"]


class _Required:
    """The default of an option that has none. Source: `torch.optim.optimizer.required`."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
ParamsT: TypeAlias = Any
params_t = _params_t = ParamsT
