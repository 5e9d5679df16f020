"""What counts calls and writes, or is stamped by them: replays and deferred runs leave the same as eager."""

from __future__ import annotations

import functools
import io
import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.deferred import interpreter
from fusegrad.compiler.paths import endings, plans
from fusegrad.eager.autograd import views

# A step, and what gives the stamps that it has left.
Case = tuple[Callable[[Any], Any], Callable[[], Any]]
CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


def leaf() -> Any:
    return fg.ones(3, requires_grad=True)


def versions(*tensors: Any) -> list[Any]:
    return [None if t is None else t._version for t in tensors]


# Functions that keep their results.


@case
def cached() -> Case:
    @functools.lru_cache
    def table(number: int) -> float:
        return number * 2.0

    return lambda x: x * table(3) * table(3), table.cache_info


@case
def cached_method() -> Case:
    class Owner:
        @functools.lru_cache(None)  # noqa: B019
        def table(self, number: int) -> float:
            return number * 2.0

    owner = Owner()
    return lambda x: x * owner.table(3), lambda: Owner.table.cache_info()


@case
def cached_within_cached() -> Case:
    @functools.cache
    def inner(number: int) -> float:
        return number * 2.0

    @functools.lru_cache(typed=True)
    def outer(number: int) -> float:
        return inner(number) + inner(number + 1)

    return lambda x: x * outer(3) * inner(3), lambda: (outer.cache_info(), inner.cache_info())


@case
def cached_tensor() -> Case:
    @functools.lru_cache
    def table(number: int) -> Any:
        return fg.ones(number)

    return lambda x: x * table(3), table.cache_info


@case
def bounded() -> Case:
    """Which entry goes next is decided by who was asked for last."""
    made: list[int] = []

    @functools.lru_cache(maxsize=2)
    def table(number: int) -> float:
        made.append(number)
        return number * 2.0

    def ask() -> Any:
        return table.cache_info(), list(made)

    calls = itertools.count()

    def stamps() -> Any:
        if next(calls) == 3:  # 2 goes, if 1 was asked for by the replays
            table(5), table(1)
        return ask()

    table(1), table(2)
    return lambda x: x * table(1), stamps


@case
def cleared() -> Case:
    @functools.lru_cache
    def table(number: int) -> float:
        return number * 2.0

    def step(x: Any) -> Any:
        y = x * table(3)
        table.cache_clear()
        return y

    return step, table.cache_info


@case
def asked_within() -> Case:
    @functools.lru_cache
    def table(number: int) -> float:
        return number * 2.0

    return lambda x: x * table(3) * table.cache_info().hits, table.cache_info


# Versions of what is written.


def written(write: Callable[[Any, Any], Any]) -> Callable[[], Case]:
    """A tensor from outside is written, an argument, and a result."""

    def make() -> Case:
        outside = fg.zeros(3)

        def step(x: Any) -> Any:
            write(outside, x)
            made = x * 2
            write(made, x)
            write(x, made)
            return made

        return step, lambda: versions(outside)

    return make


def in_loop(target: Any, x: Any) -> None:
    for _ in range(40):
        target.add_(x)


def while_below(target: Any, x: Any) -> None:
    target.mul_(0.5)
    while target.sum() < 30:
        target.add_(2.0)


def through_view(target: Any, x: Any) -> None:
    view = target[1:]
    view.add_(x[1:])
    view.mul_(0.5)
    target[0] = 2.0


def as_out(target: Any, x: Any) -> None:
    with fg.no_grad():
        fg.add(x, 1.0, out=target)
        fg.mul(target, 0.5, out=target)


def through_data(target: Any, x: Any) -> None:
    target.data.add_(x)
    target.data.mul_(0.5)
    target.add_(1.0)


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "once": lambda target, x: target.add_(x),
    "twice": lambda target, x: target.add_(x).mul_(0.5),
    "rows": lambda target, x: [target.__setitem__(i, x[i] + i) for i in range(3)],
    "filled": lambda target, x: target.zero_().copy_(x),
    "in_loop": in_loop,
    "while_below": while_below,
    "through_view": through_view,
    "as_out": as_out,
    "through_data": through_data,
}
CASES |= {f"written_{name}": written(write) for name, write in WRITES.items()}


