"""`torch.fx` under `python -m fusegrad.torch`: one program, whose graphs, code and values are PyTorch's."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("fx_program.py")


def printed(*way):
    done = subprocess.run([sys.executable, *way, PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_graphs_are_those_of_pytorch():
    pytest.importorskip("torch", reason="compares with PyTorch")
    theirs, ours = printed(), printed("-m", "fusegrad.torch")
    assert len(theirs) > 200
    assert ours == theirs
