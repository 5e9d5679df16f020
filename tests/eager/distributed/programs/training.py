"""Training by several ranks, beside PyTorch's DistributedDataParallel with gloo in the same processes."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import torch
from checks import raised, run_all

import fusegrad as fg
from fusegrad import distributed as dist

LR = 0.05


def network(T: Any, kind: str) -> Any:
    """The same network for both, with the same parameters on all ranks but the others'."""
    nn = T.nn
    norm = nn.SyncBatchNorm if kind == "sync" else nn.BatchNorm2d
    layers = [nn.Conv2d(1, 4, 3), norm(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 5)]
    if kind == "mlp":
        layers = [nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 5)]
    model = nn.Sequential(*layers)
    rng = np.random.default_rng(dist.get_rank())  # the first rank's are given to all
    with T.no_grad():
        for p in model.parameters():
            p.copy_(T.tensor(rng.normal(size=tuple(p.shape)).astype("f4") * 0.3))
    return model


def batches(T: Any, steps: int, n: int, flat: bool = False) -> Any:
    rng = np.random.default_rng(100 + dist.get_rank())
    for _ in range(steps):
        x = rng.normal(size=(n, 36) if flat else (n, 1, 6, 6)).astype("f4")
        yield T.tensor(x), T.tensor(rng.integers(0, 5, n))


def train(T: Any, steps: int, kind: str = "conv", compiled: bool = False, **options: Any) -> Any:
    """The losses, and what the network holds after so many steps."""
    model = network(T, kind)
    ddp = T.nn.parallel.DistributedDataParallel(model, **options)
    forward = T.compile(ddp) if compiled else ddp
    optimizer = T.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    losses = []
    for x, y in batches(T, steps, 4, kind == "mlp"):
        loss = T.nn.functional.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, {k: v.detach().numpy().copy() for k, v in model.state_dict().items()}


def equal_on_all_ranks(held: dict[str, Any]) -> None:
    """Bitwise; running statistics are those of each rank's last batch."""
    mine = {k: v.tobytes() for k, v in held.items() if "running" not in k}
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, mine)
    assert all(one == found[0] for one in found)


def alike(ours: Any, theirs: Any) -> None:
    assert np.allclose(ours[0], theirs[0], atol=2e-5), (ours[0], theirs[0])
    for name, value in theirs[1].items():
        assert np.allclose(ours[1][name], value, atol=1e-4), name


def check_as_pytorch() -> None:
    for steps, options in (
        (200, {"kind": "mlp"}),
        (10, {"broadcast_buffers": False}),  # a warning of PyTorch's: it has another name for it
    ):
        ours = train(fg, steps, **options)
        alike(ours, train(torch, steps, **options))
        equal_on_all_ranks(ours[1])


def check_compiled() -> None:
    theirs = train(torch, 12, kind="mlp")
    ours = train(fg, 12, kind="mlp", compiled=True)
    alike(ours, theirs)
    equal_on_all_ranks(ours[1])


def check_a_whole_jitted_step() -> None:
    """Backward, averaging and the optimizer's step in the function; ranks take other branches in it.

    Replays begin to average a bucket while backward goes on, and end all when that is over.
    """
    for kind in ("mlp", "conv"):
        for cap in (0.0003, 25):
            whole_jitted_step(kind, cap)


def whole_jitted_step(kind: str, cap: float) -> None:
    theirs = train(torch, 20, kind=kind)
    model = network(fg, kind)
    ddp = fg.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=cap)
    optimizer = fg.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    calm = [0]

    @fg.jit
    def step(x: Any, y: Any) -> Any:
        loss = fg.nn.functional.cross_entropy(ddp(x), y)
        if loss > 1.6:
            calm.append(1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(x, y).item() for x, y in batches(fg, 20, 4, kind == "mlp")]
    held = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    alike((losses, held), theirs)
    equal_on_all_ranks(held)
    assert step.stats.compiled_calls >= 14, step.explain()
    lines = [line.split() for line in str(step.explain()).splitlines() if "NumPy: exchange_" in line]
    halves = [line[line.index("NumPy:") + 1] for line in lines]
    buckets = halves.index("exchange_end")
    assert buckets == len(ddp._reducer.buckets) and (buckets > 1) == (cap < 1), halves
    assert halves[: 2 * buckets] == ["exchange_begin"] * buckets + ["exchange_end"] * buckets


