"""Fourier transforms, by SciPy's `fft` (which keeps single precision, and transforms several rows at a time).

Three ops do all of it, as in PyTorch: complex to complex, real to one half of a symmetric spectrum,
and back. Each one's gradient is another of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Opaque
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.device import on_cpu
from fusegrad.eager.core.sizes import Ints, positions
from fusegrad.eager.core.tensor import Tensor, require_grad
from fusegrad.eager.ops.linalg.matrices import real_dtype
from fusegrad.eager.ops.precision import in_single
from fusegrad.eager.ops.shape.shape import normal_dim

# The names of norms say which direction is scaled by 1/n. The transposed transform goes the other way with
# the same scale, so its direction has the other name.
_TRANSPOSED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _complex(dtype: np.dtype) -> np.dtype:
    return np.result_type(dtype, np.complex64)


def _with_size(size: Sequence[int], dim: int, n: int) -> tuple[int, ...]:
    """`size` with `n` elements along `dim`."""
    return tuple(n if i == dim else m for i, m in enumerate(size))


# The three ops. Params: `dim`, a tuple of dimensions, the halved one last; `norm`, NumPy's.


def _transform(name: str) -> Callable[..., np.ndarray]:
    """SciPy's function, which is imported at its first use."""

    def evaluate(x: np.ndarray, dim: tuple[int, ...], norm: str, sizes: Sequence[int] | None = None) -> Any:
        from scipy import fft

        return getattr(fft, name)(x, sizes, axes=dim, norm=norm)

    return evaluate


_fftn, _ifftn, _rfftn, _irfftn = map(_transform, ("fftn", "ifftn", "rfftn", "irfftn"))


def _c2c_numpy(x: np.ndarray, dim: tuple[int, ...], norm: str, forward: bool) -> np.ndarray:
    return (_fftn if forward else _ifftn)(x, dim, norm)


_c2c: Opaque = Opaque(
    "fft_c2c",
    "x",
    _c2c_numpy,
    lambda types, **_: types[0],
    {
        "x": lambda g, dim, norm, forward: bind(
            _c2c, (g,), {"dim": dim, "norm": _TRANSPOSED[norm], "forward": not forward}
        )
    },
)


