"""The examples in the docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

import fusegrad
from fusegrad.eager.core.public import home


class Finder(doctest.DocTestFinder):
    """Finds classes where they stand: `__module__` says where users find them."""

    def _from_module(self, module: ModuleType | None, value: object) -> bool:
        if module is not None and isinstance(value, type):
            return home(value) == module.__name__
        return super()._from_module(module, value)  # type: ignore[misc]


# The mapping of folders to packages hides the modules from pytest's own collector.
PACKAGES = ("fusegrad.eager", "fusegrad.tracer", "fusegrad.compiler")


def names() -> list[str]:
    """All modules of the packages, and the face."""
    found = ["fusegrad", "fusegrad.cli"]
    for package in PACKAGES:
        path = importlib.import_module(package).__path__
        found += [package, *(m.name for m in pkgutil.walk_packages(path, f"{package}."))]
    return found


@pytest.mark.parametrize("name", names())
def test_doctests(name: str) -> None:
    fusegrad.manual_seed(0)
    module = importlib.import_module(name)
    # Without this name doctest does not compile the examples under the module's own future flags.
    globs = {k: v for k, v in vars(module).items() if k != "annotations"}
    runner = doctest.DocTestRunner()
    for example in Finder().find(module, name, globs=globs):
        runner.run(example)
    assert not runner.failures
