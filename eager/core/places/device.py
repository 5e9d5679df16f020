"""Devices: the CPU, which has all values, and `meta`, whose tensors have shapes, dtypes and no values.

A function that makes tensors and takes a `device` says `on_cpu(device)` first. Where the device is another
one than that on which it would make them, it stops there (`Elsewhere`), and its form (`eager/ops/forms.py`)
calls it once more with tensors `made_on` that device. So are those of a layer (`on_its_device`), and those of
what is given no device where the default is another one.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.places import meta
from fusegrad.eager.core.state import in_state, state, tell, watchers

F = TypeVar("F", bound=Callable[..., Any])

# The kinds of devices that PyTorch knows, which a program may name; tensors are on the first, or on meta.
DEVICES = (
    "cpu cuda ipu xpu mkldnn opengl opencl ideep hip ve fpga maia xla lazy vulkan mps meta hpu mtia".split()
)


class device:
    """Where a tensor lives: on the CPU, or on `meta`, where it has no values. Others hold no tensors.

    type: "cpu", or another device, perhaps with its number. Tensors of a `with` block are made on it. Raises
    RuntimeError for names that are no device's and for a number alone, since there is no accelerator;
    TypeError for what is no name.

    >>> import fusegrad as fg
    >>> fg.device("cuda:1"), fg.device("cpu") == fg.device("meta")
    (device(type='cuda', index=1), False)
    >>> with fg.device("meta"):
    ...     fg.ones(1000000, 1000000) @ fg.ones(1000000, 3)
    tensor(..., device='meta', size=(1000000, 3))
    """

    __slots__ = ("index", "type")

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        if isinstance(type, (bool, float, complex, bytes, list, tuple, dict)) or type is None:
            kind = type.__class__.__name__
            raise failure(TypeError, f"device(): a device is a name or a number, not {kind}")
        self.type, colon, number = str(type).partition(":")
        if self.type.removeprefix("-").isdigit():
            raise failure(RuntimeError, f"device {type!r}: fusegrad has no other device than the CPU")
        if self.type not in DEVICES or (colon and (index is not None or not number.isdigit())):
            known = f"Expected one of {', '.join(DEVICES)} device type"
            raise failure(RuntimeError, f"{known} at start of device string: {type}")
        self.index = int(number) if number else index

    def __enter__(self) -> device:
        """Tensors of a `with` block are made on the device. Raises RuntimeError for those that hold none."""
        there = place_of(self)
        state.devices = (*state.devices, there)
        _note_default()
        return self

    def __exit__(self, *error: object) -> None:
        state.devices = state.devices[:-1]
        _note_default()

    def __repr__(self) -> str:
        number = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{number})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, device):
            return (self.type, self.index) == (other.type, other.index)
        return self.type == "cpu" and other == "cpu"

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.type, self.index)

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        """As pickles of version 0.1.0 have it: the CPU."""
        self.type, self.index = state[1]["type"], None


CPU, META = device(), device("meta")


def place_of(value: Any) -> device:
    """The CPU or meta, by what was given as a `device`. Raises RuntimeError for what is not there."""
    type = value.type if isinstance(value, device) else str(value).partition(":")[0]
    if type in ("cpu", "meta"):
        return CPU if type == "cpu" else META
    device(value)  # what is no device at all has words of its own
    raise failure(RuntimeError, f"device {str(value)!r}: fusegrad has no other device than the CPU")


class Elsewhere(RuntimeError):
    """A function is to make its tensors on another device than it would."""

    def __init__(self, place: device) -> None:
        super().__init__(f"fusegrad cannot make this on the device {str(place)!r}")
        self.place = place


def on_cpu(value: Any) -> None:
    """Look at what was given as a `device`; None is wherever tensors are made now.

    Raises Elsewhere for the CPU or meta, if that is the other one; RuntimeError for what is not there.
    """
    if value is None:
        return
    place = place_of(value)
    if place is not (state.making or CPU):
        raise Elsewhere(place)


# The default of threads.

# Those whose default device is meta: programs that have none ask no further.
ELSEWHERE: set[int] = set()


def default_device() -> device:
    """Where the tensors of this thread are made that name no device."""
    found: device = state.devices[-1] if state.devices else state.default_device or CPU
    return found


def set_default(value: Any) -> None:
    """Make a device the default of this thread; None: there is none. Within a `with` block of a device it
    takes the place of the block's, too, as in PyTorch, and None leaves the block what it has.
    """
    place = None if value is None else place_of(value)
    state.default_device = place
    if place is not None and state.devices:
        state.devices = (*state.devices[:-1], place)
    _note_default()


def _note_default() -> None:
    thread = threading.get_ident()
    if default_device() is META:
        tell("makes tensors on the meta device")
        ELSEWHERE.add(thread)
        if _without_replays not in watchers:
            watchers.append(_without_replays)
    elif thread in ELSEWHERE:
        ELSEWHERE.discard(thread)
        if not ELSEWHERE and _without_replays in watchers:
            watchers.remove(_without_replays)


def _without_replays(node: Any) -> None:
    """What is compiled makes its tensors on the CPU: while somebody watches, nothing is replayed."""


def other_default() -> device | None:
    """The default device, where tensors are about to be made elsewhere."""
    if state.making is not None:
        return None
    found = default_device()
    return None if found is CPU else found


def made_on(place: device) -> in_state:
    """Inside, ops and functions without operands make their tensors on this device."""
    if place is META:
        meta.begin()
        tell("makes tensors on the meta device")
    return in_state(making=place)


def on_its_device(function: F) -> F:
    """A constructor with a parameter `device`: what it makes is made there."""
    code: Any = function.__code__
    place = code.co_varnames.index("device")

    @functools.wraps(function)
    def making(*args: Any, **kwargs: Any) -> Any:
        given = args[place] if len(args) > place else kwargs.get("device")
        if given is None and not ELSEWHERE:
            return function(*args, **kwargs)
        there = other_default() if given is None else place_of(given)
        if there is None or there is (state.making or CPU):
            return function(*args, **kwargs)
        with made_on(there):
            return function(*args, **kwargs)

    return making  # type: ignore[return-value]