def _r2c_type(types: Sequence[TensorType], dim: tuple[int, ...], norm: str) -> TensorType:
    size, dtype = types[0]
    return TensorType(_with_size(size, dim[-1], size[dim[-1]] // 2 + 1), _complex(dtype))


def _twice(g: Tensor, dim: int, n: int, factor: float) -> Tensor:
    """Half a spectrum of `n` points with what stands for two elements of the whole one times `factor`."""
    count = g.array.shape[dim]
    factors = np.ones(count)
    factors[1 : 1 + n - count] = factor
    size = _with_size((1,) * g.array.ndim, dim, count)
    return g * ops.tensor(factors.reshape(size), dtype=dtypes.as_dtype(real_dtype(g.array.dtype)))


def _r2c_gradient(g: Tensor, x_type: TensorType, dim: tuple[int, ...], norm: str) -> Tensor:
    """The half that was not given has no gradient: c2r counts it in."""
    n = x_type.shape[dim[-1]]
    return bind(_c2r, (_twice(g, dim[-1], n, 0.5),), {"dim": dim, "norm": _TRANSPOSED[norm], "n": n})


_r2c: Opaque = Opaque(
    "fft_r2c",
    "x",
    _rfftn,
    _r2c_type,
    {"x": _r2c_gradient},
)


def _c2r_numpy(x: np.ndarray, dim: tuple[int, ...], norm: str, n: int) -> np.ndarray:
    sizes = [n if d == dim[-1] else x.shape[d] for d in dim]
    return _irfftn(x, dim, norm, sizes)


def _c2r_type(types: Sequence[TensorType], dim: tuple[int, ...], norm: str, n: int) -> TensorType:
    size, dtype = types[0]
    return TensorType(_with_size(size, dim[-1], n), real_dtype(dtype))


def _c2r_gradient(g: Tensor, dim: tuple[int, ...], norm: str, n: int) -> Tensor:
    """What stands for two elements of the whole spectrum counts twice."""
    half = bind(_r2c, (g,), {"dim": dim, "norm": _TRANSPOSED[norm]})
    return _twice(half, dim[-1], n, 2)


_c2r: Opaque = Opaque("fft_c2r", "x", _c2r_numpy, _c2r_type, {"x": _c2r_gradient})


# Arguments.


def _norm(name: str, norm: str | None) -> str:
    if norm not in (None, *_TRANSPOSED):
        raise failure(
            RuntimeError,
            f'{name}: Invalid normalization mode: "{norm}"; use "forward", "backward" or "ortho"',
        )
    return norm or "backward"


def _floating(name: str, input: Tensor) -> Tensor:
    """Integers in the default float."""
    input = in_single(input)
    dtype = input.array.dtype
    if dtype.itemsize == 2 and dtype.kind in "fV":
        raise failure(RuntimeError, f"{name}: Unsupported dtype {dtype.name}; convert with .float()")
    return input if dtype.kind in "fcV" else ops.cast(input, dtypes.default_float())


def _resized(x: Tensor, dim: int, n: int) -> Tensor:
    """`x` cut off or filled up with zeros to `n` elements along `dim`."""
    given = x.array.shape[dim]
    if given > n:
        return ops.narrow(x, dim, 0, n)
    if given < n:
        zeros = ops.zeros(_with_size(x.array.shape, dim, n - given), dtype=x.dtype)
        return ops.cat([x, zeros], dim)
    return x


def _dims(name: str, input: Tensor, s: Any, dim: Any) -> tuple[tuple[int, ...], list[int | None]]:
    """The dimensions from 0, and the size that is wanted of each (None: as it is)."""
    ndim = input.array.ndim
    if isinstance(s, int):
        s = (s,)
    if dim is None:
        count = ndim if s is None else len(s)
        if count > ndim:
            raise failure(
                RuntimeError,
                f"{name}: Got shape with {count} values but input tensor only has {ndim} dimensions.",
            )
        dim = range(ndim - count, ndim)
    dims = tuple(normal_dim(d, ndim) for d in ([dim] if isinstance(dim, int) else dim))
    if not ndim and dims:
        raise failure(IndexError, f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    if len(set(dims)) != len(dims):
        raise failure(RuntimeError, f"{name}: FFT dims must be unique, got {tuple(dim)}")
    sizes: list[int | None] = [None if n == -1 else n for n in (s if s is not None else [-1] * len(dims))]
    if len(sizes) != len(dims):
        raise failure(
            RuntimeError,
            f"{name}: When given, dim and shape arguments must have the same length, got "
            f"{len(dims)} and {len(sizes)}",
        )
    return dims, sizes


def _prepared(name: str, input: Tensor, dims: Sequence[int], sizes: Sequence[int | None]) -> Tensor:
    """`input` with the sizes that are wanted, of which none may be 0."""
    for d, n in zip(dims, sizes, strict=True):
        wanted = input.array.shape[d] if n is None else n
        if wanted < 1:
            raise failure(RuntimeError, f"{name}: Invalid number of data points ({wanted}) specified")
        input = _resized(input, d, wanted)
    return input


# Transforms over several dimensions; those over one or two are the same.


def _whole(name: str, input: Tensor, s: Any, dim: Any, norm: str | None, forward: bool) -> Tensor:
    norm = _norm(name, norm)
    x = _floating(name, input)
    x = ops.cast(x, dtypes.as_dtype(_complex(x.array.dtype)))
    dims, sizes = _dims(name, x, s, dim)
    x = _prepared(name, x, dims, sizes)
    return bind(_c2c, (x,), {"dim": dims, "norm": norm, "forward": forward}) if dims else x


def _to_half(name: str, input: Tensor, s: Any, dim: Any, norm: str) -> Tensor:
    if input.array.dtype.kind == "c":
        raise failure(RuntimeError, f"{name}: expects a real input tensor, but got {input.array.dtype.name}")
    x = _floating(name, input)
    dims, sizes = _at_least_one(name, *_dims(name, x, s, dim))
    return bind(_r2c, (_prepared(name, x, dims, sizes),), {"dim": dims, "norm": norm})


def _at_least_one(
    name: str, dims: tuple[int, ...], sizes: list[int | None]
) -> tuple[tuple[int, ...], list[int | None]]:
    if not dims:
        raise failure(RuntimeError, f"{name}: must transform at least one axis")
    return dims, sizes


def _from_half(name: str, input: Tensor, s: Any, dim: Any, norm: str) -> Tensor:
    x = _floating(name, input)
    x = ops.cast(x, dtypes.as_dtype(_complex(x.array.dtype)))
    dims, sizes = _at_least_one(name, *_dims(name, x, s, dim))
    last = sizes[-1]
    n = 2 * (x.array.shape[dims[-1]] - 1) if last is None else last
    if n < 1:
        raise failure(RuntimeError, f"{name}: Invalid number of data points ({n}) specified")
    x = _prepared(name, x, dims, [*sizes[:-1], n // 2 + 1])
    return bind(_c2r, (x,), {"dim": dims, "norm": norm, "n": n})


def fftn(input: Tensor, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform over `dim` (all by default). Source: `torch.fft.fftn`.

    s: sizes to cut or fill up to with zeros first. norm: "backward" (no scale), "forward" (1/n) or
    "ortho" (1/sqrt(n)).
    """
    return _whole("fft.fftn", input, s, dim, norm, True)


def ifftn(input: Tensor, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None) -> Tensor:
    """The inverse of `fftn`. Source: `torch.fft.ifftn`."""
    return _whole("fft.ifftn", input, s, dim, norm, False)


def rfftn(input: Tensor, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None) -> Tensor:
    """`fftn` of real numbers: the half of the last of `dim` that says all. Source: `torch.fft.rfftn`."""
    return _to_half("fft.rfftn", input, s, dim, _norm("fft.rfftn", norm))


def irfftn(input: Tensor, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None) -> Tensor:
    """The inverse of `rfftn`; real. Source: `torch.fft.irfftn`.

    The last size is 2 (n - 1) where `s` does not say it.
    """
    return _from_half("fft.irfftn", input, s, dim, _norm("fft.irfftn", norm))


def hfftn(input: Tensor, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None) -> Tensor:
    """`fftn` of one half of a signal that is symmetric; real. Source: `torch.fft.hfftn`."""
    return _from_half("fft.hfftn", ops.conj(input), s, dim, _TRANSPOSED[_norm("fft.hfftn", norm)])


def ihfftn(input: Tensor, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None) -> Tensor:
    """The inverse of `hfftn`. Source: `torch.fft.ihfftn`."""
    return ops.conj(_to_half("fft.ihfftn", input, s, dim, _TRANSPOSED[_norm("fft.ihfftn", norm)]))


def _renamed(function: Callable[..., Tensor], name: str, what: str, several: Callable[..., Tensor]) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{several.__name__}` over {what}. Source: `torch.fft.{name}`."
    return function


def _over_one(several: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def function(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
        return several(input, None if n is None else (n,), (dim,), norm)

    return _renamed(function, several.__name__[:-1], "one dimension", several)


def _over_two(several: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def function(
        input: Tensor, s: Ints | None = None, dim: Ints = (-2, -1), norm: str | None = None
    ) -> Tensor:
        return several(input, s, dim, norm)

    return _renamed(function, f"{several.__name__[:-1]}2", "two dimensions", several)


fft, ifft, rfft, irfft, hfft, ihfft = map(_over_one, (fftn, ifftn, rfftn, irfftn, hfftn, ihfftn))
fft2, ifft2, rfft2, irfft2, hfft2, ihfft2 = map(_over_two, (fftn, ifftn, rfftn, irfftn, hfftn, ihfftn))


# Frequencies.


def _frequencies(steps: np.ndarray, n: int, d: float, dtype: Any, requires_grad: bool) -> Tensor:
    kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
    values = steps.astype(kind.numpy) * (1 / (n * d) if n else 0)
    return require_grad(ops.tensor(values.astype(kind.numpy, copy=False)), requires_grad)


def fftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The frequencies of `fft` of `n` points that are `d` apart. Source: `torch.fft.fftfreq`.

    >>> import fusegrad as fg
    >>> fg.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    on_cpu(device)
    steps = np.concatenate([positions((n + 1) // 2), positions(n // 2) - n // 2])
    return _frequencies(steps, n, d, dtype, requires_grad)


def rfftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The frequencies of `rfft` of `n` points that are `d` apart. Source: `torch.fft.rfftfreq`."""
    on_cpu(device)
    return _frequencies(positions(n // 2 + 1), n, d, dtype, requires_grad)


def _shifted(input: Tensor, dim: Any, back: bool) -> Tensor:
    size = input.array.shape
    dims = range(len(size)) if dim is None else (dim,) if isinstance(dim, int) else dim
    places = [normal_dim(d, len(size)) for d in dims]
    steps = [(size[d] + 1) // 2 if back else size[d] // 2 for d in places]
    return ops.roll(input, steps, places) if places else ops.clone(input)


def fftshift(input: Tensor, dim: Ints | None = None) -> Tensor:
    """With the zero frequency in the middle of `dim` (all by default). Source: `torch.fft.fftshift`."""
    return _shifted(input, dim, back=False)


def ifftshift(input: Tensor, dim: Ints | None = None) -> Tensor:
    """The inverse of `fftshift`. Source: `torch.fft.ifftshift`."""
    return _shifted(input, dim, back=True)
