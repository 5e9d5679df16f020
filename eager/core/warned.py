"""Warnings that come once in a process, as PyTorch's do, or always where a program asks for that."""

from __future__ import annotations

import warnings

from fusegrad.eager.core.names import publish

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
    _always[0] = b


@publish
def is_warn_always_enabled() -> bool:
    """Whether warnings come each time. Source: `torch.is_warn_always_enabled`."""
    return _always[0]


def warn_once(text: str, depth: int) -> None:
    """Warn with `text`, if that has not been done; depth: how many calls above is the user's line."""
    if _always[0] or text not in _seen:
        _seen.add(text)
        warnings.warn(text, stacklevel=depth + 1)
