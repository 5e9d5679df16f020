"""`ops`: every op's function by its name, for gradient rules and for ops that are made of others.

They are written in the names that a user writes, so that they are traced, compiled and derived again as
the user's own functions are. A declaration puts its function here (see `names.py`); who asks for it
needs not know which module has it, nor import one that may import it back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fusegrad.eager.core.tensor import Tensor


class Ops:
    """The functions that are declared, as attributes; what is none is an AttributeError."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Tensor]: ...

        # What gives several tensors.
        chunk: Callable[..., tuple[Tensor, ...]]
        split: Callable[..., tuple[Tensor, ...]]
        unbind: Callable[..., tuple[Tensor, ...]]


ops = Ops()
