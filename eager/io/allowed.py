"""Which classes and functions files may name that are loaded with `weights_only=True`."""

from __future__ import annotations

import pickle
import pickletools
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.io import class_names
from fusegrad.eager.io.archive_members import Members
from fusegrad.eager.io.torch_names import NAMES
from fusegrad.eager.io.windows import Window

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "safe_globals"]
_BLOCKED = frozenset({"sys", "os", "posix", "nt"})
_noted: set[Any] = set()
UNSAFE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from "
    "`False` to "
    "`True`. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can "
    "result in "
    "arbitrary code execution. Do it only if you got the file from a trusted source."
)


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Allow files that are loaded with `weights_only=True` to name these classes and functions, and call
    them.

    Each may be a pair of itself and the full name that files have for it. Source:
    `torch.serialization.add_safe_globals`.

    >>> import datetime, fusegrad as fg, io
    >>> from fusegrad.torch.supplied.serialization import safe_globals
    >>> file = io.BytesIO()
    >>> fg.save(datetime.timedelta(1), file)
    >>> with safe_globals([datetime.timedelta]):
    ...     _ = file.seek(0)
    ...     print(fg.load(file))
    1 day, 0:00:00
    """
    _noted.update(safe_globals)


def get_safe_globals() -> list[Any]:
    """What was allowed. Source: `torch.serialization.get_safe_globals`."""
    return list(_noted)


def clear_safe_globals() -> None:
    """Allow nothing any more. Source: `torch.serialization.clear_safe_globals`."""
    _noted.clear()


class safe_globals:
    """Allow classes and functions for a `with` block. Source: `torch.serialization.safe_globals`."""

    def __init__(self, safe_globals: Iterable[Any]) -> None:
        self.safe_globals = list(safe_globals)

    def __enter__(self) -> None:
        add_safe_globals(self.safe_globals)

    def __exit__(self, *_: Any) -> None:
        _noted.difference_update(self.safe_globals)


def allowed() -> dict[str, Any]:
    """What the program has allowed, by the full name that files have for it."""
    found = {}
    for value in _noted:
        if not isinstance(value, tuple):
            place = class_names.written(value) or (value.__module__, value.__qualname__)
            found[".".join(place)] = value
            continue
        if len(value) != 2:
            raise failure(
                ValueError,
                "Expected tuple of length 2 (global, str of callable full path), but got tuple of length: "
                f"{len(value)}",
            )
        if type(value[1]) is not str:
            raise failure(
                TypeError,
                f"Expected second item in tuple to be str of callable full path, but got: {type(value[1])}",
            )
        found[value[1]] = value[0]
    return found


def current_name(module: str, name: str) -> tuple[str, str]:
    """A module and a name as Python 3 has them: pickles of protocol 2 have those of Python 2."""
    if (module, name) in NAME_MAPPING:
        return NAME_MAPPING[module, name]
    return IMPORT_MAPPING.get(module, module), name


def finder(own: dict[str, Any]) -> Callable[[str, str], Any]:
    """What looks names up, given what the program has allowed. It raises UnpicklingError for all others."""

    def find(module: str, name: str) -> Any:
        module, name = current_name(module, name)
        full = f"{module}.{name}"
        if module in _BLOCKED:
            raise pickle.UnpicklingError(
                f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked."
            )
        if (module, name) in NAMES:
            return NAMES[module, name]
        if full in own:
            return own[full]
        if module in ("torch._utils", "torch") and (
            "sparse" in name or "quantize" in name or "qtensor" in name
        ):
            raise pickle.UnpicklingError(f"it holds a tensor of a kind that cannot be loaded: {full}")
        said = full.removeprefix("builtins.")
        raise pickle.UnpicklingError(
            f"Unsupported global: GLOBAL {full} was not an allowed global by default. Please use "
            f"`torch.serialization.add_safe_globals([{said}])` or the "
            f"`torch.serialization.safe_globals([{said}])` "
            "context manager to allowlist this global if you trust this class/function."
        )

    return find


def explained(message: str) -> str:
    """What is said of a file that is loaded with `weights_only=True`, with what a program may do."""
    if "was not an allowed global by default" in message:
        start = (
            "This file can still be loaded, to do so you have two options, do those steps only if you "
            "trust the "
            f"source of the checkpoint.\n\t(1) {UNSAFE}\n\t(2) Alternatively, to load with "
            "`weights_only=True` please "
            "check the recommended steps in the following error message.\n\tWeightsUnpickler error: "
        )
    else:
        start = f"{UNSAFE}\n\n"
    return f"Weights only load failed. {start}{message}"


def unsafe_names(file: IO[bytes]) -> list[str]:
    """The full names in a file of PyTorch's that are neither known nor allowed.

    Raises ValueError for what is no such file.
    """
    window = Window(file)
    if window.read(4) != b"PK\x03\x04":
        raise failure(ValueError, "Expected input to be a checkpoint returned by torch.save")
    members = Members(window)
    described = [name for name in members.by_name if name.endswith("/data.pkl")]
    if len(described) != 1 or any(name.endswith("/constants.pkl") for name in members.by_name):
        raise failure(
            ValueError,
            "Expected input to be a checkpoint returned by torch.save but got a torchscript checkpoint",
        )
    own = allowed()
    found: dict[str, None] = {}
    for module, name in _named(members.content(described[0])):
        full = f"{module}.{name}"
        if full not in own and (module, name) not in NAMES:
            found[full] = None
    return list(found)


def _named(content: bytes) -> Iterator[tuple[str, str]]:
    """The modules and names in a pickle, which is not run."""
    texts: list[str] = []  # what STACK_GLOBAL takes stands right before it, or was kept
    for code, value, _ in pickletools.genops(content):
        if code.name == "GLOBAL":
            module, _, name = str(value).partition(" ")
            yield current_name(module, name)
        elif code.name == "STACK_GLOBAL" and len(texts) > 1:
            yield texts[-2], texts[-1]
        elif isinstance(value, str):
            texts.append(value)
