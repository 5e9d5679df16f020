"""What stands under `torch.utils`."""

from fusegrad.utils import (
    _pytree as _pytree,
    checkpoint as checkpoint,
    data as data,
    tensorboard as tensorboard,
)

__all__ = ["checkpoint", "data", "tensorboard"]
