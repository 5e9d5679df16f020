"""Forks of a process one of whose threads is importing a module."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from pathlib import Path

import pytest

from fusegrad.eager import forks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks the process")

_SLOW = """
import time
import {name}_state
{name}_state.begun.set()
time.sleep(0.3)
"""


def _child_is_told(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a child that is forked while a thread imports a module comes to have it."""
    (tmp_path / f"{name}.py").write_text(_SLOW.format(name=name))
    (tmp_path / f"{name}_state.py").write_text("import threading\nbegun = threading.Event()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    thread = threading.Thread(target=importlib.import_module, args=[name])
    state = importlib.import_module(f"{name}_state")
    thread.start()
    assert state.begun.wait(10)
    child = os.fork()
    if not child:
        importer = threading.Thread(target=importlib.import_module, args=[name], daemon=True)
        importer.start()
        importer.join(5)
        os._exit(importer.is_alive())
    thread.join()
    del sys.modules[name]
    return not os.waitpid(child, 0)[1]


def test_who_forks_waits_for_what_other_threads_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "_IMPORTED", (*forks._IMPORTED, "slow_one"))
    assert _child_is_told("slow_one", tmp_path, monkeypatch)


def test_nobody_waits_for_a_module_whose_import_waits_for_the_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "_IMPORTED", ("waits_for_forks",))
    monkeypatch.setattr(forks, "_PATIENCE", 0.2)
    (tmp_path / "waits_for_forks.py").write_text("import os\nos.forked_at_last.wait(60)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    forked = threading.Event()
    monkeypatch.setattr(os, "forked_at_last", forked, raising=False)
    thread = threading.Thread(target=importlib.import_module, args=["waits_for_forks"])
    thread.start()
    child = os.fork()
    if not child:
        os._exit(0)
    forked.set()
    thread.join()
    assert not os.waitpid(child, 0)[1]
