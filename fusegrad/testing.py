"""Comparing results in tests, as `torch.testing`."""

from fusegrad.eager.testing import *
from fusegrad.eager.testing import __all__ as __all__
