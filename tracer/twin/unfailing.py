"""What Python makes of numbers that come out of tensors, without an error for any of them.

A replay makes it when all is computed, where nothing can be taken back: `f"{loss.item():.3f}"`,
`round(x, 3)` and `x % 60`, but not `1 / x`, which is no number where `x` is 0. Whole numbers among them are
those of a tensor, and what is smaller, so that floats take them all.
"""

from __future__ import annotations

import math
import operator
import re
import string
from collections.abc import Callable, Sequence
from typing import Any

_WRITTEN = (str, repr, ascii)
_SUMS = (operator.add, operator.iadd, operator.sub, operator.isub)
_PRODUCTS = (operator.mul, operator.imul)
_DIVISIONS = (
    operator.truediv, operator.itruediv, operator.floordiv, operator.ifloordiv, operator.mod, operator.imod
)  # fmt: skip
_SIGNS = (operator.neg, operator.pos, abs, float)
# What numbers below may stand beside: floats take them all.
_MODERATE = 2.0**53
_PERCENT = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?([a-zA-Z%])")
# The letters of `%` that take any number of a class.
_LETTERS = {float: "eEfFgGsra", int: "diuoxXeEfFgGsra", str: "sra"}


def percent(template: str, *values: Any) -> str:
    """``template % values``.

    >>> percent("%.1f of %d", 0.25, 3)
    '0.2 of 3'
    """
    return template % values


def made_whole(template: str, values: Sequence[Any]) -> list[int]:
    """Which of the values of ``template % values`` are floats of which the whole part is written, as by `%d`:
    there is none for those that are not finite.

    >>> made_whole("%d of %.1f", (2.5, 2.5))
    [0]
    """
    letters = [found for found in _PERCENT.findall(template) if found != "%"]
    if "%" in _PERCENT.sub("", template) or len(letters) != len(values):
        return []
    return [i for i, x in enumerate(values) if type(x) is float and letters[i] in "diu" and math.isfinite(x)]


def by_place(template: str, first: int, names: Sequence[str]) -> str | None:
    """The template of `format` that takes by place what this one takes by name; None where that has fields of
    another kind. first: the place of the first name.

    >>> by_place("{name} {loss:.3f}", 0, ["loss", "name"])
    '{1} {0:.3f}'
    """
    made = []
    for text, name, spec, conversion in string.Formatter().parse(template):
        made.append(text.replace("{", "{{").replace("}", "}}"))
        if name is None:
            continue
        if name in names:
            name = str(first + names.index(name))
        if not name.isdigit() or "{" in (spec or ""):
            return None
        made.append(f"{{{name}{'!' + conversion if conversion else ''}{':' + spec if spec else ''}}}")
    return "".join(made)


def joined(separator: str, *parts: str) -> str:
    """``separator.join(parts)``.

    >>> joined(", ", "a", "b")
    'a, b'
    """
    return separator.join(parts)


# The parts of an f-string have a mark in front. So each is a text of its own, also one of a single character,
# of which Python has one object for all: nobody could follow that.
_MARK = "\0"


def part(value: Any, spec: str = "") -> str:
    """A value that an f-string formats, or its text in between, with a mark in front.

    >>> part(3)
    '\\x003'
    """
    return _MARK + format(value, spec)


def whole(*parts: str) -> str:
    """An f-string of its marked parts.

    >>> whole(part("step "), part(3))
    'step 3'
    """
    return "".join([part[1:] for part in parts])


part.__name__, whole.__name__ = "format", "joined"  # which people know


def never_fails(function: Callable[..., Any], operands: Sequence[Any], varies: Sequence[bool]) -> bool:
    """Whether a function has no error for these operands, nor where those that vary are others of their
    classes, and gives one class for all of them.

    >>> never_fails(round, (0.123, 2), (True, False))
    True
    >>> never_fails(operator.truediv, (1.0, 0.5), (False, True))
    False
    """
    kinds = [type(x) for x in operands]
    last = None if varies[-1] else operands[-1]
    try:
        function(*operands)
    except Exception:
        return False
    if function in _WRITTEN or function is joined or function is whole:
        return True
    if function is format or function is part:
        return not any(varies[1:]) and _formats(kinds[0], *operands[1:])
    if function is percent or function is str.format:
        template = operands[0]
        fits = _fits_percent if function is percent else _fits_braces
        return not varies[0] and fits(template, kinds[1:])
    if function is round:
        return type(last) is int and last >= 0 and len(operands) == 2
    if str in kinds:
        return function in _SUMS or (function in _PRODUCTS and type(last) is int)
    if not all(other or abs(x) < _MODERATE for x, other in zip(operands, varies, strict=True)):
        return False
    if function in (min, max):
        return len({*kinds}) == 1  # which one it is decides the class
    if function in _DIVISIONS:
        return last is not None and last != 0 and kinds[1] is not bool
    return function in _SIGNS or function in _SUMS or (function in _PRODUCTS and float in kinds)


def _formats(kind: type, spec: str = "") -> bool:
    """Whether a format that fits one number of a class fits them all."""
    return kind is not int or not spec.endswith("c")


def _fits_percent(template: str, kinds: Sequence[type]) -> bool:
    letters = [found for found in _PERCENT.findall(template) if found != "%"]
    if "%" in _PERCENT.sub("", template) or len(letters) != len(kinds):
        return False
    return all(letter in _LETTERS.get(kind, "") for letter, kind in zip(letters, kinds, strict=True))


def _fits_braces(template: str, kinds: Sequence[type]) -> bool:
    for _, name, spec, conversion in string.Formatter().parse(template):
        if name is None:
            continue
        if not (name == "" or name.isdigit()) or "{" in (spec or ""):
            return False
        if not conversion and not all(_formats(kind, spec or "") for kind in kinds):
            return False
    return True
