"""What a program asks for, for the whole process: deterministic algorithms, how long a call may wait for the
compiler, and warnings that come each time.

The first chooses who answers a jitted call. NumPy gives the same bits each time. A jitted call may be
answered by eager, a replay or deferred ops, which differ by rounding; who that is depends on earlier calls
and on the clock, unless this is asked for (`compiler/deterministic.py`). NumPy answers ops on large arrays
then.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from fusegrad.eager.core.errors import warn
from fusegrad.eager.core.names import publish
from fusegrad.eager.core.state import tell

# Whether the memory of arrays has bytes around it that nobody may write (`compiler/runtime/red_zones.py`).
RED_ZONES = os.environ.get("FUSEGRAD_RED_ZONES", "0") == "1"


class _Setting:
    """What was asked for last."""

    __slots__ = ("wanted", "warn_only")

    def __init__(self) -> None:
        self.wanted = self.warn_only = False


setting = _Setting()


@publish
def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for calls that give the same bits each time, in any process on the machine.

    Eager's ops always do. Calls of jitted functions do, too, where this is set: what they take and read
    decides, no earlier call and no clock. So a run that was resumed from a checkpoint is the run that went
    on. A call that can be replayed is compiled code's from the first one on, any other is eager's, also one
    that looks at values to go on (`if loss > 1`).

    Compiled code differs from eager's by rounding: set this before the first step, and do not mix runs with
    and without `jit`. Source: `torch.use_deterministic_algorithms`.

    >>> import fusegrad as fg
    >>> fg.use_deterministic_algorithms(True)
    >>> fg.are_deterministic_algorithms_enabled()
    True
    >>> fg.use_deterministic_algorithms(False)
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            place = " (position 1)" if name == "mode" else ""
            raise TypeError(
                f"_set_deterministic_algorithms(): argument '{name}'{place} must be bool, not "
                f"{type(value).__name__}"
            )
    tell("sets deterministic algorithms")
    setting.wanted, setting.warn_only = mode, warn_only


_MODES = ("default", "warn", "error")


@publish
def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by a number, or a name: 0 "default", 1 "warn", 2 "error".

    Source: `torch.set_deterministic_debug_mode`.
    """
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, "
                f"but got {debug_mode}"
            )
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in range(len(_MODES)):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


@publish
def get_deterministic_debug_mode() -> int:
    """What `set_deterministic_debug_mode` would take. Source: `torch.get_deterministic_debug_mode`."""
    if not are_deterministic_algorithms_enabled():
        return 0
    return 1 if is_deterministic_algorithms_warn_only_enabled() else 2


@publish
def are_deterministic_algorithms_enabled() -> bool:
    """Whether they were asked for. Source: `torch.are_deterministic_algorithms_enabled`."""
    return setting.wanted


@publish
def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether it was to warn only. Source: `torch.is_deterministic_algorithms_warn_only_enabled`."""
    tell("asks whether deterministic algorithms warn only")
    return setting.warn_only


# How long a call of a jitted function may wait for recording and compiling.


class _Budget:
    """seconds: None for as long as it takes. waits: what waits for those who compile beside the program."""

    def __init__(self) -> None:
        self.seconds: float | None = 5.0
        self.waits: list[Callable[[], None]] = []

    @contextlib.contextmanager
    def unbounded(self) -> Iterator[None]:
        """Inside, calls wait as long as it takes, as who times them wants it."""
        before, self.seconds = self.seconds, None
        try:
            yield
        finally:
            self.seconds = before


budget = _Budget()


@publish
def set_compile_budget(seconds: float | None) -> None:
    """Set how long the calls of a jitted function may wait for the compiler, None: for all of it.

    That is for recording in each call, and for compiling in all together; when they have waited so long, each
    may still wait for a twentieth. A call for which that is not enough goes on in eager, and so do later
    ones, until the compiler is done beside the program; a line on standard error says what takes long. It is
    5 seconds at first. Under `use_deterministic_algorithms(True)` calls wait as long as it takes. Raises
    ValueError for less than 0.

    >>> import fusegrad as fg
    >>> fg.set_compile_budget(60)
    >>> fg.get_compile_budget()
    60.0
    >>> fg.set_compile_budget(5)
    """
    if seconds is not None and not seconds >= 0:
        raise ValueError(f"set_compile_budget: seconds must be 0 or more, or None, got {seconds!r}")
    tell("sets how long calls wait for the compiler")
    budget.seconds = None if seconds is None else float(seconds)


@publish
def get_compile_budget() -> float | None:
    """How many seconds a call may wait for the compiler; None for as long as it takes."""
    tell("asks how long calls wait for the compiler")
    return budget.seconds


# Warnings come once in a process, as PyTorch's do, or always where a program asks for that.

_seen: set[str] = set()
_always = [False]


@publish
def set_warn_always(b: bool) -> None:
    """Have warnings that come once in a process come each time. Source: `torch.set_warn_always`.

    >>> import fusegrad as fg
    >>> fg.is_warn_always_enabled()
    False
    """
    if not isinstance(b, bool):
        raise TypeError(f"set_warn_always expects a bool, but got {type(b).__name__}")
    tell("sets whether warnings come each time")
    _always[0] = b


@publish
def is_warn_always_enabled() -> bool:
    """Whether warnings come each time. Source: `torch.is_warn_always_enabled`."""
    tell("asks whether warnings come each time")
    return _always[0]


def warn_once(text: str) -> None:
    """Warn with `text`, at the line that called the engine, if that has not been done."""
    if _always[0] or text not in _seen:
        _seen.add(text)
        warn(text)
