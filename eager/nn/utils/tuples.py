"""Numbers for each dimension of a layer. Source: `torch.nn.modules.utils`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """What makes a tuple of an iterable, or repeats anything else `n` times.

    >>> from fusegrad.nn.modules.utils import _pair
    >>> _pair(3), _pair([1, 2])
    ((3, 3), (1, 2))
    """

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")
