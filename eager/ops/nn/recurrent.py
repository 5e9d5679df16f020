"""The pointwise part of LSTM and GRU cells, each one op: from the sums of its gates to its new state.

A step of a cell is matrix products and one of these. Their gradients are worked out by NumPy in one
go where only values are wanted, and by public ops where somebody records them: an interpreter, or
autograd itself for a higher derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from fusegrad.eager.core.families import AnalyticComposite, Composite
from fusegrad.eager.core.memory_order import as_operands
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.nn.linear import added_linear, linear, quick


def _quarters(x: Any, count: int) -> list[Any]:
    """The equal parts of the last dimension."""
    size = x.shape[-1] // count
    return [x[..., i * size : (i + 1) * size] for i in range(count)]


@lru_cache(maxsize=64)
def _gate_scales(size: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """`scale` and `shift` with which tanh(x * scale) * scale + shift activates all gates of an LSTM.

    sigmoid(x) is tanh(x / 2) / 2 + 1 / 2, for the gates i, f and o; g has tanh itself.
    """
    scale = np.full(4 * size, 0.5, dtype)
    scale[2 * size : 3 * size] = 1.0
    return scale, 1 - scale


def _activated(gates: np.ndarray) -> np.ndarray:
    scale, shift = _gate_scales(gates.shape[-1] // 4, gates.dtype)
    result = gates * scale
    np.tanh(result, out=result)
    result *= scale
    result += shift
    return result


def _lstm_parts(gates: Tensor) -> tuple[Tensor, ...]:
    i, f, g, o = ops.chunk(gates, 4, -1)
    return ops.sigmoid(i), ops.sigmoid(f), ops.tanh(g), ops.sigmoid(o)


def _lstm_decomposed(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = _lstm_parts(gates)
    cell = f * c + i * g
    return o * ops.tanh(cell), cell


def _lstm_numpy(gates: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    i, f, g, o = _quarters(_activated(gates), 4)
    cell = f * c
    cell += i * g
    hidden = np.tanh(cell)
    hidden *= o
    return hidden, cell


def _gates_numpy(
    g_hidden: np.ndarray, g_cell: np.ndarray, gates: np.ndarray, c: np.ndarray, cell: np.ndarray
) -> np.ndarray:
    active = _activated(gates)
    i, _, g, o = _quarters(active, 4)
    result = active - active * active  # the derivative of sigmoid
    d_i, d_f, d_g, d_o = _quarters(result, 4)
    np.subtract(1, g * g, out=d_g)
    reached = np.tanh(cell)
    d_o *= g_hidden * reached
    back = _cell_back(g_hidden, g_cell, o, reached)
    d_i *= back * g
    d_f *= back * c
    d_g *= back * i
    return result


def _cell_back(g_hidden: Any, g_cell: Any, o: Any, reached: Any) -> Any:
    """The gradient of the new cell state, from both outputs."""
    return g_hidden * o * (1 - reached * reached) + g_cell


def _gates_recorded(g_hidden: Tensor, g_cell: Tensor, gates: Tensor, c: Tensor, cell: Tensor) -> Tensor:
    i, f, g, o = _lstm_parts(gates)
    reached = ops.tanh(cell)
    back = _cell_back(g_hidden, g_cell, o, reached)
    parts = [
        back * g * (i - i * i),
        back * c * (f - f * f),
        back * i * (1 - g * g),
        g_hidden * reached * (o - o * o),
    ]
    return ops.cat(parts, -1)


def _c_numpy(g_hidden: np.ndarray, g_cell: np.ndarray, gates: np.ndarray, cell: np.ndarray) -> np.ndarray:
    _, f, _, o = _quarters(_activated(gates), 4)
    return _cell_back(g_hidden, g_cell, o, np.tanh(cell)) * f


def _c_recorded(g_hidden: Tensor, g_cell: Tensor, gates: Tensor, cell: Tensor) -> Tensor:
    _, f, _, o = _lstm_parts(gates)
    return _cell_back(g_hidden, g_cell, o, ops.tanh(cell)) * f


_lstm = Composite(
    "lstm_cell",
    "gates c",
    _lstm_decomposed,
    _lstm_numpy,
    {
        "gates": lambda g, gates, c, out1: quick(_gates_numpy, _gates_recorded, *g, gates, c, out1),
        "c": lambda g, gates, out1: quick(_c_numpy, _c_recorded, *g, gates, out1),
    },
    "ThnnFusedLstmCellBackward0",
)


def lstm_gates(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The new hidden and cell state [N, H], from the sums of the gates [N, 4 H] (i, f, g, o) and the old one.

    c' = sigmoid(f) * c + sigmoid(i) * tanh(g), h' = sigmoid(o) * tanh(c').
    """
    return bind(_lstm, (gates, c))


# GRU. The gates' sums come apart for input and hidden state, since r acts on a part of the latter.


