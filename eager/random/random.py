"""Random numbers from the words of a generator (see `generator.py`).

How many 64-bit words a draw takes: uniform, bernoulli, randint and randperm one an element; normal
in float64 one an element, rounded up to even (Box-Muller makes two of two), in other dtypes half as many;
complex numbers twice as many, first the real parts, then the imaginary ones. `exponential_`, `cauchy_`,
`geometric_` and `bernoulli_` take those of a uniform draw, `log_normal_` those of a normal one in float64.
`multinomial` takes one a sample with replacement, one a weight without.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd.node import reach
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import promote_types
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.families import Random
from fusegrad.eager.core.memory_order import Order, as_first
from fusegrad.eager.core.op import NO_PARAMS, Op, Params, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.device import on_cpu
from fusegrad.eager.core.sizes import Ints, size_of
from fusegrad.eager.core.state import draws, no_grad, state, testable
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create.creation import _size, like_of, requiring
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.inplace import drawn
from fusegrad.eager.ops.pointwise.declare_pointwise import unknown
from fusegrad.eager.ops.shape.joining import written_out
from fusegrad.eager.random.generator import Generator, default_generator
from fusegrad.eager.random.words import normal_from, uniform_from

# From words to tensors.


def _uniform_numpy(shape: tuple[int, ...], dtype: dtypes.DType, generator: Generator) -> np.ndarray:
    if dtype.is_complex:
        parts = _uniform_numpy((2, *shape), _REAL_OF[dtype], generator)
        return (parts[0] + 1j * parts[1]).astype(dtype.numpy, copy=False)
    return uniform_from(generator.words(math.prod(shape)), dtype.numpy).reshape(shape)


def _normal_numpy(shape: tuple[int, ...], dtype: dtypes.DType, generator: Generator) -> np.ndarray:
    if dtype.is_complex:  # of variance 1 together
        parts = _normal_numpy((2, *shape), _REAL_OF[dtype], generator) * math.sqrt(0.5)
        return (parts[0] + 1j * parts[1]).astype(dtype.numpy, copy=False)
    count = math.prod(shape)
    words = count + count % 2 if dtype is dtypes.float64 else -(-count // 2)
    return normal_from(generator.words(words), dtype.numpy, count).reshape(shape)


_REAL_OF = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}


def _randint_numpy(
    shape: tuple[int, ...], low: int, high: int, dtype: dtypes.DType, generator: Generator
) -> np.ndarray:
    # A 64-bit word modulo the range: the bias is below range / 2**64.
    words = generator.words(math.prod(shape))
    offsets = words if high - low == 1 << 64 else words % np.uint64(high - low)
    return (offsets.astype(np.int64) + np.int64(low)).astype(dtype.numpy).reshape(shape)


def _randperm_numpy(shape: tuple[int, ...], dtype: dtypes.DType, generator: Generator) -> np.ndarray:
    return np.argsort(generator.words(shape[0]), kind="stable").astype(dtype.numpy)


def _shaped(types: Sequence[Any], shape: tuple[int, ...], dtype: dtypes.DType, **_: Any) -> TensorType:
    return TensorType(shape, dtype.numpy)


class _Like(Random):
    """Numbers in a tensor that may be like another one; see `Creation` for the param `order`."""

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        return self.numpy(**{k: v for k, v in params.items() if k != "order"})

    def orders(self, shapes: Sequence[Any], args: Sequence[Any], params: Params) -> list[Order]:
        return [params.get("order")]


_uniform = _Like("rand", "", _uniform_numpy, _shaped, None, order=as_first)
_normal = _Like("randn", "", _normal_numpy, _shaped, None, order=as_first)
_randint = _Like("randint", "", _randint_numpy, _shaped, None, order=as_first)
_randperm = Random("randperm", "", _randperm_numpy, _shaped, None)


def _counted(name: str, arguments: str, quantile: Callable[..., np.ndarray], vjp: Any = None) -> Random:
    """A distribution of whole numbers, from one uniform number an element through its quantile function."""

    def draw(*parameters: np.ndarray, generator: Generator) -> np.ndarray:
        parameters = tuple(np.broadcast_arrays(*parameters))
        shape, dtype = parameters[0].shape, parameters[0].dtype
        uniform = _uniform_numpy(shape, dtypes.float64, generator)
        return np.asarray(quantile(uniform, *parameters)).astype(dtype)

    def infer(types: Sequence[TensorType], generator: Generator) -> TensorType:
        return TensorType(np.broadcast_shapes(*(t.shape for t in types)), types[0].dtype)

    return Random(name, arguments, draw, infer, vjp)


def _poisson_quantile(u: np.ndarray, rate: np.ndarray) -> np.ndarray:
    from scipy import stats  # here, since it is slow to import and few programs draw these

    return stats.poisson.ppf(u, rate.astype(np.float64))


def _binomial_quantile(u: np.ndarray, count: np.ndarray, p: np.ndarray) -> np.ndarray:
    from scipy import stats

    return np.maximum(stats.binom.ppf(u, count, p.astype(np.float64)), 0)


_poisson = _counted("poisson", "rate", _poisson_quantile, {"rate": lambda g: ops.zeros_like(g)})
_binomial = _counted(
    "binomial",
    "count prob",
    _binomial_quantile,
    {"count": unknown("binomial"), "prob": unknown("binomial")},
)


# The public functions.


def _generator(generator: Generator | None) -> Generator:
    if generator is not None and not isinstance(generator, Generator):
        kind = type(generator).__name__
        raise failure(TypeError, f"argument 'generator' must be Generator, not {kind}")
    return default_generator if generator is None else generator


def _floating(name: str, op: Random) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    def function(
        *sizes: Any,
        size: Ints | None = None,
        generator: Generator | None = None,
        dtype: Any = None,
        requires_grad: bool = False,
        device: Any = None,
        layout: Any = None,
        memory_format: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        on_cpu(device)
        kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
        shape = _size(sizes if size is None else (size,))
        return requiring(_drawn(op, shape, kind, generator), requires_grad)

    def like(
        input: Tensor,
        *,
        generator: Generator | None = None,
        dtype: Any = None,
        requires_grad: bool = False,
        device: Any = None,
        layout: Any = None,
        memory_format: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        kind, place = dtypes.as_dtype(dtype or input.dtype), like_of(input, device, memory_format)
        return requiring(_drawn(op, input.array.shape, kind, generator, place), requires_grad)

    function.__name__ = function.__qualname__ = name
    like.__name__ = like.__qualname__ = f"{name}_like"
    what = "uniform from 0 to 1" if name == "rand" else "normal (mean 0, variance 1)"
    function.__doc__ = f"Random numbers, {what}. Source: `torch.{name}`."
    like.__doc__ = f"`{name}` with the shape and dtype of `input`. Source: `torch.{name}_like`."
    return function, like


def _drawn(
    op: Op, shape: tuple[int, ...], kind: dtypes.DType, generator: Generator | None, order: Params = NO_PARAMS
) -> Tensor:
    if kind.numpy.kind not in "fcV":
        raise failure(NotImplementedError, f"not implemented for {kind.name}; randint gives integers")
    return bind(op, (), {"shape": shape, "dtype": kind, "generator": _generator(generator), **order})


rand, rand_like = _floating("rand", _uniform)
randn, randn_like = _floating("randn", _normal)
for _function in (rand, rand_like, randn, randn_like):
    public(_function)


@public
def randint(
    low: Any = None,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random integers from `low` (0) up to, not including, `high`. Source: `torch.randint`.

    >>> import fusegrad as fg
    >>> fg.randint(3, (2, 4)).shape
    torch.Size([2, 4])
    """
    on_cpu(device)
    if isinstance(high, (tuple, list)):
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    elif low is None:
        low = 0
    if high is None or size is None:
        raise failure(
            TypeError, "randint needs a high and a size: randint(high, size), randint(low, high, size)"
        )
    return requiring(_whole_drawn(_size((size,)), low, high, generator, dtype), requires_grad)


