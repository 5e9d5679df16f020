"""`torch.distributed.rpc.api`."""

from collections.abc import Callable
from typing import Any

from fusegrad.torch.stand_ins import decline


def _require_initialized(func: Callable[..., Any]) -> Callable[..., Any]:
    """A function that raises NotImplementedError: it wants other processes, of which there are none."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        decline("torch.distributed.rpc.init_rpc")

    return wrapper
