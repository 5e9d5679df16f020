"""What the modules of all absent devices say: no, none, and, to whoever needs one, a RuntimeError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.names import renamed
from fusegrad.eager.core.public import locate


def is_available() -> bool:
    """False: the CPU is the only device. Source: `torch.cuda.is_available`."""
    return False


def is_built() -> bool:
    """False: the CPU is the only device. Source: `torch.backends.cuda.is_built`."""
    return False


def device_count() -> int:
    """0: the CPU does not count. Source: `torch.cuda.device_count`."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing, as in PyTorch without such a device. Source: `torch.cuda.manual_seed`."""


def manual_seed_all(seed: int) -> None:
    """Nothing, as in PyTorch without such a device. Source: `torch.cuda.manual_seed_all`."""


def refuse(path: str) -> NoReturn:
    """Raise what asks for a device that is not there."""
    raise failure(RuntimeError, f"{path}: fusegrad has no other device than the CPU")


def needs_device(path: str) -> Callable[..., Any]:
    """The function `path` of PyTorch's, which has no answer without the device: it raises RuntimeError."""

    def function(*args: Any, **kwargs: Any) -> Any:
        refuse(path)

    function.__doc__ = f"Raises RuntimeError: there is no such device. Source: `torch.{path}`."
    return renamed(function, path.rpartition(".")[2])


class Absent:
    """A class of things that live on a device: none can be made, and nothing is an instance."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        refuse(f"{cls.__module__.removeprefix('fusegrad.')}.{cls.__qualname__}")


locate("fusegrad.cuda", globals(), ["device_count", "is_available", "manual_seed", "manual_seed_all"])
locate("fusegrad.backends.cuda", globals(), ["is_built"])
