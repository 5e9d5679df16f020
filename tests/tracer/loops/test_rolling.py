"""Rounds of loops that are left out: the results are eager's, and nothing is left out that could differ."""

import linecache
import random
from typing import NamedTuple

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.program import loop_bodies
from fusegrad.compiler.program.program import Program
from fusegrad.tracer.capture.api import capture
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.evaluation import evaluate_graph
from fusegrad.tracer.ir.graph import Graph, check
from fusegrad.tracer.ir.rolled import ROLLED, unrolled
from fusegrad.tracer.ir.text import load, parse_graph
from fusegrad.tracer.record import later


@pytest.fixture(autouse=True)
def small_tensors_wait(monkeypatch):
    """Rounds are left out of small tensors' loops, too."""
    monkeypatch.setattr(later, "LARGE", 1)
    monkeypatch.setattr(passes, "CHECK", True)


def tensors(count=1, shape=(6, 5)):
    draw = np.random.default_rng(0)
    return [fg.tensor(draw.standard_normal(shape).astype(np.float32)) for _ in range(count)]


def loops(function, *args):
    """The loops of a captured run; its graph gives eager's results, rolled, written out and as text."""
    expected = flat(function(*copies(args)))
    made = capture(function, args, puts_off=True)
    graph = check(made.graph)
    assert parse_graph(graph.text) == graph
    known = {**dict(zip(made.arguments, (a for a in args if isinstance(a, fg.Tensor)), strict=True))}
    known |= made.captured | {v: fg.tensor(a) for v, a in made.constants.items()}
    inputs = [known[v] for v in graph.inputs]
    for run in (load(graph.text), lambda *x: evaluate_graph(check(unrolled(graph)), x)):
        assert_same([t.numpy() for t in run(*inputs)], expected)
    made.later.settle()
    assert_same(flat(made.result), expected)
    return [e.params["rounds"] for e in graph.equations if e.op is ROLLED]


def compiles_right(function, *args, compiled_calls=3):
    """Whether the first call and later ones of the jitted function give eager's results."""
    expected, jitted = flat(function(*copies(args))), fg.jit(function)
    for _ in range(3):
        assert_same(flat(jitted(*copies(args))), expected)
    assert jitted.stats.compiled_calls == compiled_calls, jitted.stats


def with_compiled_loops(graph):
    return loop_bodies.with_compiled_loops(graph, Program)


def has_loop(graph):
    return any(e.op is ROLLED for e in graph.equations)


def copies(args):
    return [a.clone() if isinstance(a, fg.Tensor) else a for a in args]


def flat(result):
    return [t.numpy().copy() for t in (result if isinstance(result, tuple) else (result,))]


def assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def wave(start, steps=40):
    now, before = start.clone(), start.clone()
    for _ in range(steps):
        inner = now[1:-1]
        before[1:-1] = 1.5 * inner - 0.5 * before[1:-1] + 0.25 * (now[2:] + now[:-2] - 2 * inner)
        now, before = before, now
    return now, before, inner + 0


