"""Collectives between ranks, beside NumPy: each rank knows what the others have."""

from __future__ import annotations

import itertools
import os
import pickle
import time
from typing import Any
from unittest import mock

import numpy as np
from checks import raised, run_all

import fusegrad as fg
from fusegrad import distributed as dist
from fusegrad.distributed import ReduceOp
from fusegrad.eager.ranks import exchanges

DTYPES = [fg.float32, fg.float64, fg.float16, fg.bfloat16, fg.int8, fg.uint8, fg.int32, fg.int64, fg.bool]
DTYPES += [fg.complex64]
LAYOUTS: dict[str, Any] = {
    "in rows": lambda x: x,
    "turned": lambda x: x.t().contiguous().t(),
    "every other": lambda x: fg.stack([x, x], 2)[..., 0],
    "empty": lambda x: x[:0],
    "one number": lambda x: x[0, 0].clone(),
}


def value(rank: int, dtype: Any, shape: tuple[int, ...] = (3, 4)) -> Any:
    """What a rank has: small numbers, and other ones at each rank."""
    numbers = np.random.default_rng(rank).integers(0, 4, shape)
    return fg.tensor(numbers).to(dtype)


def all_values(dtype: Any, layout: Any) -> list[Any]:
    return [layout(value(rank, dtype)) for rank in range(dist.get_world_size())]


def same(got: Any, expected: Any) -> None:
    assert got.dtype == expected.dtype and got.shape == expected.shape, (got, expected)
    assert got.tolist() == expected.tolist(), (got, expected)


REDUCTIONS: dict[Any, Any] = {
    ReduceOp.SUM: lambda a, b: a | b if a.dtype == fg.bool else a + b,
    ReduceOp.PRODUCT: lambda a, b: a & b if a.dtype == fg.bool else a * b,
    ReduceOp.MIN: fg.minimum,
    ReduceOp.MAX: fg.maximum,
    ReduceOp.BAND: fg.bitwise_and,
    ReduceOp.BOR: fg.bitwise_or,
    ReduceOp.BXOR: fg.bitwise_xor,
}


def reductions() -> Any:
    for dtype, (op, of_two), layout in itertools.product(DTYPES, REDUCTIONS.items(), LAYOUTS.values()):
        floats = dtype.is_floating_point or dtype.is_complex
        if (floats and "B" in op.name) or (dtype.is_complex and op in (ReduceOp.MIN, ReduceOp.MAX)):
            continue
        yield op, layout, all_values(dtype, layout), of_two


def check_all_reduce() -> None:
    for op, _, values, of_two in reductions():
        mine, expected = values[dist.get_rank()], values[0].clone()
        for other in values[1:]:
            expected = of_two(expected, other)
        version = mine._version
        assert dist.all_reduce(mine, op) is None
        same(mine, expected)
        assert mine._version > version


def check_all_reduce_in_parts() -> None:
    """As it goes with more ranks, and long tensors: each reduces a part."""
    with mock.patch.object(exchanges, "goes_whole", lambda *_: False):
        check_all_reduce()
        for size in (1, 2, 7, 1001):
            x = fg.arange(float(size)) + dist.get_rank()
            dist.all_reduce(x)
            ranks = dist.get_world_size()
            same(x, fg.arange(float(size)) * ranks + sum(range(ranks)))


def check_the_order_of_a_sum_is_that_of_the_ranks() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(dist.get_world_size(), 5000)).astype(np.float32)
    x = fg.tensor(rows[dist.get_rank()])
    dist.all_reduce(x)
    total = rows[0]
    for row in rows[1:]:
        total = total + row
    assert (x.numpy() == total).all()


def check_means() -> None:
    x = fg.full((3,), float(dist.get_rank()))
    dist.all_reduce(x, ReduceOp.AVG)
    assert x.tolist() == [sum(range(dist.get_world_size())) / dist.get_world_size()] * 3
    raised(
        RuntimeError,
        "AVG is not there for numbers of int64",
        lambda: dist.all_reduce(fg.ones(2).long(), ReduceOp.AVG),
    )


