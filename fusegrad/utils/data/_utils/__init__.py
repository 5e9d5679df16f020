"""What programs look for in `torch.utils.data._utils`."""

from fusegrad.utils.data._utils import collate as collate

__all__ = ["collate"]
