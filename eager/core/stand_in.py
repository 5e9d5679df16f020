"""The array of a tensor that has no values yet: it knows its shape, dtype and strides, and refuses the rest.

Nobody reads a stand-in. The thread that defers a tensor's op is told before; any other thread that was handed
the tensor computes what waits in the place of that one (`give_values`), since that one may be waiting for it.
What comes past all doors gets an error, and not whatever lies in the memory.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from fusegrad.eager.core.state import in_modes, modes, state

# Attributes that say nothing about the values, or that Python itself needs.
_KNOWN = frozenset(
    """__array_finalize__ __array_priority__ __class__ __class_getitem__ __delattr__ __dir__ __doc__ __eq__
    __getattribute__ __hash__ __init__ __init_subclass__ __len__ __ne__ __new__ __setattr__ __sizeof__
    __subclasshook__ __array_function__ __array_ufunc__ reshape squeeze swapaxes transpose view""".split()
)
ABOUT_MEMORY = (np.may_share_memory, np.shares_memory)
_LIKE = (np.zeros_like, np.empty_like, np.ones_like, np.full_like)


_MEMORY = ("__array_interface__", "__array_struct__", "ctypes", "data", "flat", "imag", "real")


def _refuse(*_: Any, **__: Any) -> Any:
    raise RuntimeError(
        "this tensor has no values yet: a jitted function that is still running has put its op off, and what "
        "reads it did not ask for them. Read it by an op, or by `tensor.item()` or `tensor.numpy()`"
    )


class StandIn(np.ndarray):
    """An array whose elements nobody may read or write.

    values: the array that has taken its place, if there is one by now.
    """

    values: np.ndarray | None = None
    physical: Any = None  # of a tensor that stands for a batch, the one with all of it

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        _refuse()

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if function in ABOUT_MEMORY or function in _LIKE:
            return function(*map(plain, args), **kwargs)
        return _refuse()


def refusing(kind: type[StandIn], refuse: Callable[..., Any]) -> None:
    """Have whatever asks an array of this class for its elements get what `refuse` raises."""
    for name in dir(np.ndarray):
        if name not in _KNOWN and callable(getattr(np.ndarray, name)):
            setattr(kind, name, refuse)
    for name in _MEMORY:
        setattr(kind, name, property(refuse))


refusing(StandIn, _refuse)


def plain(array: Any) -> Any:
    """An array to ask where its elements lie, but not for these; anything else as it is."""
    return array.view(np.ndarray) if isinstance(array, StandIn) else getattr(array, "bare", array)


def all_behind(tensor: Any) -> Iterator[Any]:
    """A tensor, and those that have its values, where it stands for a batch (`ops/batches`)."""
    while tensor is not None:
        yield tensor
        array = tensor.array
        tensor = array.physical if isinstance(array, StandIn) else None


def stands_for_batch(array: Any) -> bool:
    """Whether it is the array of a tensor that stands for a batch."""
    return isinstance(array, StandIn) and array.physical is not None


def has_values(array: np.ndarray) -> bool:
    """Whether native code, which asks nobody, may read the array."""
    return type(array) is np.ndarray or (isinstance(array, np.ndarray) and not isinstance(array, StandIn))


def stand_in(
    shape: tuple[int, ...],
    dtype: np.dtype,
    strides: tuple[int, ...] | None = None,
    writeable: bool = True,
) -> StandIn:
    """A stand-in, in row-major order unless strides are given; its memory is never touched."""
    array = np.empty(shape, dtype)
    if strides is not None and array.strides != strides and array.size:
        reach = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
        before = -sum(r for r in reach if r < 0)
        memory = np.empty(before + sum(r for r in reach if r > 0) + dtype.itemsize, np.uint8)
        array = np.ndarray(shape, dtype, memory, before, strides)
    if not writeable:
        array.flags.writeable = False
    return array.view(StandIn)


class Waits:
    """Ops of one thread that wait; while any do, it stands in `putting_off`.

    lock: held by whoever changes what waits, and by no code of the user's. modes: the thread's own.
    """

    thread: int | None

    def __init__(self) -> None:
        self.thread, self.lock, self.modes = threading.get_ident(), threading.RLock(), modes()

    def waits_at_once(self, op: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """What stands for the results of an op from now on, by whoever is in charge of it, if it is seen at
        once that there is nothing else to be done; otherwise None.
        """
        return None

    def has_waiting(self, tensor: Any) -> bool:
        """Whether the tensor is one of those that wait."""
        raise NotImplementedError

    def reads(self, array: np.ndarray) -> bool:
        """Whether what waits may read some of the memory of `array`."""
        raise NotImplementedError

    def settle(self) -> None:
        """Compute what waits."""
        raise NotImplementedError


# Of all threads.
putting_off: set[Waits] = set()


def _alone_in_child() -> None:
    """A forked child has but the thread that forked: nobody there gives the locks of others back."""
    thread = threading.get_ident()
    putting_off.intersection_update([run for run in putting_off.copy() if run.thread in (thread, None)])
    for run in putting_off:
        run.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone_in_child)


def give_values(values: Iterable[Any]) -> None:
    """Have the tensors among `values` computed that wait in other threads, if any are `putting_off`."""
    thread = threading.get_ident()
    for run in putting_off.copy():
        if run.thread != thread:
            break
    else:
        return
    for tensor in values:
        if isinstance(getattr(tensor, "array", None), StandIn):
            _settle_others(lambda run: run.has_waiting(tensor))  # noqa: B023


def tell_others(array: np.ndarray) -> None:
    """Have all computed that waits in other threads and reads memory of `array`, about to be written."""
    _settle_others(lambda run: run.reads(array))


def _settle_others(concerned: Callable[[Waits], bool]) -> None:
    thread, interpreter = threading.get_ident(), state.interpreter
    for run in [run for run in putting_off.copy() if run.thread != thread]:
        with run.lock:
            if concerned(run):
                state.interpreter = None
                try:
                    with in_modes(run.modes):
                        run.settle()
                finally:
                    state.interpreter = interpreter