@case
def rounds_that_vary() -> Case:
    target, counts = fg.zeros(3), [0]

    def step(x: Any) -> Any:
        counts[0] += 1
        for _ in range(counts[0] * 7):
            target.add_(x)
        return target * 2

    return step, lambda: versions(target)


@case
def result_of_while() -> Case:
    def step(x: Any) -> Any:
        total = x * 0
        while total.sum() < 30:
            total += x
        return total

    return step, lambda: None


@case
def read_within() -> Case:
    target, seen = fg.zeros(3), []

    def step(x: Any) -> Any:
        target.add_(x)
        made = (x * 2).add_(1.0)
        seen.append((target._version, made._version))
        return x * made._version

    return step, lambda: (list(seen), versions(target))


@case
def gradients_written() -> Case:
    weight = leaf()

    def step(x: Any) -> Any:
        weight.grad = None
        (x * weight).sum().backward()
        weight.grad.mul_(2.0).add_(1.0)
        (given,) = fg.autograd.grad((x * weight).sum(), weight)
        return given.mul_(2.0)

    return step, lambda: versions(weight, weight.grad)


@case
def gradients_added_up() -> Case:
    weight = leaf()

    def step(x: Any) -> Any:
        (x * weight).sum().backward()
        (x * weight).sum().backward()
        return x * 1

    return step, lambda: versions(weight, weight.grad)


@case
def statistics() -> Case:
    norm = fg.nn.BatchNorm1d(3)
    step = norm.train()
    return lambda x: step(x.expand(4, 3)), lambda: versions(*norm.buffers())


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: fg.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: fg.optim.Adam(p, amsgrad=True),
    "NAdam": lambda p: fg.optim.NAdam(p),
    "ASGD": lambda p: fg.optim.ASGD(p),
    "RMSprop": lambda p: fg.optim.RMSprop(p, momentum=0.9, centered=True),
    "Rprop": lambda p: fg.optim.Rprop(p),
    "Adafactor": lambda p: fg.optim.Adafactor(p),
}


def trained(make: Callable[[Any], Any]) -> Callable[[], Case]:
    def case() -> Case:
        model = fg.nn.Linear(3, 3)
        large = fg.nn.Parameter(fg.ones(3, 2000))  # which is not stepped together with small ones
        optimizer = make([*model.parameters(), large])
        schedule = fg.optim.lr_scheduler.StepLR(optimizer, 2)

        def step(x: Any) -> Any:
            optimizer.zero_grad(set_to_none=False)
            loss = model(x).sum() + (x @ large).sum()
            loss.backward()
            fg.nn.utils.clip_grad_norm_([*model.parameters(), large], 0.1)
            optimizer.step()
            schedule.step()
            return loss

        def stamps() -> Any:
            kept = [
                {name: (x._version, x.item() if name == "step" else 0) for name, x in states.items()}
                for states in optimizer.state.values()
            ]
            tensors = [t for p in (*model.parameters(), large) for t in (p, p.grad)]
            return versions(*tensors), kept, schedule.last_epoch, schedule._step_count

        return step, stamps

    return case


CASES |= {f"trained_{name}": trained(make) for name, make in OPTIMIZERS.items()}


# Calls of what a user has handed to the engine.


def hooked(hook: Callable[[Any, Any, list[str]], Any]) -> Callable[[], Case]:
    """`hook` is given a layer, a result on the graph, and what notes calls."""

    def make() -> Case:
        layer, calls = fg.nn.Linear(3, 3), []  # type: tuple[Any, list[str]]
        before = hook(layer, None, calls)

        def step(x: Any) -> Any:
            made = layer(x)
            if before is None:
                hook(layer, made, calls)
            made.exp().sum().backward()
            layer.zero_grad()
            return made.detach()

        return step, lambda: list(calls)

    return make


def noting(calls: list[str], result: Any = None) -> Callable[..., Any]:
    return lambda *args: calls.append("called") or result


