"""What is made like a tensor that stands for a batch."""

from __future__ import annotations

from fusegrad.eager.core.stand_in import stands_for_batch
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor


def one_for_each(made: Tensor, like: Tensor) -> Tensor:
    """`made`; where `like` stands for a batch, one for each of it, so that examples can be written there."""
    if not stands_for_batch(like.array) or state.interpreter is None:
        return made
    found: Tensor = state.interpreter.made_like(made, like)
    return found
