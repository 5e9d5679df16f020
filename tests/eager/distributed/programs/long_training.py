"""Many steps of training on ranks, beside PyTorch's ranks with gloo, or one process with whole batches.

Convolutions with batch norm, accumulated gradients, batches that end unequal, and synchronised batch norm;
each step by step and as jitted steps.
`fusegrad run --nproc-per-node 4 long_training.py FOLDER STEPS [DTYPES]`: what became of each check is left
in the folder, and the largest differences are printed. Float32 is compared to four digits, float64 to ten;
ranks have the same bits in both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from checks import run_all
from training import equal_on_all_ranks

import fusegrad as fg
from fusegrad import distributed as dist

STEPS = int(sys.argv[2])
DIGITS = {"float32": 1e-4, "float64": 1e-10}
DTYPES = sys.argv[3:] or [*DIGITS]


class Plan(NamedTuple):
    """What is trained: a network with `norm`, of so many examples of a rank, so many batches to a step."""

    norm: str
    sizes: tuple[tuple[int, ...], ...]  # of the batches in turn, of the ranks in turn
    accumulates: int = 1


def network(T: Any, norm: str, dtype: str) -> Any:
    nn = T.nn
    layers = [nn.Conv2d(1, 4, 3), getattr(nn, norm)(4), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.Tanh()]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(24, 5)).to(getattr(T, dtype))
    rng = np.random.default_rng(7)
    with T.no_grad():
        for p in model.parameters():
            p.copy_(T.tensor(rng.normal(size=tuple(p.shape)) * 0.3))
    return model


def batches(plan: Plan, rank: int, dtype: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(100 + rank)
    for i in range(STEPS * plan.accumulates):
        sizes = plan.sizes[i % len(plan.sizes)]
        n = sizes[rank % len(sizes)]
        labels = rng.integers(0, 5, n)
        images = rng.normal(size=(n, 1, 6, 6)) + labels[:, None, None, None] / 4
        yield images.astype(dtype), labels


class Outcome(NamedTuple):
    losses: list[float]
    held: dict[str, np.ndarray]


def trained(T: Any, plan: Plan, dtype: str, jitted: bool = False) -> Outcome:
    model = network(T, plan.norm, dtype)
    ddp = T.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.0005)
    optimizer = T.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

    def part(x: Any, y: Any) -> Any:
        loss = T.nn.functional.cross_entropy(ddp(x), y)
        (loss / plan.accumulates).backward()
        return loss.detach()

    def step(given: list[tuple[Any, Any]]) -> Any:
        with ddp.no_sync():
            for x, y in given[:-1]:
                part(x, y)
        loss = part(*given[-1])
        optimizer.step()
        optimizer.zero_grad()
        return loss

    call = T.jit(step) if jitted else step
    source = ((T.tensor(x), T.tensor(y)) for x, y in batches(plan, dist.get_rank(), dtype))
    losses = [call([next(source) for _ in range(plan.accumulates)]).item() for _ in range(STEPS)]
    if jitted:
        assert call.stats.compiled_calls > STEPS // 2, call.explain()
    return Outcome(losses, {k: v.detach().numpy().copy() for k, v in model.state_dict().items()})


def whole(plan: Plan, dtype: str) -> Outcome:
    """One process of PyTorch's with the batches of all ranks, which are of one size."""
    model = network(torch, "BatchNorm2d", dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses = []
    for parts in zip(*(batches(plan, rank, dtype) for rank in range(dist.get_world_size())), strict=True):
        x, y = (torch.tensor(np.concatenate(arrays)) for arrays in zip(*parts, strict=True))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return Outcome(losses, {k: v.detach().numpy().copy() for k, v in model.state_dict().items()})


def compared(name: str, ours: Outcome, theirs: Outcome, dtype: str, of_all: bool = False) -> None:
    """of_all: their losses are the means of the ranks' ones."""
    losses = fg.tensor(ours.losses, dtype=fg.float64)
    if of_all:
        dist.all_reduce(losses, dist.ReduceOp.AVG)
    apart = float(np.abs(losses.numpy() - theirs.losses).max())
    far = max(float(np.abs(ours.held[k] - v).max()) for k, v in theirs.held.items())
    if dist.get_rank() == 0:
        print(f"{name}, {dtype}, {STEPS} steps: losses within {apart:.1e}, parameters {far:.1e}", flush=True)
    assert max(apart, far) < DIGITS[dtype], (name, dtype, apart, far)
    equal_on_all_ranks(ours.held)
    first, last = (np.mean(part) for part in (theirs.losses[: STEPS // 4], theirs.losses[-STEPS // 4 :]))
    assert last < first, "nothing was learned"


def beside_gloo(name: str, plan: Plan) -> None:
    for dtype in DTYPES:
        theirs = trained(torch, plan, dtype)
        for jitted in (False, True):
            said = f"{name}, {'jitted' if jitted else 'step by step'}"
            compared(said, trained(fg, plan, dtype, jitted), theirs, dtype)


def check_convolutions_with_batch_norm() -> None:
    beside_gloo("convolutions", Plan("BatchNorm2d", ((8,),)))


def check_accumulated_gradients() -> None:
    beside_gloo("accumulated", Plan("BatchNorm2d", ((4,),), accumulates=3))


def check_batches_that_end_unequal() -> None:
    beside_gloo("unequal ends", Plan("BatchNorm2d", ((8,), (8,), (8,), (5, 3))))


def check_synchronised_batch_norm() -> None:
    plan = Plan("SyncBatchNorm", ((4,),))
    for dtype in DTYPES:
        theirs = whole(plan, dtype)
        for jitted in (False, True):
            said = f"synchronised, {'jitted' if jitted else 'step by step'}"
            compared(said, trained(fg, plan, dtype, jitted), theirs, dtype, of_all=True)


if __name__ == "__main__":
    dist.init_process_group()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    place = f"file://{sys.argv[1]}/gloo"
    torch.distributed.init_process_group("gloo", init_method=place, rank=rank, world_size=ranks)
    dist.destroy_process_group()
    torch.set_num_threads(1)
    run_all(globals())
