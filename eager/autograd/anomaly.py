"""Anomaly mode: a NaN in backward names the line, and the calls, that ran its forward."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd import node as graph
from fusegrad.eager.core.errors import failure, is_own_file
from fusegrad.eager.core.names import publish
from fusegrad.eager.core.state import state, tell


class _Anomaly:
    """Whether it is on, for all threads as in PyTorch."""

    enabled = False
    check_nan = True


setting = _Anomaly()
_KEY, _PARENT = "traceback_", "parent_"


def _remember(node: Any) -> None:
    """Keep the calls that led to a new node, and the node in whose backward it was made."""
    frames = [f for f in traceback.extract_stack() if not is_own_file(f.filename)]
    node.metadata[_KEY] = traceback.format_list(frames)
    node.metadata[_PARENT] = state.walk.current if state.walk is not None else None


def report(node: Any) -> None:
    """Warn of an error in the backward of `node`, with the calls that ran its forward.

    Where that was in another node's backward, a further warning says where the forward of that was.
    """
    text = f"Error detected in {node.name()}."
    while node is not None:
        known = node.extra.metadata if node.extra is not None else {}
        if _KEY in known:
            text += f" Traceback of forward call that caused the error:\n{''.join(known[_KEY])}"
        else:
            text += (
                " No forward pass information available. Enable detect anomaly during forward pass for more "
                "information."
            )
        try:
            warnings.warn(text, stacklevel=4)
        except Warning:  # where warnings are errors, the error of the backward is what counts
            print(text, file=sys.stderr)
        node = known.get(_PARENT)
        text = f"Previous calculation was induced by {node.name()}." if node is not None else ""


@publish
def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on. Source: `torch.is_anomaly_enabled`."""
    tell("asks how anomaly mode is set")
    return setting.enabled


@publish
def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks for NaN. Source: `torch.is_anomaly_check_nan_enabled`."""
    tell("asks how anomaly mode is set")
    return setting.check_nan


def _set(enabled: bool, check_nan: bool) -> None:
    tell("sets anomaly mode")
    setting.enabled, setting.check_nan = enabled, check_nan
    if enabled and _remember not in graph.watchers:
        graph.watchers.append(_remember)
    elif not enabled and _remember in graph.watchers:
        graph.watchers.remove(_remember)


class set_detect_anomaly:
    """Switch anomaly mode on or off, at once or for a `with`; as `torch.autograd.set_detect_anomaly`.

    While it is on, every op remembers the calls that led to it, and a backward that gives NaN is a
    RuntimeError that shows them.

    >>> import fusegrad as fg
    >>> x = fg.zeros(1, requires_grad=True)
    >>> with fg.autograd.detect_anomaly():
    ...     try:
    ...         (fg.sqrt(x) * 0).sum().backward()
    ...     except RuntimeError as error:
    ...         print(str(error).splitlines()[0])
    backward: Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._previous = setting.enabled, setting.check_nan
        _set(bool(mode), check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        _set(*self._previous)


class detect_anomaly(set_detect_anomaly):
    """Anomaly mode for a `with`; as `torch.autograd.detect_anomaly`."""

    def __init__(self, check_nan: bool = True) -> None:
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
            "enabled for debugging.",
            stacklevel=2,
        )
        self._previous = setting.enabled, setting.check_nan
        self._check_nan = check_nan

    def __enter__(self) -> None:
        _set(True, self._check_nan)


def check(node: Any, produced: Sequence[Any]) -> None:
    """Refuse a gradient with NaN in it."""
    for i, gradient in enumerate(produced):
        if gradient is None or gradient.array.dtype.kind not in "fcV" or not np.isnan(gradient.array).any():
            continue
        message = f"Function {node.name()!r} returned nan values in its {i}th output."
        calls = (node.extra.metadata if node.extra is not None else {}).get(_KEY)
        if calls:
            message += f"\nTraceback of the forward call that made it:\n{''.join(calls).rstrip()}"
        else:
            message += " No forward traceback: anomaly mode was off when it ran." + graph.forward_text(node)
        raise failure(RuntimeError, message)
