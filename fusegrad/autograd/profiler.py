"""The profiler under its old name, as `torch.autograd.profiler`."""

from fusegrad.eager.profiler import record_function as record_function

__all__ = ["record_function"]
