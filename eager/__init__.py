"""The engine."""

from fusegrad.eager.core.heap import keep_freed_memory
from fusegrad.eager.core.loading import load_numpy

# Before any other module imports it.
load_numpy()
keep_freed_memory()
