"""The layers. Names, arguments, initial values and text as in `torch.nn`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fusegrad.eager.nn import functional as F, init
from fusegrad.eager.nn.module import Module, Parameter, bump_state_version
from fusegrad.eager.ops import creation, elementwise as ew, shape
from fusegrad.eager.state import no_grad
from fusegrad.eager.tensor import Tensor

# Containers.


class Sequential(Module):
    """Modules one after the other. Source: `torch.nn.Sequential`."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for place, module in enumerate(args):
                self.add_module(str(place), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())  # type: ignore[arg-type]

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))
        return list(self._modules.values())[index]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, list(self._modules)[index], module)

    def append(self, module: Module) -> Sequential:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self


class ModuleList(Module):
    """A list of modules. Source: `torch.nn.ModuleList`."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())  # type: ignore[arg-type]

    def __getitem__(self, index: int | slice) -> Any:
        chosen = list(self._modules.values())[index]
        return type(self)(chosen) if isinstance(index, slice) else chosen  # type: ignore[arg-type]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, str(range(len(self))[index]), module)

    def __delitem__(self, index: int) -> None:
        kept = list(self._modules.values())
        del kept[index]
        self._modules.clear()
        bump_state_version()
        self.extend(kept)  # type: ignore[arg-type]

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Put a module in at `index`."""
        kept = list(self._modules.values())
        kept.insert(index, module)
        self._modules.clear()
        bump_state_version()
        self.extend(kept)  # type: ignore[arg-type]


class ModuleDict(Module):
    """Modules by name. Source: `torch.nn.ModuleDict`."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        bump_state_version()
        del self._modules[key]

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and modules."""
        return self._modules.items()

    def update(self, modules: Mapping[str, Module]) -> None:
        """Add or replace modules."""
        for name, module in modules.items():
            self.add_module(name, module)


# Layers with parameters.


def _parameter(*size: int, dtype: Any = None) -> Parameter:
    return Parameter(creation.empty(*size, dtype=dtype))


class Linear(Module):
    """x @ weight.T + bias. weight: [out_features, in_features]. Source: `torch.nn.Linear`."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = _parameter(out_features, in_features, dtype=dtype)
        self.register_parameter("bias", _parameter(out_features, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw initial values: uniform within 1 / sqrt(in_features)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class Embedding(Module):
    """Rows of a table by number. Source: `torch.nn.Embedding`."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        self.weight = _parameter(num_embeddings, embedding_dim, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw normal initial values; 0 for the padding row."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class LayerNorm(Module):
    """Normalises the last dimensions. Source: `torch.nn.LayerNorm`."""

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
        self.register_parameter("weight", _parameter(*size, dtype=dtype) if elementwise_affine else None)
        has_bias = elementwise_affine and bias
        self.register_parameter("bias", _parameter(*size, dtype=dtype) if has_bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Scales the last dimensions to root mean square 1. Source: `torch.nn.RMSNorm`."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        size = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = size, eps, elementwise_affine
        self.register_parameter("weight", _parameter(*size, dtype=dtype) if elementwise_affine else None)
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


# Layers without parameters.


class Identity(Module):
    """The input itself; takes any arguments. Source: `torch.nn.Identity`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Flatten(Module):
    """Dimensions `start_dim` to `end_dim` as one. Source: `torch.nn.Flatten`."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return shape.flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One dimension as several. Source: `torch.nn.Unflatten`."""

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return shape.unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Dropout(Module):
    """Random zeros in training. Source: `torch.nn.Dropout`."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


def _activation(name: str, function: Callable[..., Tensor], defaults: dict[str, Any], show: str = "") -> type:
    """A module that applies `function` with its parameters; `show` lists those in the repr."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        Module.__init__(self)
        given = dict(zip(defaults, args, strict=False)) | kwargs
        if len(args) > len(defaults) or not defaults.keys() >= given.keys():
            raise TypeError(f"{name}() takes {', '.join(defaults) or 'no arguments'}, got {args} {kwargs}")
        for key, value in (defaults | given).items():
            setattr(self, key, value)

    def forward(self: Any, input: Tensor) -> Tensor:
        return function(input, **{key: getattr(self, key) for key in defaults})

    def extra_repr(self: Any) -> str:
        shown = [f"{key}={getattr(self, key)!r}" for key in show.split()]
        if defaults.get("inplace") is False and self.inplace:
            shown.append("inplace=True")
        return ", ".join(shown)

    doc = f"{(function.__doc__ or name).splitlines()[0]} Source: `torch.nn.{name}`."
    members = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__module__": __name__}
    return type(name, (Module,), {**members, "__doc__": doc})


_IN = {"inplace": False}
ReLU = _activation("ReLU", F.relu, _IN)
ReLU6 = _activation("ReLU6", F.relu6, _IN)
SiLU = _activation("SiLU", F.silu, _IN)
Mish = _activation("Mish", F.mish, _IN)
Tanh = _activation("Tanh", ew.tanh, {})
Sigmoid = _activation("Sigmoid", ew.sigmoid, {})
LogSigmoid = _activation("LogSigmoid", F.logsigmoid, {})
GELU = _activation("GELU", F.gelu, {"approximate": "none"}, "approximate")
LeakyReLU = _activation("LeakyReLU", F.leaky_relu, {"negative_slope": 0.01, **_IN}, "negative_slope")
ELU = _activation("ELU", F.elu, {"alpha": 1.0, **_IN}, "alpha")
Hardtanh = _activation("Hardtanh", F.hardtanh, {"min_val": -1.0, "max_val": 1.0, **_IN}, "min_val max_val")
Softplus = _activation("Softplus", F.softplus, {"beta": 1.0, "threshold": 20.0}, "beta threshold")
Softmax = _activation("Softmax", F.softmax, {"dim": None}, "dim")
LogSoftmax = _activation("LogSoftmax", F.log_softmax, {"dim": None}, "dim")


# Losses.


class _Loss(Module):
    """A loss of input and target with a reduction."""

    function: Any
    reduction: str

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return type(self).function(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Mean squared error. Source: `torch.nn.MSELoss`."""

    function = staticmethod(F.mse_loss)


class L1Loss(_Loss):
    """Mean absolute error. Source: `torch.nn.L1Loss`."""

    function = staticmethod(F.l1_loss)


class SmoothL1Loss(_Loss):
    """Squared near 0, absolute beyond. Source: `torch.nn.SmoothL1Loss`."""

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Squared near 0, linear beyond. Source: `torch.nn.HuberLoss`."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class _WeightedLoss(_Loss):
    """A loss with a weight (a buffer)."""

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)


class BCELoss(_WeightedLoss):
    """Binary cross-entropy of probabilities. Source: `torch.nn.BCELoss`."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, self.weight, self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """Binary cross-entropy of logits. Source: `torch.nn.BCEWithLogitsLoss`."""

    def __init__(
        self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None
    ) -> None:
        super().__init__(weight, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)


class NLLLoss(_WeightedLoss):
    """Minus the target's log-probability. Source: `torch.nn.NLLLoss`."""

    def __init__(
        self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, None, self.ignore_index, None, self.reduction)


class CrossEntropyLoss(_WeightedLoss):
    """log_softmax and NLLLoss in one. Source: `torch.nn.CrossEntropyLoss`."""

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )
