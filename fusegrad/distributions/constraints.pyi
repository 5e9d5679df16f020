"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.distributions.constraints import (
    Constraint as Constraint,
    MixtureSameFamilyConstraint as MixtureSameFamilyConstraint,
    _Boolean as _Boolean,
    _Cat as _Cat,
    _CorrCholesky as _CorrCholesky,
    _Dependent as _Dependent,
    _GreaterThan as _GreaterThan,
    _GreaterThanEq as _GreaterThanEq,
    _HalfOpenInterval as _HalfOpenInterval,
    _IndependentConstraint as _IndependentConstraint,
    _IntegerGreaterThan as _IntegerGreaterThan,
    _IntegerInterval as _IntegerInterval,
    _Interval as _Interval,
    _LessThan as _LessThan,
    _LowerCholesky as _LowerCholesky,
    _LowerTriangular as _LowerTriangular,
    _Multinomial as _Multinomial,
    _OneHot as _OneHot,
    _PositiveDefinite as _PositiveDefinite,
    _PositiveSemidefinite as _PositiveSemidefinite,
    _Real as _Real,
    _Simplex as _Simplex,
    _Square as _Square,
    _Stack as _Stack,
    _Symmetric as _Symmetric,
    dependent_property as dependent_property,
    is_dependent as is_dependent,
)

boolean: _Boolean
cat = _Cat
corr_cholesky: _CorrCholesky
dependent: _Dependent
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
half_open_interval = _HalfOpenInterval
independent = _IndependentConstraint
integer_interval = _IntegerInterval
interval = _Interval
less_than = _LessThan
lower_cholesky: _LowerCholesky
lower_triangular: _LowerTriangular
multinomial = _Multinomial
nonnegative: _GreaterThanEq
nonnegative_integer: _IntegerGreaterThan
one_hot: _OneHot
positive: _GreaterThan
positive_definite: _PositiveDefinite
positive_integer: _IntegerGreaterThan
positive_semidefinite: _PositiveSemidefinite
real: _Real
real_vector: _IndependentConstraint
simplex: _Simplex
square: _Square
stack = _Stack
symmetric: _Symmetric
unit_interval: _Interval