def check_bits_of_what_is_computed_of_gradients() -> None:
    """In deterministic mode: ranks that compile at other times clip by the same norm."""
    model = network(fg, "mlp")
    ddp = fg.nn.parallel.DistributedDataParallel(model)
    optimizer = fg.optim.AdamW(model.parameters(), lr=LR)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        fg.nn.functional.cross_entropy(ddp(x), y).backward()
        norm = fg.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()
        return norm

    jitted = fg.jit(step)
    fg.use_deterministic_algorithms(True)
    try:
        for i, (x, y) in enumerate(batches(fg, 10, 4, True)):
            jitted = fg.jit(step) if i == 3 * dist.get_rank() else jitted  # one that has seen nothing
            jitted(x, y)
    finally:
        fg.use_deterministic_algorithms(False)
    equal_on_all_ranks({k: v.numpy() for k, v in model.state_dict().items()})
    assert jitted.stats.compiled_calls


def branching(T: Any) -> Any:
    class Net(T.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = T.nn.ModuleList([T.nn.Linear(3, 2) for _ in range(4)])

        def forward(self, x: Any, which: int | None) -> Any:
            y = self.layers[0](x)
            return y if which is None else y + self.layers[which](x)

    model = Net()
    rng = np.random.default_rng(0)
    with T.no_grad():
        for p in model.parameters():
            p.copy_(T.tensor(rng.normal(size=tuple(p.shape)).astype("f4")))
    return model


def check_unused_parameters() -> None:
    rank = dist.get_rank()
    ways = [(1, 2), (None, 1), (2, None), (None, None), (1, 1)]
    held: list[Any] = []
    for T in (fg, torch):
        model = branching(T)
        ddp = T.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
        for way in ways:
            ddp(T.ones(2, 3) * (rank + 1), way[rank % 2]).sum().backward()
        held.append([None if p.grad is None else p.grad.numpy().tolist() for p in model.parameters()])
    assert held[0] == held[1] and held[0][-1] is None and held[0][2] is not None
    ddp = fg.nn.parallel.DistributedDataParallel(branching(fg))
    ddp(fg.ones(1, 3), 1).sum().backward()
    words = "did not receive grad for rank " + str(rank)
    raised(RuntimeError, words, lambda: ddp(fg.ones(1, 3), 1))


def check_synchronised_batch_norm() -> None:
    """Ranks with parts of a batch, equal ones or not, as one process with the whole."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for sizes in ([4] * ranks, [3 + i for i in range(ranks)]):
        rng = np.random.default_rng(5)
        whole = rng.normal(size=(sum(sizes), 3, 2, 2)).astype("f4")
        starts = np.cumsum([0, *sizes])
        weights = rng.normal(size=whole.shape).astype("f4")
        norm = fg.nn.SyncBatchNorm.convert_sync_batchnorm(fg.nn.BatchNorm2d(3))
        ddp = fg.nn.parallel.DistributedDataParallel(norm)
        mine = slice(starts[rank], starts[rank + 1])
        x = fg.tensor(whole[mine], requires_grad=True)
        y = ddp(x)
        (y * fg.tensor(weights[mine])).sum().backward()
        plain = torch.nn.BatchNorm2d(3)
        z = torch.tensor(whole, requires_grad=True)
        expected = plain(z)
        (expected * torch.tensor(weights)).sum().backward()
        assert np.allclose(y.detach().numpy(), expected.detach().numpy()[mine], atol=1e-5)
        assert np.allclose(x.grad.numpy(), z.grad.numpy()[mine], atol=1e-5)
        assert np.allclose(norm.weight.grad.numpy() * ranks, plain.weight.grad.numpy(), atol=1e-4)
        for name in ("running_mean", "running_var"):
            assert np.allclose(getattr(norm, name).numpy(), getattr(plain, name).numpy(), atol=1e-5)
        norm.eval()
        assert np.allclose(ddp(x).detach().numpy(), plain.eval()(z).detach().numpy()[mine], atol=1e-5)


def check_ranks_with_fewer_batches() -> None:
    rank = dist.get_rank()
    for by_all in (True, False):
        held = []
        for T in (fg, torch):
            model = network(T, "conv")
            ddp = T.nn.parallel.DistributedDataParallel(model)
            optimizer = T.optim.SGD(model.parameters(), lr=LR)
            with ddp.join(divide_by_initial_world_size=by_all):
                for x, y in batches(T, 3 + 2 * rank, 4):
                    optimizer.zero_grad()
                    T.nn.functional.cross_entropy(ddp(x), y).backward()
                    optimizer.step()
            held.append({k: v.detach().numpy().copy() for k, v in model.state_dict().items()})
        for name, value in held[1].items():
            assert np.allclose(held[0][name], value, atol=1e-5), name
        equal_on_all_ranks(held[0])
    ddp = fg.nn.parallel.DistributedDataParallel(network(fg, "mlp"))

    def strictly() -> None:
        with ddp.join(throw_on_early_termination=True):
            for x, _ in batches(fg, 1 + rank, 2, True):
                ddp(x).sum().backward()

    raised(RuntimeError, "exhausted inputs: 0", strictly)


def check_the_tutorial() -> None:
    """Each rank with its part of a data set: the losses of one process with whole batches."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    rng = np.random.default_rng(3)
    data = fg.utils.data.TensorDataset(
        fg.tensor(rng.normal(size=(24, 36)).astype("f4")), fg.tensor(rng.integers(0, 5, 24))
    )
    start = {k: v.clone() for k, v in network(fg, "mlp").state_dict().items()}
    both: list[Any] = [None]
    dist.broadcast_object_list(both if rank else (both := [start]), 0)

    def run(model: Any, parameters: Any, loaders: Any) -> list[float]:
        optimizer = fg.optim.AdamW(parameters, lr=0.01)
        losses = []
        for epoch in range(2):
            sampler, loader = loaders(epoch)
            if sampler is not None:
                sampler.set_epoch(epoch)
            for x, y in loader:
                optimizer.zero_grad()
                loss = fg.nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
        return losses

    model = network(fg, "mlp")
    model.load_state_dict(both[0])
    sampler = fg.utils.data.distributed.DistributedSampler(data)
    loader = fg.utils.data.DataLoader(data, 4, sampler=sampler)
    ddp = fg.nn.parallel.DistributedDataParallel(model)
    losses = run(ddp, model.parameters(), lambda _: (sampler, loader))
    for loss in losses:
        dist.all_reduce(loss, dist.ReduceOp.AVG)

    alone = network(fg, "mlp")
    alone.load_state_dict(both[0])

    def whole(epoch: int) -> Any:
        parts = [fg.utils.data.distributed.DistributedSampler(data, ranks, i) for i in range(ranks)]
        for part in parts:
            part.set_epoch(epoch)
        orders = [[*part] for part in parts]
        rows = [[j for order in orders for j in order[i : i + 4]] for i in range(0, len(orders[0]), 4)]
        return None, [tuple(fg.stack([data[j][k] for j in row]) for k in (0, 1)) for row in rows]

    expected = run(alone, alone.parameters(), whole)
    assert fg.allclose(fg.stack(losses), fg.stack(expected), atol=1e-5)


def check_other_models_are_refused() -> None:
    rank = dist.get_rank()
    make = functools.partial(fg.nn.parallel.DistributedDataParallel, fg.nn.Linear(2 + rank, 1))
    words = "rank 1 has other parameters than rank 0: weight float32[1, 3], not weight float32[1, 2]"
    raised(RuntimeError, words, make)


if __name__ == "__main__":
    dist.init_process_group()
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{sys.argv[1]}/gloo",
        rank=dist.get_rank(),
        world_size=dist.get_world_size(),
    )
    dist.destroy_process_group()
    torch.set_num_threads(1)
    run_all(globals())
