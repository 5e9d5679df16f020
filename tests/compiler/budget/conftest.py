"""Calls that do not wait for the compiler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from budget import Held

import fusegrad as fg
from fusegrad.compiler import entries
from fusegrad.compiler.base import background
from fusegrad.compiler.paths.tree import Tree
from fusegrad.tracer.record import allowance


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """Calls do not wait, and what is compiled beside the program is held."""
    found = Held()
    plan = entries.tree_with
    joint = Tree.joint_code
    monkeypatch.setattr(entries, "tree_with", lambda *given: (found.wait(), plan(*given))[1])
    monkeypatch.setattr(Tree, "joint_code", lambda *given: (found.wait(), joint(*given))[1])
    monkeypatch.setattr(allowance, "LONGEST", 0.0)  # recording takes no time
    fg.set_compile_budget(0)
    yield found
    found.free()
    background.worker.wait()
