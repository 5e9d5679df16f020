"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from collections.abc import Iterable as _Iterable
from typing import Any as _Any

from fusegrad.eager.nn.module import Module as _Module
from fusegrad.eager.optim.swa_utils import (
    SWALR as SWALR,
    AveragedModel as AveragedModel,
    get_ema_avg_fn as get_ema_avg_fn,
    get_ema_multi_avg_fn as get_ema_multi_avg_fn,
    get_swa_avg_fn as get_swa_avg_fn,
    get_swa_multi_avg_fn as get_swa_multi_avg_fn,
)

def update_bn(loader: _Iterable[_Any], model: _Module, device: _Any = None) -> None: ...
