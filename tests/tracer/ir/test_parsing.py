"""Texts that are parsed while other code parses texts, too."""

from __future__ import annotations

import ast
import gc
from concurrent.futures import ThreadPoolExecutor

from fusegrad.tracer.ir.parsing import expression_of, module_of

_TEXT = "\n".join(f"x{i} = (y + {i}) * [z, -({i} + w)][{i} % 2]" for i in range(300))


class _Parses:
    """Garbage that parses something when it is collected."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        expression_of("a + (b * (c - d))")
        ast.parse("f(g(h(1)))")


def test_texts_are_parsed_whatever_the_collector_finds() -> None:
    """Python 3.11's `ast.parse` raises SystemError here."""
    thresholds = gc.get_threshold()
    expected = ast.dump(ast.parse(_TEXT))
    try:
        gc.set_threshold(20)
        for _ in range(20):
            for _ in range(50):
                _Parses()
            assert ast.dump(module_of(_TEXT)) == expected
    finally:
        gc.set_threshold(*thresholds)


def test_texts_are_parsed_in_threads() -> None:
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda _: ast.unparse(module_of(_TEXT)), range(40))]
    assert len(set(found)) == 1
