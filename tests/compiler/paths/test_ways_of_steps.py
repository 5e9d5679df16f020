"""What steps of all kinds of programs do besides computing: replays do it, and notice what has changed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jit_checks
import numpy as np
import pytest

import fusegrad as fg
from fusegrad import nn
from fusegrad.eager.utils.checkpoint import checkpoint
from fusegrad.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Way(NamedTuple):
    """A step, what it leaves behind besides its result, and the batches for which it is given.

    changed: what is changed outside, so that the next call must notice.
    """

    step: Callable[..., Any]
    left: Callable[[], Any] = lambda: None
    batches: Callable[[int], tuple[Any, ...]] = lambda i: (numbers(4, 3, seed=i),)
    changed: Callable[[], Any] | None = None


def numbers(*shape: int, seed: int = 0) -> Any:
    return fg.tensor(np.random.default_rng(seed).normal(size=shape).astype("f4"))


class Sequence:
    """Three layers, found by number."""

    def __init__(self) -> None:
        self.layers = [nn.Linear(3, 3) for _ in range(3)]

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, place: int) -> Any:
        if place >= len(self.layers):
            raise IndexError(place)
        return self.layers[place]


class Backwards(Sequence):
    def __reversed__(self) -> Any:
        for place in (0, 2):
            yield self.layers[place]


def _reversed(layers: Any) -> Way:
    def step(x: Any) -> Any:
        for layer in reversed(layers):
            x = layer(x).tanh()
        return x

    def changed() -> None:
        fg.manual_seed(1)
        layers[2] = nn.Linear(3, 3) if isinstance(layers, nn.ModuleList) else layers[0]

    return Way(step, changed=changed if isinstance(layers, nn.ModuleList) else None)


def _reversed_enumerated() -> Way:
    layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))

    def step(x: Any) -> Any:
        for i, layer in enumerate(reversed(layers)):
            x = layer(x) * (i + 1)
        return [x, *(layer(x) for layer in list(reversed(layers))[1:])]

    return Way(step)


def _truth() -> Way:
    count = fg.zeros((), dtype=fg.int64)
    mean = fg.zeros(3)

    def step(x: Any) -> Any:
        if not count:
            mean.copy_(x.mean(0))
        else:
            mean.add_((x.mean(0) - mean) / (count + 1))
        count.add_(1)
        return mean.sum()

    return Way(step, lambda: (count, mean), changed=lambda: count.zero_())


def _truth_of_a_float() -> Way:
    return Way(lambda x: x if x[0, 0] else x * 2, batches=lambda i: (numbers(2, 2, seed=i),))


def _lengths() -> Way:
    lengths = fg.tensor([3, 1, 2])

    def step(x: Any) -> Any:
        return [row[:n].sum() for row, n in zip(x, lengths.tolist(), strict=False)]

    def changed() -> None:
        lengths.copy_(fg.tensor([1, 2, 3]))

    return Way(step, changed=changed)


def _packed(mode: type, enforce_sorted: bool) -> Way:
    cell = mode(3, 4, batch_first=True)
    lengths = fg.tensor([4, 3, 1] if enforce_sorted else [2, 4, 1])

    def step(x: Any) -> Any:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=enforce_sorted)
        output, _ = cell(packed)
        padded, found = pad_packed_sequence(output, batch_first=True)
        return padded, found, padded.sum()

    def changed() -> None:
        lengths.copy_(fg.tensor([4, 2, 2]))

    return Way(step, batches=lambda i: (numbers(3, 4, 3, seed=i),), changed=changed)


def _loads() -> Way:
    model, average = nn.Linear(3, 2), nn.Linear(3, 2)

    def step(x: Any) -> Any:
        mine, theirs = average.state_dict(), model.state_dict()
        for key in mine:
            mine[key] = 0.9 * mine[key] + 0.1 * theirs[key]
        keys = average.load_state_dict(mine)
        return average(x).sum().detach(), len(keys.missing_keys)

    return Way(step, lambda: list(average.parameters()), changed=lambda: model.weight.data.mul_(2))


def _checkpointed() -> Way:
    layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
    scale = nn.Linear(3, 3)

    def step(x: Any) -> Any:
        layers.zero_grad()
        scale.zero_grad()
        for layer in layers:
            x = checkpoint(layer, x, use_reentrant=False)
            x = checkpoint(lambda y, by: scale(y).tanh() * by, x, by=2.0, use_reentrant=False)
        x.sum().backward()
        return x.detach()

    def changed() -> None:
        fg.manual_seed(1)
        layers[1] = nn.Linear(3, 3)

    return Way(step, lambda: [p.grad for p in layers[0].parameters()], changed=changed)


def _cached(keeps: Callable[[Any], Any], *arguments: Any) -> Way:
    @keeps
    def table(*given: Any) -> Any:
        return fg.full((3,), float(len(given) + sum(map(float, given))))

    def step(x: Any) -> Any:
        return x * table(*arguments), table(*arguments)

    held: list[Any] = []

    def changed() -> None:
        # Nothing is filled but what was filled before; what was kept lives on.
        if not held:
            held.append(table(*arguments))
            table.cache_clear()
            table(*arguments)
        held[0].add_(1)

    return Way(step, changed=changed)


def _cached_plain() -> Way:
    @functools.lru_cache
    def sizes(n: int) -> tuple[int, int]:
        return n, 2 * n

    return Way(lambda x: x.new_zeros(sizes(x.shape[1])) + x.sum(), changed=sizes.cache_clear)


class Losses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.last: Any = None

    def forward(self, x: Any) -> Any:
        self.last = self.layer(x).square().mean()
        return self.last * 2


def _detached(gives: Callable[[Any, Any], Any]) -> Way:
    model = Losses()

    def step(x: Any) -> Any:
        model.zero_grad()
        loss = model(x)
        loss.backward()
        return gives(model, loss)

    def left() -> Any:
        return model.last, [p.grad for p in model.parameters()]

    return Way(step, left)


def _replaced(replace: Callable[[Any, Any], Any]) -> Way:
    """A model whose average gets other memory at each step; `old` is what it had at first."""
    model, average = nn.Linear(3, 2), nn.Linear(3, 2)
    old = [p.data for p in average.parameters()]

    def step(x: Any) -> Any:
        with fg.no_grad():
            model.weight.mul_(0.9)
        found = average(x).sum().detach()
        for mine, theirs in zip(average.parameters(), model.parameters(), strict=True):
            replace(mine, theirs)
        return found, average(x).sum().detach()

    def changed() -> None:
        for p in average.parameters():
            p.data = p.data + 1

    return Way(step, lambda: (list(average.parameters()), old), changed=changed)


def _averaged(mine: Any, theirs: Any) -> None:
    mine.data = mine.data * 0.9 + theirs.data * 0.1


def _replaced_twice(mine: Any, theirs: Any) -> None:
    mine.data = theirs.data * 2
    mine.data = mine.data + 1


def _written_before(mine: Any, theirs: Any) -> None:
    mine.data.add_(1)
    mine.data = mine.data * theirs.data


class Holder:
    """What a trainer keeps from step to step."""

    def __init__(self, state: Any) -> None:
        self.state = state
        self.before: Any = None


def _state(start: Callable[[], Any], use: Callable[[Holder, Any], Any], **options: Any) -> Way:
    holder = Holder(start())

    def changed() -> None:
        holder.state = start()

    return Way(lambda x: use(holder, x), lambda: (holder.state, holder.before), changed=changed, **options)


def _one(h: Holder, x: Any) -> Any:
    h.state = (h.state * 0.5 + x).tanh()
    return h.state.sum()


def _pair(h: Holder, x: Any) -> Any:
    first, second = (s.detach() for s in h.state)
    h.state = first + x, second * first
    return (h.state[0] * h.state[1]).sum()


def _nested(h: Holder, x: Any) -> Any:
    (a, b), c = h.state
    h.state = (b + x, a * 1), a * c
    return c.sum()


def _with_graph(h: Holder, x: Any) -> Any:
    weight = WEIGHT
    weight.grad = None
    h.state = (h.state.detach() * weight + x).tanh()
    loss = h.state.square().sum()
    loss.backward()
    return loss.detach(), weight.grad.clone()


def _keeps_the_old(h: Holder, x: Any) -> Any:
    h.before = h.state
    h.state = h.state + x
    return h.before.sum()


def _gives_the_old(h: Holder, x: Any) -> Any:
    old, h.state = h.state, h.state + x
    return old, h.state


def _written(h: Holder, x: Any) -> Any:
    h.state.add_(x)
    h.state = h.state * 2
    return h.state.sum()


def _or_none(h: Holder, x: Any) -> Any:
    h.state = x * 2 if h.state is None else h.state + x
    return h.state.sum()


def _same_as(h: Holder, x: Any) -> Any:
    same = h.state is SHARED
    h.state = (h.state + x).detach()
    return h.state.sum(), same


def _read_twice(h: Holder, x: Any) -> Any:
    found = SHARED + h.state
    h.state = found * 0.5 + x
    return found.sum()


WEIGHT = jit_checks.leaf(4, 3, seed=5)
SHARED = fg.ones(4, 3)
CARRIED: dict[str, tuple[Callable[[], Any], Callable[[Holder, Any], Any]]] = {
    "a tensor": (lambda: fg.ones(4, 3), _one),
    "a pair": (lambda: (fg.ones(4, 3), fg.ones(4, 3) * 2), _pair),
    "nested": (lambda: ((fg.ones(4, 3), fg.zeros(4, 3)), fg.ones(4, 3)), _nested),
    "with its graph": (lambda: fg.ones(4, 3), _with_graph),
    "None at first": (lambda: None, _or_none),
}
# Of these each call meets another object, which it looks at as such.
NOT_CARRIED: dict[str, tuple[Callable[[], Any], Callable[[Holder, Any], Any]]] = {
    "the old kept": (lambda: fg.ones(4, 3), _keeps_the_old),
    "the old given": (lambda: fg.ones(4, 3), _gives_the_old),
    "written": (lambda: fg.ones(4, 3), _written),
    "compared": (lambda: SHARED, _same_as),
    "also elsewhere": (lambda: SHARED, _read_twice),
    "a list": (lambda: [fg.ones(4, 3)], lambda h, x: setattr(h, "state", [h.state[0] + x])),
    "another dtype": (lambda: fg.ones(4, 3, dtype=fg.float64), _one),
    "one tensor twice": (lambda: (SHARED, SHARED), _pair),
}


def _task(count: int) -> Way:
    codes = nn.Parameter(numbers(count, 3))

    def step(x: Any, task: int) -> Any:
        return (x * codes[task]).sum().detach()

    return Way(step, batches=lambda i: (numbers(4, 3, seed=i), i % count))


WAYS: dict[str, Callable[[], Way]] = {
    "reversed ModuleList": lambda: _reversed(nn.ModuleList(nn.Linear(3, 3) for _ in range(3))),
    "reversed Sequential": lambda: _reversed(nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))),
    "reversed sequence": lambda: _reversed(Sequence()),
    "__reversed__": lambda: _reversed(Backwards()),
    "reversed, enumerated": _reversed_enumerated,
    "truth of a count": _truth,
    "truth of a float": _truth_of_a_float,
    "lengths": _lengths,
    "packed RNN": lambda: _packed(nn.RNN, True),
    "packed LSTM": lambda: _packed(nn.LSTM, False),
    "packed GRU": lambda: _packed(nn.GRU, False),
    "load_state_dict": _loads,
    "checkpoint": _checkpointed,
    "cache": lambda: _cached(functools.cache, 3),
    "cache of several": lambda: _cached(functools.cache, 3, 1.5, True),
    "cache of nothing": lambda: _cached(functools.cache),
    "lru_cache": lambda: _cached(functools.lru_cache, 3),
    "lru_cache of several": lambda: _cached(functools.lru_cache(maxsize=2), 3, 2),
    "cache of sizes": _cached_plain,
    "result detached": lambda: _detached(lambda m, loss: (loss, loss.detach())),
    "attribute detached": lambda: _detached(lambda m, loss: m.last.detach()),
    "both detached": lambda: _detached(lambda m, loss: (m.last.detach(), loss, m.last.detach())),
    "one alias twice": lambda: _detached(lambda m, loss: [m.last.detach()] * 2),
    "data replaced": lambda: _replaced(_averaged),
    "data replaced twice": lambda: _replaced(_replaced_twice),
    "data written, then replaced": lambda: _replaced(_written_before),
    "one of two tasks": lambda: _task(2),
}
WAYS |= {f"state: {name}": functools.partial(_state, *parts) for name, parts in CARRIED.items()}
WARM, MORE = 6, 4


def same(found: Any, expected: Any) -> None:
    """Whether two results are the same, tensors to rounding."""
    assert type(found) is type(expected)
    if isinstance(expected, fg.Tensor):
        assert (found.dtype, found.requires_grad) == (expected.dtype, expected.requires_grad)
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    elif isinstance(expected, dict):
        same([*found.items()], [*expected.items()])
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            same(ours, theirs)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-5)
    else:
        assert found == expected


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", WAYS)
def test_replayed_and_as_eager_does_it(name: str) -> None:
    ways = []
    for _ in range(2):
        fg.manual_seed(0)
        ways.append(WAYS[name]())
    ours, theirs = ways
    jitted = fg.jit(ours.step)

    def call(i: int) -> None:
        same(jitted(*ours.batches(i)), theirs.step(*theirs.batches(i)))
        same(ours.left(), theirs.left())

    for i in range(WARM):
        call(i)
    if ours.changed is not None and theirs.changed is not None:
        for i in range(WARM):
            ours.changed()
            theirs.changed()
            call(i)
        for i in range(WARM):
            call(i)
    jit_checks.sealed(jitted)
    for i in range(MORE):
        try:
            call(i)
        except jit_checks.Entered:
            raise AssertionError(str(jitted.explain())) from None


def _shared_with_the_other(mine: Any, theirs: Any) -> None:
    mine.data = theirs.data


def _written_since(mine: Any, theirs: Any) -> None:
    mine.data = theirs.data * 2
    mine.data.add_(1)


@pytest.mark.parametrize("replace", [_shared_with_the_other, _written_since])
def test_data_that_are_replaced_by_shared_memory_are_as_eager_has_them(replace: Any) -> None:
    fg.manual_seed(0)
    ours = _replaced(replace)
    fg.manual_seed(0)
    theirs = _replaced(replace)
    jitted = fg.jit(ours.step)
    for i in range(9):
        same(jitted(*ours.batches(i)), theirs.step(*theirs.batches(i)))
        same(ours.left(), theirs.left())


@pytest.mark.parametrize("name", NOT_CARRIED)
def test_states_that_are_looked_at_are_as_eager_has_them(name: str) -> None:
    ours, theirs = (_state(*NOT_CARRIED[name]) for _ in range(2))
    jitted = fg.jit(ours.step)
    for i in range(12):
        same(jitted(*ours.batches(i)), theirs.step(*theirs.batches(i)))
        same(ours.left(), theirs.left())
        if i == 6:
            for way in (ours, theirs):
                assert way.changed is not None
                way.changed()


def test_aliases_share_memory_and_identity_as_eagers_do() -> None:
    model = Losses()

    def step(x: Any) -> Any:
        loss = model(x).detach()
        again = loss.detach()
        return loss, again, again

    jitted = fg.jit(step)
    for i in range(8):
        loss, again, third = jitted(numbers(4, 3, seed=i))
        assert again is third and loss is not again
        loss.add_(1)
        assert again.tolist() == loss.tolist() and again._version == loss._version == 1
    assert jitted.stats.compiled_calls >= 6, jitted.explain()
