"""Containers of modules, as `torch.nn.modules.container`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential

__all__ = gather("fusegrad.nn.modules.container", globals())
