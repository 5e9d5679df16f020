"""Einstein's summation: operands two at a time, each pair as a batch of matrix products."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Collection, Sequence
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public

# In PyTorch's order: subscript 0 of a list is "A", 26 is "a".
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


@public
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Products summed over repeated letters, as in "bij,bjk->bik". Source: `torch.einsum`.

    `...` stands for batch dimensions. Instead of an equation, lists of numbers may follow the operands,
    and one for the result come last: `einsum(x, [0, 1], y, [1, 2], [0, 2])`. Raises RuntimeError for an
    equation that does not fit the operands.

    >>> import fusegrad as fg
    >>> fg.einsum("ij,j->i", fg.ones(2, 3), fg.ones(3))
    tensor([3., 3.])
    """
    if isinstance(equation, Tensor):
        equation, operands = _from_lists((equation, *operands))
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not operands:
        raise failure(ValueError, "einsum(): must specify the equation string and at least one operand")
    inputs, output = _parsed(equation, operands)
    terms = [_single_letters(letters, x) for letters, x in zip(inputs, operands, strict=True)]
    while len(terms) > 1:
        first, second, *rest = terms
        needed = set(output).union(*(letters for letters, _ in rest))
        first, second = _summed(*first, needed.union(second[0])), _summed(*second, needed.union(first[0]))
        terms = [_pair(*first, *second, needed), *rest]
    letters, result = _summed(*terms[0], output)
    return ops.permute(result, [letters.index(c) for c in output])


def _from_lists(arguments: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """The equation and operands for tensors with lists of subscripts (numbers from 0 to 51, or ...)."""

    def term(subscripts: Sequence[Any]) -> str:
        for s in subscripts:
            if s is not Ellipsis and not 0 <= s < len(_LETTERS):
                raise failure(
                    ValueError, f"einsum(): subscript {s} is not within the valid range [0, {len(_LETTERS)})"
                )
        return "".join("..." if s is Ellipsis else _LETTERS[s] for s in subscripts)

    pairs = len(arguments) // 2
    equation = ",".join(term(subscripts) for subscripts in arguments[1 : 2 * pairs : 2])
    if len(arguments) % 2:
        equation += "->" + term(arguments[-1])
    return equation, tuple(arguments[: 2 * pairs : 2])


def _parsed(equation: str, operands: Sequence[Tensor]) -> tuple[list[list[str]], list[str]]:
    """The letters of each operand and of the result; `...` becomes letters of its own."""
    if re.search(r"\.\s+\.\.?(?!\.)", equation.partition("->")[0]):
        raise failure(RuntimeError, "einsum(): found '.' for operand 0 that is not part of any ellipsis")
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    for c in left.replace(",", "") + right:
        if c not in _LETTERS and c != ".":
            raise failure(
                RuntimeError,
                f"einsum(): invalid subscript given at index {equation.index(c)} in the equation string, "
                "subscripts must be in [a-zA-Z]",
            )
    if len(terms) != len(operands):
        more = "more" if len(operands) > len(terms) else "fewer"
        raise failure(
            RuntimeError,
            f"einsum(): {more} operands were provided than specified in the equation "
            f"({equation!r} has {len(terms)}, {len(operands)} were given)",
        )
    dots: list[str] = []
    inputs = []
    for number, (term, x) in enumerate(zip(terms, operands, strict=True)):
        before, ellipsis, after = _around_ellipsis(term, f"operand {number}")
        extra = x.array.ndim - len(before) - len(after)
        if extra < 0 or (extra and not ellipsis):
            raise failure(
                RuntimeError,
                f"einsum(): the number of subscripts in the equation ({len(before) + len(after)}) "
                f"{'is more than' if ellipsis else 'does not match'} the number of dimensions "
                f"({x.array.ndim}) for operand {number}{'' if ellipsis else ' and no ellipsis was given'}",
            )
        batch = [f".{i}" for i in range(extra, 0, -1)]
        dots = batch if len(batch) > len(dots) else dots
        inputs.append([*before, *batch, *after])
    if arrow:
        before, ellipsis, after = _around_ellipsis(right, "output")
        output = [*before, *(dots if ellipsis else []), *after]
    else:
        seen = [c for letters in inputs for c in letters if not c.startswith(".")]
        output = dots + sorted(c for c in set(seen) if seen.count(c) == 1)
    known = {c for letters in inputs for c in letters}
    if not known.issuperset(output) or len(set(output)) != len(output):
        twice = next((c for c in output if output.count(c) > 1), None)
        wrong = f"{twice} appears more than once in the output"
        if twice is None:
            unknown = next(c for c in output if c not in known)
            wrong = f"{unknown} does not appear in the equation for any input operand"
        raise failure(RuntimeError, f"einsum(): output subscript {wrong}")
    return inputs, output


def _around_ellipsis(term: str, whose: str) -> tuple[str, str, str]:
    """A term before, at and after its `...`."""
    before, ellipsis, after = term.partition("...")
    if "." in before or "." in after:
        what = "but an ellipsis (...)" if whose == "output" else "for which an ellipsis"
        wrong = f"{what} was already found" if ellipsis else "that is not part of any ellipsis (...)"
        raise failure(RuntimeError, f"einsum(): found '.' for {whose} {wrong}")
    return before, ellipsis, after


def _single_letters(letters: list[str], x: Tensor) -> tuple[list[str], Tensor]:
    """Repeated letters of one operand as its diagonal."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            size = x.array.shape
            if size[first] != size[second]:
                raise failure(
                    RuntimeError,
                    f"einsum(): subscript {letter} is repeated for operand 0 but the sizes don't match, "
                    f"{size[second]} != {size[first]}",
                )
            x = ops.diagonal(x, 0, first, second)
            letters = [c for i, c in enumerate(letters) if i not in (first, second)] + [letter]
    return letters, x


def _summed(letters: list[str], x: Tensor, needed: Collection[str]) -> tuple[list[str], Tensor]:
    """Without the letters that nobody needs any more."""
    dims = [i for i, c in enumerate(letters) if c not in needed]
    if not dims:
        return letters, x
    return [c for c in letters if c in needed], ops.sum(x, dims, dtype=x.dtype)


def _pair(
    left: list[str], x: Tensor, right: list[str], y: Tensor, needed: Collection[str]
) -> tuple[list[str], Tensor]:
    """Two operands as one: batch letters, summed letters, and the letters of either side alone."""
    sizes = dict(zip(right, y.array.shape, strict=True))
    for letter, n in zip(left, x.array.shape, strict=True):
        if sizes.get(letter, 1) == 1:
            sizes[letter] = n
        elif n not in (1, sizes[letter]):
            raise failure(
                RuntimeError,
                f"einsum(): subscript {letter} has size {sizes[letter]} for operand 1 which does not "
                f"broadcast with previously seen size {n}",
            )
    both = [c for c in left if c in right]
    batch = [c for c in both if c in needed]
    inner = [c for c in both if c not in needed]
    left_only = [c for c in left if c not in right]
    right_only = [c for c in right if c not in left]

    def matrix(letters: list[str], t: Tensor, rows: list[str], columns: list[str]) -> Tensor:
        order = batch + rows + columns
        t = ops.permute(t, [letters.index(c) for c in order])
        t = ops.expand(t, [sizes[c] for c in order])
        return ops.reshape(t, [math.prod(sizes[c] for c in group) for group in (batch, rows, columns)])

    first, second = matrix(left, x, left_only, inner), matrix(right, y, inner, right_only)
    product = ops.matmul(first, second) if inner else first * second
    letters = batch + left_only + right_only
    return letters, ops.reshape(product, [sizes[c] for c in letters])
