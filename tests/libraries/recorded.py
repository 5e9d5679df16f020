"""A plugin of pytest's: runs the tests of a list, or draws one, and writes down how each of them went.

RECORDED names a file of JSON: `draw` and `seed`, or `tests`, a list of names; `seconds`, of a processor,
which a test may take; `results`, the file that gets a line for each: its name, its outcome, and what was
raised.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from libraries.case import with_torchvision

with_torchvision()
ASKED: dict[str, Any] = json.loads(Path(os.environ["RECORDED"]).read_text())


class TakesLong(BaseException):
    """A test has taken longer than it may."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    names = sorted(item.nodeid for item in items)
    if "draw" in ASKED:
        names = random.Random(ASKED["seed"]).sample(names, min(ASKED["draw"], len(names)))
    else:
        names = ASKED["tests"]
    wanted = set(names)
    items[:] = [item for item in items if item.nodeid in wanted]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    def over(*_: Any) -> None:
        raise TakesLong(f"longer than {ASKED['seconds']} s")

    # Whoever waits for something takes no processor, and gets more time.
    timers = {signal.SIGPROF: (signal.ITIMER_PROF, 1), signal.SIGALRM: (signal.ITIMER_REAL, 6)}
    for number, (timer, times) in timers.items():
        signal.signal(number, over)
        signal.setitimer(timer, times * ASKED["seconds"])
    yield
    for timer, _ in timers.values():
        signal.setitimer(timer, 0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[None]:
    result: Any = yield
    report = result.get_result()
    if report.when == "call" or report.outcome != "passed":
        error = call.excinfo
        text = "" if error is None else f"{error.typename}: {error.value}".strip().partition("\n")[0][:200]
        told = {"test": item.nodeid, "outcome": report.outcome, "error": text}
        with Path(ASKED["results"]).open("a") as file:
            file.write(json.dumps(told) + "\n")
