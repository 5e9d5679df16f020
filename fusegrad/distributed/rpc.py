"""Stands for `torch.distributed.rpc`, whose names say why they are not here."""

from typing import Any

from fusegrad.eager.distributed.declined import declining

__all__: list[str] = []
_declined = declining("rpc")


def __getattr__(name: str) -> Any:
    return _declined(name)
