"""Python text: text goes in, its syntax tree comes out, whatever other threads do.

Python 3.11 counts the depth of trees for all threads together, and for finalizers that the collector calls
while it makes one (https://github.com/python/cpython/issues/106905): a text is parsed alone, and without the
collector.
"""

from __future__ import annotations

import ast

from fusegrad.eager import forks
from fusegrad.eager.garbage import put_off

_parsing = forks.lock()


def module_of(text: str, filename: str = "<text>") -> ast.Module:
    """The tree of statements. Raises SyntaxError, and ValueError for what is no text of Python's.

    >>> ast.unparse(module_of("x=1"))
    'x = 1'
    """
    with _parsing, put_off():
        return ast.parse(text, filename)


def expression_of(text: str) -> ast.expr:
    """The tree of an expression. Raises as `module_of`.

    >>> ast.unparse(expression_of("1+x"))
    '1 + x'
    """
    with _parsing, put_off():
        return ast.parse(text, mode="eval").body
