"""Calling a module with other tensors than its own."""

from __future__ import annotations

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
    given: dict[str, Any] = {}
    dicts = parameter_and_buffer_dicts
    for part in [dicts] if hasattr(dicts, "items") else dicts:
        given.update(part)

    places = {
        name: (owner._parameters if kind == "parameters" else owner._buffers, last)
        for kind in ("parameters", "buffers")
        for name, owner, last in _places(module, kind)
    }
    unknown, missing = [n for n in given if n not in places], [n for n in places if n not in given]
    if strict and (unknown or missing):
        raise failure(
            RuntimeError, f"functional_call: unexpected key(s): {unknown}; missing key(s): {missing}"
        )
    if tie_weights:
        named = {id(table[last]): given[name] for name, (table, last) in places.items() if name in given}
        given = {**{n: named[id(t[k])] for n, (t, k) in places.items() if id(t[k]) in named}, **given}
    before = {name: places[name][0][places[name][1]] for name in given if name in places}
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    try:
        for name, tensor in given.items():
            if name in places:
                table, last = places[name]
                table[last] = tensor
        return module(*arguments, **(kwargs or {}))
    finally:
        for name, tensor in before.items():
            table, last = places[name]
            table[last] = tensor


def _places(module: Any, kind: str) -> Iterator[tuple[str, Any, str]]:
    """The full name, the module and the last part of the name of each parameter or buffer."""
    for prefix, owner in module.named_modules():
        table = owner._parameters if kind == "parameters" else owner._buffers
        for last, tensor in table.items():
            if tensor is not None:
                yield (f"{prefix}.{last}" if prefix else last), owner, last