def check_what_is_given() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for dtype, layout in itertools.product(DTYPES, LAYOUTS.values()):
        values = all_values(dtype, layout)
        places = [layout(fg.zeros(3, 4, dtype=dtype)) for _ in range(ranks)]
        dist.all_gather(places, values[rank])
        for got, expected in zip(places, values, strict=True):
            same(got, expected)
        for root in range(ranks):
            mine = values[rank].clone()
            dist.broadcast(mine, root)
            same(mine, values[root])
            places = [layout(fg.zeros(3, 4, dtype=dtype)) for _ in range(ranks)]
            dist.gather(values[rank], places if rank == root else None, root)
            for got, expected in zip(places, values, strict=True):
                same(got, expected if rank == root else got.new_zeros(got.shape))
            got = layout(fg.zeros(3, 4, dtype=dtype))
            dist.scatter(got, values if rank == root else None, root)
            same(got, values[rank])
            mine = values[rank].clone()
            dist.reduce(mine, root, ReduceOp.SUM)
            total = values[0]
            for other in values[1:]:
                total = total | other if dtype == fg.bool else total + other
            same(mine, total if rank == root else values[rank])


def check_parts() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole = fg.zeros(2 * ranks)
    dist.all_gather_into_tensor(whole, fg.full((2,), float(rank)))
    same(whole, fg.arange(float(ranks)).repeat_interleave(2))
    stacked = fg.zeros(ranks, 2)
    dist.all_gather_into_tensor(stacked, fg.full((2,), float(rank)))
    same(stacked.reshape(-1), whole)
    part = fg.zeros(2)
    dist.reduce_scatter_tensor(part, fg.arange(2.0 * ranks))
    same(part, fg.arange(2.0) * ranks + 2.0 * rank * ranks)
    dist.reduce_scatter(part, [fg.full((2,), float(i + rank)) for i in range(ranks)], ReduceOp.MAX)
    same(part, fg.full((2,), float(rank + ranks - 1)))
    got = [fg.zeros(i + 1) for i in range(ranks)]
    dist.all_to_all(got, [fg.full((rank + 1,), 10.0 * rank + i) for i in range(ranks)])
    assert [t.tolist() for t in got] == [[10.0 * i + rank] * (i + 1) for i in range(ranks)]
    out = fg.zeros(ranks, 2)
    dist.all_to_all_single(out, (fg.arange(float(ranks)) + 10 * rank).reshape(-1, 1).expand(-1, 2))
    assert out[:, 1].tolist() == [10.0 * i + rank for i in range(ranks)]
    sizes = [i + 1 for i in range(ranks)]
    out = fg.zeros((rank + 1) * ranks)
    dist.all_to_all_single(out, fg.full((sum(sizes),), float(rank)), [rank + 1] * ranks, sizes)
    same(out, fg.arange(float(ranks)).repeat_interleave(rank + 1))
    several = [fg.ones(2), fg.ones(3).long(), fg.ones(2, 2)]
    dist.all_reduce_coalesced(several)
    assert [t.sum().item() for t in several] == [2 * ranks, 3 * ranks, 4 * ranks]


