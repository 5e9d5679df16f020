"""What tests of the native core share."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from fusegrad.compiler.native import core

native_only = pytest.mark.skipif(not core.is_on(), reason="about native functions, which are switched off")


def in_a_process(code: str, **environment: str) -> tuple[str, str]:
    """What a program of its own prints, and what on standard error."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, core.SWITCH: "1", **environment},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, done.stderr
