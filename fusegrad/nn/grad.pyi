"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from collections.abc import Sequence as _Sequence
from typing import Any as _Any

from fusegrad.eager.core.tensor import Tensor as _Tensor

def conv1d_input(
    input_size: _Sequence[int],
    weight: _Tensor,
    grad_output: _Tensor,
    stride: _Any = 1,
    padding: _Any = 0,
    dilation: _Any = 1,
    groups: int = 1,
) -> _Tensor: ...
def conv1d_weight(
    input: _Tensor,
    weight_size: _Sequence[int],
    grad_output: _Tensor,
    stride: _Any = 1,
    padding: _Any = 0,
    dilation: _Any = 1,
    groups: int = 1,
) -> _Tensor: ...
def conv2d_input(
    input_size: _Sequence[int],
    weight: _Tensor,
    grad_output: _Tensor,
    stride: _Any = 1,
    padding: _Any = 0,
    dilation: _Any = 1,
    groups: int = 1,
) -> _Tensor: ...
def conv2d_weight(
    input: _Tensor,
    weight_size: _Sequence[int],
    grad_output: _Tensor,
    stride: _Any = 1,
    padding: _Any = 0,
    dilation: _Any = 1,
    groups: int = 1,
) -> _Tensor: ...
def conv3d_input(
    input_size: _Sequence[int],
    weight: _Tensor,
    grad_output: _Tensor,
    stride: _Any = 1,
    padding: _Any = 0,
    dilation: _Any = 1,
    groups: int = 1,
) -> _Tensor: ...
def conv3d_weight(
    input: _Tensor,
    weight_size: _Sequence[int],
    grad_output: _Tensor,
    stride: _Any = 1,
    padding: _Any = 0,
    dilation: _Any = 1,
    groups: int = 1,
) -> _Tensor: ...
