"""Tensors filled with random numbers in place."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.device import META, made_on
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.by_name import MISSING
from fusegrad.eager.ops.declare import method
from fusegrad.eager.ops.inplace import drawn
from fusegrad.eager.random.generator import Generator
from fusegrad.eager.random.random import _check_bounds, _check_probability, _whole_numbers

F = TypeVar("F", bound=Callable[..., Tensor])


def _in_its_place(fill: F) -> F:
    """A method that fills a tensor: of one that has no values, none are drawn."""

    @functools.wraps(fill)
    def filling(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not self.is_meta:
            return fill(self, *args, **kwargs)
        with made_on(META):
            return fill(self, *args, **kwargs)

    return filling  # type: ignore[return-value]


# Distributions that are made of uniform numbers draw them in float64, whatever the tensor's
# dtype: their tails show how fine the numbers are.


@method
@_in_its_place
def uniform_(
    self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None, **given: float
) -> Tensor:
    """Fill with uniform numbers `from` a number `to` another. Source: `torch.Tensor.uniform_`."""
    low = _from(given, from_)
    if low > to:
        raise failure(
            RuntimeError, f"uniform_ expects to return a [from, to) range, but found from={low} > to={to}"
        )
    most = dtypes.finfo(self.dtype).max if self.dtype.is_floating_point else math.inf
    if to - low > most:
        raise failure(
            RuntimeError,
            f"uniform_ expects to-from <= {most}, the largest {self.dtype.name}, but found "
            f"to={to} and from={low}",
        )
    values = ops.rand(self.array.shape, dtype=_float_for(self, "uniform_"), generator=generator)
    return drawn(self, values * (to - low) + low, "uniform_")


@method
@_in_its_place
def normal_(
    self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill with normal numbers. Source: `torch.Tensor.normal_`."""
    if std < 0:
        raise failure(RuntimeError, f"normal_ expects std >= 0.0, but found std {std}")
    values = ops.randn(self.array.shape, dtype=_float_for(self, "normal_"), generator=generator)
    return drawn(self, values * std + mean, "normal_")


@method
@_in_its_place
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with 1 (with probability `p`, a number or a tensor) and 0. Source: `torch.Tensor.bernoulli_`."""
    _check_probability(p)
    with no_grad():
        values = ops.rand(self.array.shape, dtype=dtypes.float64, generator=generator) < p
    return drawn(self, ops.cast(values, self.dtype), "bernoulli_")


@method
@_in_its_place
def random_(
    self: Tensor,
    from_: int = 0,
    to: int | None = MISSING,
    *,
    generator: Generator | None = None,
    **given: int,
) -> Tensor:
    """Fill with integers from `from` up to, not including, `to`. Source: `torch.Tensor.random_`.

    A single bound is `to`. Without one, or up to None: all that an integer dtype has (from 0 on); up to
    2**24 for float32, 2**53 for float64.
    """
    low, high = _from(given, from_), to
    if high is MISSING:
        low, high = 0, low or None
    if high is None:
        high = _whole_numbers(self.dtype)[1] + 1
    _check_bounds(low, high, self.dtype)
    values = ops.randint(low, high, self.array.shape, dtype=self.dtype, generator=generator)
    return drawn(self, values, "random_")


@method
@_in_its_place
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with exponential numbers of rate `lambd`. Source: `torch.Tensor.exponential_`."""
    if lambd <= 0:
        raise failure(RuntimeError, f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    values = ops.log1p(-_fine(self, "exponential_", generator)) / -lambd
    return drawn(self, values, "exponential_")


@method
@_in_its_place
def cauchy_(
    self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill with Cauchy numbers. Source: `torch.Tensor.cauchy_`."""
    if sigma <= 0:
        raise failure(RuntimeError, f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    values = ops.tan((_fine(self, "cauchy_", generator) - 0.5) * math.pi) * sigma + median
    return drawn(self, values, "cauchy_")


@method
@_in_its_place
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with the number of trials up to the first success. Source: `torch.Tensor.geometric_`."""
    if not 0 < p < 1:
        raise failure(RuntimeError, f"geometric_ expects p to be in (0, 1), but got p={p}")
    uniform = ops.rand(self.array.shape, dtype=dtypes.float64, generator=generator)
    values = ops.floor(ops.log1p(-uniform) / math.log1p(-p)) + 1
    return drawn(self, values, "geometric_")


@method
@_in_its_place
def log_normal_(
    self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill with numbers whose logarithm is normal. Source: `torch.Tensor.log_normal_`."""
    if std <= 0:
        raise failure(RuntimeError, f"log_normal_ expects std > 0.0, but found std={std}")
    _float_for(self, "log_normal_")
    values = ops.randn(self.array.shape, dtype=dtypes.float64, generator=generator)
    return drawn(self, ops.exp(values * std + mean), "log_normal_")


def _from(given: dict[str, Any], default: Any) -> Any:
    """The argument `from`, which Python takes by keyword only through a dict."""
    low = given.pop("from", default)
    if given:
        raise failure(TypeError, f"got an unexpected keyword argument {next(iter(given))!r}")
    return low


def _float_for(tensor: Tensor, name: str) -> dtypes.DType:
    """The dtype to draw for a tensor of floats; raises RuntimeError for others."""
    if tensor.array.dtype.kind not in "fcV":
        raise failure(RuntimeError, f'"{name}" not implemented for {tensor.array.dtype.name}')
    return tensor.dtype


def _fine(tensor: Tensor, name: str, generator: Generator | None) -> Tensor:
    """Uniform numbers in float64 for a tensor of floats."""
    _float_for(tensor, name)
    return ops.rand(tensor.array.shape, dtype=dtypes.float64, generator=generator)
