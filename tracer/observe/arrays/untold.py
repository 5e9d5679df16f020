"""What is asked of a tensor that no key of a call tells: whether it is a leaf, where it lies in memory, and
what it lacks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

from fusegrad.eager.core.errors import user_location
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.observe.lookup import MISSING, own_of
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.reads import GetterRead
from fusegrad.tracer.observe.symbols import Computed, Given, Outcome, computed
from fusegrad.tracer.twin.sites import Site

_METHODS = (Tensor.storage_offset, Tensor._is_view)


def note_leaf(observer: Observer, tensor: Tensor, site: Site) -> None:
    """A tensor is asked whether it is a leaf; one that needs no gradient is."""
    if tensor.needs_grad:
        _note(observer, tensor, "is_leaf", _is_leaf, site)


def note_call(observer: Observer, function: Any, args: tuple[Any, ...], site: Site) -> None:
    """A function of ours is called, which may be one that asks for such."""
    called = function.__func__ if type(function) is MethodType else function
    if any(called is method for method in _METHODS):
        tensor: Any = function.__self__ if type(function) is MethodType else args[0]
        _note(observer, tensor, called.__name__, called, site)


def note_absent(observer: Observer, tensor: Tensor, name: str, site: Site) -> None:
    """A tensor is asked for an attribute that it has not, as a replay makes sure, too."""
    recorder: Any = state.interpreter
    if id(tensor) in observer.captured_tensors:
        absent, words = functools.partial(own_of, name), f"attribute `{name}` of a tensor"
        observer.read(("absent", id(tensor), name), lambda: GetterRead(tensor, absent, MISSING, words, site))
    elif observer.is_input(tensor):
        place = None if getattr(recorder, "hosts", None) is None else recorder.place_of(tensor)
        if not isinstance(place, int):  # within a transform, say
            observer.open(f"reads `{name}` of a tensor", site, "read")
            return
        asked = place, type(tensor), name
        if all(asked != getattr(host, "asked", None) for host, _ in recorder.hosts):
            given = Given(("tensor", place), place, type(tensor), "an argument")
            symbol = computed(_lacks, (given, name), bool)
            recorder.hosts.append((_Absent(symbol, asked), len(recorder.equations)))


class _Absent(Outcome):
    """That an argument has no attribute of its own under a name."""

    def __init__(self, symbol: Computed, asked: tuple[int, type, str]) -> None:
        super().__init__(symbol, True, user_location())
        self.asked = asked


def _lacks(tensor: Tensor, name: str) -> bool:
    return name not in tensor.__dict__


def _is_leaf(tensor: Tensor) -> bool:
    return tensor.is_leaf


def _note(observer: Observer, tensor: Tensor, name: str, ask: Callable[[Tensor], Any], site: Site) -> None:
    """Tensors that were found outside are guarded; of an argument a replay cannot know."""
    if id(tensor) in observer.captured_tensors:
        words = f"`{name}` of a tensor"
        found = ask(tensor)
        observer.read(("untold", id(tensor), name), lambda: GetterRead(tensor, ask, found, words, site))
    elif state.interpreter is None or state.interpreter.is_outside(tensor):
        observer.open(f"reads `{name}` of a tensor", site, "read")
