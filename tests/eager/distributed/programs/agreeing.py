"""Random jitted programs of two ranks that go other ways: no rank waits for one that does not come.

Each program computes, branches on its own rank's values, asks for numbers, changes what is outside, and
exchanges tensors in between; between calls ranks change their arguments each for itself. Jitted calls are
compared with eager ones, results and gradients. Two of three programs go backward in the jitted function, so
that replays make the exchanges; the others leave that to the caller, so that bodies run.
`python -m fusegrad run --nproc-per-node 2 agreeing.py N [SEED] [planted]`; planted: without the journal, by
which a call that a replay gives up takes over what that has exchanged.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import tempfile
import types
from pathlib import Path
from typing import Any
from unittest import mock

import fusegrad as fg
from fusegrad import distributed as dist
from fusegrad.eager.ranks.journal import Journal

COMPUTES = [
    "{x} = fg.tanh({x}) * {k} + {y}",
    "{x} = ({x} * {y}).sum() / 8 + {x}",
    "{x} = fg.relu({x} - {k}) + w",
    "{x} = {x}.reshape(-1).flip(0) * scale",
]
OWN = [  # what each rank may do in its own way
    "if {x}.sum() > {k}:\n    {x} = {x} * 0.5\nelse:\n    {x} = {x} + 1",
    "if {x}.max().item() > {k}:\n    world.big += 1\n    {x} = {x} / ({x}.abs().max() + 1)",
    "world.calls += 1",
    "if world.rank and world.calls % 3 == 1:\n    {x} = {x} - 0.25",
    "{x} = {x} * float({y}.mean().detach() > 0)",
]
TOGETHER = [
    "d = {x}.detach() * {k}\ndist.all_reduce(d)\n{x} = {x} + d",
    "d = {y}.detach() * 2\ndist.broadcast(d, {root})\n{x} = {x} * d",
    "d = [fg.zeros_like({x}), fg.zeros_like({x})]\ndist.all_gather(d, {x}.detach())\n{x} = {x} * sum(d)",
    "{x} = nn.all_reduce({x})",
    "{x} = nn.all_reduce({x}, dist.ReduceOp.AVG)",
    "{x} = sum(nn.all_gather({x})) / 2",
    "{x} = nn.broadcast({x}, {root})",
]


OBJECTS = "counts = [None, None]\ndist.all_gather_object(counts, world.rank)\n{x} = {x} + len(counts)"


def program(chooser: random.Random) -> str:
    lines = []
    together = [*TOGETHER, OBJECTS] if chooser.random() < 0.1 else TOGETHER  # jit makes no op of objects
    for _ in range(chooser.randint(3, 9)):
        kind = chooser.choice([COMPUTES, OWN, together])
        x, y = chooser.sample(["a", "b"], 2)
        k, root = round(chooser.uniform(-1, 1), 2), chooser.randint(0, 1)
        lines += chooser.choice(kind).format(x=x, y=y, k=k, root=root).split("\n")
    lines += ["d = (a + b).detach().clone()", "dist.all_reduce(d)"]
    if chooser.random() < 0.67:
        leaves = "a, b, w = leaves = [x.detach().requires_grad_() for x in (a, b, w)]"
        lines = [leaves, *lines, "loss = (a * b).sum() + d.sum()", "loss.backward()"]
        lines += ["return loss.detach(), a.detach(), *(x.grad for x in leaves)"]
    else:
        lines += ["return (a * b).sum() + d.sum(), a"]
    body = "\n    ".join(lines)
    head = "import fusegrad as fg\nfrom fusegrad import distributed as dist\n"
    head += "from fusegrad.distributed import nn\n"
    return f"{head}\ndef function(a, b, w, scale):\n    {body}\n"


def loaded(text: str, folder: str, number: int) -> Any:
    path = Path(folder, f"program_{number}.py")
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.world = types.SimpleNamespace(rank=dist.get_rank(), calls=0, big=0)  # type: ignore[attr-defined]
    return module


def outcome(function: Any, arguments: tuple[Any, ...], world: Any, scale: float) -> list[Any]:
    leaves = [x.clone().requires_grad_() for x in arguments]
    loss, a, *gradients = function(*leaves, scale)
    if not gradients:
        loss.backward()
        gradients = [x.grad for x in leaves]
    gradients = [fg.zeros_like(x) if g is None else g for x, g in zip(leaves, gradients, strict=True)]
    return [loss.detach(), a.detach(), *gradients, vars(world).copy()]


def run(number: int, folder: str, compares: bool) -> int:
    """How many calls were answered by code that makes exchanges."""
    rank = dist.get_rank()
    text = program(random.Random(number))
    eager, module = loaded(text, folder, number), loaded(text, folder, number)
    jitted = fg.jit(module.function)
    own = random.Random(f"{number} {rank}")
    fg.manual_seed(own.randint(0, 1000))
    scale, replayed = 1.0, 0
    for _ in range(8):
        arguments = tuple(fg.randn(4) * own.choice([0.3, 1.0, 3.0]) for _ in range(3))
        if own.random() < 0.2:
            scale = own.choice([0.5, 1.0, 1, 2])  # another number, or another kind of number: a miss
        if own.random() < 0.1:
            jitted = fg.jit(module.function)  # one that has seen nothing
        before = jitted.stats.compiled_calls
        got = outcome(jitted, arguments, module.world, scale)
        replayed += jitted.stats.compiled_calls - before if "NumPy: exchange" in str(jitted.explain()) else 0
        if compares:
            expected = outcome(eager.function, arguments, eager.world, scale)
            for one, other in zip(got[:-1], expected[:-1], strict=True):
                close = fg.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True)
                assert close, (number, one, other, text)
            assert got[-1] == expected[-1], (number, text)
    return replayed


def main(count: int, seed: int = 0, planted: bool = False) -> None:
    dist.init_process_group(timeout=3 if planted else 60)
    replayed, given_up = 0, []
    taken = Journal.taken

    def noted(self: Journal, *exchange: Any) -> Any:
        found = taken(self, *exchange)
        given_up.extend([1] if found is not None else [])
        return found

    forgets = mock.patch.multiple(Journal, taken=lambda *_: None, must_be_over=lambda *_: None)
    with (
        tempfile.TemporaryDirectory() as folder,
        forgets if planted else mock.patch.object(Journal, "taken", noted),
    ):
        for number in range(seed, seed + count):
            replayed += run(number, folder, not planted)
    kept = len(given_up)
    print(f"rank {dist.get_rank()}: {count} programs agree, {replayed} calls replayed, {kept} exchanges kept")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), planted=sys.argv[3:] == ["planted"])
