"""Whether a program asked for deterministic algorithms: the wish is kept, and chooses nothing yet.

Every op gives the same bits each time. But a jitted call may be answered by eager, a replay or deferred ops,
which differ by rounding, and which of them it is may depend on time.
"""

from __future__ import annotations

from fusegrad.eager.core.names import publish

_wish = {"wanted": False, "warn_only": False}


@publish
def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for ops that give the same results each time, as each of fusegrad's does.

    It does not choose yet who answers a jitted call: eager and compiled code differ by rounding.

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
