"""Effects of observed runs: what cannot be replayed opens a run, and names its line."""

import array
import random
import sys
import threading
import types

import numpy as np
import pytest
from observing import closed, observe

import fusegrad as fg
from fusegrad.tracer.capture.loop_hooks import FOLLOWING
from fusegrad.tracer.observe.observer import Observer

SETTING = 2.0


OUTER = types.SimpleNamespace(n=0, items=[1], stream=iter([1, 2, 3] * 100), array=np.ones(2))
CODES, OF_THREAD = array.array("q", [0]), threading.local()
OF_THREAD.n = 1

CASES = {
    "prints": lambda x: print(end="", file=sys.stdout),
    "insert": lambda x: OUTER.items.insert(0, 1),
    "sets `n`": lambda x: setattr(OUTER, "n", object),
    "iterator": lambda x: next(OUTER.stream),
    "outside the function": lambda x: [v for v, _ in zip(OUTER.stream, [1], strict=False)],
    "NumPy": lambda x: OUTER.array.sort(),
    "numpy": lambda x: np.empty(2),
    "random": lambda x: random.random(),
    "address": lambda x: id(x),
    "code of its own": lambda x: OF_THREAD.n,
    "`+` on a array": lambda x: CODES + CODES,
    "formats": lambda x: f"{x}",
    "`str`": lambda x: str([x]),
    "identit": lambda x: x is OUTER.w,
}


@pytest.mark.parametrize("word", CASES)
def test_effects_are_noticed(word):
    x = OUTER.w = fg.tensor([1.0])
    observer = observe(CASES[word], x)
    assert any(word in effect.reason for effect in observer.effects), observer.effects
    effect = observer.effects[0]
    assert effect.site.file == __file__
    assert effect.site.line == CASES[word].__code__.co_firstlineno
    assert effect.site.text


def test_the_line_of_an_effect():
    def helper(xs):
        xs += [1]

    def f(xs):
        y = len(xs)
        helper(xs)
        return y

    xs = [1]
    (effect,) = observe(f, xs).effects
    assert xs == [1, 1]
    assert effect.site.line == helper.__code__.co_firstlineno + 1
    assert effect.site.text == "xs += [1]"
    assert "part of the arguments" in effect.reason


def test_exceptions_that_are_not_explained_open():
    def f(x, y):
        try:
            return fg.matmul(x, y)
        except Exception:
            return None

    assert "exception" in observe(f, fg.ones(2, 3), fg.ones(2, 3)).effects[0].reason

    def g(x):
        try:
            raise KeyError(x)
        except KeyError:
            return 1 // 1

    closed(g, 1)


def test_comparison_of_plain_identity_opens():
    assert observe(lambda x, y: x is y, 1000, 1000).effects
    closed(lambda x: x is None, 1000)
    closed(lambda a, b: a is b, fg.tensor(1.0), fg.tensor(1.0))


def test_user_callbacks_inside_builtins_are_followed():
    log = []

    def key(v):
        log.insert(99, v)
        return v

    assert observe(lambda xs: sorted(xs, key=key), [2, 1]).effects
    assert observe(lambda xs: list(map(key, xs)), [2, 1]).effects
    closed(lambda xs: sorted(xs, key=lambda v: -v * SETTING), [2, 1])


def test_jitted_functions_are_inlined():
    class Jitted:
        __fusegrad_jit__ = True

        def __init__(self, function):
            self.__wrapped__ = function

        def __call__(self, *args):
            raise AssertionError("not inlined")

        def __get__(self, owner, kind=None):
            return self if owner is None else types.MethodType(self, owner)

    inner = Jitted(lambda x: x * SETTING)

    class Model:
        k = 2

        @Jitted
        def forward(self, x):
            return x * self.k

    model = Model()
    observer = closed(lambda x: inner(x) + model.forward(x), 2.0)
    assert any("SETTING" in read.describe() for read in observer.reads)
    assert any("`k`" in read.describe() for read in observer.reads)


def test_no_grad_as_context_and_decorator():
    log = []

    @fg.no_grad()
    def quiet(x):
        log.insert(99, 1)
        return x * 2

    def f(x):
        with fg.no_grad():
            return x * 2

    closed(f, fg.tensor([1.0], requires_grad=True))
    assert "insert" in observe(quiet, fg.tensor([1.0])).effects[0].reason


def test_nested_observation_is_separate():
    inner = Observer(((1,), {}), FOLLOWING)

    def f(x):
        return inner.run(lambda v: v + SETTING, (x,), {})

    outer = observe(f, 1)
    assert outer.effects
    assert any("SETTING" in read.describe() for read in inner.reads)