def _whole_drawn(
    shape: tuple[int, ...], low: Any, high: Any, generator: Generator | None, dtype: Any, **order: Any
) -> Tensor:
    first, last = operator.index(low), operator.index(high)
    kind = dtypes.as_dtype(dtypes.int64 if dtype is None else dtype)
    if kind.is_complex:
        raise failure(RuntimeError, "there are no random integers of complex dtypes")
    _check_bounds(first, last, kind)
    bounds = {"low": first, "high": last, "dtype": kind}
    return bind(_randint, (), {"shape": shape, **bounds, "generator": _generator(generator), **order})


def _check_bounds(low: int, high: int, kind: dtypes.DType) -> None:
    """Refuse an empty range, and one whose numbers the dtype does not have."""
    if high <= low:
        raise failure(
            RuntimeError, f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    least, most = _whole_numbers(kind)
    for name, bound in (("from", low), ("to - 1", high - 1)):
        if least <= bound <= most:
            continue
        if kind.numpy.kind not in "fV" or abs(bound) > dtypes.finfo(kind).max:
            raise failure(RuntimeError, f"{name} is out of bounds for {kind.name}")
        warn(
            f"{name} is out of bounds [{least}, {most}]. Due to precision limitations {kind.name} can "
            "support discrete uniform distribution only within this range."
        )


def _whole_numbers(kind: dtypes.DType) -> tuple[int, int]:
    """The least and the largest integer up to which a dtype has all of them."""
    if kind.numpy.kind == "b":
        return 0, 1
    if kind.numpy.kind in "iu":
        limits = np.iinfo(kind.numpy)
        return int(limits.min), int(limits.max)
    most = int(2 / dtypes.finfo(kind).eps)
    return -most, most


@public
def randint_like(
    input: Tensor,
    low: int,
    high: int | None = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    memory_format: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """`randint` with the shape and dtype of `input`. Source: `torch.randint_like`."""
    low, high = (0, low) if high is None else (low, high)
    place = like_of(input, device, memory_format)
    made = _whole_drawn(input.array.shape, low, high, generator, dtype or input.dtype, **place)
    return requiring(made, requires_grad)


@public
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers 0..n-1 in random order. Source: `torch.randperm`."""
    on_cpu(device)
    n = size_of(n)
    if n < 0:
        raise failure(RuntimeError, f"n must be non-negative, got {n}")
    kind = dtypes.as_dtype(dtype or dtypes.int64)
    if n > 1 and n - 1 > _whole_numbers(kind)[1]:
        raise failure(RuntimeError, f"n is too large for result tensor type: {n} numbers in {kind.name}")
    params = {"shape": (n,), "dtype": kind, "generator": _generator(generator)}
    return requiring(bind(_randperm, (), params), requires_grad)


@public
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Ints | None = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers of given mean and deviation (numbers or tensors), whose gradients are 0.

    Source: `torch.normal`.
    """
    on_cpu(device)
    given = [v for v in (mean, std) if isinstance(v, Tensor)]
    if size is None:
        if not given:
            raise failure(TypeError, "size is needed where mean and std are numbers")
        size = ops.broadcast_tensors(*given)[0].array.shape
        dtype = given[0].dtype if len(given) == 1 else promote_types(given[0].dtype, given[1].dtype)
    draws(*given)
    reach(*given)
    if isinstance(std, Tensor):
        negative = testable(std, lambda: ops.all(ops.logical_not(ops.lt(std, 0)))) and (std.array < 0).any()
    else:
        negative = std < 0
    if negative:
        raise failure(
            RuntimeError,
            "normal expects all elements of std >= 0.0"
            if isinstance(std, Tensor)
            else f"normal expects std >= 0.0, but found std {std}",
        )
    with no_grad():
        numbers = randn(size, generator=generator, dtype=dtype) * std + mean
    return requiring(_on_the_graph_of(numbers, given, "normal_"), requires_grad)


def _on_the_graph_of(numbers: Tensor, given: Sequence[Tensor], name: str) -> Tensor:
    """Random numbers, which require gradients where what they were drawn by does: it gets zeros."""
    if not (state.grad_enabled and any(t.needs_grad for t in given)):
        return numbers
    base = given[0] if len(given) == 1 else given[0] + given[1]
    return drawn(ops.clone(ops.expand(base, numbers.array.shape)), numbers, name)


@public(method=True)
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """1 with the probability that `input` (or `p`) gives, else 0. Source: `torch.bernoulli`."""
    chance: Any = input if p is None else p
    with no_grad():
        if p is None:
            if input.array.dtype.kind not in "fV":
                raise failure(
                    RuntimeError, f"probabilities must be floating point, got {input.array.dtype.name}"
                )
            kind = input.dtype
        else:
            kind = dtypes.float64
        _check_probability(chance)
        wanted = input.dtype if out is None else out.dtype
        numbers = ops.cast(rand(input.array.shape, dtype=kind, generator=generator) < chance, wanted)
    if out is not None:
        return written_out(numbers, out, (input,))
    return _on_the_graph_of(numbers, (input,) if p is None else (), "bernoulli_")


def _check_probability(p: Any) -> None:
    """Refuse what is no probability."""
    if isinstance(p, Tensor):
        draws(p)
        if not testable(p, lambda: ops.all(ops.logical_and(ops.ge(p, 0), ops.le(p, 1)))):
            return
        reach(p)
        fits = bool(((p.array >= 0) & (p.array <= 1)).all())
    else:
        fits = 0 <= p <= 1
    if not fits:
        raise failure(RuntimeError, "Expected p_in >= 0 && p_in <= 1")


@public
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson numbers of the rates in `input`. Source: `torch.poisson`."""
    if input.array.dtype.kind not in "fV":
        raise failure(RuntimeError, f"poisson not implemented for {input.array.dtype.name}")
    reach(input)
    if (input.array < 0).any():
        raise failure(RuntimeError, "invalid Poisson rate, expected rate to be non-negative")
    return bind(_poisson, (input,), {"generator": _generator(generator)})


@public
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials with the chance `prob` succeed. Source: `torch.binomial`."""
    if count.array.dtype.kind not in "fV" or prob.array.dtype.kind not in "fV":
        raise failure(RuntimeError, "binomial only supports floating-point dtypes for count and prob")
    _check_probability(prob)
    return bind(_binomial, (count, prob), {"generator": _generator(generator)})
