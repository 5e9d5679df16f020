"""Parts of `torch.distributed` that are not here: their names are found, and say so when they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.errors import failure

# Why, and what to do, by the part.
WHY = {
    "fsdp": "parameters are not sharded; use DistributedDataParallel",
    "rpc": "there are no remote calls; send objects (docs/clusters.md), or use Dask",
}


def declining(part: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module that stands for a part: a class for each name.

    Calling that raises NotImplementedError.
    """

    def named(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module 'fusegrad.distributed.{part}' has no attribute {name!r}")

        def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
            raise failure(NotImplementedError, f"distributed.{part}.{name}: {WHY[part]}")

        return type(name, (), {"__new__": refuse, "__doc__": WHY[part]})

    return named