HOOKS: dict[str, Callable[[Any, Any, list[str]], Any]] = {
    "forward": lambda m, y, c: y is None and m.register_forward_hook(noting(c)),
    "before_forward": lambda m, y, c: y is None and m.register_forward_pre_hook(noting(c)),
    "backward": lambda m, y, c: y is None and m.register_full_backward_hook(noting(c)),
    "before_backward": lambda m, y, c: y is None and m.register_full_backward_pre_hook(noting(c)),
    "of_leaf": lambda m, y, c: y is None and m.weight.register_hook(noting(c)),
    "accumulated": lambda m, y, c: y is None and m.weight.register_post_accumulate_grad_hook(noting(c)),
    "of_result": lambda m, y, c: None if y is None else y.register_hook(noting(c)),
    "of_node": lambda m, y, c: None if y is None else y.grad_fn.register_hook(noting(c)),
    "before_node": lambda m, y, c: None if y is None else y.grad_fn.register_prehook(noting(c)),
}
CASES |= {f"hook_{name}": hooked(hook) for name, hook in HOOKS.items()}


@case
def packed() -> Case:
    weight, calls = leaf(), []

    def pack(tensor: Any) -> Any:
        calls.append("packed")
        return tensor

    def unpack(tensor: Any) -> Any:
        calls.append("unpacked")
        return tensor

    def step(x: Any) -> Any:
        with fg.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = (x * weight).exp().sum()
        y.backward()
        return y

    return step, lambda: (list(calls), versions(weight.grad))


@case
def own_function() -> Case:
    weight, calls = leaf(), []

    class Twice(fg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            calls.append("forward")
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            calls.append("backward")
            return gradient * 2

    def step(x: Any) -> Any:
        Twice.apply(weight * x).sum().backward()
        return x * 1

    return step, lambda: list(calls)


@case
def checkpointed() -> Case:
    weight, calls = leaf(), [0]

    def part(x: Any) -> Any:
        calls[0] += 1
        return x * weight

    def step(x: Any) -> Any:
        y = fg.utils.checkpoint.checkpoint(part, x, use_reentrant=False).sum()
        y.backward()
        return y

    return step, lambda: (list(calls), versions(weight.grad))


@case
def optimizer_called() -> Case:
    weight, calls = leaf(), []
    optimizer = fg.optim.SGD([weight], lr=0.1)
    schedule = fg.optim.lr_scheduler.LambdaLR(optimizer, lambda n: calls.append("rate") or 0.9**n)
    optimizer.register_step_post_hook(noting(calls))

    def step(x: Any) -> Any:
        def closure() -> Any:
            calls.append("closure")
            optimizer.zero_grad()
            loss = (x * weight).sum()
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        schedule.step()
        return loss

    return step, lambda: (list(calls), versions(weight))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_stamps_are_those_of_eager(name: str, deferred: bool) -> None:
    assert differing(name, deferred) is None


def differing(name: str, deferred: bool) -> str | None:
    """The first call after which the stamps or the result are others than eager's."""
    eager, compiled = run(name, lambda step: step), run(name, deferring if deferred else fg.jit)
    for number, (theirs, ours) in enumerate(zip(eager, compiled, strict=True)):
        if theirs[:2] != ours[:2] or not np.allclose(theirs[2], ours[2]):
            return f"call {number}: {ours} where eager has {theirs}"
    return None


def deferring(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A jitted step that no replay can answer, so that its ops wait."""
    sink = io.StringIO()

    def both(x: Any) -> Any:
        sink.write("called")
        return step(x)

    return fg.jit(both)


def run(name: str, wrap: Callable[..., Any]) -> list[Any]:
    fg.manual_seed(0)
    random.seed(0)
    step, stamps = CASES[name]()
    step = wrap(step)
    found = []
    for number in range(6):
        x = fg.ones(3) * (1 + number % 2)
        result = step(x)
        found.append((stamps(), versions(x, result), result.tolist()))
    return found


FAULTS = {
    "hits are not counted": (plans, "call_again", lambda *call: None, "cached", False),
    "the order of hits is lost": (plans, "call_again", lambda *call: None, "bounded", False),
    "results were never written": (endings, "with_writes", lambda t, n: t, "written_twice", False),
    "gradients were never written": (plans, "with_writes", lambda t, n: t, "gradients_written", False),
    "nodes nobody is told of": (interpreter, "is_watched", lambda: False, "packed", True),
    "writes count once": (views, "count_writes", lambda *given: None, "written_once", False),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, other, where, deferred = FAULTS[fault]
    monkeypatch.setattr(place, name, other)
    assert differing(where, deferred) is not None
