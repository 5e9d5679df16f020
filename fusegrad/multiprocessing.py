"""The standard library's `multiprocessing`, and what `torch.multiprocessing` has besides."""

from multiprocessing import *
from multiprocessing import __all__ as _standard

from fusegrad.eager.processes.spawning import *
from fusegrad.eager.processes.spawning import __all__ as _names

__all__ = [*_standard, *_names]
