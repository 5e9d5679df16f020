"""The variables that the call plans of a tree have in common."""

from __future__ import annotations

from fusegrad.compiler.call_plan.expressions import Name

LEAVES = Name("leaves")


def leaf_name(number: int) -> Name:
    """The variable of a leaf of the call's arguments."""
    return Name(f"leaf{number}")


def kept_name(number: int) -> Name:
    """The variable of a place in the environment."""
    return Name(f"kept{number}")
