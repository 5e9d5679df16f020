"""What an observed run reads and does: reads fail when the state changes, effects name their line."""

import dataclasses
import enum
import functools
import gc
import itertools
import math
import types
import weakref
from collections import defaultdict, deque

import pytest
from observing import broken, closed, holds

import fusegrad as fg
from fusegrad.tracer.capture.loop_hooks import FOLLOWING
from fusegrad.tracer.observe.observer import Observer

SETTING = 2.0
TABLE = {"a": 1}
ITEMS = [1, 2, 3]


# ------------------------------------------------------------------------------------ reads


@pytest.mark.parametrize("new", [True, 1, 1.0, -0.0, 0.0, math.nan, "1", None, (1,), [1]])
@pytest.mark.parametrize("old", [True, 1, 1.0, -0.0, 0.0, math.nan, "1", None, (1,)])
def test_plain_values_are_compared_to_the_bit(old, new):
    box = types.SimpleNamespace(k=old)
    observer = closed(lambda: box.k)
    box.k = new
    assert holds(observer) == (repr(old) == repr(new))


def test_global_and_builtin(monkeypatch):
    def f(x):
        return x * SETTING + len(ITEMS)

    observer = closed(f, 1)
    texts = [read.describe() for read in observer.reads]
    assert "global `SETTING` is 2.0" in texts
    assert any("builtin `len`" in text for text in texts)
    monkeypatch.setitem(globals(), "SETTING", 3.0)
    assert broken(observer) == ["global `SETTING` is 2.0"]
    monkeypatch.undo()
    assert holds(observer)
    monkeypatch.setitem(globals(), "len", lambda xs: 0)
    assert not holds(observer)


def test_closure_defaults_and_code():
    k = 1.0

    def g(x, by=2):
        return x * by

    def f(x):
        return g(x) + k

    observer = closed(f, 1)
    k = 1
    assert broken(observer) == ["closure variable `k` is 1.0"]
    k = 1.0
    g.__defaults__ = (3,)
    assert len(broken(observer)) == 1
    g.__defaults__ = (2,)
    assert holds(observer)
    g.__code__ = (lambda x, by: x).__code__
    assert not holds(observer)


def test_attributes_methods_and_absence():
    class Thing:
        kind = 1

        def __init__(self):
            self.v = 2

        def method(self):
            return self.v * self.kind

        @property
        def prop(self):
            return self.v

    thing = Thing()

    def f():
        return thing.method() + thing.prop + getattr(thing, "extra", 0) + hasattr(thing, "other")

    def fresh():
        return closed(f)

    changes = [
        lambda: setattr(thing, "v", 3),
        lambda: setattr(Thing, "kind", 2),
        lambda: setattr(thing, "kind", 2),
        lambda: setattr(Thing, "method", lambda self: 0),
        lambda: setattr(thing, "extra", 1),
        lambda: setattr(Thing, "other", 1),
        lambda: setattr(Thing, "prop", property(lambda self: 9)),
        lambda: setattr(Thing, "__getattr__", lambda self, name: 7),
    ]
    for change in changes[:-2]:
        observer = fresh()
        change()
        assert not holds(observer)
    observer = fresh()
    changes[-2]()
    assert not holds(observer)


def test_caught_attribute_error():
    box = types.SimpleNamespace()

    def f():
        try:
            return box.k
        except AttributeError:
            return 0

    observer = closed(f)
    box.k = 1
    assert not holds(observer)


def test_dict_items_and_absent_keys():
    d = {"a": 1, "b": 2}

    def f():
        missing = False
        try:
            d["z"]
        except KeyError:
            missing = True
        return d["a"] + d.get("q", 5) + ("w" in d) + missing

    for key in "aqzw":
        observer = closed(f)
        d["b"] += 1
        assert holds(observer)
        d[key] = d.get(key, 0) + 1
        assert not holds(observer)
        if key != "a":
            del d[key]


def test_sequences():
    xs = [1.0, [2.0, 3.0], (4.0,)]
    queue = deque([1, 2])

    def by_index():
        return xs[0] + xs[-1][0]

    def by_loop():
        return [(v,) for v in xs], len(queue), list(queue)

    observer = closed(by_index)
    xs[1] = [9.0]
    assert holds(observer)
    xs.append((5.0,))
    assert not holds(observer)
    xs.pop()
    assert holds(observer)
    observer = closed(by_loop)
    xs[1].append(1)
    assert holds(observer)  # the inner list's identity was seen, not its contents
    queue.append(1)
    assert not holds(observer)
    queue.pop()
    xs[0] = 1
    assert not holds(observer)


def test_deep_contents_are_guarded_for_ops():
    parts = [[fg.tensor([1.0]), fg.tensor([2.0])], [fg.tensor([3.0])]]

    def f():
        return sum(max(inner) for inner in parts), sorted(parts[0])

    observer = closed(f)
    assert {id(t) for inner in parts for t in inner} == set(observer.captured_tensors)
    parts[0].append(fg.tensor([4.0]))
    assert not holds(observer)


