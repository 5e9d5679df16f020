"""The engine."""

import sys

from fusegrad.eager.core.loading import keep_freed_memory, load_numpy
from fusegrad.eager.moved import MovedModules

# Before any other module imports it.
load_numpy()
keep_freed_memory()
sys.meta_path.append(MovedModules)
