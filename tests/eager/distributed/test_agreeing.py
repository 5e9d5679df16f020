"""Ranks whose jitted calls go other ways: no hang, and one where a call forgets what it has exchanged."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

PROGRAM = Path(__file__).parent / "programs" / "agreeing.py"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_random_programs_agree(ranks_run: Run) -> None:
    done = ranks_run(PROGRAM, "4", "5")
    told = re.findall(r"4 programs agree, (\d+) calls replayed, (\d+) exchanges kept", done.stdout)
    assert done.returncode == 0 and len(told) == 2, done.stdout + done.stderr
    assert all(int(replayed) > 5 for replayed, _ in told) and sum(int(kept) for _, kept in told), told


def test_without_the_journal_ranks_wait_for_each_other(ranks_run: Run) -> None:
    done = ranks_run(PROGRAM, "2", "0", "planted")
    assert done.returncode and "timed out waiting 3 s for other ranks" in done.stderr, (
        done.stdout + done.stderr
    )
