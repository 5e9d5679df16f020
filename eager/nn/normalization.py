"""Normalising layers. Names, arguments, state and text as in `torch.nn`."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.places.device import on_its_device
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn import functional as F, init
from fusegrad.eager.nn.declare_layer import optional_parameter
from fusegrad.eager.nn.module import Module
from fusegrad.eager.ops.create import creation


class _Affine(Module):
    """A layer with a weight that starts at 1 and a bias that starts at 0, as far as it has them."""

    def _register(self, size: tuple[int, ...], weight: bool, bias: bool, dtype: Any) -> None:
        optional_parameter(self, "weight", weight, *size, dtype=dtype)
        optional_parameter(self, "bias", weight and bias, *size, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_Affine):
    """Normalises the last dimensions. Source: `torch.nn.LayerNorm`."""

    @on_its_device
    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        size = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = size, eps, elementwise_affine
        self._register(size, elementwise_affine, bias, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Scales the last dimensions to root mean square 1. Source: `torch.nn.RMSNorm`."""

    @on_its_device
    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        size = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = size, eps, elementwise_affine
        optional_parameter(self, "weight", elementwise_affine, *size, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """Normalises groups of channels. Source: `torch.nn.GroupNorm`."""

    @on_its_device
    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise failure(
                ValueError, f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._register((num_channels,), affine, bias, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Divides by neighbouring channels. Source: `torch.nn.LocalResponseNorm`."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


# By channel, with running statistics.


class _NormBase(_Affine):
    """Normalises channels; keeps running statistics as buffers if `track_running_stats`."""

    ranks: tuple[int, ...] = ()  # how many dimensions the input may have
    _version = 2  # since 2 the batches are counted

    @on_its_device
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        tracked = track_running_stats
        self.register_buffer("running_mean", creation.zeros(num_features, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", creation.ones(num_features, dtype=dtype) if tracked else None)
        count = creation.zeros((), dtype="int64") if tracked else None
        self.register_buffer("num_batches_tracked", count)
        self._register((num_features,), affine, bias, dtype)

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batches."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and the running statistics at their start."""
        self.reset_running_stats()
        super().reset_parameters()

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        key = f"{prefix}num_batches_tracked"
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats:
            state_dict.setdefault(key, self.num_batches_tracked)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _check_rank(self, input: Tensor) -> None:
        if input.ndim not in self.ranks:
            expected = " or ".join(f"{n}D" for n in self.ranks)
            raise failure(ValueError, f"expected {expected} input (got {input.ndim}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_rank(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        # One that was made without statistics has none to keep, also where it is told to track them later.
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        # Without running statistics the batch's own are used in evaluation too.
        own = self.training or (self.running_mean is None and self.running_var is None)
        running = (None, None)
        if not self.training or self.track_running_stats:
            running = (self.running_mean, self.running_var)
        return self._normalised(input, running, own, momentum)

    def _normalised(self, input: Tensor, running: tuple[Any, Any], own: bool, momentum: float) -> Tensor:
        """The input by the statistics of the batch, where `own`, or by the running ones."""
        return F.batch_norm(input, *running, self.weight, self.bias, own, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """Normalises each channel of [N, C] or [N, C, L] over the batch. Source: `torch.nn.BatchNorm1d`."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises each channel of [N, C, H, W] over the batch. Source: `torch.nn.BatchNorm2d`."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalises each channel of [N, C, D, H, W] over the batch. Source: `torch.nn.BatchNorm3d`."""

    ranks = (5,)


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_rank(input)
        single = input.ndim == self.ranks[0]
        channels = input.shape[0 if single else 1]
        if channels != self.num_features:
            message = f"expected {self.num_features} channels (num_features), but got: {channels}"
            if self.affine:
                raise failure(ValueError, message)
            warn(f"{message}; num_features is not used because affine=False")
        rows = input.unsqueeze(0) if single else input
        result = F.instance_norm(
            rows,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result.squeeze(0) if single else result


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each row of [N, C, L] or [C, L]. Source: `torch.nn.InstanceNorm1d`."""

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each row of [N, C, H, W] or [C, H, W]. Source: `torch.nn.InstanceNorm2d`."""

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each row of [N, C, D, H, W] or [C, D, H, W].

    Source: `torch.nn.InstanceNorm3d`.
    """

    ranks = (4, 5)
