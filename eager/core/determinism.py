"""Whether a program asked for deterministic algorithms. All of fusegrad's are; the wish is only kept."""

from __future__ import annotations

from fusegrad.eager.core.names import publish

_wish = {"wanted": False, "warn_only": False}


@publish
def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for ops that give the same results each time, as those of fusegrad always do.

    Source: `torch.use_deterministic_algorithms`.

    >>> import fusegrad as fg
    >>> fg.use_deterministic_algorithms(True)
    >>> fg.are_deterministic_algorithms_enabled()
    True
    >>> fg.use_deterministic_algorithms(False)
    """
    _wish.update(wanted=bool(mode), warn_only=bool(mode and warn_only))


@publish
def are_deterministic_algorithms_enabled() -> bool:
    """Whether they were asked for. Source: `torch.are_deterministic_algorithms_enabled`."""
    return _wish["wanted"]


@publish
def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether it was to warn only. Source: `torch.is_deterministic_algorithms_warn_only_enabled`."""
    return _wish["warn_only"]
