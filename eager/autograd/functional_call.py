"""Calling a module with other tensors than its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from fusegrad.eager.core.errors import failure


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with other tensors in place of its parameters and buffers.

    parameter_and_buffer_dicts: tensors by name (or several such dictionaries); what is not named stays.
    strict: raise RuntimeError for names that are missing or not the module's.

    Source: `torch.func.functional_call`.
    """
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with with_others(module, parameter_and_buffer_dicts, tie_weights, strict):
        return module(*arguments, **(kwargs or {}))


@contextlib.contextmanager
def with_others(module: Any, dicts: Any, tie_weights: bool, strict: bool) -> Iterator[list[tuple[Any, str]]]:
    """While entered, `module` has other tensors; gives their places: the modules, and the names there."""
    given: dict[str, Any] = {}
    for part in [dicts] if hasattr(dicts, "items") else dicts:
        given.update(part)
    places = {name: place for kind in ("parameters", "buffers") for name, *place in _places(module, kind)}
    unknown, missing = [n for n in given if n not in places], [n for n in places if n not in given]
    if strict and (unknown or missing):
        raise failure(
            RuntimeError, f"functional_call: unexpected key(s): {unknown}; missing key(s): {missing}"
        )
    if tie_weights:
        named = {id(table[last]): given[name] for name, (_, table, last) in places.items() if name in given}
        given = {**{n: named[id(t[k])] for n, (_, t, k) in places.items() if id(t[k]) in named}, **given}
    changed = [places[name] for name in given if name in places]
    before = [table[last] for _, table, last in changed]
    try:
        for name, tensor in given.items():
            if name in places:
                _, table, last = places[name]
                table[last] = tensor
        yield [(owner, last) for owner, _, last in changed]
    finally:
        for (_, table, last), tensor in zip(changed, before, strict=True):
            table[last] = tensor


def _places(module: Any, kind: str) -> Iterator[tuple[str, Any, Any, str]]:
    """The full name, the module, its table and the last part of the name of each parameter or buffer."""
    for prefix, owner in module.named_modules():
        table = owner._parameters if kind == "parameters" else owner._buffers
        for last, tensor in table.items():
            if tensor is not None:
                yield (f"{prefix}.{last}" if prefix else last), owner, table, last
