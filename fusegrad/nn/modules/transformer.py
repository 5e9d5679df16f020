"""Transformers, as `torch.nn.modules.transformer`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

__all__ = gather("fusegrad.nn.modules.transformer", globals())
