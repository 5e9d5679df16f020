"""Exchanges in jitted functions: which of them replays make, and what becomes of the others."""

from __future__ import annotations

from typing import Any

from checks import raised, run_all

import fusegrad as fg
from fusegrad import distributed as dist
from fusegrad.distributed import ReduceOp, nn
from fusegrad.eager.ranks.journal import journal


def others() -> list[int]:
    return [*range(dist.get_world_size())]


def check_each_collective_is_an_op() -> None:
    """Beside eager: results, and the tensors that are written."""
    rank, ranks = dist.get_rank(), dist.get_world_size()

    def all_gather(x: Any) -> Any:
        places = [fg.zeros_like(x) for _ in range(ranks)]
        dist.all_gather(places, x)
        return sum(place * (i + 1) for i, place in enumerate(places))

    def gathered(x: Any) -> Any:
        places = [fg.zeros_like(x) for _ in range(ranks)]
        dist.gather(x, places if rank == 1 else None, 1)
        return sum(places)

    def scattered(x: Any) -> Any:
        out = fg.zeros_like(x)
        dist.scatter(out, [x * i for i in range(ranks)] if rank == 1 else None, 1)
        return out

    def into(out: Any, call: Any, *arguments: Any) -> Any:
        call(out, *arguments)
        return out

    programs: dict[str, Any] = {
        "all_reduce": lambda x: into(x.clone(), dist.all_reduce),
        "largest": lambda x: into(x * 2, dist.all_reduce, ReduceOp.MAX),
        "of whole numbers": lambda x: into(x.long(), dist.all_reduce),
        "of a part": lambda x: into((y := x.clone())[1:], dist.all_reduce).sum() + y,
        "turned": lambda x: into(x.reshape(2, 2).t().clone(), dist.all_reduce).t(),
        "async": lambda x: (dist.all_reduce(y := x * 3, async_op=True).wait(), y)[1],
        "several": lambda x: (dist.all_reduce_coalesced(ys := [x * 1, x * 2]), sum(ys))[1],
        "reduce": lambda x: into(x.clone(), dist.reduce, 1),
        "broadcast": lambda x: into(x.clone(), dist.broadcast, 1),
        "all_gather": all_gather,
        "all_gather_into_tensor": lambda x: into(fg.zeros(4 * ranks), dist.all_gather_into_tensor, x),
        "gather": gathered,
        "scatter": scattered,
        "reduce_scatter": lambda x: into(fg.zeros(4), dist.reduce_scatter, [x * i for i in range(ranks)]),
        "reduce_scatter_tensor": lambda x: into(fg.zeros(4), dist.reduce_scatter_tensor, x.repeat(ranks)),
        "all_to_all_single": lambda x: into(fg.zeros(2 * ranks), dist.all_to_all_single, x[:2].repeat(ranks)),
        "barrier": lambda x: (dist.barrier(), x + 1)[1],
        "twice the same": lambda x: into(x.clone(), dist.all_reduce) + into(x.clone(), dist.all_reduce),
        "of no use": lambda x: (into(x.clone(), dist.all_reduce), x + 1)[1],
    }
    for name, program in programs.items():
        jitted = fg.jit(lambda x, program=program: program(x * 2.0) / 2)
        for turn in range(5):
            x = fg.arange(4.0) + rank + turn
            got, expected = jitted(x), program(x * 2.0) / 2
            assert fg.allclose(got.double(), expected.double()), (name, turn, got, expected)
        assert jitted.stats.compiled_calls >= 3 and "NumPy: exchange" in str(jitted.explain()), (
            name,
            jitted.explain(),
        )


def check_what_is_no_op_of_a_replay() -> None:
    rank = dist.get_rank()

    def objects(x: Any) -> Any:
        found: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(found, rank)
        return x + sum(found)

    def half(x: Any) -> Any:
        y = x.bfloat16()
        dist.all_reduce(y)
        return y.float()

    def derived_outside(x: Any) -> Any:
        return nn.all_reduce(x * 2).sum()

    for function in (objects, half, derived_outside):
        jitted = fg.jit(function)
        for turn in range(4):
            x = (fg.arange(4.0) + rank + turn).requires_grad_(function is derived_outside)
            got, expected = jitted(x), function(x)
            assert fg.equal(got, expected), function
            if got.requires_grad:
                (gradient,) = fg.autograd.grad(got, x)
                assert gradient.tolist() == [2.0 * dist.get_world_size()] * 4
        assert "NumPy: exchange" not in str(jitted.explain()), function


def check_checkpointed_functions_exchange_twice() -> None:
    weight = fg.ones(4, requires_grad=True)

    @fg.jit
    def step(x: Any) -> Any:
        weight.grad = None
        y = fg.utils.checkpoint.checkpoint(lambda x: nn.all_reduce(x * weight).tanh(), x, use_reentrant=False)
        y.sum().backward()
        return weight.grad.clone()

    for turn in range(4):
        x = fg.arange(4.0) / 9 + turn
        total = sum(x for _ in others())
        expected = (1 - total.tanh() ** 2) * x * dist.get_world_size()
        assert fg.allclose(step(x), expected, atol=1e-5), turn


