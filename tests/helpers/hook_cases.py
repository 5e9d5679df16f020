"""What hooks see, in fusegrad and in torch: programs that are run with either, and compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

Program = Callable[[Any], Any]


class Cases(list[Program]):
    """Programs, each of which is added by decorating it."""

    def __call__(self, program: Program) -> Program:
        self.append(program)
        return program


def listed(gradient: Any) -> Any:
    return None if gradient is None else gradient.tolist()


def outcome(program: Program, T: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return program(T)
        except Exception as error:
            return type(error).__name__
