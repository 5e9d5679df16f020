"""Structures as data: the containers of arguments, of results, and of what a run leaves."""

from __future__ import annotations

from typing import Any

from fusegrad.compiler.artefacts.world import Data, Unsayable, from_plain, plain
from fusegrad.eager.core.pytree import Structure, flatten


def structure(key: Any) -> Data:
    """The containers of arguments, or of a result, by the key of their structure. Raises Unsayable."""
    if key is None:
        return []
    kind, tag, parts = key if type(key) is tuple and len(key) == 3 else (None, None, ())
    if kind not in (list, tuple, dict) or any(of not in (str, int) for of, _ in tag or ()):
        raise Unsayable("takes or gives a container that is no list, tuple or dict, or one of them twice")
    return [kind.__name__, [plain(name) for _, name in tag or ()], [structure(part) for part in parts]]


def structure_again(data: Data) -> Structure:
    def filled(data: Data) -> Any:
        if not data:
            return 0
        kind, keys, parts = data
        made = [filled(part) for part in parts]
        if kind == "dict":
            return dict(zip(map(from_plain, keys), made, strict=True))
        return {"list": list, "tuple": tuple}[kind](made)

    return flatten(filled(data), [])
