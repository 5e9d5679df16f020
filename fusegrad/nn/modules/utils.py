"""Helpers for the states of modules, as `torch.nn.modules.utils`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.saved_state import consume_prefix_in_state_dict_if_present
from fusegrad.eager.nn.utils.tuples import _ntuple, _pair, _quadruple, _single, _triple

__all__ = gather("fusegrad.nn.modules.utils", globals())
