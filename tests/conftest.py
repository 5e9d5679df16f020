"""What all tests share: a fault of the compiler fails the test that meets it.

To a user's program such a fault only means that a slower way is taken, so tests of results would not see it.
"""

from __future__ import annotations

import gc
import os
import zlib
from collections.abc import Iterator

import pytest

from fusegrad.compiler.base import background
from fusegrad.eager.core import large, settings
from fusegrad.eager.core.state import in_modes, in_state, modes, state


def pytest_configure() -> None:
    # Through the environment, since it holds for the processes that tests start, too.
    os.environ["FUSEGRAD_FAULTS"] = "raise"
    # What an earlier run of the tests compiled would hide what is wrong now.
    os.environ["FUSEGRAD_CACHE"] = "0"


@pytest.fixture(autouse=True)
def eager_is_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager is what tests compare with: native kernels that answer for it have tests of their own."""
    monkeypatch.setattr(large.answers, "enabled", False)


@pytest.fixture(autouse=True)
def calls_wait(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calls wait for the compiler however slow the machine is; what some have compiled beside the program has
    gone well.
    """
    monkeypatch.setattr(settings.budget, "seconds", None)
    yield
    background.worker.wait()


@pytest.fixture(autouse=True)
def nothing_stays_set() -> Iterator[None]:
    """What a test leaves set for the thread fails that test, and no other."""
    before = modes()
    with in_state(interpreter=None), in_modes(before):
        yield
        assert state.interpreter is None and modes() == before


@pytest.fixture
def faults_are_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that plant faults: they are dealt with as in a user's program."""
    monkeypatch.delenv("FUSEGRAD_FAULTS")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all", action="store_true", help="all cases of the tables of which tests take a sample"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a table whose test is marked `one_in(n)`, an n-th of the cases runs, always the same ones.

    They are drawn by their names, so no column of the table is left out with its neighbours. All of them run
    with `--all`, and where somebody names tests: by `-k`, or as FILE::TEST.
    """
    if config.option.all or config.option.keyword or any("::" in name for name in config.args):
        return
    tables: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        if marker := item.get_closest_marker("one_in"):
            tables.setdefault((item.nodeid.partition("[")[0], *marker.args), []).append(item)
    left_out: set[pytest.Item] = set()
    for (_, among), cases in tables.items():
        drawn = sorted(cases, key=lambda item: zlib.crc32(item.nodeid.encode()))
        left_out.update(drawn[-(-len(cases) // among) :])
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """What has been collected stays until the end: no collection of garbage needs to look through it."""
    gc.collect()
    gc.freeze()
