"""Twins do what their originals do: values, exceptions, line numbers, scopes, order of evaluation."""

import functools
from collections import OrderedDict, namedtuple
from typing import NamedTuple

import pytest
from twin_checks import note, same

import fusegrad as fg
from fusegrad.tracer.capture.loop_hooks import FOLLOWING, LoopHooks
from fusegrad.tracer.observe.observer import Observer, current
from fusegrad.tracer.twin.instrument import instrument
from fusegrad.tracer.twin.source import Unsupported

SCALE = 3


# ------------------------------------------------------------------------------------ calls


def positional(a, /, b, c=3, *rest, d, e=5, **others):
    return a, b, c, rest, d, e, others


def test_all_kinds_of_parameters():
    same(positional, 1, 2, d=4)
    same(positional, 1, 2, 3, 4, 5, d=4, e=6, f=7)
    same(positional, 1, d=4)

    def calls(xs, kw):
        return positional(*xs, *[9, 8], d=1, **kw), positional(1, 2, **{"d": 2, "z": 3})

    same(calls, [1, 2], {"q": 5})


def test_defaults_are_the_originals():
    def f(x, box=[1, 2], *, k={"a": 1}):  # noqa: B006
        return x, box is f.__defaults__[0], k

    same(f, 1)


class Base:
    factor = 2

    def __init__(self, x):
        self.__hidden = x

    def get(self):
        return self.__hidden * self.factor

    @property
    def double(self):
        return self.__hidden * 2

    @staticmethod
    def static(x):
        return x + 1

    @classmethod
    def make(cls, x):
        return cls(x)

    def own_class(self):
        return Base, __class__


class Derived(Base):
    factor = 5

    def get(self):
        return super().get() + super().get() + self.static(1) + super().double


def test_methods_super_mangling():
    def f(d, x):
        return d.get(), Derived.make(x).get(), Derived(x).double, Base.static(3), d.own_class()

    observer = same(f, Derived(4), 7)
    assert not observer.effects
    same(Derived(3).get)


def test_recursion_and_own_name():
    same(factorial, 5)

    def local(n):
        return n if n < 1 else local(n - 1) + n

    same(local, 4)


def factorial(n):
    return 1 if n == 0 else n * factorial(n - 1)


def test_lambdas_on_one_line():
    pair = (lambda x: x + 1, lambda x: x * 2)
    for function in pair:
        same(function, 5)
    nested = lambda x: (lambda y: y + x)(x)  # noqa: E731
    same(nested, 3)
    variadic = lambda *xs, **kw: (len(xs), sorted(kw))  # noqa: E731
    same(variadic, 1, 2, k=3)


def test_decorated_functions_and_closures():
    def twice(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs) * 2

        return wrapper

    @twice
    def f(x):
        return x + SCALE

    assert not same(f, 4).effects


def test_nested_functions_nonlocal_and_escape():
    def f(x):
        count = 0

        def bump(by=x):
            nonlocal count
            count += by
            return count

        bump()
        bump(3)
        return count

    assert not same(f, 2).effects

    def make(x):
        return lambda y: x + y * SCALE

    escaped = Observer(((1,), {}), FOLLOWING).run(make, (1,), {})
    assert current.observer is None
    assert escaped(5) == 16


def test_generators():
    def numbers(n):
        total = 0
        for i in range(n):
            got = yield i
            total += got or 0
        yield from [total, -1]

    def f(n):
        first = numbers(2)
        return list(numbers(n)), sum(i for i in numbers(n)), next(first), first.send(5), list(first)

    assert not same(f, 3).effects


# ------------------------------------------------------------------------------------ expressions


def test_comprehension_scopes():
    def f(x, n):
        x = [x + i for i in range(n) if i % 2 for x in [i]]
        y = {k: [j * k for j in x] for k, x in zip("ab", [[1], [2]], strict=True)} if n > 5 else {}
        z = {(a, b) for a, (b, c) in [(1, (2, 3)), (4, (5, 6))] if c}
        return x, y, z, sum(i * j for i in range(n) for j in range(i)), [(lambda: i)() for i in range(2)]

    assert not same(f, 10, 6).effects
    same(f, 10, 2)


def test_walrus():
    def f(xs):
        if (n := len(xs)) > 2 and (m := n * 2):
            return n, m, [last := x for x in xs], last
        return n

    same(f, [1, 2, 3])
    same(f, [1])


def test_chained_comparison_evaluates_once():
    def f(a, b, c):
        return note(a, "a") < note(b, "b") <= note(c, "c"), 0 < note(b) < 10 != a

    same(f, 1, 2, 3)
    same(f, 3, 2, 1)