@pytest.mark.one_in(3)
@pytest.mark.parametrize("steps", range(20, 30))
def test_rounds_that_do_the_same_become_one_equation(steps):
    found = loops(wave, *tensors(), steps)
    # Two rounds come before it, and one or two behind.
    assert found == ([] if steps < 23 else [(steps - 2 - (2 - steps % 2)) // 2])
    compiles_right(wave, *tensors(), steps)


def test_a_loop_is_compiled_once_whatever_its_length():
    kernels = []
    for steps in (40, 400):
        jitted = fg.jit(wave)
        jitted(*tensors(), steps)
        kernels.append([k.kernel.text for k in jitted.kernels().forward])
        assert f"rounds of a loop, {steps // 2 - 2} times:" in str(jitted.explain())
    assert kernels[0] == kernels[1]


def test_a_loop_leaves_what_it_is_given():
    def function(x, y):
        for _ in range(30):
            y[1:] = 0.5 * y[1:] + x[:-1]
            x[1:] = 0.25 * y[:-1]
        return x, y

    made = capture(lambda x, y: function(x.clone(), y.clone()), tuple(tensors(2)), puts_off=True)
    (loop,) = (e for e in made.graph.equations if e.op is ROLLED)
    made.later.settle()
    graph = Graph(loop.inputs, (loop,), loop.outputs)
    program = Program(graph).finish()
    given = [t.numpy() for t in tensors(2)]
    arrays = program.run(given)
    expected = loop.params["body"].repeat(tensors(2), loop.params)
    assert_same([arrays[program.locate(v)[0]] for v in loop.outputs], expected)
    assert_same(given, [t.numpy() for t in tensors(2)])


def test_its_body_runs_in_the_memory_of_what_it_takes_over(monkeypatch):
    repeated = []
    original = loop_bodies.CompiledBody.repeat_on

    def repeat(self, given, params):
        repeated.append((params["rounds"], len(self.program.into)))
        return original(self, given, params)

    monkeypatch.setattr(loop_bodies.CompiledBody, "repeat_on", repeat)
    compiles_right(wave, *tensors(), 40)
    assert repeated == [(18, 2)] * 3


def test_what_a_loop_reads_and_never_changes():
    scale = fg.tensor(np.linspace(0.5, 1, 5, dtype=np.float32))

    def function(x, y):
        for _ in range(30):
            y[1:] = 0.5 * y[1:] + scale * x[:-1]
        return y

    def local(x, y):
        return function(x, y.clone())

    assert loops(local, *tensors(2)) == [13]
    compiles_right(local, *tensors(2))


def test_new_tensors_in_the_same_variables():
    def function(x, w):
        for _ in range(31):
            x = 0.5 * (x @ w) + x
            x = x.clamp(-2.0, 2.0)
        return x

    assert loops(function, *tensors(2, (5, 5))) == [14]


def test_memory_that_a_loop_writes_through_a_view():
    def function(x):
        whole = x.clone()
        rows = whole[1:4]
        for _ in range(30):
            rows[0] = 0.5 * rows[1] + whole[0]
            rows *= 0.75
        return whole, rows + 0

    loops(function, *tensors())
    compiles_right(function, *tensors())


def test_rounds_whose_kernels_would_be_one_are_written_out():
    def function(x):
        for _ in range(40):
            x = 0.5 * x + 0.25
        return x

    made = capture(function, tuple(tensors()), puts_off=True)
    assert has_loop(made.graph)
    assert not has_loop(with_compiled_loops(made.graph))
    made.later.settle()
    compiles_right(function, *tensors())


def test_values_that_python_looks_at_after_a_loop_are_computed():
    def function(x):
        for _ in range(30):
            x = 0.5 * x + 0.25
        return x * 2 if x.sum() > 0 else x - 1

    compiles_right(function, *tensors(), compiled_calls=2)


# What must not be left out.


def counts(x, seen):
    for _ in range(40):
        seen.append(len(seen))
        x = 0.5 * x
    return x


def calls(x):
    ran = []

    def step(x):
        ran.append(None)
        return 0.5 * x

    for _ in range(40):
        x = step(x)
    return x * len(ran)


def changes_a_number(x):
    n = 1
    for _ in range(40):
        x = 0.5 * x + n
        n = n + 1
    return x


def knows_the_round(x):
    for i in range(40):
        x = 0.5 * x + i
    return x


def leaves_early(x):
    for i in range(40):
        if i == 30:
            return x * 2
        x = 0.5 * x
    return x


def three_take_turns(x):
    a, b, c = x + 1, x + 2, x + 3
    for _ in range(41):
        a = 0.5 * a + b
        a, b, c = b, c, a
    return a, b, c


def draws(x):
    fg.manual_seed(1)
    for _ in range(40):
        x = 0.5 * x + fg.rand(6, 5)
    return x


def writes_a_part_of_a_list(x):
    kept = [x, x]
    for _ in range(40):
        x = 0.5 * x
        kept[:1] = [x]
    return x + kept[0]


def carries_a_view(x):
    x, row = x.clone(), x[0]
    for _ in range(40):
        x = 0.5 * x + row
        row = x[1]
    return x


def first_rounds_differ(x):
    a = b = c = d = e = f = x
    for _ in range(40):
        a, b, c, d, e, f = b, c, d, e, f, 0.5 * a + f
    return a, b, c, d, e, f + 0


@pytest.mark.parametrize(
    "function",
    [
        calls,
        changes_a_number,
        knows_the_round,
        three_take_turns,
        draws,
        writes_a_part_of_a_list,
        carries_a_view,
    ],
)
def test_rounds_that_may_differ_all_run(function):
    made = capture(function, tuple(tensors()), puts_off=True)
    assert not has_loop(made.graph)
    made.later.settle()
    if function is not draws:
        assert_same(flat(made.result), flat(function(*tensors())))


def test_a_loop_that_returns_is_over():
    made = capture(leaves_early, tuple(tensors()), puts_off=True)
    assert has_loop(made.graph)
    made.later.settle()
    assert_same(flat(made.result), flat(leaves_early(*tensors())))


def test_a_list_gets_all_its_items():
    seen = []
    fg.jit(counts)(*tensors(), seen)
    assert seen == [*range(40)]


def test_a_ring_of_six():
    loops(first_rounds_differ, *tensors())
    compiles_right(first_rounds_differ, *tensors())


def test_gradients_follow_every_round():
    x = tensors()[0].requires_grad_()

    def function(x):
        for _ in range(40):
            x = 0.9 * x * x.clamp(-1.0, 1.0)
        return x.sum()

    made = capture(function, (x,), puts_off=True)
    assert not has_loop(made.graph)
    made.later.settle()


def test_a_property_of_an_object_runs_in_each_round():
    class Counter:
        n = 0

        @property
        def next(self):
            self.n += 1
            return 1.0

    counter = Counter()

    def function(x):
        for _ in range(40):
            x = 0.5 * x + counter.next
        return x

    assert_same(flat(fg.jit(function)(*tensors())), flat(function(*tensors())))
    assert counter.n == 80


class Scale(NamedTuple):
    asked: list

    def __mul__(self, x):
        self.asked.append(None)
        return x * 0.5 + (1.0 if len(self.asked) % 40 > 20 else 0.0)


def test_operators_of_a_namedtuple_run_in_each_round():
    ours, theirs = Scale([]), Scale([])

    def function(x, scale):
        for _ in range(40):
            x = scale * x
        return x

    jitted = fg.jit(function)
    for calls in range(1, 4):
        assert_same(flat(jitted(*tensors(), ours)), flat(function(*tensors(), theirs)))
        assert len(ours.asked) == len(theirs.asked) == 40 * calls


def test_versions_are_those_of_all_rounds():
    def function(x):
        whole = x * 2
        row = whole[0]
        for _ in range(40):
            row.mul_(0.5)
            new = whole.clone()
            new += 1
        return whole, whole._version, row._version, new._version

    assert fg.jit(function)(*tensors())[1:] == function(*tensors())[1:] == (40, 40, 1)


def test_a_range_that_is_longer_than_any_list():
    def function(x):
        for _ in range(2**70):
            y = x[0]
            x = x[1:]
        return x, y

    with pytest.raises(IndexError):
        fg.jit(function)(*tensors())


def test_a_variable_that_another_function_deletes():
    def function(x):
        y = x * 2

        def forget():
            nonlocal y
            del y

        for _ in range(1):
            x = x * 0.5 + y
            y = x
            forget()
        return x

    assert_same(flat(fg.jit(function)(*tensors())), flat(function(*tensors())))


# Random bodies.


def body(draw):
    """The lines of a round over five variables, of ops whose compiled results are eager's bits.

    Half of them only write into memory that was there before, as stencils do.
    """
    names = "abcde"
    stencil = draw.random() < 0.5
    for _ in range(draw.randint(1, 6)):
        x, y, z = (draw.choice(names) for _ in range(3))
        term = draw.choice([f"{y}", f"{y}.flip(0)", f"({y} * {z})", f"fg.maximum({y}, {z})"])
        mixed = f"(0.5 * {z} + 0.25 * {term}).clamp(-2.0, 2.0)"
        writes = [
            f"{x}, {y} = {y}, {x}",
            f"{x}[1:-1] = ({mixed})[:-2]",
            f"{x}[1:-1] = 0.5 * {y}[1:-1] - 0.25 * ({z}[2:] + {z}[:-2])",
            f"{x}[0] = {y}[1] * 0.5",
            f"{x} += 0.125 * {y}",
            f"{x}.mul_(0.75)",
            f"t = {y}[1:]; {x}[1:] = t * 0.5",
        ]
        makes = [f"{x} = {mixed}", f"{x} = {y}", f"{x} = {y}.clone()", f"{x} = {y}.T.T"]
        yield draw.choice(writes if stencil else writes + makes)


def random_loop(seed):
    draw = random.Random(seed)
    lines = ["import fusegrad as fg", "def function(a, b, w):"]
    lines += ["    a, b, c, d, e = a + 0, b + 0, a + 1, a * 0.5, w"]
    if draw.random() < 0.3:
        lines += ["    e = d[:]"]
    lines += [f"    for _ in range({draw.randint(24, 34)}):", *(f"        {line}" for line in body(draw))]
    lines += ["    return a + 0, b + 0, c + 0, d + 0, e + 0", ""]
    text, name = "\n".join(lines), f"<random loop {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace = {}
    exec(compile(text, name, "exec"), namespace)
    return namespace["function"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("first", range(0, 120, 30))
def test_random_loops(first):
    rolled = compiled = 0
    for seed in range(first, first + 30):
        function, (a, b, w) = random_loop(seed), tensors(3, (6, 6))
        expected, jitted = flat(function(*copies((a, b, w)))), fg.jit(function)
        for _ in range(2):
            assert_same(flat(jitted(*copies((a, b, w)))), expected)
        made = capture(function, (a, b, w), puts_off=True)
        made.later.settle()
        assert_same(flat(made.result), expected)
        rolled += has_loop(made.graph)
        compiled += has_loop(with_compiled_loops(made.graph))
    assert rolled > 10 and compiled > 0, f"{rolled} loops were rolled, {compiled} are compiled as such"
