"""PyTorch's tutorial on DistributedDataParallel in the form for torchrun, with the imports changed.

Its losses are those of one process with whole batches, and of PyTorch's ranks with gloo; all ranks end with
the same bits. 200 steps, the last one of each epoch with a smaller batch.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import torch

from fusegrad.eager.ranks.launch import can_launch

PROGRAM = Path(__file__).parent / "programs" / "tutorial.py"
WHOLE, EPOCHS = 20, 10


def outcome(
    launcher: list[str], program: Path, ranks: int, folder: Path, **environment: str
) -> list[dict[str, Any]]:
    folder.mkdir()
    arguments = [str(program), str(EPOCHS), str(WHOLE // ranks), str(folder / "snapshot.pt"), str(folder)]
    done = subprocess.run(
        [sys.executable, *launcher, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]


def outcome_of_torch(ranks: int, folder: Path) -> list[dict[str, Any]]:
    """What PyTorch's ranks write, however they end.

    A rank of gloo's sometimes aborts once its work is done ("terminate called without an active exception"),
    upon which PyTorch's launcher would end the others: so each rank is started by itself.
    """
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
    arguments = [str(EPOCHS), str(WHOLE // ranks), str(folder / "snapshot.pt"), str(folder)]
    started = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **world, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(ranks)
    ]
    said = [one.communicate(timeout=240)[0] for one in started]
    written = [folder / f"{rank}.json" for rank in range(ranks)]
    assert all(path.exists() for path in written), "\n".join(said)
    return [json.loads(path.read_text()) for path in written]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("ranks", [2, 4])
def test_losses_and_parameters(ranks: int, tmp_path: Path) -> None:
    if not can_launch():
        pytest.skip("needs MPI: pip install 'fusegrad[mpi]'")
    assert torch.distributed.is_gloo_available()
    ours = tmp_path / "tutorial.py"
    text = PROGRAM.read_text().replace("import torch\n", "import fusegrad as torch\n")
    ours.write_text(text.replace("import torch.", "import fusegrad.").replace("from torch", "from fusegrad"))
    each = f"--nproc-per-node={ranks}"
    found = outcome(["-m", "fusegrad", "run", each], ours, ranks, tmp_path / "ours")
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    (whole,) = outcome([], ours, 1, tmp_path / "whole", **alone)
    theirs = outcome_of_torch(ranks, tmp_path / "theirs")
    assert len(found[0]["losses"]) == 200 and all(one == found[0] for one in found)
    for other in (whole, *theirs):
        np.testing.assert_allclose(found[0]["losses"], other["losses"], rtol=1e-4)
        for mine, its in zip(found[0]["parameters"], other["parameters"], strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-3, atol=1e-5)
