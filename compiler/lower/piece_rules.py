"""Which op has which rule of pieces; see `pieces.py`."""

from __future__ import annotations

from fusegrad.compiler.kernel.dtypes import has_kernels
from fusegrad.compiler.lower.pieces import Links, Rule
from fusegrad.compiler.lower.pieces_of_numbers import (
    FOLDS,
    elementwise,
    elementwise_links,
    matmul,
    matmul_links,
    reduction,
    reduction_links,
)
from fusegrad.compiler.lower.pieces_of_parts import (
    assign,
    cat,
    cat_links,
    diagonal_scatter,
    diagonal_scatter_links,
    embed,
    part_links,
)
from fusegrad.compiler.lower.pieces_of_views import (
    detach,
    diagonal,
    diagonal_links,
    expand,
    flip,
    flip_links,
    getitem,
    getitem_links,
    permute,
    permute_links,
    reshape,
    reshape_links,
)
from fusegrad.eager.core.families import Elementwise, Reduction
from fusegrad.tracer.ir.graph import Equation

_ELEMENTWISE = Rule(elementwise_links, elementwise)
_REDUCTION = Rule(reduction_links, reduction)
_RULES = {
    "reshape": Rule(reshape_links, reshape),
    "permute": Rule(permute_links, permute),
    "expand": Rule(elementwise_links, expand),
    "detach": Rule(elementwise_links, detach),
    "flip": Rule(flip_links, flip),
    "getitem": Rule(getitem_links, getitem),
    "diagonal": Rule(diagonal_links, diagonal),
    "embed": Rule(lambda e: part_links(e, 0, e.params["index"]), embed),
    "assign": Rule(lambda e: part_links(e, 1, e.params["index"]), assign),
    "diagonal_scatter": Rule(diagonal_scatter_links, diagonal_scatter),
    "cat": Rule(cat_links, cat),
    "matmul": Rule(matmul_links, matmul),
}


def links_of(equation: Equation) -> Links | None:
    """What an equation does along dimensions; None if it is computed as a whole."""
    rule = rule_of(equation)
    return None if rule is None else rule.links(equation)


def rule_of(equation: Equation) -> Rule | None:
    """What the op of an equation says of pieces."""
    op = equation.op
    if len(equation.outputs) != 1 or not all(
        has_kernels(v.dtype) for v in (*equation.values(), equation.output)
    ):
        return None
    if isinstance(op, Elementwise):
        return None if op.refuses else _ELEMENTWISE
    if isinstance(op, Reduction):
        return _REDUCTION if op.combine in FOLDS else None
    return _RULES.get(op.name)
