"""Twins do what their originals do: statements, one kind after the other."""

import sys
import threading
import types

from twin_checks import note, same

n_calls = 1


class Box:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def test_unpacking_and_stores_in_order():
    def f(v):
        box = types.SimpleNamespace()
        xs = [0, 0, 0]
        i, xs[i if False else 1], (a, *xs[2:3]), box.y = v
        [p, q], *r = [(1, 2), 3, 4]
        u = w = box.z = xs[0] = 5
        for xs[1], box.y in [(1, 2), (3, 4)]:
            note((xs[1], box.y))
        del xs[0], box.z
        return i, xs, a, box.y, p, q, r, u, w, hasattr(box, "z")

    same(f, (1, 2, (3, 4), 6))
    same(f, (1, 2))
    same(f, 5)


def test_augmented_assignment_evaluates_target_once():
    def f():
        xs, d = [1, 2], {"k": [1]}
        note(xs)[note(0)] += note(5)
        note(d)[note("k")] += [2]
        d["k"] *= 2
        xs += (3,)
        t = (1,)
        t += (2,)
        s = "a"
        s += "b"
        return xs, d, t, s

    same(f)


def test_loops():
    def f(n):
        out = []
        for i in range(n):
            if i == 2:
                continue
            if i == 5:
                break
            out.append(i)
        else:
            out.append("else")
        while n:
            n -= 1
            if n == 1:
                break
        else:
            out.append("done")
        return out, n

    same(f, 3)
    same(f, 8)
    same(f, 0)


def test_exceptions():
    def f(x):
        try:
            note("try")
            value = 10 // x
        except ZeroDivisionError as error:
            note(str(error))
            raise ValueError(f"bad {x}") from error
        except (TypeError, KeyError):
            value = "other"
        else:
            note("else")
        finally:
            note("finally")
        return value

    same(f, 2)
    same(f, 0)
    same(f, "s")

    def messages(k):
        if k == 0:
            return undefined_name  # noqa: F821
        if k == 1:
            del k
            return k
        if k == 2:
            a, b = [1, 2, 3]
            return a, b
        if k == 3:
            return k.nothing
        if k == 4:
            raise AssertionError("small")
        if k == 5:
            return note()
        return n_calls(k)

    for k in range(7):
        same(messages, k)


def test_assert(tmp_path):
    path = tmp_path / "asserting.py"
    path.write_text(
        "def f(x):\n    try:\n        assert x > 5, 'small'\n    except AssertionError:\n        return 1\n"
    )
    namespace: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    for x in (1, 9):
        assert not same(namespace["f"], x).effects


def test_lines_of_tracebacks():
    def inner(x):
        y = [
            x,
            x / 0,
        ]
        return y

    def f(x):
        a = x
        return inner(a)

    same(f, 1)


def test_frames_are_where_they_were():
    def where():
        return sys._getframe(1).f_lineno, sys._getframe(1).f_code.co_name

    def f():
        return where(), sys._getframe().f_lineno

    same(f)


def test_with():
    events = []

    class Manager:
        def __enter__(self):
            events.append("enter")
            return 5, 6

        def __exit__(self, *error):
            events.append(error[0])
            return True

    def f(x):
        with Manager() as (a, b):
            return a / x
        return b

    same(f, 1)
    same(f, 0)
    assert events == 3 * ["enter", None] + 3 * ["enter", ZeroDivisionError]

    lock, condition = threading.Lock(), threading.Condition()

    def locked(x):
        with lock:
            return x

    def notified(x):
        with condition:
            return x

    assert not same(locked, 0).effects  # a replay asks whether it is free
    assert same(notified, 0).effects


def test_classes_and_full_names():
    def f(x):
        y = [i + x for i in range(2)]

        def inner():
            return [lambda: y]

        class Made:
            "Words."

            z = y

            def parts(self, value):
                match value:
                    case [first, *_]:
                        return first, [note(i) for i in self.z], x
                return super().__eq__(self)

        made = Made()
        names = inner.__qualname__, inner()[0].__qualname__, Made.__qualname__, Made.parts.__qualname__
        return made.parts([5]), made.parts(1), Made.__doc__, Made.__module__, names

    assert same(f, 3).effects[0].reason == "defines a class"
