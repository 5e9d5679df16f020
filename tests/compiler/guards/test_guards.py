"""The generated checks against what the reads themselves say, over a table of changes of the world."""

from __future__ import annotations

import contextlib
import gc
import itertools
import random
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from guards.checks import Ran, asked_once, compare
from guards.world import CHANGES, PLAIN, Getter, World, new, try_change

import fusegrad as fg
from fusegrad.compiler.guards.guards import Guards
from fusegrad.tracer.observe.lookup import lookup
from fusegrad.tracer.observe.optimizer_steps import ParametersRead, StateRead
from fusegrad.tracer.observe.reads import (
    AttributeRead,
    CellRead,
    FunctionRead,
    Read,
    TypeRead,
)
from fusegrad.tracer.twin.sites import NOWHERE


@pytest.fixture(autouse=True)
def _getter_as_it_was():
    yield
    if "__set__" in vars(Getter):
        del Getter.__set__


def test_a_check_is_written_for_nearly_every_read():
    world = World()
    reads = world.reads()
    guards = [asked_once([read]) for read in reads]
    assert not any(check.first_failure() for check in guards)
    left = [check.reads[0].describe() for check in guards if "holds_" in check.text]
    # A slot that is empty, one whose class has a metaclass, sets, what a getter finds, and a descriptor's.
    assert len(left) <= 8, left
    # Also for modules of a class of their own: with those in torch's place, each `F.relu` is such a read.
    assert not any("of module" in text for text in left), left


@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_after_a_change_the_check_says_what_the_reads_say(number: int):
    for written_before in (True, False):
        world = World()
        reads = world.reads()
        guards = [*(asked_once([read]) for read in reads), asked_once(reads), asked_once(reversed(reads))]
        if written_before:
            compare(guards)
        try_change(world, CHANGES[number])
        compare(guards)
        compare(guards)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(60))
def test_after_many_changes_the_checks_say_what_the_reads_say(seed: int):
    chosen = random.Random(seed)
    world = World()
    reads = world.reads()
    guards = [
        *(asked_once([read]) for read in reads),
        asked_once(reads),
        asked_once(chosen.sample(reads, 20)),
    ]
    for _ in range(12):
        compare(guards)
        try_change(world, chosen.choice(CHANGES))
        with contextlib.suppress(Ran):  # reads of the world as it is now
            guards.append(asked_once([AttributeRead(world.owner, "x", lookup(world.owner, "x"), NOWHERE)]))


def test_plain_values_are_told_apart_by_type_and_bits():
    owner: Any = types.SimpleNamespace()
    for seen, now in itertools.product(PLAIN, PLAIN):
        owner.value = seen
        read = AttributeRead(owner, "value", lookup(owner, "value"), NOWHERE)
        check = asked_once([read])
        assert check.first_failure() is None
        owner.value = new(now)
        same = type(seen) is type(now) and repr(seen) == repr(now)
        assert (check.first_failure() is None) == same == read.holds(), (seen, now)


def test_a_class_that_changes_without_consequence_is_looked_at_again():
    class Owner:
        def __init__(self) -> None:
            self.x = 1.0

    owner = Owner()
    check = asked_once([AttributeRead(owner, "x", lookup(owner, "x"), NOWHERE)])
    assert check.first_failure() is None
    written = check.text
    Owner.x = 5  # hidden by the instance's
    for _ in range(3):
        assert check.first_failure() is None
    assert check.text != written
    owner.x = 2.0
    assert check.first_failure() is check.reads[0]


def test_guards_keep_nothing_alive():
    class Settings:
        def __init__(self) -> None:
            self.scale, self.part = 2.5, World.__new__(World)

        def method(self) -> None: ...

    def read(settings: Any) -> tuple[Guards, list[weakref.ref]]:
        def function(x: Any) -> Any:
            return settings.scale * x

        reads: list[Read] = [
            AttributeRead(settings, name, lookup(settings, name), NOWHERE)
            for name in ("scale", "part", "method")
        ]
        reads += [FunctionRead(function, NOWHERE), TypeRead(settings, NOWHERE)]
        reads += [CellRead(function, "settings", settings, NOWHERE)]
        check = asked_once(reads)
        assert check.first_failure() is None and "holds_" not in check.text
        return check, [weakref.ref(x) for x in (settings, settings.part, type(settings), function)]

    check, gone = read(Settings())
    del Settings
    gc.collect()
    assert [reference() for reference in gone] == [None] * 4
    assert check.first_failure() is not None


def test_guards_are_collected_without_the_cycle_collector():
    world = World()
    check = asked_once(world.reads())
    check.first_failure()
    written = weakref.ref(check._check)
    gc.disable()
    try:
        del check
        assert written() is None
    finally:
        gc.enable()


