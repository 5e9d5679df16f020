"""Multi-head attention, and the transformers made of it. Names, arguments and weights as in `torch.nn`."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.device import on_its_device
from fusegrad.eager.core.public import form
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn import functional as F, init
from fusegrad.eager.nn.containers import ModuleList
from fusegrad.eager.nn.declare_layer import optional_parameter
from fusegrad.eager.nn.dropout import Dropout
from fusegrad.eager.nn.linear import Linear
from fusegrad.eager.nn.module import Module
from fusegrad.eager.nn.normalization import LayerNorm
from fusegrad.eager.ops.create import creation


class NonDynamicallyQuantizableLinear(Linear):
    """`Linear` under the name that PyTorch's text shows for it in attention."""


class MultiheadAttention(Module):
    """Attention of several heads between projections. Source: `torch.nn.MultiheadAttention`.

    query: [L, N, E] ([N, L, E] with `batch_first`) or [L, E]; key, value: of S steps. Masks are True
    where a key is not seen, or floats to add. Gives the output, and the weights if `need_weights`.
    """

    @on_its_device
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise failure(
                ValueError,
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead",
            )
        if embed_dim % num_heads:
            raise failure(AssertionError, "embed_dim must be divisible by num_heads")
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        # Registered in this order, since state_dict and the random draws go by it.
        apart = not self._qkv_same_embed_dim
        for name, size in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            optional_parameter(self, f"{name}_proj_weight", apart, embed_dim, size, dtype=dtype)
        optional_parameter(self, "in_proj_weight", not apart, 3 * embed_dim, embed_dim, dtype=dtype)
        optional_parameter(self, "in_proj_bias", bias, 3 * embed_dim, dtype=dtype)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, dtype=dtype)
        optional_parameter(self, "bias_k", add_bias_kv, 1, 1, embed_dim, dtype=dtype)
        optional_parameter(self, "bias_v", add_bias_kv, 1, 1, embed_dim, dtype=dtype)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Draw initial values: Xavier's for the weights, 0 for the biases."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        turned = self.batch_first and query.ndim == 3
        if turned:
            # The same tensor stays the same, so that its projections can be one product.
            given = query, key
            query = ops.transpose(query, 0, 1)
            key = query if key is given[0] else ops.transpose(key, 0, 1)
            value = query if value is given[0] else key if value is given[1] else ops.transpose(value, 0, 1)
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return ops.transpose(output, 0, 1) if turned else output, weights


class _Layer(Module):
    """What encoder and decoder layers share: blocks that are added to what they are given."""

    blocks = 0  # how many, each with a norm and a dropout of its own

    @on_its_device
    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        attention = {"dropout": dropout, "bias": bias, "batch_first": batch_first, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        if self.blocks == 3:
            self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, dtype=dtype)
        self.norm_first = norm_first
        for i in range(1, self.blocks + 1):
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype))
        for i in range(1, self.blocks + 1):
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = form(_activation(activation) if isinstance(activation, str) else activation)

    def _added(self, x: Tensor, number: int, block: Callable[[Tensor], Tensor]) -> Tensor:
        """x with the dropped-out result of `block`, with the norm before the block or after the sum."""
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        if self.norm_first:
            return x + dropout(block(norm(x)))
        return norm(x + dropout(block(x)))

    def _attended(self, x: Tensor, mask: Any, padding: Any, causal: bool) -> Tensor:
        return self._added(x, 1, lambda y: _output(self.self_attn, y, y, mask, padding, causal))

    def _fed_forward(self, x: Tensor) -> Tensor:
        return self._added(
            x, self.blocks, lambda y: self.linear2(self.dropout(self.activation(self.linear1(y))))
        )


def _activation(name: str) -> Callable[[Tensor], Tensor]:
    if name not in ("relu", "gelu"):
        raise failure(RuntimeError, f"activation should be relu/gelu, not {name}")
    return getattr(F, name)


def _output(attention: Module, x: Tensor, memory: Tensor, mask: Any, padding: Any, causal: bool) -> Tensor:
    return attention(
        x,
        memory,
        memory,
        attn_mask=mask,
        key_padding_mask=padding,
        need_weights=False,
        is_causal=causal,
    )[0]


class TransformerEncoderLayer(_Layer):
    """Self-attention and two linear layers. Source: `torch.nn.TransformerEncoderLayer`."""

    blocks = 2

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        return self._fed_forward(self._attended(src, src_mask, src_key_padding_mask, is_causal))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, two linear layers.

    Source: `torch.nn.TransformerDecoderLayer`.
    """

    blocks = 3

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x = self._attended(tgt, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        mask, padding = memory_mask, memory_key_padding_mask
        x = self._added(
            x, 2, lambda y: _output(self.multihead_attn, y, memory, mask, padding, memory_is_causal)
        )
        return self._fed_forward(x)


def _copies(layer: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


class TransformerEncoder(Module):
    """`num_layers` copies of a layer, one after the other. Source: `torch.nn.TransformerEncoder`."""

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers, self.num_layers = _copies(encoder_layer, num_layers), num_layers
        self.norm = norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        for layer in self.layers:
            src = layer(
                src,
                src_mask=mask,
                src_key_padding_mask=src_key_padding_mask,
                is_causal=bool(is_causal),
            )
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """`num_layers` copies of a layer, one after the other. Source: `torch.nn.TransformerDecoder`."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers, self.num_layers = _copies(decoder_layer, num_layers), num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder, and a decoder that attends to what it gives. Source: `torch.nn.Transformer`."""

    @on_its_device
    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        layer: tuple[Any, ...] = (
            *(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps),
            *(batch_first, norm_first, bias, device, dtype),
        )

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*layer), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*layer), num_decoder_layers, norm()
        )
        for weight in self.parameters():
            if weight.ndim > 1:
                init.xavier_uniform_(weight)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        sizes = src.shape, tgt.shape
        rows = 0 if self.batch_first else 1
        if src.ndim == 3 and sizes[0][rows] != sizes[1][rows]:
            raise failure(RuntimeError, "the batch number of src and tgt must be equal")
        if sizes[0][-1] != self.d_model or sizes[1][-1] != self.d_model:
            raise failure(RuntimeError, "the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            tgt_is_causal,
            memory_is_causal,
        )

    @staticmethod
    @on_its_device
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """-inf above the diagonal, 0 elsewhere: each place sees those up to itself."""
        return ops.triu(creation.full((sz, sz), -math.inf, dtype=dtype), 1)
