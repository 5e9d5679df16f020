"""Sequences of several lengths, as `torch.nn.utils.rnn`."""

from fusegrad.eager.nn.utils.rnn import *
from fusegrad.eager.nn.utils.rnn import __all__ as __all__
