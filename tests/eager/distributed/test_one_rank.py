"""`torch.distributed` for a world of one rank, beside PyTorch's with gloo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad import distributed as dist

# One program for both; each line prints what a call gives, or which error it raises.
PROGRAM = """
import sys
if sys.argv[1] == "ours":
    from fusegrad.torch import install
    install()
import torch, torch.distributed as dist

def said(call):
    try:
        value = call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return value

x, y = torch.arange(4.0), torch.zeros(4)
print(dist.is_available(), dist.is_initialized())
for name in ("get_rank", "get_world_size", "barrier"):
    print(said(getattr(dist, name)))
print(said(lambda: torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))))
print(said(lambda: dist.init_process_group("gloo", init_method="env://")).partition(":")[0])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=0, world_size=1)
print(dist.is_initialized(), dist.get_rank(), dist.get_world_size(), dist.get_backend())
print(said(lambda: dist.init_process_group("gloo", rank=0, world_size=1)))
for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
    dist.all_reduce(x, op)
    print(x)
places = [torch.zeros(4)]
print(dist.all_gather(places, x), places)
print(dist.broadcast(x, 0), dist.reduce(x, 0), dist.all_reduce(x, async_op=True).wait(), x)
dist.all_gather_into_tensor(y, x); print(y)
dist.scatter(y, [x + 1]); print(y)
dist.gather(x, places); print(places)
dist.reduce_scatter(y, [x]); print(y)
dist.all_to_all_single(y, x + 2); print(y)
found = [None]
thing = {"a": [1]}
dist.all_gather_object(found, thing); print(found, found[0] is thing)
dist.broadcast_object_list(found, 0); print(found)
dist.scatter_object_list(found, [3]); print(found)
print(dist.get_rank(dist.new_group([0])), dist.get_process_group_ranks(dist.group.WORLD))
print(said(lambda: dist.all_gather([], x)).partition(":")[0])
print(said(lambda: torch.nn.parallel.DistributedDataParallel(torch.nn.ReLU())))
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 1)))
with torch.no_grad():
    for p in model.parameters():
        p.copy_(torch.arange(p.numel()).reshape(p.shape))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    with model.no_sync():
        model(x).sum().backward()
    model(x).sum().backward()
    optimizer.step()
print({k: v.tolist() for k, v in model.state_dict().items()}, model.training, type(model.module).__name__)
sampler = torch.utils.data.distributed.DistributedSampler(range(5), shuffle=False)
print(list(sampler))
dist.destroy_process_group()
print(dist.is_initialized())
"""


def test_a_world_of_one_as_pytorchs(tmp_path: Path) -> None:
    assert torch.ones(1) == 1
    said = {}
    for who in ("ours", "theirs"):
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM, who, str(tmp_path / who)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (who, done.stdout, done.stderr)
        said[who] = done.stdout.splitlines()
    assert len(said["ours"]) > 25 and said["ours"] == said["theirs"]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    dist.init_process_group()
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_more_ranks_want_a_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match=r"Start it as `fusegrad run --nproc-per-node 2 script\.py`"):
        dist.init_process_group("gloo", rank=0, world_size=2)
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(RuntimeError, match="a world of 4 ranks"):
        dist.init_process_group("gloo", rank=0)
    with pytest.raises(ValueError, match="rank 1 is not in a world of 1"):
        dist.init_process_group("gloo", rank=1, world_size=1)
    assert not dist.is_initialized()


def test_what_is_declined_says_so_by_name() -> None:
    from fusegrad.distributed import rpc
    from fusegrad.distributed.fsdp import FullyShardedDataParallel, fully_shard

    assert not isinstance(fg.nn.Linear(1, 1), FullyShardedDataParallel)
    for call, words in (
        (
            lambda: FullyShardedDataParallel(fg.nn.Linear(1, 1)),
            "fsdp.FullyShardedDataParallel: parameters are not",
        ),
        (
            lambda: fully_shard(fg.nn.Linear(1, 1)),
            "fsdp.fully_shard: parameters are not sharded; use Distributed",
        ),
        (lambda: rpc.init_rpc("worker"), "rpc.init_rpc: there are no remote calls; send objects"),
        (lambda: dist.rpc.rpc_sync("worker", print), "rpc.rpc_sync: there are no remote calls"),
    ):
        with pytest.raises(NotImplementedError, match=words):
            call()


def test_a_missing_mpi_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "2")
    with pytest.raises(ImportError, match=r"more than one rank needs mpi4py: pip install 'fusegrad\[mpi\]'"):
        dist.init_process_group(rank=0, world_size=2)


def test_other_ranks_are_not_there(alone: None) -> None:
    x = fg.ones(2)
    for call in (
        lambda: dist.broadcast(x, 1),
        lambda: dist.send(x, 0),
        lambda: dist.recv(x, 0),
        lambda: dist.new_group([0, 1]),
        lambda: dist.all_gather([x, x], x),
    ):
        with pytest.raises((ValueError, RuntimeError)):
            call()
    with pytest.raises(NotImplementedError, match="leave it out"):
        fg.nn.parallel.DistributedDataParallel(fg.nn.Linear(1, 1)).register_comm_hook(None, print)


def test_a_step_of_a_parallel_module_replays(alone: None) -> None:
    model = fg.compile(fg.nn.parallel.DistributedDataParallel(fg.nn.Linear(3, 1)))
    for _ in range(6):
        model(fg.ones(2, 3)).sum().backward()
    assert model.stats.compiled_calls >= 4 and model.module.weight.grad.tolist() == [[12.0] * 3]
