"""Modules on several devices, as `torch.nn.parallel`: there is one device, and so one copy."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.core.public import locate
from fusegrad.eager.devices.absent import refuse
from fusegrad.eager.nn.module import Module

__all__ = ["DataParallel"]


class DataParallel(Module):
    """A module, `module`, that is called as it is, as PyTorch's is without devices.

    Raises RuntimeError for `device_ids`. Source: `torch.nn.DataParallel`.

    >>> import fusegrad as fg
    >>> list(fg.nn.DataParallel(fg.nn.Linear(1, 1)).state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if device_ids:
            refuse("nn.DataParallel")
        self.module, self.dim = module, dim
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


locate("fusegrad.nn", globals(), __all__)
