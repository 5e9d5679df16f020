"""Layers that learn from their first input how many channels it has, and are ordinary ones from then on."""

from __future__ import annotations

import itertools
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.places.device import on_its_device
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.nn import convolution, linear, normalization
from fusegrad.eager.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from fusegrad.eager.ops.create import creation


class LazyModuleMixin:
    """What makes a layer one of these. Source: `torch.nn.modules.lazy.LazyModuleMixin`.

    initialize_parameters: the layer's own; gives parameters shapes by the arguments of the first call.
    cls_to_become: what the layer is from then on.
    """

    cls_to_become: Any = None
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _non_persistent_buffers_set: set[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        module: Any = self
        self._load_hook = module._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = module.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        skipped = self._non_persistent_buffers_set
        buffers = {name: buffer for name, buffer in self._buffers.items() if name not in skipped}
        for name, value in {**self._parameters, **buffers}.items():
            if value is not None:
                destination[prefix + name] = value if is_lazy(value) or keep_vars else value.detach()

    def _lazy_load_hook(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Give parameters the shapes of what is to be loaded into them."""
        for name, value in itertools.chain(self._parameters.items(), self._buffers.items()):
            given = state_dict.get(prefix + name)
            if given is not None and is_lazy(value) and not is_lazy(given):
                with no_grad():
                    value.materialize(given.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give parameters their shapes, by the arguments of the first call."""
        raise failure(
            NotImplementedError, f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether some parameter or buffer has no shape yet."""
        return any(map(is_lazy, itertools.chain(self._parameters.values(), self._buffers.values())))

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise failure(RuntimeError, f"module {module._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> Any:
        raise failure(
            RuntimeError,
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward "
            "pass to correctly initialize the modules",
        )


class LazyLinear(LazyModuleMixin, linear.Linear):
    """A `Linear` with as many inputs as its first input has. Source: `torch.nn.LazyLinear`.

    >>> import fusegrad as fg
    >>> layer = fg.nn.LazyLinear(2)
    >>> layer(fg.ones(5, 3)).shape, layer
    (torch.Size([5, 2]), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become = linear.Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.weight: Any = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw initial values, once there is something to draw."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """Take the number of inputs from `input`. Raises AssertionError if what was loaded has another."""
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            if input.shape[-1] != self.weight.shape[-1]:
                raise failure(
                    AssertionError,
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to in_features "
                    f"from self.weight: {self.weight.shape[-1]}",
                )
            self.in_features = input.shape[-1]


class _LazyConvXdMixin(LazyModuleMixin):
    rank: int
    groups: int
    transposed: bool
    in_channels: int
    kernel_size: tuple[int, ...]

    def _begin(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight: Any = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias: Any = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw initial values, once there is something to draw."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        """Take the number of channels from `input`. Raises ValueError if groups do not divide it,
        RuntimeError for an input with another number of dimensions.
        """
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise failure(ValueError, "in_channels must be divisible by groups")
        channels = self.in_channels, self.out_channels
        first, second = channels if self.transposed else reversed(channels)
        self.weight.materialize((first, second // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input: Any) -> int:
        alone, batch = self.rank + 1, self.rank + 2
        if input.dim() not in (alone, batch):
            raise failure(
                RuntimeError,
                f"Expected {alone}D (unbatched) or {batch}D (batched) input to {type(self).__name__}, but "
                f"got input of size: {input.shape}",
            )
        return int(input.shape[1 if input.dim() == batch else 0])

    def _get_num_spatial_dims(self) -> int:
        return self.rank


class _LazyConv(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._begin(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        before = (0, 0, kernel_size, stride, padding, output_padding)
        super().__init__(*before, groups, False, dilation, padding_mode)
        self._begin(out_channels, bias, device, dtype)


class _LazyNormBase(LazyModuleMixin):
    num_features: int

    @on_its_device
    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, bias=False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight: Any = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias: Any = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean: Any = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var: Any = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = creation.zeros((), dtype="int64")

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and the running statistics at their start, once there are any."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Any) -> None:
        """Take the number of channels from `input`."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for name in ("weight", "bias", "running_mean", "running_var"):
            value = getattr(self, name)
            if value is not None:
                value.materialize((self.num_features,))
        self.reset_parameters()


def _lazy(mixin: type, kind: type) -> Any:
    """The lazy layer of a kind."""
    name = f"Lazy{kind.__name__}"
    doc = f"A `{kind.__name__}` with as many channels as its first input has. Source: `torch.nn.{name}`."
    return type(name, (mixin, kind), {"cls_to_become": kind, "__doc__": doc, "__module__": __name__})


LazyConv1d = _lazy(_LazyConv, convolution.Conv1d)
LazyConv2d = _lazy(_LazyConv, convolution.Conv2d)
LazyConv3d = _lazy(_LazyConv, convolution.Conv3d)
LazyConvTranspose1d = _lazy(_LazyConvTranspose, convolution.ConvTranspose1d)
LazyConvTranspose2d = _lazy(_LazyConvTranspose, convolution.ConvTranspose2d)
LazyConvTranspose3d = _lazy(_LazyConvTranspose, convolution.ConvTranspose3d)
LazyBatchNorm1d = _lazy(_LazyNormBase, normalization.BatchNorm1d)
LazyBatchNorm2d = _lazy(_LazyNormBase, normalization.BatchNorm2d)
LazyBatchNorm3d = _lazy(_LazyNormBase, normalization.BatchNorm3d)
LazyInstanceNorm1d = _lazy(_LazyNormBase, normalization.InstanceNorm1d)
LazyInstanceNorm2d = _lazy(_LazyNormBase, normalization.InstanceNorm2d)
LazyInstanceNorm3d = _lazy(_LazyNormBase, normalization.InstanceNorm3d)
