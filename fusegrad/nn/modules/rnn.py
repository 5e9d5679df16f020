"""Recurrent layers, as `torch.nn.modules.rnn`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase

__all__ = gather("fusegrad.nn.modules.rnn", globals())
