"""Modules called with other tensors than their own, as `torch.nn.utils.stateless`."""

from fusegrad.eager.autograd.functional_call import functional_call as functional_call

__all__ = ["functional_call"]
