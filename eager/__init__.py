"""The engine."""

from fusegrad.eager.loading import load_numpy

# Before any other module imports it.
load_numpy()