def test_boolean_operators_short_circuit_and_give_operands():
    def f(a, b, c):
        values = (note(a) and note(b)) or note(c), a or b or c, a and b and c, not a
        if note(a) and (note(b) or not note(c)):
            return values, "yes"
        return values, [v for v in (a, b, c) if v and not v > 5]

    for args in [(0, 1, 2), (1, 0, 2), (1, 1, 0), (0, 0, 0), ([], [1], ())]:
        if args[0] == []:
            continue
        same(f, *args)


def test_strings_slices_and_displays():
    def f(x, s):
        text = f"{x:>{len(s) + 5}} {s!r:.3} {x + 1=} {{}}" + "%s-%d" % (s, x) + s.upper()[::-1]  # noqa: UP031
        return text, s[1:], s[:-1], s[x], {**{"a": x}, "b": 2}, [*s, *range(x)], (x, *s), {x, 2, *[3]}

    assert not same(f, 2, "hello").effects


def test_operators():
    def f(a, b):
        return (
            a + b,
            a - b,
            a * b,
            a / b,
            a // b,
            a % b,
            a**b,
            a << b,
            a >> b,
            a & b,
            a | b,
            a ^ b,
            -a,
            +a,
            ~a,
        )

    same(f, 7, 2)
    same(f, 7, 0)
    same(f, 7, "x")


def test_annotations_and_docstring():
    def f(x: int) -> int:
        """Words."""
        y: int = x + 1
        z: str
        if y > 100:
            z = "z"
            return z
        return y

    same(f, 1)
    assert instrument(f, LoopHooks).__doc__ == "Words."
    assert instrument(f, LoopHooks).__qualname__ == f.__qualname__


# ------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    "source, word",
    [
        ("def f(x):\n    global SCALE\n    for SCALE in [x]: pass", "outer variable"),
        ("def f(x):\n    global SCALE\n    SCALE = x\n    del SCALE", "outer variable"),
        ("def f(x):\n    class C:\n        def g(self):\n            nonlocal x\n            x = 1", "class"),
        ("def f(x):\n    return locals()", "frame"),
        ("async def f(x):\n    return 1", "asynchronous"),
        ("def f(x):\n    try:\n        return 1\n    finally:\n        return 2", "finally"),
    ],
)
def test_what_is_not_followed_runs_natively(tmp_path, source, word):
    path = tmp_path / "program.py"
    path.write_text(source)
    namespace: dict = {}
    exec(compile(source, str(path), "exec"), namespace)
    with pytest.raises(Unsupported, match=word):
        instrument(namespace["f"], LoopHooks)
    observer = Observer(((1,), {}), FOLLOWING)
    result = observer.run(namespace["f"], (1,), {})
    if hasattr(result, "close"):
        result.close()
    assert len(observer.effects) == 1 and word in observer.effects[0].reason


def test_source_that_changed_is_noticed(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("def f(x):\n    return x + 1\n")
    namespace: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    path.write_text("def f(x):\n    return x + 2\n")
    observer = Observer(((1,), {}), FOLLOWING)
    assert observer.run(namespace["f"], (1,), {}) == 2
    assert "source" in observer.effects[0].reason


def test_named_tuples_and_ordered_dicts():
    point = namedtuple("point", "x y")

    def f(p, d):
        q = point(p.x + 1, p.y)
        return q, q.x, q[1], [k + k for k in d], d["a"], OrderedDict(b=1)

    assert not same(f, point(1, 2), OrderedDict(a=1)).effects


class Scale(NamedTuple):
    asked: list

    def __mul__(self, x):
        self.asked.append(None)
        return x * len(self.asked)


def test_operators_that_a_namedtuple_adds_run_at_each_call():
    f, scale = fg.jit(lambda x, scale: scale * x), Scale([])
    assert [f(fg.ones(1), scale).item() for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]


def test_nested_targets_take_apart_what_python_takes_apart():
    @fg.jit
    def f(x, y):
        a, (b, c) = x, (y, x + 1)
        (d, e), [g, *h] = (a, b), [c, a, b]
        for i, (p, q) in enumerate([(a, b), (c, d)]):
            a = a + p * q * i
        pairs = [u * v for u, (v, _) in [(a, (b, 1)), (c, (d, 2))]]
        (m,) = (e,)
        return a + b * c + d + e + g + sum(h) + sum(pairs) + m

    x, y = fg.ones(2), fg.ones(2) * 3
    expected = f.__wrapped__(x, y)
    for _ in range(3):
        assert f(x, y).tolist() == expected.tolist()
    assert f.stats.compiled_calls == 2

    @fg.jit
    def too_many(x):
        a, (b, c) = x, (x, x, x)
        return a + b + c

    for _ in range(2):
        with pytest.raises(ValueError, match="too many values to unpack"):
            too_many(x)
