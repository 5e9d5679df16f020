"""Random numbers, counter-based: a draw depends on nothing but the seed and the counter.

A `Generator` holds a seed and a counter of blocks. Block number c of a seed is what Philox-4x64
makes of the 256-bit counter c+1 under that key: four 64-bit words (NumPy's `Philox(key=seed,
counter=c)` steps the counter first). A draw of n words takes the words of blocks c, c+1, ... in
order and advances the counter by ceil(n / 4). A kernel can so make element i of a draw from
(seed, counter, i) alone.

How many words a draw takes: uniform, bernoulli, randint and randperm one an element; normal one
an element, rounded up to even (Box-Muller makes two of two).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager import dtypes
from fusegrad.eager.errors import failure
from fusegrad.eager.families import Random
from fusegrad.eager.op import TensorType, bind, wrap
from fusegrad.eager.ops import elementwise as ew, inplace
from fusegrad.eager.ops.creation import _requiring, _size
from fusegrad.eager.state import no_grad, state
from fusegrad.eager.tensor import Tensor

_SEED_BITS = (1 << 64) - 1
DEFAULT_SEED = 67280421310721  # PyTorch's


class Generator:
    """A stream of random numbers: a seed and a counter. As `torch.Generator`.

    >>> import fusegrad as fg
    >>> g = fg.Generator().manual_seed(1)
    >>> a = fg.rand(3, generator=g)
    >>> bool((fg.rand(3, generator=g.manual_seed(1)) == a).all())
    True
    """

    __slots__ = ("counter", "seed_value")

    def __init__(self, device: Any = None) -> None:
        self.seed_value = DEFAULT_SEED
        self.counter = 0

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` from its beginning."""
        _tell("seeds the random generator")
        self.seed_value = int(seed) & _SEED_BITS
        self.counter = 0
        return self

    def seed(self) -> int:
        """Start the stream of a seed that the system chooses; gives the seed."""
        return self.manual_seed(int.from_bytes(os.urandom(8), "little")).seed_value

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return self.seed_value

    def get_state(self) -> Tensor:
        """Seed and counter as a uint8 tensor."""
        _tell("reads the random generator's state")
        return wrap(
            np.frombuffer(np.array([self.seed_value, self.counter], np.uint64).tobytes(), np.uint8).copy()
        )

    def set_state(self, new_state: Tensor) -> Generator:
        """Go on from a state that `get_state` gave."""
        _tell("sets the random generator's state")
        values = np.frombuffer(new_state.array.tobytes(), np.uint64)
        if values.size != 2:
            raise failure(RuntimeError, f"a generator's state has 16 bytes, got {new_state.array.size}")
        self.seed_value, self.counter = int(values[0]), int(values[1])
        return self

    def words(self, count: int) -> np.ndarray:
        """The next `count` 64-bit words; the counter moves on by ceil(count / 4)."""
        stream = np.random.Philox(key=self.seed_value, counter=self.counter)
        self.counter += -(-count // 4)
        return stream.random_raw(count)


def _tell(effect: str) -> None:
    if state.interpreter is not None:
        state.interpreter.effect(effect)


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Start the default generator's stream of `seed`; gives the generator. Source: `torch.manual_seed`."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the default generator by chance. Source: `torch.seed`."""
    return default_generator.seed()


def initial_seed() -> int:
    """The default generator's seed. Source: `torch.initial_seed`."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state. Source: `torch.get_rng_state`."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Set the default generator's state. Source: `torch.set_rng_state`."""
    default_generator.set_state(new_state)


# From words to numbers.


def uniform_from(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Numbers in [0, 1): float64 from the 53 high bits of a word, others from the 24 high bits."""
    if dtype == np.float64:
        return (words >> np.uint64(11)) * (1.0 / (1 << 53))
    exact = (words >> np.uint64(40)).astype(np.float32) * np.float32(1.0 / (1 << 24))
    return exact.astype(dtype, copy=False)


def normal_from(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Box-Muller: words k and k + n/2 make numbers k (cosine) and k + n/2 (sine), in float64."""
    half = words.size // 2
    uniform = uniform_from(words, np.dtype(np.float64))
    radius = np.sqrt(-2.0 * np.log1p(-uniform[:half]))
    angle = (2.0 * math.pi) * uniform[half:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)]).astype(dtype)


