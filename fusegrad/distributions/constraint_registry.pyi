"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.distributions.constraint_registry import (
    ConstraintRegistry as ConstraintRegistry,
    ConstraintRegistry as _ConstraintRegistry,
)

biject_to: _ConstraintRegistry
transform_to: _ConstraintRegistry
