"""Layers that learn their shapes from the first input, as `torch.nn.modules.lazy`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.lazy_layers import LazyModuleMixin

__all__ = gather("fusegrad.nn.modules.lazy", globals())
