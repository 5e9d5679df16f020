"""A training of which a rank ends in its fourth step, and that goes on from its checkpoint.

Arguments: the checkpoint, where the rank ends, how, and `jitted` where steps are replayed: an op of the
program's own, between two kernels, ends the rank there.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

import fusegrad as fg
from fusegrad import distributed as dist

STEPS, LR = 6, 0.1


def target(rank: int, step: int) -> float:
    """What the weight of a rank is to be like in a step."""
    return float(rank + step)


def end(how: str) -> None:
    if how == "raises":
        raise ValueError("planted")
    if how == "exits":
        sys.exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


AT: list[Any] = []  # what an op of a step calls


@fg.library.custom_op("ending::passed", mutates_args=())
def passed(x: fg.Tensor) -> fg.Tensor:
    for call in AT:
        call()
    return x.clone()


passed.register_fake(lambda x: fg.empty_like(x))
passed.register_autograd(lambda ctx, gradient: passed(gradient))


def main(path: str, place: str, how: str, jitted: str = "") -> None:
    dist.init_process_group(timeout=60)
    rank = dist.get_rank()
    model = fg.nn.Linear(1, 1, bias=False)
    with fg.no_grad():
        model.weight.fill_(0.0)
    start = 0
    if Path(path).exists():
        held = fg.load(path)
        model.load_state_dict(held["model"])
        start = held["step"]
    ddp = fg.nn.parallel.DistributedDataParallel(model)
    optimizer = fg.optim.SGD(model.parameters(), lr=LR)

    def at(here: str, step: int) -> None:
        if here == place and step == 3 and rank == (0 if place == "checkpoint" else 1):
            end(how)

    def train(wanted: Any) -> Any:
        loss = (ddp(fg.ones(1, 1)) - wanted).pow(2).sum()
        if place == "backward" and not jitted:
            loss.register_hook(lambda gradient: at("backward", step))
        optimizer.zero_grad()
        (passed(loss) if jitted else loss).backward()
        optimizer.step()
        return loss.detach()

    run = fg.jit(train) if jitted else train
    for step in range(start, STEPS):
        at("forward", step)
        if jitted and run.stats.compiled_calls:  # the op is called in forward, and once more in backward
            places = itertools.cycle(("forward of a replay", "backward"))  # an error is eager's to raise
            AT[:] = [lambda step=step, places=places: at(next(places), step)]
        loss = run(fg.tensor(target(rank, step)))
        at("all_reduce", step)
        dist.all_reduce(loss.clone())
        if rank == 0:
            if place == "checkpoint" and step == 3:
                interrupted(lambda: at("checkpoint", 3))
            fg.save({"model": model.state_dict(), "step": step + 1}, path)
        dist.barrier()  # nobody begins the next step before the file of this one is there
    assert not jitted or run.stats.compiled_calls >= 2 or start, run.explain()
    if rank == 0:
        print("weight", model.weight.item(), "from", start)
    dist.destroy_process_group()


def interrupted(call: Any) -> None:
    """Have the next file that is written whole end the process when its bytes are there, but not its name."""
    os.replace = lambda *_: call()  # type: ignore[assignment]


if __name__ == "__main__":
    main(*sys.argv[1:])
