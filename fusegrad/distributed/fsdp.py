"""Stands for `torch.distributed.fsdp`, whose names say why they are not here."""

from typing import Any

from fusegrad.eager.distributed.declined import declining

__all__: list[str] = []
_declined = declining("fsdp")


def __getattr__(name: str) -> Any:
    return _declined(name)
