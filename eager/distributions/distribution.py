"""What all distributions share: shapes, checks, `expand`. As `torch.distributions.Distribution`.

A distribution lists its parameters with their constraints in `arg_constraints`, and keeps each under its
name, or under its name with an underscore where the name is a property. Checks, `expand` and the text of a
distribution follow from that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import home, locate
from fusegrad.eager.core.state import enable_grad, no_grad
from fusegrad.eager.core.tensor import Size, Tensor
from fusegrad.eager.distributions import constraints

__all__ = ["Distribution", "ExponentialFamily"]


def sized(*parts: Sequence[int]) -> Size:
    """The shape that others make one after the other."""
    return Size([n for part in parts for n in part])


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers take the first tensor's dtype.

    Source: `torch.distributions.utils.broadcast_all`.
    """
    kind = None
    for value in values:
        if not isinstance(value, (Tensor, int, float)):
            raise failure(
                ValueError,
                "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                "__torch_function__.",
            )
        if kind is None and isinstance(value, Tensor):
            kind = value.dtype
    if kind is None:
        kind = dtypes.default_float()
    tensors = [v if isinstance(v, Tensor) else ops.tensor(v, dtype=kind) for v in values]
    wide: Any = ops.broadcast_tensors(*tensors)
    return tuple(wide)


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """`value` summed over its last `dims` dimensions."""
    return value if dims == 0 else value.sum(tuple(range(-dims, 0)))


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """What is below the diagonal `diag` of matrices, and on it, row by row.

    Source: `torch.distributions.utils.tril_matrix_to_vec`.

    >>> import fusegrad as fg
    >>> fg.distributions.utils.tril_matrix_to_vec(fg.arange(4).reshape(2, 2))
    tensor([0, 2, 3])
    """
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise failure(ValueError, f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    rows, columns = ops.tril_indices(size, size, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Square matrices that are 0 above the diagonal `diag`, of their other elements row by row.

    Raises ValueError for a number of elements that no square has there.

    Source: `torch.distributions.utils.vec_to_tril_matrix`.

    >>> import fusegrad as fg
    >>> fg.distributions.utils.vec_to_tril_matrix(fg.tensor([1, 2, 3]))
    tensor([[1, 0],
            [2, 3]])
    """
    count = vec.shape[-1]
    slope = 1 + 2 * diag
    exact = (math.sqrt(slope**2 + 8 * count + 4 * abs(diag) * (diag + 1)) - slope) / 2
    size = round(exact)
    rows, columns = ops.tril_indices(size, size, diag)
    if len(rows) != count:
        raise failure(
            ValueError,
            f"The size of last dimension is {count} which cannot be expressed as "
            "the lower triangular part of a square D x D matrix.",
        )
    matrix = ops.zeros((*vec.shape[:-1], size, size), dtype=vec.dtype)
    matrix[..., rows, columns] = vec
    return matrix


class lazy_property:
    """A property that is computed once, with its graph, when it is first asked for.

    Source: `torch.distributions.utils.lazy_property`.
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def _maker(kind: type) -> type:
    """The class among a class's bases whose `__init__` makes its objects."""
    return next(base for base in kind.__mro__ if "__init__" in vars(base))


class Distribution:
    """A distribution of random numbers.

    batch_shape: the shape of the draws that are independent, and may have other parameters each. event_shape:
    the shape of one of them. validate_args: whether parameters and values are checked; by default they are.
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    arg_constraints: Any = None
    support: Any = None
    _validate_args: bool = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether parameters and values are checked where nothing is said."""
        if value not in (True, False):
            raise failure(ValueError, f"expected True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()  # a class may be a distribution and a module

    def _check_parameters(self) -> None:
        if self.arg_constraints is None:
            warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or "
                "initialize the distribution with `validate_args=False` to turn off validation."
            )
            return
        for name, constraint in self.arg_constraints.items():
            value = self._parameter(name)
            if value is None or constraints.is_dependent(constraint):
                continue
            if not constraint.check(value).all():
                raise failure(
                    ValueError,
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
                    f"distribution {self!r} to satisfy the constraint {constraint!r}, but found invalid "
                    f"values:\n{value}",
                )

    def _parameter(self, name: str) -> Any:
        """A parameter as it was given; None if another one was given in its place."""
        if hasattr(self, "_" + name):
            return getattr(self, "_" + name)
        return getattr(self, name, None)

    @property
    def batch_shape(self) -> Size:
        """The shape of the independent draws."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one draw."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """The same distribution with parameters expanded to another batch shape, without copies."""
        new = self._get_checked_instance(None, _instance)
        shape = sized(batch_shape)
        for name, constraint in self.arg_constraints.items():
            value = self._parameter(name)
            if isinstance(value, Tensor) and not self._is_derived(name):
                event = value.shape[value.dim() - constraint.event_dim :]
                own = "_" + name if hasattr(self, "_" + name) else name
                setattr(new, own, value.expand(sized(shape, event)))
        self._expand_rest(new, shape)
        Distribution.__init__(new, shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _is_derived(self, name: str) -> bool:
        """Whether a parameter is computed from what is kept."""
        return not hasattr(self, "_" + name) and isinstance(getattr(type(self), name, None), property)

    def _expand_rest(self, new: Any, shape: Size) -> None:
        """Give an expanded distribution what is no parameter of it."""

    def _get_checked_instance(self, cls: type | None, _instance: Any = None) -> Any:
        """A new object for the `expand` of `cls` (None: of the engine) to fill, or what a subclass gave.

        Raises NotImplementedError for a user's subclass with an `__init__` of its own and no `expand`: who
        knows what else it keeps.
        """
        if _instance is None:
            maker = _maker(type(self))
            if home(maker) is None and (cls is None or maker is not _maker(cls)):
                parent = cls or next(base for base in type(self).__mro__ if home(base) is not None)
                raise NotImplementedError(
                    f"Subclass {type(self).__name__} of {parent.__name__} that defines a custom __init__ "
                    "method must also define a custom .expand() method."
                )
            kind = type(self)
            _instance = kind.__new__(kind)
        return _instance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws of shape `sample_shape + batch_shape + event_shape`, off the graph."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draws with gradients to the parameters, where the distribution has them (`has_rsample`)."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`, with a UserWarning that it is to be called so."""
        warn("sample_n(n) will be deprecated. Use .sample((n,)) instead.")
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, at `value`."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of numbers up to `value`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The number up to which the probability is `value`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values, along a new first dimension; of discrete distributions with finitely many."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy, of `batch_shape`."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return sized(sample_shape, self._batch_shape, self._event_shape)

    def _validate_sample(self, value: Any) -> None:
        """Refuse what is no tensor, does not fit the shapes, or lies outside of the support."""
        if not isinstance(value, Tensor):
            raise failure(ValueError, "The value argument to log_prob must be a Tensor")
        start = value.dim() - len(self._event_shape)
        if tuple(value.shape[start:]) != tuple(self._event_shape):
            raise failure(
                ValueError,
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}.",
            )
        expected = sized(self._batch_shape, self._event_shape)
        for i, j in zip(reversed(value.shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise failure(
                    ValueError,
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}.",
                )
        support = self.support
        if support is None:
            warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation."
            )
            return
        if not support.check(value).all():
            raise failure(
                ValueError,
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be "
                f"within the support ({support!r}) of the distribution {self!r}, but found invalid "
                f"values:\n{value}",
            )

    def __repr__(self) -> str:
        given = {name: self._parameter(name) for name in self.arg_constraints or ()}
        shown = [
            f"{name}: {value if value.numel() == 1 else value.size()}"
            for name, value in given.items()
            if isinstance(value, Tensor)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


class ExponentialFamily(Distribution):
    """Distributions whose density is exp of a product of parameters and statistics."""


locate("fusegrad.distributions", globals(), __all__)
locate(
    "fusegrad.distributions.utils",
    globals(),
    ["broadcast_all", "lazy_property", "tril_matrix_to_vec", "vec_to_tril_matrix"],
)