def _uniform_numpy(shape: tuple[int, ...], dtype: dtypes.DType, generator: Generator) -> np.ndarray:
    return uniform_from(generator.words(math.prod(shape)), dtype.numpy).reshape(shape)


def _normal_numpy(shape: tuple[int, ...], dtype: dtypes.DType, generator: Generator) -> np.ndarray:
    count = math.prod(shape)
    return normal_from(generator.words(count + count % 2), dtype.numpy)[:count].reshape(shape)


def _randint_numpy(
    shape: tuple[int, ...], low: int, high: int, dtype: dtypes.DType, generator: Generator
) -> np.ndarray:
    # A 64-bit word modulo the range: the bias is below range / 2**64.
    offsets = generator.words(math.prod(shape)) % np.uint64(high - low)
    return (offsets.astype(np.int64) + low).astype(dtype.numpy).reshape(shape)


def _randperm_numpy(shape: tuple[int, ...], dtype: dtypes.DType, generator: Generator) -> np.ndarray:
    return np.argsort(generator.words(shape[0]), kind="stable").astype(dtype.numpy)


def _shaped(types: Sequence[Any], shape: tuple[int, ...], dtype: dtypes.DType, **_: Any) -> TensorType:
    return TensorType(shape, dtype.numpy)


_uniform = Random("rand", "", _uniform_numpy, _shaped, None)
_normal = Random("randn", "", _normal_numpy, _shaped, None)
_randint = Random("randint", "", _randint_numpy, _shaped, None)
_randperm = Random("randperm", "", _randperm_numpy, _shaped, None)


def _multinomial_numpy(x: np.ndarray, count: int, replacement: bool, generator: Generator) -> np.ndarray:
    rows = x.reshape(-1, x.shape[-1]).astype(np.float64)
    if not (np.isfinite(rows).all() and (rows >= 0).all()) or not (rows.sum(1) > 0).all():
        raise RuntimeError("probabilities must be finite, not negative, and have a positive sum in each row")
    words = uniform_from(
        generator.words(rows.shape[0] * (count if replacement else rows.shape[1])), np.dtype(np.float64)
    ).reshape(rows.shape[0], -1)
    if replacement:
        steps = np.cumsum(rows, axis=1) / rows.sum(1, keepdims=True)
        picked = np.array([np.searchsorted(s, u, side="right") for s, u in zip(steps, words, strict=True)])
        picked = np.minimum(picked, x.shape[-1] - 1)
    else:
        # The largest keys log(u) / weight are a sample without replacement (Efraimidis, Spirakis).
        if count > (rows > 0).sum(1).min():
            raise RuntimeError(f"cannot draw {count} without replacement from so few nonzero weights")
        keys = np.where(rows > 0, np.log1p(-words) / np.where(rows > 0, rows, 1), -np.inf)
        picked = np.argsort(-keys, axis=1, kind="stable")[:, :count]
    return picked.astype(np.int64).reshape(*x.shape[:-1], count)


_multinomial = Random(
    "multinomial",
    "x",
    _multinomial_numpy,
    lambda types, count, replacement, generator: TensorType(
        (*types[0].shape[:-1], count), np.dtype(np.int64)
    ),
    None,
)


# The public functions.


def _floating(name: str, op: Random) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    def function(
        *size: Any,
        generator: Generator | None = None,
        dtype: Any = None,
        requires_grad: bool = False,
        device: Any = None,
    ) -> Tensor:
        kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
        params = {"shape": _size(size), "dtype": kind, "generator": generator or default_generator}
        return _requiring(bind(op, (), params), requires_grad)

    def like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False, **kwargs: Any) -> Tensor:
        return function(input.array.shape, dtype=dtype or input.dtype, requires_grad=requires_grad, **kwargs)

    function.__name__ = function.__qualname__ = name
    like.__name__ = like.__qualname__ = f"{name}_like"
    what = "uniform from 0 to 1" if name == "rand" else "normal (mean 0, variance 1)"
    function.__doc__ = f"Random numbers, {what}. Source: `torch.{name}`."
    like.__doc__ = f"`{name}` with the shape and dtype of `input`. Source: `torch.{name}_like`."
    return function, like


