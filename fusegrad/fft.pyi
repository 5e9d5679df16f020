"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from typing import Any as _Any

from fusegrad.eager.core.sizes import Ints as _Ints
from fusegrad.eager.core.tensor import Tensor as _Tensor

def fft(
    input: _Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int = -1,
    out: _Any = None,
) -> _Tensor: ...
def fft2(
    input: _Tensor,
    s: _Ints | None = None,
    dim: _Ints = (-2, -1),
    norm: str | None = None,
    *,
    axis: _Ints = (-2, -1),
    out: _Any = None,
) -> _Tensor: ...
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: _Any = None,
    device: _Any = None,
    requires_grad: bool = False,
    out: _Any = None,
) -> _Tensor: ...
def fftn(
    input: _Tensor,
    s: _Ints | None = None,
    dim: _Ints | None = None,
    norm: str | None = None,
    *,
    axis: _Ints | None = None,
    out: _Any = None,
) -> _Tensor: ...
def fftshift(input: _Tensor, dim: _Ints | None = None, *, axis: _Ints | None = None) -> _Tensor: ...
def hfft(
    input: _Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int = -1,
    out: _Any = None,
) -> _Tensor: ...
def hfft2(
    input: _Tensor,
    s: _Ints | None = None,
    dim: _Ints = (-2, -1),
    norm: str | None = None,
    *,
    axis: _Ints = (-2, -1),
    out: _Any = None,
) -> _Tensor: ...
def hfftn(
    input: _Tensor,
    s: _Ints | None = None,
    dim: _Ints | None = None,
    norm: str | None = None,
    *,
    axis: _Ints | None = None,
    out: _Any = None,
) -> _Tensor: ...
def ifft(
    input: _Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int = -1,
    out: _Any = None,
) -> _Tensor: ...
def ifft2(
    input: _Tensor,
    s: _Ints | None = None,
    dim: _Ints = (-2, -1),
    norm: str | None = None,
    *,
    axis: _Ints = (-2, -1),
    out: _Any = None,
) -> _Tensor: ...
def ifftn(
    input: _Tensor,
    s: _Ints | None = None,
    dim: _Ints | None = None,
    norm: str | None = None,
    *,
    axis: _Ints | None = None,
    out: _Any = None,
) -> _Tensor: ...
def ifftshift(input: _Tensor, dim: _Ints | None = None, *, axis: _Ints | None = None) -> _Tensor: ...
def ihfft(
    input: _Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int = -1,
    out: _Any = None,
) -> _Tensor: ...
def ihfft2(
    input: _Tensor,
    s: _Ints | None = None,
    dim: _Ints = (-2, -1),
    norm: str | None = None,
    *,
    axis: _Ints = (-2, -1),
    out: _Any = None,
) -> _Tensor: ...
def ihfftn(
    input: _Tensor,
    s: _Ints | None = None,
    dim: _Ints | None = None,
    norm: str | None = None,
    *,
    axis: _Ints | None = None,
    out: _Any = None,
) -> _Tensor: ...
def irfft(
    input: _Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int = -1,
    out: _Any = None,
) -> _Tensor: ...
def irfft2(
    input: _Tensor,
    s: _Ints | None = None,
    dim: _Ints = (-2, -1),
    norm: str | None = None,
    *,
    axis: _Ints = (-2, -1),
    out: _Any = None,
) -> _Tensor: ...
def irfftn(
    input: _Tensor,
    s: _Ints | None = None,
    dim: _Ints | None = None,
    norm: str | None = None,
    *,
    axis: _Ints | None = None,
    out: _Any = None,
) -> _Tensor: ...
def rfft(
    input: _Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int = -1,
    out: _Any = None,
) -> _Tensor: ...
def rfft2(
    input: _Tensor,
    s: _Ints | None = None,
    dim: _Ints = (-2, -1),
    norm: str | None = None,
    *,
    axis: _Ints = (-2, -1),
    out: _Any = None,
) -> _Tensor: ...
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: _Any = None,
    device: _Any = None,
    requires_grad: bool = False,
    out: _Any = None,
) -> _Tensor: ...
def rfftn(
    input: _Tensor,
    s: _Ints | None = None,
    dim: _Ints | None = None,
    norm: str | None = None,
    *,
    axis: _Ints | None = None,
    out: _Any = None,
) -> _Tensor: ...