def _gru_parts(inputs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """r, z, n, and the hidden state's part of n's sum."""
    (i_r, i_z, i_n), (h_r, h_z, h_n) = ops.chunk(inputs, 3, -1), ops.chunk(hidden, 3, -1)
    r, z = ops.sigmoid(i_r + h_r), ops.sigmoid(i_z + h_z)
    return r, z, ops.tanh(i_n + r * h_n), h_n


def _gru_decomposed(inputs: Tensor, hidden: Tensor, h: Tensor) -> Tensor:
    _, z, n, _ = _gru_parts(inputs, hidden)
    return n + z * (h - n)


def _gru_parts_numpy(inputs: np.ndarray, hidden: np.ndarray) -> tuple[np.ndarray, ...]:
    size = inputs.shape[-1] // 3
    gates = inputs[..., : 2 * size] + hidden[..., : 2 * size]
    gates *= 0.5
    np.tanh(gates, out=gates)
    gates *= 0.5
    gates += 0.5
    h_n = hidden[..., 2 * size :]
    r, z = gates[..., :size], gates[..., size:]
    n = r * h_n
    n += inputs[..., 2 * size :]
    np.tanh(n, out=n)
    return r, z, n, h_n


def _gru_numpy(inputs: np.ndarray, hidden: np.ndarray, h: np.ndarray) -> np.ndarray:
    _, z, n, _ = _gru_parts_numpy(inputs, hidden)
    result = h - n
    result *= z
    result += n
    return result


def _gru_back(g: Any, parts: tuple[Any, ...], h: Any) -> tuple[Any, Any, Any]:
    """The gradients of the sums of r, z and n."""
    r, z, n, h_n = parts
    d_n = g * (1 - z) * (1 - n * n)
    return d_n * h_n * (r - r * r), g * (h - n) * (z - z * z), d_n


def _gru_inputs_numpy(g: np.ndarray, inputs: np.ndarray, hidden: np.ndarray, h: np.ndarray) -> np.ndarray:
    return np.concatenate(_gru_back(g, _gru_parts_numpy(inputs, hidden), h), -1)


def _gru_inputs_recorded(g: Tensor, inputs: Tensor, hidden: Tensor, h: Tensor) -> Tensor:
    return ops.cat(_gru_back(g, _gru_parts(inputs, hidden), h), -1)


def _gru_hidden_numpy(g: np.ndarray, inputs: np.ndarray, hidden: np.ndarray, h: np.ndarray) -> np.ndarray:
    parts = _gru_parts_numpy(inputs, hidden)
    d_r, d_z, d_n = _gru_back(g, parts, h)
    return np.concatenate((d_r, d_z, d_n * parts[0]), -1)


def _gru_hidden_recorded(g: Tensor, inputs: Tensor, hidden: Tensor, h: Tensor) -> Tensor:
    parts = _gru_parts(inputs, hidden)
    d_r, d_z, d_n = _gru_back(g, parts, h)
    return ops.cat((d_r, d_z, d_n * parts[0]), -1)


def _gru_h_numpy(g: np.ndarray, inputs: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    return g * _gru_parts_numpy(inputs, hidden)[1]


_gru = AnalyticComposite(
    "gru_cell",
    "inputs hidden h",
    _gru_decomposed,
    _gru_numpy,
    {
        "inputs": lambda g, inputs, hidden, h: quick(
            _gru_inputs_numpy, _gru_inputs_recorded, g, inputs, hidden, h
        ),
        "hidden": lambda g, inputs, hidden, h: quick(
            _gru_hidden_numpy, _gru_hidden_recorded, g, inputs, hidden, h
        ),
        "h": lambda g, inputs, hidden: quick(
            _gru_h_numpy, lambda g, i, w: g * _gru_parts(i, w)[1], g, inputs, hidden
        ),
    },
    "ThnnFusedGruCellBackward0",
    order=lambda shape, operands, params: as_operands(shape, operands[2:]),
)


def gru_gates(inputs: Tensor, hidden: Tensor, h: Tensor) -> Tensor:
    """The new hidden state [N, H], from the gates' sums of input and hidden state [N, 3 H] (r, z, n).

    r = sigmoid(i_r + h_r), z = sigmoid(i_z + h_z), n = tanh(i_n + r * h_n), h' = (1 - z) * n + z * h.
    """
    return bind(_gru, (inputs, hidden, h))


# A sequence's steps, as one op: slicing them off one by one would make gradients of the whole for each.


def _steps_numpy(x: np.ndarray, sizes: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    # A copy: views of the operand would have to be counted as such.
    return tuple(np.split(x.copy(), np.cumsum(sizes[:-1])))


_steps = Composite(
    "time_steps",
    "x",
    lambda x, sizes: tuple(ops.split(x, list(sizes))),
    _steps_numpy,
    {"x": lambda g: ops.cat(g)},
    "SplitWithSizesBackward0",
)


def time_steps(x: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    """The rows of x [sum of sizes, K], so many for each step."""
    return (x,) if len(sizes) == 1 else bind(_steps, (x,), {"sizes": tuple(sizes)})


# Whole cells.


def _sums(
    input: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None
) -> Tensor:
    """input @ w_ih.T + b_ih + h @ w_hh.T + b_hh."""
    if b_ih is None or b_hh is None:
        return added_linear(linear(input, w_ih, b_hh if b_ih is None else b_ih), h, w_hh)
    return added_linear(added_linear(b_ih + b_hh, input, w_ih), h, w_hh)


@public
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: the new hidden and cell state [N, H]. Source: `torch.lstm_cell`.

    input: [N, in]; hx: the states before; w_ih: [4 H, in], w_hh: [4 H, H], biases [4 H].
    """
    h, c = hx
    return lstm_gates(_sums(input, h, w_ih, w_hh, b_ih, b_hh), c)


@public
def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of a GRU: the new hidden state [N, H]. Source: `torch.gru_cell`.

    input: [N, in]; hx: the state before; w_ih: [3 H, in], w_hh: [3 H, H], biases [3 H].
    """
    return gru_gates(linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh), hx)


@public
def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh). Source: `torch.rnn_tanh_cell`."""
    return ops.tanh(_sums(input, hx, w_ih, w_hh, b_ih, b_hh))


@public
def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """relu(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh). Source: `torch.rnn_relu_cell`."""
    return ops.relu(_sums(input, hx, w_ih, w_hh, b_ih, b_hh))