rand, rand_like = _floating("rand", _uniform)
randn, randn_like = _floating("randn", _normal)


def randint(
    low: int,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random integers from `low` (0) up to, not including, `high`. Source: `torch.randint`."""
    if size is None or not isinstance(high, int):
        low, high, size = 0, low, high if size is None else size
    if high <= low:
        raise failure(
            RuntimeError, f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    params = {
        "shape": _size((size,)),
        "low": int(low),
        "high": int(high),
        "dtype": dtypes.as_dtype(dtype or dtypes.int64),
        "generator": generator or default_generator,
    }
    return bind(_randint, (), params)


def randint_like(input: Tensor, low: int, high: int | None = None, *, dtype: Any = None) -> Tensor:
    """`randint` with the shape and dtype of `input`. Source: `torch.randint_like`."""
    low, high = (0, low) if high is None else (low, high)
    return randint(low, high, input.array.shape, dtype=dtype or input.dtype)


def randperm(n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None) -> Tensor:
    """The numbers 0..n-1 in random order. Source: `torch.randperm`."""
    params = {
        "shape": (n,),
        "dtype": dtypes.as_dtype(dtype or dtypes.int64),
        "generator": generator or default_generator,
    }
    return bind(_randperm, (), params)


def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None
) -> Tensor:
    """Normal numbers of given mean and deviation (numbers or tensors). Source: `torch.normal`."""
    if size is None:
        shapes = [v.array.shape for v in (mean, std) if isinstance(v, Tensor)]
        if not shapes:
            raise failure(TypeError, "size is needed where mean and std are numbers")
        size = np.broadcast_shapes(*shapes)
    return randn(size, generator=generator) * std + mean


def bernoulli(input: Tensor, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that `input` gives, else 0. Source: `torch.bernoulli`."""
    with no_grad():
        drawn = rand(input.array.shape, dtype=input.dtype, generator=generator) < input
        return ew.cast(drawn, input.dtype)


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Class numbers drawn by the weights in each row. Source: `torch.multinomial`."""
    if not input.array.ndim or input.array.ndim > 2:
        raise failure(RuntimeError, f"prob_dist must be 1 or 2 dim, got shape {list(input.array.shape)}")
    params = {"count": num_samples, "replacement": replacement, "generator": generator or default_generator}
    return bind(_multinomial, (input,), params)


# In place.


def uniform_(self: Tensor, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with uniform numbers from `a` to `b`. Source: `torch.Tensor.uniform_`."""
    values = rand(self.array.shape, dtype=_float_for(self), generator=generator)
    return inplace.drawn(self, values * (b - a) + a, "uniform_")


def normal_(
    self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill with normal numbers. Source: `torch.Tensor.normal_`."""
    values = randn(self.array.shape, dtype=_float_for(self), generator=generator)
    return inplace.drawn(self, values * std + mean, "normal_")


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with 1 (with probability `p`) and 0. Source: `torch.Tensor.bernoulli_`."""
    values = rand(self.array.shape, generator=generator) < p
    return inplace.drawn(self, ew.cast(values, self.dtype), "bernoulli_")


def random_(self: Tensor, low: int = 0, high: int | None = None) -> Tensor:
    """Fill with integers from `low` up to `high`. Source: `torch.Tensor.random_`."""
    if high is None:
        low, high = 0, low or 1 << 24
    return inplace.drawn(self, randint(low, high, self.array.shape), "random_")


def _float_for(tensor: Tensor) -> dtypes.DType:
    return tensor.dtype if tensor.is_floating_point() else dtypes.default_float()


METHODS = {
    "uniform_": uniform_,
    "normal_": normal_,
    "bernoulli_": bernoulli_,
    "random_": random_,
    "bernoulli": bernoulli,
    "multinomial": multinomial,
}
