"""Tables, as `torch.nn.modules.sparse`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.linear import Embedding, EmbeddingBag

__all__ = gather("fusegrad.nn.modules.sparse", globals())