def check_several_on_their_way() -> None:
    """Waited for in other orders on other ranks."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    with mock.patch.object(exchanges, "goes_whole", lambda *_: False):
        for turn in range(10):
            tensors = [fg.arange(50.0) * (i + rank) for i in range(5)]
            works = [dist.all_reduce(t, async_op=True) for t in tensors]
            works.append(dist.barrier(async_op=True))
            order = np.random.default_rng(turn * ranks + rank).permutation(6)
            for i in order:
                assert works[i].wait() and works[i].is_completed() and works[i].is_success()
            for i, t in enumerate(tensors):
                same(t, fg.arange(50.0) * (i * ranks + sum(range(ranks))))


def check_messages() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    for dtype, layout in itertools.product(DTYPES, LAYOUTS.values()):
        got = layout(fg.zeros(3, 4, dtype=dtype))
        sent = dist.isend(layout(value(rank, dtype)), after)
        assert dist.recv(got, before) == before
        sent.wait()
        same(got, layout(value(before, dtype)))
    got, other = fg.zeros(2), fg.zeros(2)
    ops = [
        dist.P2POp(dist.isend, fg.full((2,), float(rank)), after, tag=1),
        dist.P2POp(dist.isend, fg.full((2,), rank + 0.5), after, tag=2),
        dist.P2POp(dist.irecv, other, before, tag=2),
        dist.P2POp(dist.irecv, got, before, tag=1),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert got.tolist() == [before] * 2 and other.tolist() == [before + 0.5] * 2
    sent = dist.isend(fg.ones(1), after)
    assert dist.recv(got[:1]) == before  # of whoever sends
    sent.wait()
    raised(ValueError, "should not be the same as own", lambda: dist.send(got, rank))
    raised(ValueError, "there is no rank 99", lambda: dist.send(got, 99))
    if rank == 0:
        dist.send_object_list([{"a": 1}, "b"], 1)
    elif rank == 1:
        places = [None, None]
        assert dist.recv_object_list(places, 0) == 0 and places == [{"a": 1}, "b"]


def check_a_message_of_another_size_is_refused() -> None:
    rank = dist.get_rank()
    if rank == 0:
        dist.send(fg.ones(2), 1)
        dist.send(fg.ones(4), 1)
    elif rank == 1:
        raised(RuntimeError, "of 12 bytes, but 8 came", lambda: dist.recv(fg.zeros(3), 0))
        raised(Exception, "runcat", lambda: dist.recv(fg.zeros(3), 0))
    dist.barrier()


def check_objects() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = {"rank": rank, "text": "x" * (rank * 100), "tensor": fg.full((rank,), 1.0)}
    found: list[Any] = [None] * ranks
    dist.all_gather_object(found, mine)
    assert [one["rank"] for one in found] == [*range(ranks)] and found[1]["tensor"].tolist() == [1.0]
    for root in range(ranks):
        places = [rank, "mine"] if rank == root else [None, None]
        dist.broadcast_object_list(places, root)
        assert places == [root, "mine"]
        out: list[Any] = [None]
        dist.scatter_object_list(out, [f"for {i}" for i in range(ranks)] if rank == root else None, root)
        assert out == [f"for {rank}"]
        found = [None] * ranks
        dist.gather_object(rank, found if rank == root else None, root)
        assert found == ([*range(ranks)] if rank == root else [None] * ranks)


def check_groups() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    group = dist.new_group([ranks - 1])
    x = fg.ones(2) * rank
    if rank == ranks - 1:
        assert dist.get_rank(group) == 0 and dist.get_world_size(group) == 1
        assert dist.get_global_rank(group, 0) == rank and dist.get_process_group_ranks(group) == [rank]
    else:
        assert group == dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(group) == -1
    dist.all_reduce(x, group=group)
    assert x.tolist() == [rank] * 2
    everybody = dist.new_group(use_local_synchronization=True)
    dist.all_reduce(x, group=everybody)
    assert x.tolist() == [sum(range(ranks))] * 2
    dist.destroy_process_group(everybody)
    raised(ValueError, "within the world_size", lambda: dist.new_group([0, 99]))
    raised(RuntimeError, f"takes a list of {ranks}, got 1", lambda: dist.all_gather([x], x))
    raised(RuntimeError, "are not as large as", lambda: dist.all_gather([fg.ones(3)] * ranks, x))


def check_the_environment() -> None:
    rank, ranks = str(dist.get_rank()), str(dist.get_world_size())
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    assert [os.environ[name] for name in names] == [rank, ranks, rank, ranks]
    assert dist.get_node_local_rank() == int(rank) and int(os.environ["OMP_NUM_THREADS"]) >= 1
    raised(ValueError, "twice", dist.init_process_group)


def check_late_ranks_are_named() -> None:
    rank = dist.get_rank()
    if rank == 0:
        raised(
            RuntimeError, "ranks 1 did not come within 0.05 s", lambda: dist.monitored_barrier(timeout=0.05)
        )
    elif rank == 1:
        time.sleep(0.3)
        raised(RuntimeError, "timed out waiting 0.1 s", lambda: dist.monitored_barrier(timeout=0.1))
    dist.barrier()


def check_ranks_that_disagree_are_told() -> None:
    rank = dist.get_rank()
    with mock.patch.dict(os.environ, FUSEGRAD_DISTRIBUTED_DEBUG="1"):
        for ours, words in (
            (
                lambda: dist.all_reduce(fg.ones(2 + rank)),
                ["reduce(float32[2])", "reduce(float32[3])"],
            ),
            (lambda: dist.all_reduce(fg.ones(2).to(fg.float32 if rank else fg.float64)), ["float64[2]"]),
            (lambda: dist.all_reduce(fg.ones(2), ReduceOp.MAX if rank else ReduceOp.SUM), ["SUM", "MAX"]),
            (lambda: dist.broadcast(fg.ones(2), rank), ["from 0", "from 1"]),
            (
                lambda: dist.barrier() if rank else dist.all_reduce(fg.ones(1)),
                ["rank 0: all_reduce", "rank 1: barrier"],
            ),
        ):
            for word in ["collectives.py", *words]:
                raised(RuntimeError, word, ours)
        dist.all_reduce(fg.ones(2))  # and agreed again


def check_gradients() -> None:
    """Of the sum of all ranks' losses, beside what one process has of all."""
    from fusegrad.distributed import nn

    rank, ranks = dist.get_rank(), dist.get_world_size()
    weights = [fg.arange(1.0, 3.0 * ranks + 1).reshape(ranks, 3) * (i + 1) for i in range(ranks)]
    starts = [fg.arange(3.0 * ranks).reshape(ranks, 3) + i for i in range(ranks)]
    programs: dict[str, tuple[Any, Any]] = {
        "all_reduce": (lambda x: nn.all_reduce(x), lambda xs: [sum(xs)] * ranks),
        "mean": (lambda x: nn.all_reduce(x, ReduceOp.AVG), lambda xs: [sum(xs) / ranks] * ranks),
        "reduce": (
            lambda x: nn.reduce(x, 1) if rank == 1 else nn.reduce(x, 1) * 0,
            lambda xs: [sum(xs) if i == 1 else xs[i] * 0 for i in range(ranks)],
        ),
        "broadcast": (lambda x: nn.broadcast(x, 1), lambda xs: [xs[1]] * ranks),
        "all_gather": (
            lambda x: sum(y * (i + 2) for i, y in enumerate(nn.all_gather(x))),
            lambda xs: [sum(y * (i + 2) for i, y in enumerate(xs))] * ranks,
        ),
        "reduce_scatter": (
            lambda x: nn.reduce_scatter(x, [x * (i + 1) for i in range(ranks)]),
            lambda xs: [sum(x * (i + 1) for x in xs) for i in range(ranks)],
        ),
        "all_to_all": (
            lambda x: sum(nn.all_to_all([x] * ranks, [x * (i + 1) for i in range(ranks)])),
            lambda xs: [sum(x * (i + 1) for x in xs) for i in range(ranks)],
        ),
        "all_to_all_single": (
            lambda x: nn.all_to_all_single(x[:ranks], x[:ranks]),
            lambda xs: [fg.stack([x[i] for x in xs]) for i in range(ranks)],
        ),
        "scatter": (
            lambda x: nn.scatter([x * (i + 1) for i in range(ranks)], 0),
            lambda xs: [xs[0] * (i + 1) for i in range(ranks)],
        ),
        "gather": (
            lambda x: sum(y * (i + 1) for i, y in enumerate(nn.gather(x, 0))),
            lambda xs: [
                sum(x * (j + 1) for j, x in enumerate(xs)) if i == 0 else xs[i] * 0 for i in range(ranks)
            ],
        ),
    }
    for name, (ours, whole) in programs.items():
        x = starts[rank].clone().requires_grad_()
        got = ours(x)
        weight = weights[rank][: got.shape[0]]
        (got.pow(2) * weight).sum().backward()
        xs = [start.clone().requires_grad_() for start in starts]
        results = whole(xs)
        sum((y.pow(2) * w[: y.shape[0]]).sum() for y, w in zip(results, weights, strict=True)).backward()
        assert fg.allclose(got, results[rank]), (name, got, results[rank])
        expected = fg.zeros_like(x) if xs[rank].grad is None else xs[rank].grad
        assert fg.allclose(x.grad, expected), (name, x.grad, expected)
    x = fg.ones(2, requires_grad=True)
    y = nn.all_reduce(x, ReduceOp.MAX)
    raised(RuntimeError, "gradients go through ReduceOp.SUM and AVG", lambda: y.sum().backward())


def check_in_jitted_functions() -> None:
    """Ranks whose calls go other ways: one is recorded anew at each call, one replays, or defers."""
    rank, ranks = dist.get_rank(), dist.get_world_size()

    @fg.jit
    def step(x: Any, k: Any) -> Any:
        y = (x * 2 + 1).relu()
        dist.all_reduce(y)
        if y.sum() > 20:
            y = y / y.sum()
        dist.broadcast(y, 0)
        return (y * k).sum()

    for turn in range(12):
        x = fg.arange(3.0) + rank + turn
        y = sum(((fg.arange(3.0) + r + turn) * 2 + 1).relu() for r in range(ranks))
        y = y / y.sum() if y.sum() > 20 else y
        kind = fg.float64 if rank and turn % 3 else fg.float32  # another entry
        assert fg.allclose(step(x, fg.tensor(2.0, dtype=kind)).float(), (y * 2).sum()), turn


def check_pickled_results_are_the_same_everywhere() -> None:
    x = fg.tensor(np.random.default_rng(dist.get_rank()).normal(size=999))
    dist.all_reduce(x)
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, pickle.dumps(x.numpy()))
    assert all(one == found[0] for one in found)


if __name__ == "__main__":
    run_all(globals())
