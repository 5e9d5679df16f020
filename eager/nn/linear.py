"""Linear layers, tables of embeddings, and layers that only give a tensor another shape."""

from __future__ import annotations

import math
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.places.device import on_its_device
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor, require_grad
from fusegrad.eager.nn import functional as F, init
from fusegrad.eager.nn.declare_layer import optional_parameter, parameter
from fusegrad.eager.nn.module import Module, Parameter
from fusegrad.eager.ops.shape import shape


class Identity(Module):
    """The input itself; takes any arguments. Source: `torch.nn.Identity`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """x @ weight.T + bias. weight: [out_features, in_features]. Source: `torch.nn.Linear`."""

    @on_its_device
    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = parameter(out_features, in_features, dtype=dtype)
        optional_parameter(self, "bias", bias, out_features, dtype=dtype)
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


class Bilinear(Module):
    """x1 @ weight[k] @ x2 + bias[k] for each output k. Source: `torch.nn.Bilinear`."""

    @on_its_device
    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = parameter(out_features, in1_features, in2_features, dtype=dtype)
        optional_parameter(self, "bias", bias, out_features, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw initial values: uniform within 1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.in1_features)
        for tensor in (self.weight, self.bias):
            if tensor is not None:
                init.uniform_(tensor, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


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
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple or list, but found type {type(unflattened_size).__name__}"
            )
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return shape.unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


# Tables.


class _Table(Module):
    """A table of vectors with what its look-ups share."""

    def _fill(
        self,
        rows: int,
        columns: int,
        padding_idx: int | None,
        values: Tensor | None,
        freeze: bool,
        dtype: Any,
    ) -> None:
        """Set the weight, drawn or given; raises AssertionError for a padding row outside the table."""
        if padding_idx is not None and not -rows <= padding_idx < rows:
            raise failure(AssertionError, "padding_idx must be within num_embeddings")
        self.num_embeddings, self.embedding_dim = rows, columns
        self.padding_idx = None if padding_idx is None else padding_idx % rows
        if values is None:
            self.weight = require_grad(parameter(rows, columns, dtype=dtype), not freeze)
            self.reset_parameters()
        elif values.array.shape != (rows, columns):
            raise failure(AssertionError, "Shape of weight does not match num_embeddings and embedding_dim")
        else:
            self.weight = Parameter(values, not freeze)

    def reset_parameters(self) -> None:
        """Draw normal initial values; 0 for the padding row."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, **options: Any) -> Any:
        """A layer around given vectors [rows, columns]; `freeze`: without gradient."""
        if embeddings.array.ndim != 2:
            raise failure(AssertionError, "Embeddings parameter is expected to be 2-dimensional")
        make: Any = cls  # an Embedding or an EmbeddingBag: their arguments differ
        if issubclass(cls, Embedding):
            options["_freeze"] = freeze
        table = make(*embeddings.array.shape, _weight=embeddings, **options)
        require_grad(table.weight, not freeze)
        return table

    def _text(self, kept: str, last: str = "") -> str:
        """The attributes in `kept` that are not at their defaults."""
        usual = {
            "padding_idx": None,
            "max_norm": None,
            "norm_type": 2,
            "scale_grad_by_freq": False,
            "sparse": False,
        }
        values = [(name, getattr(self, name)) for name in kept.split()]
        shown = [f"{name}={value!r}" for name, value in values if name not in usual or value != usual[name]]
        return ", ".join([f"{self.num_embeddings}, {self.embedding_dim}", *shown])


class Embedding(_Table):
    """Rows of a table by number. Source: `torch.nn.Embedding`."""

    @on_its_device
    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self._fill(num_embeddings, embedding_dim, padding_idx, _weight, _freeze, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        return self._text("padding_idx max_norm norm_type scale_grad_by_freq sparse")


class EmbeddingBag(_Table):
    """Rows of a table summed, averaged or maximised in bags. Source: `torch.nn.EmbeddingBag`."""

    @on_its_device
    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.mode, self.include_last_offset = mode, include_last_offset
        self._fill(num_embeddings, embedding_dim, padding_idx, _weight, False, dtype)

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        return self._text("max_norm norm_type scale_grad_by_freq mode padding_idx")
