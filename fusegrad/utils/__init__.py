"""What stands under `torch.utils`."""

from fusegrad.utils import checkpoint as checkpoint

__all__ = ["checkpoint"]
