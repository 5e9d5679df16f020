"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from typing import Any as _Any

from fusegrad.eager.devices.absent import (
    device_count as device_count,
    is_available as is_available,
    manual_seed as manual_seed,
    manual_seed_all as manual_seed_all,
)
from fusegrad.eager.devices.xpu import empty_cache as empty_cache

def current_device(*args: _Any, **kwargs: _Any) -> _Any: ...
def get_device_name(*args: _Any, **kwargs: _Any) -> _Any: ...
def set_device(*args: _Any, **kwargs: _Any) -> _Any: ...
def synchronize(*args: _Any, **kwargs: _Any) -> _Any: ...
