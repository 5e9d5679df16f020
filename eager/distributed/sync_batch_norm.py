"""Batch norm over the batches of all ranks, as `torch.nn.SyncBatchNorm`."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.distributed.functional import all_reduce
from fusegrad.eager.distributed.world import get_world_size, is_initialized
from fusegrad.eager.nn.module import Module
from fusegrad.eager.nn.normalization import _BatchNorm

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """Normalises each channel over the batches of all ranks of a group. Source: `torch.nn.SyncBatchNorm`.

    Ranks may have batches of other sizes. Without a group, or in evaluation, it is batch norm.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self.process_group = process_group

    def _check_rank(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise failure(ValueError, f"expected at least 2D input (got {input.ndim}D input)")

    def _normalised(self, input: Tensor, running: tuple[Any, Any], own: bool, momentum: float) -> Tensor:
        if not own or not is_initialized() or get_world_size(self.process_group) == 1:
            return super()._normalised(input, running, own, momentum)
        dims = [0, *range(2, input.ndim)]
        shape = [1, -1, *[1] * (input.ndim - 2)]
        values = input.to("float32") if input.dtype.itemsize < 4 else input
        count = values.new_full((1,), values.numel() // max(values.shape[1], 1))
        sums = all_reduce(ops.cat([values.sum(dims), count]), group=self.process_group)
        total = sums[-1].detach()
        mean = sums[:-1] / total
        centered = values - mean.reshape(shape)
        variance = all_reduce((centered * centered).sum(dims), group=self.process_group) / total
        if running[0] is not None:
            with no_grad():
                unbiased = variance * (total / (total - 1).clamp(min=1))
                running[0].lerp_(mean.to(running[0].dtype), momentum)
                running[1].lerp_(unbiased.to(running[1].dtype), momentum)
        made = centered * (variance + self.eps).rsqrt().reshape(shape)
        if self.weight is not None:
            made = made * self.weight.reshape(shape)
        if self.bias is not None:
            made = made + self.bias.reshape(shape)
        return made.to(input.dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module, each `BatchNorm` in it one of these, with its parameters and statistics."""
        made = module
        if isinstance(module, _BatchNorm):
            sizes = (module.num_features, module.eps, module.momentum, module.affine)
            made = cls(*sizes, module.track_running_stats, process_group)
            made.__dict__["_parameters"].update(module._parameters)
            made.__dict__["_buffers"].update(module._buffers)
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


locate("fusegrad.nn", globals(), __all__)
