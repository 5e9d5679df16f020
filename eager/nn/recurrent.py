"""Recurrent layers and cells: RNN, LSTM, GRU. Names, arguments, weights and text as in `torch.nn`.

A layer projects all its inputs in one product; a step is then the product of the hidden state and the
cell's pointwise part. Sequences of different lengths are packed (`nn.utils.rnn`): a step has only the
rows of the sequences that are that long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.device import on_its_device
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn import functional as F, init
from fusegrad.eager.nn.declare_layer import optional_parameter, parameter
from fusegrad.eager.nn.module import Module
from fusegrad.eager.nn.utils.rnn import PackedSequence
from fusegrad.eager.ops.create import creation
from fusegrad.eager.ops.nn import recurrent
from fusegrad.eager.ops.nn.activation import relu
from fusegrad.eager.ops.nn.linear import added_linear, linear
from fusegrad.eager.ops.shape import shape

State = tuple[Tensor, ...]
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class _Weights:
    """The parameters of one direction of one layer; None for those that it does not have."""

    w_ih: Any
    w_hh: Any
    b_ih: Any
    b_hh: Any
    w_hr: Any

    def __init__(self, module: Module, suffix: str) -> None:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        self.w_ih, self.w_hh, self.b_ih, self.b_hh, self.w_hr = (
            getattr(module, f"{name}_{suffix}", None) for name in names
        )

    def projected(self, rows: Tensor, separate: bool) -> Tensor:
        """The inputs' part of the gates' sums, with both biases unless they are to stay separate."""
        separate = separate or self.b_ih is None
        return linear(rows, self.w_ih, self.b_ih if separate else self.b_ih + self.b_hh)


def _stepper(mode: str, weights: _Weights) -> Callable[[Tensor, State], State]:
    """A step of a cell: from an input's part of the sums and the states to the new states."""
    w_hh = weights.w_hh
    if mode == "GRU":
        bias = weights.b_hh

        def gru(part: Tensor, state: State) -> State:
            (h,) = state
            return (recurrent.gru_gates(part, linear(h, w_hh, bias), h),)

        return gru
    if mode == "LSTM":

        def lstm(part: Tensor, state: State) -> State:
            h, c = recurrent.lstm_gates(added_linear(part, state[0], w_hh), state[1])
            return (h if weights.w_hr is None else linear(h, weights.w_hr), c)

        return lstm
    activation = ops.tanh if mode == "RNN_TANH" else relu
    return lambda part, state: (activation(added_linear(part, state[0], w_hh)),)


def _walk(
    parts: Sequence[Tensor],
    sizes: list[int],
    start: State,
    step: Callable[[Tensor, State], State],
    reverse: bool,
) -> tuple[list[Tensor], State]:
    """The outputs of all steps and the last states of all rows; step t has the first sizes[t] rows."""
    order = range(len(parts) - 1, -1, -1) if reverse else range(len(parts))
    outputs: list[Any] = [None] * len(parts)
    rows = sizes[order[0]]
    state = start if rows == sizes[0] else tuple(s[:rows] for s in start)
    ended: list[State] = []
    for t in order:
        if sizes[t] < rows:  # forwards, shorter sequences end
            ended.append(tuple(s[sizes[t] :] for s in state))
            state = tuple(s[: sizes[t]] for s in state)
        elif sizes[t] > rows:  # backwards, they begin
            state = tuple(ops.cat([s, new[rows : sizes[t]]]) for s, new in zip(state, start, strict=True))
        rows = sizes[t]
        state = step(parts[t], state)
        outputs[t] = state[0]
    if ended:
        state = tuple(ops.cat(pieces) for pieces in zip(state, *reversed(ended), strict=True))
    return outputs, state


