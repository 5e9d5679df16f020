"""Test functions as pytest collects them, as cases of unittest: one for each choice of their parameters."""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest


class FunctionCase(unittest.TestCase):
    """A call of a test function, named by it and by the places of its parameters in their lists."""

    def __init__(self, name: str, call: Callable[[], None], skipped: str) -> None:
        super().__init__()
        self.name, self.call, self.skipped = name, call, skipped

    def id(self) -> str:
        return self.name

    def runTest(self) -> None:
        if self.skipped:
            self.skipTest(self.skipped)
        try:
            self.call()
        except pytest.skip.Exception as reason:
            self.skipTest(str(reason))


def function_cases(module: ModuleType) -> Iterator[unittest.TestCase]:
    """The test functions that a module defines, each with all combinations of its parameters."""
    for name, function in vars(module).items():
        if name.startswith("test") and isinstance(function, FunctionType):
            lists = [_parameters(m) for m in getattr(function, "pytestmark", ()) if m.name == "parametrize"]
            for chosen in itertools.product(*map(enumerate, lists)):
                places = "".join(f"_{place}" for place, _ in chosen)
                given = {key: value for _, (values, _) in chosen for key, value in values.items()}
                skipped = next((why for _, (_, why) in chosen if why), "")
                call = _bound(function, given)
                yield FunctionCase(f"{module.__name__}.Functions.{name}{places}", call, skipped)


def _bound(function: Callable[..., Any], given: dict[str, Any]) -> Callable[[], None]:
    return lambda: function(**given)


def _parameters(mark: Any) -> list[tuple[dict[str, Any], str]]:
    """What one `parametrize` gives: values by their names, and why they are skipped, if they are."""
    names, values = mark.args
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    found = []
    for value in values:
        marks = getattr(value, "marks", ())
        plain = value.values if isinstance(value, type(pytest.param())) else (value,)
        if len(names) > 1 and len(plain) == 1:
            plain = plain[0]
        why = [m.kwargs.get("reason", "skipped") for m in marks if m.name == "skipif" and m.args[0]]
        found.append((dict(zip(names, plain, strict=True)), next(iter(why), "")))
    return found