def test_arguments_are_the_callers_business():
    @dataclasses.dataclass
    class Config:
        scale: float
        items: list

        def total(self):
            return self.scale * sum(self.items)

    def f(d, config, xs):
        return d["k"] + config.total() + xs[0] + len(xs)

    observer = closed(f, {"k": 1}, Config(2.0, [1, 2]), [5])
    assert not any("list" in text or "dict" in text for text in map(repr, observer.reads))
    Config.total = lambda self: 0
    assert not holds(observer)


def test_objects_given_as_arguments_are_read():
    box = types.SimpleNamespace(k=1)
    observer = closed(lambda b: b.k, box)
    box.k = 2
    assert not holds(observer)


def test_modules_partials_enums_and_classes(monkeypatch):
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    double = functools.partial(lambda x, by: x * by, by=2)

    def f(c):
        return math.sqrt(4.0) + double(3) + (c is Color.RED) + (c == Color.BLUE) + Color.RED.value

    observer = closed(f, Color.RED)
    monkeypatch.setattr(math, "sqrt", lambda x: 0.0)
    assert not holds(observer)
    monkeypatch.undo()
    double.keywords["by"] = 3
    assert not holds(observer)


def test_tensors_are_captured():
    weight = fg.tensor([1.0, 2.0])
    box = types.SimpleNamespace(w=weight)

    def f(x):
        y = x * box.w
        return (y + y.shape[0]).sum() if y.ndim == 1 and y.dtype is fg.float32 else y

    observer = closed(f, fg.tensor([1.0, 2.0]))
    assert list(observer.captured_tensors.values()) == [weight]
    box.w = fg.tensor([1.0, 2.0])
    assert not holds(observer)


def test_reads_do_not_keep_objects_alive():
    class Thing:
        k = 1

    thing = Thing()
    box = types.SimpleNamespace(thing=thing)
    observer = closed(lambda b: b.thing.k, box)
    observer.release()
    reads, reference = observer.reads, weakref.ref(thing)
    observer.arguments = ((), {})
    del thing, observer
    box.thing = None
    gc.collect()
    assert reference() is None
    assert not all(read.holds() for read in reads)


def test_local_work_is_free():
    class Acc:
        def __init__(self):
            self.items = []
            self.total = 0

        def add(self, v):
            self.items.append(v)
            self.total += v
            return self

    def f(n):
        acc, seen, counts = Acc(), set(), defaultdict(list)
        for i, x in enumerate(itertools.chain(range(n), [7])):
            acc.add(x)
            seen.add(x)
            counts[x % 2].append(i)
        acc.items[0] = 5
        del acc.items[1:]
        d = dict(zip("ab", [1, 2], strict=True))
        d.setdefault("c", []).append(1)
        pairs = sorted(d.items(), key=lambda kv: kv[0], reverse=True)
        return acc.total, acc.items, len(seen), counts[0], pairs[0], list(map(abs, acc.items))

    closed(f, 4)


class Dynamic:
    """Special methods in Python that depend on outer state."""

    def __len__(self):
        return len(ROWS)

    def __iter__(self):
        return iter(ROWS)

    def __getitem__(self, index):
        return ROWS[index]

    def __bool__(self):
        return len(ROWS[0]) > 1

    def __lt__(self, other):
        return len(ROWS[0]) > 1

    def __eq__(self, other):
        return len(ROWS[0]) > 1

    __hash__ = None

    def __str__(self):
        return str(ROWS)


ROWS: list = []
DYNAMIC = Dynamic()


@pytest.mark.parametrize(
    "function",
    [
        lambda: [row[-1] for row in ROWS],
        lambda: [last for *_, last in ROWS],
        lambda: [p for p, *_ in ROWS] and max(*ROWS[0], 0),
        lambda: list(itertools.chain.from_iterable(ROWS)),
        lambda: list(itertools.starmap(lambda *row: row, ROWS)),
        lambda: f"{ROWS}",
        lambda: ROWS == [[1], [2]],
        lambda: sum(map(len, ROWS)),
        lambda: sorted(ROWS, key=lambda row: -len(row)),
        lambda: bool(DYNAMIC),
        lambda: 1 if DYNAMIC else 2,
        lambda: [len(row) for row in DYNAMIC],
        lambda: DYNAMIC[0][-1],
        lambda: DYNAMIC < 3,
        lambda: DYNAMIC == 3,
        lambda: 3 in [DYNAMIC],
        lambda: [3].count(DYNAMIC),
        lambda: str(DYNAMIC),
        lambda: f"{DYNAMIC}",
        lambda: min(DYNAMIC, DYNAMIC) is None or list(DYNAMIC),
    ],
)
def test_whatever_inner_state_decides_is_guarded_or_open(function):
    ROWS[:] = [[1], [2]]
    before = function()
    observer = Observer(((), {}), FOLLOWING)
    assert observer.run(function, (), {}) == before
    ROWS[0].append(7)
    function()
    assert observer.effects or not holds(observer)
