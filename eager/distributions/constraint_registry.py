"""From constraints to transforms that lead there from all real numbers.

As `torch.distributions.constraint_registry`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.public import locate
from fusegrad.eager.distributions import (
    constraints,
    event_transforms as events,
    number_transforms as numbers,
    transforms,
)
from fusegrad.eager.distributions.constraints import Constraint
from fusegrad.eager.distributions.transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Functions that make a transform to a constraint, by the constraint's class. See `transform_to`.

    >>> from fusegrad.distributions import biject_to, constraints
    >>> biject_to(constraints.positive)
    ExpTransform()
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Transform]] = {}

    def register(self, constraint: Any, factory: Callable[[Any], Transform] | None = None) -> Any:
        """Have `factory` make the transform for a class of constraints, or for an object's; a decorator."""
        if factory is None:
            return functools.partial(self.register, constraint)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """The transform whose codomain is the constraint."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints",
            )
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*kinds: Any) -> Callable[[Any], Any]:
    """A function in both registries."""

    def add(factory: Any) -> Any:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return add


@_both(constraints.real)
def _real(constraint: Any) -> Transform:
    return transforms.identity_transform


@biject_to.register(constraints.independent)
def _independent_bijection(constraint: Any) -> Transform:
    base = biject_to(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@transform_to.register(constraints.independent)
def _independent(constraint: Any) -> Transform:
    base = transform_to(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@_both(constraints.positive, constraints.nonnegative)
def _above(constraint: Any) -> Transform:
    if isinstance(constraint.lower_bound, (int, float)) and constraint.lower_bound == 0:
        return numbers.ExpTransform()
    shift = numbers.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([numbers.ExpTransform(), shift])


@_both(constraints.less_than)
def _below(constraint: Any) -> Transform:
    turn = numbers.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([numbers.ExpTransform(), turn])


@_both(constraints.interval, constraints.half_open_interval)
def _between(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return numbers.SigmoidTransform()
    widen = numbers.AffineTransform(low, high - low)
    return transforms.ComposeTransform([numbers.SigmoidTransform(), widen])


@biject_to.register(constraints.simplex)
def _shares_bijection(constraint: Any) -> Transform:
    return events.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _shares(constraint: Any) -> Transform:
    return events.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _lower_cholesky(constraint: Any) -> Transform:
    return events.LowerCholeskyTransform()


@transform_to.register(constraints.positive_semidefinite)
@transform_to.register(constraints.positive_definite)
def _positive_definite(constraint: Any) -> Transform:
    return events.PositiveDefiniteTransform()


@_both(constraints.corr_cholesky)
def _corr_cholesky(constraint: Any) -> Transform:
    return events.CorrCholeskyTransform()


@biject_to.register(constraints.cat)
def _parts_bijection(constraint: Any) -> Transform:
    return events.CatTransform([biject_to(c) for c in constraint.cseq], constraint.dim, constraint.lengths)


@transform_to.register(constraints.cat)
def _parts(constraint: Any) -> Transform:
    return events.CatTransform([transform_to(c) for c in constraint.cseq], constraint.dim, constraint.lengths)


@biject_to.register(constraints.stack)
def _entries_bijection(constraint: Any) -> Transform:
    return events.StackTransform([biject_to(c) for c in constraint.cseq], constraint.dim)


@transform_to.register(constraints.stack)
def _entries(constraint: Any) -> Transform:
    return events.StackTransform([transform_to(c) for c in constraint.cseq], constraint.dim)


locate("fusegrad.distributions", globals(), __all__)