class RNNBase(Module):
    """Layers of a recurrent cell, one or two directions each. Source: `torch.nn.RNNBase`."""

    @on_its_device
    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.proj_size = float(dropout), bidirectional, proj_size
        self._check_arguments(dropout)
        self._suffixes = self._named_layers()
        gates, given = _GATES[mode] * hidden_size, proj_size or hidden_size
        for suffix in self._suffixes:
            size = input_size if suffix.startswith("l0") else given * (1 + bidirectional)
            setattr(self, f"weight_ih_{suffix}", parameter(gates, size, dtype=dtype))
            setattr(self, f"weight_hh_{suffix}", parameter(gates, given, dtype=dtype))
            if bias:
                setattr(self, f"bias_ih_{suffix}", parameter(gates, dtype=dtype))
                setattr(self, f"bias_hh_{suffix}", parameter(gates, dtype=dtype))
            if proj_size:
                setattr(self, f"weight_hr_{suffix}", parameter(proj_size, hidden_size, dtype=dtype))
        self.reset_parameters()

    def _named_layers(self) -> list[str]:
        ends = ("", "_reverse")[: 1 + self.bidirectional]
        return [f"l{layer}{end}" for layer in range(self.num_layers) for end in ends]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # Files that PyTorch wrote have the weights once more, in lists.
        for name in ("_flat_weights", "_flat_weights_names", "_all_weights"):
            self.__dict__.pop(name, None)
        self.__dict__.setdefault("proj_size", 0)
        self._suffixes = self._named_layers()

    def _check_arguments(self, dropout: Any) -> None:
        """Raise what PyTorch raises for sizes and options that make no sense."""
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise failure(ValueError, f"dropout should be a number in range [0, 1], got {dropout}")
        if dropout > 0 and self.num_layers == 1:
            warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers=1"
            )
        for name, kind in (("bias", bool), ("batch_first", bool), ("input_size", int), ("hidden_size", int)):
            if not isinstance(getattr(self, name), kind):
                given = type(getattr(self, name)).__name__
                raise failure(TypeError, f"{name} should be of type {kind.__name__}, got: {given}")
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) <= 0:
                raise failure(ValueError, f"{name} must be greater than zero")
        if not 0 <= self.proj_size < self.hidden_size:
            raise failure(ValueError, "proj_size has to be smaller than hidden_size, and not negative")
        if self.mode not in _GATES:
            raise failure(ValueError, f"Unrecognized RNN mode: {self.mode}")

    def reset_parameters(self) -> None:
        """Draw initial values: uniform within 1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing: weights need no common memory here."""

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters of each layer and direction."""
        return [
            [weight for name, weight in self._parameters.items() if name.split("_", 2)[2] == suffix]  # type: ignore[misc]
            for suffix in self._suffixes
        ]

    def forward(self, input: Any, hx: Any = None) -> Any:
        if isinstance(input, PackedSequence):
            self._check_input(input.data, 2)
            return self._over_packed(input, hx)
        sequence = self._steps_first(input)
        self._check_input(sequence, 3)
        steps, rows, size = sequence.shape
        batched = input.ndim == 3
        start = self._initial(hx, rows, sequence, batched)
        output, last = self._run(shape.reshape(sequence, (steps * rows, size)), [rows] * steps, start)
        output = shape.reshape(output, (steps, rows, output.shape[-1]))
        if not batched:
            return shape.squeeze(output, 1), self._given(tuple(shape.squeeze(s, 1) for s in last))
        return ops.transpose(output, 0, 1) if self.batch_first else output, self._given(last)

    def _over_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        """Packed sequences; states come and go in the order of the sequences before they were sorted."""
        sizes = input.batch_sizes.tolist()
        start = self._initial(hx, sizes[0], input.data, True)
        if input.sorted_indices is not None and hx is not None:
            start = tuple(ops.index_select(s, 1, input.sorted_indices) for s in start)
        output, last = self._run(input.data, sizes, start)
        if input.unsorted_indices is not None:
            last = tuple(ops.index_select(s, 1, input.unsorted_indices) for s in last)
        return PackedSequence(output, *input[1:]), self._given(last)

    def _given(self, state: State) -> Any:
        """The last states as PyTorch gives them: h, or (h, c)."""
        return state if self.mode == "LSTM" else state[0]

    def _steps_first(self, input: Tensor) -> Tensor:
        """A sequence [T, in], or a batch in the order that `batch_first` says, as [T, N, in]."""
        if input.ndim == 2:
            return shape.unsqueeze(input, 1)
        if input.ndim != 3:
            name = type(self).__name__
            raise failure(ValueError, f"{name}: Expected input to be 2D or 3D, got {input.ndim}D instead")
        return ops.transpose(input, 0, 1) if self.batch_first else input

    def _check_input(self, sequence: Tensor, rank: int) -> None:
        weight = self.weight_ih_l0.dtype
        if sequence.dtype != weight:
            raise failure(
                ValueError,
                f"RNN input dtype ({sequence.dtype.name}) does not match weight dtype ({weight.name}). "
                "Convert one of them with .to(dtype)",
            )
        if sequence.ndim != rank:
            raise failure(RuntimeError, f"input must have {rank} dimensions, got {sequence.ndim}")
        if sequence.shape[-1] != self.input_size:
            raise failure(
                RuntimeError,
                "input.size(-1) must be equal to input_size. "
                f"Expected {self.input_size}, got {sequence.shape[-1]}",
            )
        if not sequence.shape[0]:
            raise failure(RuntimeError, "Expected sequence length to be larger than 0 in RNN")

    def _initial(self, hx: Any, rows: int, sequence: Tensor, batched: bool) -> State:
        """The states before the first step, [layers * directions, N, H] each: given (checked), or 0."""
        count = len(self._suffixes)
        sizes = [(count, rows, self.proj_size or self.hidden_size)]
        if self.mode == "LSTM":
            sizes.append((count, rows, self.hidden_size))
        if hx is None:
            return tuple(creation.zeros(size, dtype=sequence.dtype) for size in sizes)
        given = tuple(hx) if self.mode == "LSTM" else (hx,)
        if any(s.ndim != 2 + batched for s in given):
            ranks = [s.ndim for s in given]
            raise failure(
                RuntimeError,
                f"For {'batched' if batched else 'unbatched'} input, hx should have {2 + batched} "
                f"dimensions, got {ranks}",
            )
        given = given if batched else tuple(shape.unsqueeze(s, 1) for s in given)
        for s, size in zip(given, sizes, strict=True):
            if s.shape != size:
                raise failure(RuntimeError, f"Expected hidden size {size}, got {list(s.shape)}")
        return given

    def _run(self, rows: Tensor, sizes: list[int], start: State) -> tuple[Tensor, State]:
        """All layers over [sum of sizes, in]: the outputs as rows, and the last states of all directions."""
        directions = 1 + self.bidirectional
        ends: list[State] = []
        for layer in range(self.num_layers):
            outputs = []
            for suffix in self._suffixes[layer * directions : (layer + 1) * directions]:
                weights = _Weights(self, suffix)
                parts = recurrent.time_steps(weights.projected(rows, self.mode == "GRU"), sizes)
                first = tuple(s[len(ends)] for s in start)
                step, reverse = _stepper(self.mode, weights), suffix.endswith("_reverse")
                made, last = _walk(parts, sizes, first, step, reverse)
                outputs.append(ops.cat(made))
                ends.append(last)
            rows = outputs[0] if directions == 1 else ops.cat(outputs, -1)
            if self.dropout and layer < self.num_layers - 1:
                rows = F.dropout(rows, self.dropout, self.training)
        return rows, tuple(ops.stack(states) for states in zip(*ends, strict=True))

    def extra_repr(self) -> str:
        usual = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        shown = [f"{k}={getattr(self, k)}" for k, value in usual.items() if getattr(self, k) != value]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *shown])


class RNN(RNNBase):
    """h' = tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh), or relu of it. Source: `torch.nn.RNN`.

    input: [T, N, in], [N, T, in] with `batch_first`, [T, in], or packed; gives the outputs of all steps
    and the last hidden states [layers * directions, N, H].
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        *args: Any,
        **kwargs: Any,
    ) -> None:
        _refuse_projection(kwargs)
        if nonlinearity not in ("tanh", "relu"):
            raise failure(ValueError, f"Unknown nonlinearity {nonlinearity!r}. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory. Source: `torch.nn.LSTM`.

    input as in `RNN`; hx: (h, c). Gives the outputs of all steps and the last (h, c). proj_size: the
    hidden state is projected to this size at each step.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent units. Input and results as in `RNN`. Source: `torch.nn.GRU`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


def _refuse_projection(kwargs: dict[str, Any]) -> None:
    if "proj_size" in kwargs:
        raise failure(ValueError, "proj_size argument is only supported for LSTM, not RNN or GRU")


# Single steps.


class RNNCellBase(Module):
    """The weights of a cell. Source: `torch.nn.RNNCellBase`."""

    @on_its_device
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        gates = num_chunks * hidden_size
        self.weight_ih = parameter(gates, input_size, dtype=dtype)
        self.weight_hh = parameter(gates, hidden_size, dtype=dtype)
        optional_parameter(self, "bias_ih", bias, gates, dtype=dtype)
        optional_parameter(self, "bias_hh", bias, gates, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw initial values: uniform within 1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _stepped(self, cell: Callable[..., Any], input: Tensor, hx: Any, states: int) -> State:
        """`cell` on one row or a batch of rows, from states that are 0 unless given."""
        given = () if hx is None else tuple(hx) if states > 1 else (hx,)
        single = input.ndim == 1
        for tensor in (input, *given):
            if tensor.ndim not in (1, 2):
                raise failure(
                    ValueError,
                    f"{type(self).__name__}: Expected input and hidden state to be 1D or 2D, "
                    f"got {tensor.ndim}D instead",
                )
        if single:
            input, given = shape.unsqueeze(input, 0), tuple(shape.unsqueeze(s, 0) for s in given)
        if not given:
            given = (creation.zeros(input.shape[0], self.hidden_size, dtype=input.dtype),) * states
        for i, state in enumerate(given):
            if state.shape[0] != input.shape[0]:
                raise failure(
                    RuntimeError,
                    f"Input batch size {input.shape[0]} doesn't match hidden{i} batch size {state.shape[0]}",
                )
            if state.shape[1:] != (self.hidden_size,):
                raise failure(
                    RuntimeError,
                    f"hidden{i} has inconsistent hidden_size: got {(*state.shape, 1)[1]}, "
                    f"expected {self.hidden_size}",
                )
        before: Any = given if states > 1 else given[0]
        result = cell(input, before, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        result = result if states > 1 else (result,)
        return tuple(shape.squeeze(s, 0) for s in result) if single else result

    def extra_repr(self) -> str:
        shown = "" if self.bias else f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            shown += f", nonlinearity={self.nonlinearity}"
        return f"{self.input_size}, {self.hidden_size}{shown}"


class RNNCell(RNNCellBase):
    """One step of an RNN: [N, in] or [in], and the hidden state. Source: `torch.nn.RNNCell`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        cells = {"tanh": recurrent.rnn_tanh_cell, "relu": recurrent.rnn_relu_cell}
        if self.nonlinearity not in cells:
            raise failure(RuntimeError, f"Unknown nonlinearity: {self.nonlinearity}")
        return self._stepped(cells[self.nonlinearity], input, hx, 1)[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM: [N, in] or [in], and (h, c). Source: `torch.nn.LSTMCell`."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> State:
        return self._stepped(recurrent.lstm_cell, input, hx, 2)


class GRUCell(RNNCellBase):
    """One step of a GRU: [N, in] or [in], and the hidden state. Source: `torch.nn.GRUCell`."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._stepped(recurrent.gru_cell, input, hx, 1)[0]
