"""The key of a call: what must be equal for two calls to be answered by the same code."""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any

from fusegrad.compiler.call_family import NUMBERS
from fusegrad.eager.core import dtypes, settings
from fusegrad.eager.core.pytree import flatten
from fusegrad.eager.core.shared import Untracked
from fusegrad.eager.core.stand_in import give_values, putting_off
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.observe.arrays.known import array_key, is_numbers
from fusegrad.tracer.observe.values import MISSING, plain_key


class Unkeyed(Exception):
    """Arguments that no key can tell apart."""


def call_key(args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]) -> Any:
    """What must be equal for two calls to be answered by the same code; fills `leaves`."""
    structure = _structure_key(args, kwargs, leaves)
    parts: list[Any] = [structure, state.grad_enabled, dtypes.default_float(), settings.setting.wanted]
    seen: dict[int, int] = {}
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            if putting_off:
                give_values((leaf,))
                if leaf.is_meta:
                    raise Unkeyed("an argument is on the meta device, where there are no values")
            array = leaf.array
            # The place of its first appearance tells f(x, x) from f(x, y).
            first = seen.setdefault(id(leaf), place)
            part = (array.shape, array.dtype, array.strides, leaf.needs_grad, type(leaf), first)
            # Backward must not keep what was made in inference mode; eager raises there.
            parts.append(part if type(leaf.version) is not Untracked else (*part, "inference"))
        else:
            plain = plain_key(leaf)
            if plain is MISSING and is_numbers(leaf):
                plain = (*array_key(leaf), seen.setdefault(id(leaf), place))
            parts.append(plain if plain is not MISSING else (type(leaf), id(leaf)))
    return tuple(parts)


def key_of(args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]) -> Any:
    """`call_key`, or None for arguments that have none."""
    try:
        return call_key(args, kwargs, leaves)
    except Unkeyed:
        return None


def _structure_key(args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]) -> Any:
    """What tells the containers among the arguments apart; fills `leaves`."""
    if not kwargs:
        for arg in args:
            kind = type(arg)
            if kind is not Tensor and kind is not float and kind is not int and kind is not bool:
                break
        else:
            # Nothing to take apart, as in most calls.
            leaves += args
            return _flat_key(len(args))
    try:
        # Positional arguments are a tuple; two of them may look like those and keywords.
        return flatten([args, kwargs] if kwargs else args, leaves).key
    except ValueError as error:
        raise Unkeyed(f"an argument is {error}") from None


@functools.cache
def _flat_key(count: int) -> Any:
    """The structure of so many arguments that are no containers."""
    return flatten((None,) * count, []).key


def is_object(leaf: Any) -> bool:
    """Whether a leaf is keyed by its identity."""
    return not (isinstance(leaf, Tensor) or is_numbers(leaf)) and plain_key(leaf) is MISSING


def describe_key(leaves: list[Any], shapes: list[Any] | None = None, changing: Collection[int] = ()) -> str:
    """The arguments of a key for people: `float32[32, 784], 3, <Model>`.

    With `shapes`, of a family: `float32[*, 784], any int, <Model>`. changing: the numbers that it leaves out.
    """
    parts = []
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            shape = leaf.array.shape if shapes is None else shapes[place] or ()
            sizes = ", ".join("*" if n is None else str(n) for n in shape)
            text = f"{leaf.array.dtype.name}[{sizes}]"
            parts.append(text + (" requires_grad" if leaf.needs_grad else ""))
        elif place in changing or (shapes is not None and type(leaf) in NUMBERS):
            parts.append(f"any {type(leaf).__name__}")
        elif is_numbers(leaf):
            parts.append(f"array {leaf.dtype.name}{list(leaf.shape)}")
        else:
            parts.append(repr(leaf) if not is_object(leaf) else f"<{type(leaf).__name__}>")
    return ", ".join(parts)
