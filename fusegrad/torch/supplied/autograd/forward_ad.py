"""`torch.autograd.forward_ad`: there are no dual tensors, so none has a tangent."""

from typing import Any, NamedTuple

from fusegrad.eager.core.tensor import Tensor

__all__ = ["UnpackedDualTensor", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent. Source: `torch.autograd.forward_ad.UnpackedDualTensor`."""

    primal: Tensor
    tangent: Tensor | None


def unpack_dual(tensor: Tensor, *, level: Any = None) -> UnpackedDualTensor:
    """The tensor, without a tangent, as outside of any level.

    Source: `torch.autograd.forward_ad.unpack_dual`.
    """
    return UnpackedDualTensor(tensor, None)
