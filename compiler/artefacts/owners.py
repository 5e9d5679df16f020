"""What has attributes and items that a run sets, as data: an object, the globals of a function, or a cell."""

from __future__ import annotations

from types import CellType
from typing import Any

from fusegrad.compiler.artefacts.world import Data, World


def told(owner: Any, world: World) -> Data:
    """How another process comes by it. Raises Unsayable."""
    if type(owner) is CellType:
        return ["cell", *world.cell(owner)]
    if world.is_namespace(owner):
        return ["globals", world.namespace(owner)]
    return ["object", world.known(owner)]


def again(said: Data, world: World) -> Any:
    """What was told of."""
    kind, number, *rest = said
    owner = world.at(number)
    if kind == "cell":
        return owner.__closure__[rest[0]]
    return owner.__globals__ if kind == "globals" else owner