def check_guards_behind_exchanges() -> None:
    """Each rank's guard fails at other calls; one compares with eager as well, or is deterministic."""
    rank = dist.get_rank()
    for options in ({}, {"verify": 2}):
        for deterministic in (False, True):
            fg.use_deterministic_algorithms(deterministic)
            try:
                guarded(rank, options)
            finally:
                fg.use_deterministic_algorithms(False)
    assert not journal._made and not journal._begins


def guarded(rank: int, options: dict[str, int]) -> None:
    scale = [1.0]

    @fg.jit(**options)
    def function(x: Any) -> Any:
        y = x * scale[0]
        dist.all_reduce(y)
        if x.sum() > 0:
            y = y + 1
        dist.all_reduce(y)
        return y if (x * x).sum() < 3 else y * 2

    def whole(xs: list[Any], mine: int) -> Any:
        total = sum(x * (2 if turn == 9 and i else 1) for i, x in enumerate(xs))
        total = sum(total + 1 if x.sum() > 0 else total for x in xs)
        return total if (xs[mine] ** 2).sum() < 3 else total * 2

    for turn in range(14):
        scale[0] = 2.0 if turn == 9 and rank else 1.0
        xs = [fg.tensor([0.5, -1.0, (-1.0) ** ((turn + i) // (2 + i))]) * (1 + turn % 2) for i in others()]
        got, expected = function(xs[rank]), whole(xs, rank)
        assert fg.allclose(got, expected), (turn, got, expected)


def check_shortcuts() -> None:
    """Calls that go one way are answered by a written function; at times one rank's goes another way."""

    @fg.jit
    def function(x: Any) -> Any:
        y = x * 2
        dist.all_reduce(y)
        y = y + 1 if x.sum() > 0 else y * 3
        dist.all_reduce(y)
        return y

    rank, shortcuts = dist.get_rank(), 0
    for turn in range(40):
        shortcuts += function._answer is not None
        xs = [fg.arange(3.0) + turn if turn % 10 != 8 + i else fg.arange(-3.0, 0.0) for i in others()]
        total = sum(x * 2 for x in xs)
        expected = sum(total + 1 if x.sum() > 0 else total * 3 for x in xs)
        assert fg.allclose(function(xs[rank]), expected), turn
        assert not journal._made and not journal._begins and not journal.is_last
    assert shortcuts > 10, function.explain()


def check_loops() -> None:
    """Rounds that exchange are all run, also of loops that would be left out otherwise."""

    @fg.jit
    def function(x: Any) -> Any:
        for _ in range(140):
            x = x * 0.5 + 1
            y = x.clone()
            dist.all_reduce(y, ReduceOp.AVG)
            x = x + y * 0.01
        return x

    rank = dist.get_rank()
    for turn in range(3):
        xs = [fg.arange(3.0) * (i + 1) + turn for i in others()]
        got = function(xs[rank])
        for _ in range(140):
            xs = [x * 0.5 + 1 for x in xs]
            mean = sum(xs) / len(xs)
            xs = [x + mean * 0.01 for x in xs]
        assert fg.allclose(got, xs[rank]), turn


def check_accumulated_steps() -> None:
    """`no_sync` in a jitted step, and an exchange that the ranks do between two steps."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    ddp = fg.nn.parallel.DistributedDataParallel(fg.nn.Linear(3, 1, bias=False))
    with fg.no_grad():
        ddp.module.weight.fill_(1.0)

    @fg.jit
    def step(x: Any) -> Any:
        ddp.module.weight.grad = None
        with ddp.no_sync():
            ddp(x).sum().backward()
        ddp(x * 2).sum().backward()
        return ddp.module.weight.grad.clone()

    for turn in range(6):
        got = step(fg.ones(1, 3) * (rank + turn))
        assert got.tolist() == [[3.0 * (sum(others()) / ranks + turn)] * 3], (turn, got)
    assert step.stats.compiled_calls >= 3, step.explain()


def check_a_backward_that_does_not_come_in_the_call() -> None:
    ddp = fg.nn.parallel.DistributedDataParallel(fg.nn.Linear(3, 1, bias=False))
    forward = fg.jit(lambda x: ddp(x).sum())
    for turn in range(4):
        ddp.zero_grad()
        forward(fg.ones(1, 3) * (dist.get_rank() + turn)).backward()
        assert ddp.module.weight.grad.tolist() == [[sum(others()) / dist.get_world_size() + turn] * 3]
    assert "later backward" in str(forward.explain()), forward.explain()


def check_a_rounding_that_decides_is_an_error() -> None:
    """What another attempt asks for is not what was exchanged."""
    import numpy as np

    journal.begin()
    try:

        class Over:
            def wait(self) -> None:
                """It is over."""

        journal.note("all_reduce", [np.ones(2)], Over(), [np.zeros(2)])
        journal.again()
        raised(
            RuntimeError,
            "a rounding decides which comes next",
            lambda: journal.taken("broadcast", [np.ones(2)]),
        )
        raised(
            RuntimeError, "a rounding decides", lambda: journal.taken("all_reduce", [np.array([1.0, 2.0])])
        )
        raised(RuntimeError, "a rounding decides", lambda: dist.barrier())
        found = journal.taken("all_reduce", [np.array([1.0, 1.0001])])
        assert found is not None and found[0].tolist() == [0, 0]
    finally:
        journal.end()


if __name__ == "__main__":
    run_all(globals())