def test_a_call_asks_every_read_once_and_tells_what_failed():
    config = types.SimpleNamespace(scale=2.0)
    other = types.SimpleNamespace(shift=1.0)

    @fg.jit
    def f(x):
        y = x * config.scale
        return y + other.shift if y.sum() > 0 else y

    x = fg.ones(3)
    f(x), f(-x)
    (entry,) = f.entries.values()
    (variant,) = entry.variants
    reads = [r for p in entry.paths for r in p.capture.reads]
    assert {r.token() for r in variant.shared.reads} < {r.token() for r in reads}
    for _ in range(2):
        assert f(x).tolist() == [3.0] * 3 and f(-x).tolist() == [-2.0] * 3
    assert f.stats.compiled_calls == 4
    other.shift = 5.0  # which only one side reads
    assert f(-x).tolist() == [-2.0] * 3 and f.stats.compiled_calls == 5
    assert f(x).tolist() == [7.0] * 3 and f.stats.guard_failures == 2
    assert "`shift`" in str(f.last_miss[0]) and "now 5.0, was 1.0" in str(f.last_miss[0])


def test_names_of_classes_need_not_be_names_in_the_source():
    for name in ("<lambda>", "9 lives", "\ufb01", "if", "value", "\n"):
        for slots in ({"__slots__": ("x",)}, {}):  # with and without weak references
            owner: Any = type(name, (), slots)()
            owner.x = 1.0
            check = asked_once(
                [AttributeRead(owner, "x", lookup(owner, "x"), NOWHERE), TypeRead(owner, NOWHERE)]
            )
            assert check.first_failure() is None and "holds_" not in check.text
            assert check._check is not None and check._check() is None
            owner.x = 2.0
            assert check.first_failure() is check.reads[0]


def test_a_fault_in_writing_leaves_the_reads(monkeypatch: pytest.MonkeyPatch):
    owner = types.SimpleNamespace(x=1.0)
    check = asked_once([AttributeRead(owner, "x", lookup(owner, "x"), NOWHERE)])
    monkeypatch.setattr("fusegrad.compiler.guards.check_writer.Writer.text", lambda self: "no Python")
    for value in (1.0, 2.0, 1.0, 1.0, 1.0, 1.0):
        owner.x = value
        assert (check.first_failure() is None) == (value == 1.0)


def test_a_replay_marks_what_is_made_in_inference_mode():
    f = fg.jit(lambda x: x * 2)
    x = fg.ones(3)
    for _ in range(3):
        with fg.inference_mode():
            made = f(x)
        assert made.is_inference()
    with fg.no_grad():
        assert not f(x).is_inference()
    assert f.stats.compiled_calls == 3
    w = fg.ones(3, requires_grad=True)
    g = fg.jit(lambda x: (x * w).sum())
    for _ in range(3):
        g(fg.ones(3)).backward()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        g(made)


def _first_state_changed(optimizer: Any) -> None:
    kept = next(iter(optimizer.state.values()))
    kept["exp_avg"] = kept["exp_avg"].clone()


OPTIMIZER_CHANGES: tuple[Callable[[Any], Any], ...] = (
    lambda o: None,
    lambda o: o.param_groups[0].update(lr=0.5),
    lambda o: o.param_groups[0].update(amsgrad=True),
    lambda o: o.param_groups.append({"params": []}),
    lambda o: o.param_groups.reverse(),
    lambda o: o.param_groups.__setitem__(0, dict(o.param_groups[0])),
    lambda o: o.param_groups[0]["params"].pop(),
    lambda o: o.param_groups[0]["params"].reverse(),
    lambda o: o.param_groups[0].update(params=list(o.param_groups[0]["params"])),
    lambda o: o.param_groups[0].update(params=tuple(o.param_groups[0]["params"])),
    lambda o: o.param_groups[0].pop("params"),
    lambda o: o.register_step_pre_hook(lambda *given: None),
    lambda o: o.register_step_post_hook(lambda *given: None),
    lambda o: o.state.clear(),
    lambda o: o.state.pop(o.param_groups[1]["params"][0]),
    lambda o: setattr(o, "state", dict(o.state)),
    lambda o: o.load_state_dict(o.state_dict()),
    lambda o: setattr(o, "slots", lambda group: ()),
    lambda o: setattr(o, "__class__", fg.optim.AdamW),
    lambda o: delattr(o, "param_groups"),
    _first_state_changed,
)


@pytest.mark.parametrize("number", range(len(OPTIMIZER_CHANGES)))
def test_the_check_of_an_optimizer_says_what_its_reads_say(number: int) -> None:
    weights = [fg.ones(2, requires_grad=True) for _ in range(3)]
    optimizer = fg.optim.Adam([{"params": weights[:2]}, {"params": weights[2:]}])
    sum(w.sum() for w in weights).backward()
    optimizer.step()
    reads = [ParametersRead(optimizer), StateRead(optimizer)]
    guards = [*(asked_once([read]) for read in reads), asked_once(reads), asked_once(reversed(reads))]
    assert all(g.first_failure() is None for g in guards)
    assert not any("holds" in g.text for g in guards)
    OPTIMIZER_CHANGES[number](optimizer)
    for g in guards:
        assert (g.first_failure() is None) == all(read.holds() for read in g.reads)


def test_an_optimizer_is_not_kept_alive() -> None:
    weight = fg.ones(2, requires_grad=True)
    optimizer = fg.optim.SGD([weight], lr=0.1)
    reads = [ParametersRead(optimizer), StateRead(optimizer)]
    guards = asked_once(reads)
    assert guards.first_failure() is None
    gone = weakref.ref(optimizer)
    del optimizer
    assert gone() is None and guards.first_failure() is not None
