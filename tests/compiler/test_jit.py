"""`jit`: what replays, what does not, and that both give what the function gives."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from jit_checks import Entered, leaf, same, sealed

import fusegrad as fg
from fusegrad import nn
from fusegrad.compiler.learning import FEW_PATHS
from fusegrad.compiler.verify import JitError


def test_a_replayed_call_never_enters_the_function():
    @fg.jit
    def f(x, y):
        return (x * y).tanh().sum()

    x, y = leaf(3, 4), leaf(3, 4, seed=1)
    expected = f(x, y)
    sealed(f)
    result = f(x, y)
    same(result, expected)
    result.backward()
    ours, x.grad = x.grad, None
    expected.backward()
    same(ours, x.grad)
    assert f.stats.compiled_calls == 1


def test_a_replay_runs_no_eager_op(monkeypatch: pytest.MonkeyPatch):
    @fg.jit
    def f(x):
        return ((x * 2).exp() + 1).sum()

    x = leaf(5)
    f(x)

    def refuse(*args: Any) -> Any:
        raise Entered("an op was bound")

    from fusegrad.eager.core.families import Elementwise, Reduction

    monkeypatch.setattr(Elementwise, "evaluate", refuse)
    monkeypatch.setattr(Reduction, "evaluate", refuse)
    f(x).backward()
    assert f.stats.compiled_calls == 1


def test_both_sides_of_a_branch_become_native():
    def f(x):
        h = x * 2
        if h.sum() > 0:
            return h.exp()
        return h.tanh()

    g = fg.jit(f)
    inputs = [leaf(4, seed=s) for s in range(12)]
    for x in inputs:
        g(x)
    sealed(g)
    for x in inputs:
        same(g(x), f(x))
    assert g.stats.compiles == 2
    assert g.stats.guard_failures == 1


def test_a_loop_whose_length_depends_on_data():
    def f(x):
        count = 0
        while x.norm() > 0.1:
            x = x * 0.5
            count += 1
        return x, count

    g = fg.jit(f)
    for size in (1.0, 5.0, 1.0, 20.0, 5.0, 1.0):
        x = fg.tensor([size, -size])
        (ours, steps), (theirs, expected) = g(x), f(x)
        same(ours, theirs)
        assert steps == expected
    assert g.stats.compiled_calls == 5 and g.stats.compiles == 1


def test_double_backward_through_a_compiled_call():
    def f(x):
        return (x * x * x).sum()

    g = fg.jit(f)
    x = leaf(4)
    g(x)
    (first,) = fg.autograd.grad(g(x), x, create_graph=True)
    (second,) = fg.autograd.grad(first.sum(), x)
    assert g.stats.compiled_calls == 1
    same(second, 6 * x)


def test_backward_twice_needs_retain_graph():
    g = fg.jit(lambda x: (x * x).sum())
    x = leaf(3)
    g(x)
    out = g(x)
    out.backward(retain_graph=True)
    out.backward()
    same(x.grad, 4 * x)
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


SCALE = 2.0


def test_globals_closures_and_defaults_are_guarded():
    global SCALE
    offset = 1.0

    def f(x, power=2):
        return x**power * SCALE + offset

    g = fg.jit(f)
    x = leaf(3)
    try:
        for value in (2.0, 3.0, 2.0):
            SCALE = value
            same(g(x), f(x))
        offset = 5.0
        same(g(x), f(x))
        f.__defaults__ = (3,)
        same(g(x), f(x))
    finally:
        SCALE = 2.0
    assert g.stats.compiled_calls >= 1


@pytest.mark.parametrize("values", [(1, True, 1.0), (0.0, -0.0), (float("nan"), float("nan"))])
def test_python_values_are_told_apart_by_type_and_bits(values: tuple[Any, ...]):
    def f(x, value):
        return x * value, value

    g = fg.jit(f)
    for value in (*values, *values):
        ours, theirs = g(fg.tensor([1, 2]), value), f(fg.tensor([1, 2]), value)
        assert ours[0].dtype == theirs[0].dtype
        assert type(ours[1]) is type(theirs[1]) and repr(ours[1]) == repr(theirs[1])
        np.testing.assert_array_equal(np.signbit(ours[0].numpy()), np.signbit(theirs[0].numpy()))


def test_structures_dtypes_layouts_and_modes_are_told_apart():
    def f(batch):
        return batch["x"] * batch["pair"][0] + len(batch["pair"])

    g = fg.jit(f)
    x = leaf(3, 3)
    for pair in ([x], (x,), [x, x]):
        for data in (x, x.T, x.detach(), fg.ones(3, 3, dtype=fg.float64)):
            batch = {"x": data, "pair": pair}
            for _ in range(2):
                ours, theirs = g(batch), f(batch)
                same(ours, theirs)
                assert ours.requires_grad == theirs.requires_grad and ours.dtype == theirs.dtype
    with fg.no_grad():
        assert not g({"x": x, "pair": [x]}).requires_grad
    assert g.stats.compiled_calls == 12


def test_what_cannot_be_replayed_runs_and_says_why(capsys: pytest.CaptureFixture[str]):
    @fg.jit
    def f(x):
        print("value", x)
        return x * 2

    for _ in range(4):
        f(fg.tensor([1.0]))
    assert capsys.readouterr().out.count("value tensor([1.])") == 4
    text = str(f.explain())
    assert "print" in text and "test_jit.py" in text


def test_a_result_that_cannot_be_replayed_is_named_with_the_function():
    def returns_a_view(x):
        return x[0]

    g = fg.jit(returns_a_view)
    x = fg.ones(2, 3)
    for _ in range(2):
        assert np.may_share_memory(g(x).numpy(), x.numpy())
    text = str(g.explain())
    assert "a view of a tensor that came from outside" in text
    assert f"test_jit.py:{returns_a_view.__code__.co_firstlineno}" in text


def test_methods_and_modules():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)
            self.scale = 2.0

        def forward(self, x):
            return self.layer(x).relu() * self.scale

        @fg.jit
        def loss(self, x):
            return self(x).sum()

    model = Model()
    x = leaf(4, 3)
    jitted = fg.jit(model)
    for _ in range(3):
        same(jitted(x), model(x))
        same(model.loss(x), model(x).sum())
    assert jitted.stats.compiled_calls == 2
    assert Model.loss.stats.compiled_calls == 2
    model.scale = 3.0
    same(jitted(x), model(x))
    model.loss(x).backward()
    assert model.layer.weight.grad is not None
    assert len(list(jitted.parameters())) == 2


def test_parameters_are_read_afresh():
    weight = leaf(3)
    g = fg.jit(lambda x: (x * weight).sum())
    x = leaf(3, seed=1)
    g(x)
    with fg.no_grad():
        weight.mul_(10)
    same(g(x), (x * weight).sum())
    assert g.stats.compiled_calls == 1


def test_results_are_fresh_and_arguments_keep_their_identity():
    g = fg.jit(lambda x, y: (x * 2, y, x * 2))
    x, y = fg.ones(3), fg.ones(3)
    g(x, y)
    first, same_y, other = g(x, y)
    assert same_y is y and first is not other
    second = g(x, y)[0]
    first.mul_(0)
    assert second.tolist() == [2.0, 2.0, 2.0] and other.tolist() == [2.0, 2.0, 2.0]


def test_large_results_are_not_overwritten_while_somebody_looks():
    g = fg.jit(lambda x: x + 1)
    x = fg.zeros(200, 200)
    g(x)
    kept = [g(x + i)[0] for i in range(6)]
    assert [row[0].item() for row in kept] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_an_op_that_refuses_its_input_raises_eagers_error():
    def f(x, t):
        return nn.functional.cross_entropy(x, t)

    g = fg.jit(f)
    x = leaf(2, 3)
    for _ in range(2):
        g(x, fg.tensor([0, 2]))
    with pytest.raises(IndexError) as ours:
        g(x, fg.tensor([0, 7]))
    with pytest.raises(IndexError) as theirs:
        f(x, fg.tensor([0, 7]))
    assert type(ours.value) is type(theirs.value)
    assert g.stats.compiled_calls == 1


def test_results_apart_from_each_other_are_derived_apart():
    def f(x, y):
        shared = x * y
        return (x.exp()).sum(), (y.tanh()).sum(), (shared * 2).sum(), (shared * x).sum()

    g = fg.jit(f)
    for _ in range(3):
        x, y = leaf(3), leaf(3, seed=1)
        first, second, third, fourth = g(x, y)
        second.backward()
        first.backward()
        with pytest.raises(RuntimeError, match="second time"):
            first.backward()
        third.backward()
        ours = x.grad.clone(), y.grad.clone()
        with pytest.raises(RuntimeError, match="second time"):
            fourth.backward()
        x.grad = y.grad = None
        (sum(f(x, y)[:3])).backward()
        same(ours[0], x.grad)
        same(ours[1], y.grad)
    assert g.stats.compiled_calls == 2


def test_a_write_into_what_only_the_compiled_backward_reads_again():
    def f(x, b):
        return (x + b).tanh() * 2

    g = fg.jit(f)
    for derived in (g, g, g, g, f):
        x, b = leaf(3), leaf(3, seed=1)
        y = derived(x, b)
        with fg.no_grad():
            b.add_(1)  # eager keeps the result of tanh, not what it was computed from
        y.sum().backward()
        if derived is g:
            ours = x.grad
    same(ours, x.grad)
    assert g.stats.compiled_calls == 3


def test_a_function_that_never_repeats_is_deferred_visibly():
    g = fg.jit(lambda x: x * round(x.sum().item(), 3))  # which Python has to know
    for number in range(FEW_PATHS + 8):
        assert g(fg.tensor([float(number)])).item() == number * number
    assert g.stats.compiles == FEW_PATHS + 2  # and two stretches, with the number as an input
    assert "paths were compiled" in str(g.explain())
    assert g.stats.compiled_calls > 0


def test_a_function_with_many_paths_keeps_those_that_are_used():
    g = fg.jit(lambda x: x * round(x.sum().item(), 3))  # which Python has to know
    for number in range(2 * FEW_PATHS):
        for _ in range(3):
            assert g(fg.tensor([float(number)])).item() == number * number
    assert g.stats.compiles == 2 * FEW_PATHS
    assert g.stats.compiled_calls == 4 * FEW_PATHS


def test_functions_models_and_tensors_are_collectable():
    def make() -> tuple[Any, ...]:
        model = nn.Linear(3, 2)
        function = fg.jit(lambda x: model(x).sum())
        for _ in range(3):
            function(fg.ones(1, 3)).backward()
        assert function.stats.compiled_calls == 2
        return weakref.ref(model), weakref.ref(function), weakref.ref(model.weight)

    references = make()
    gc.collect()
    assert [r() for r in references] == [None, None, None]


def test_many_threads_may_call_while_one_compiles():
    def f(x):
        return (x.exp() * x).sum() if x.sum() > 0 else x.tanh().sum()

    g = fg.jit(f)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for step in range(30):
                x = leaf(50, seed=seed * 100 + step)
                same(g(x), f(x))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert g.stats.compiled_calls > 100


def test_nested_jits_are_one_capture():
    inner = fg.jit(lambda x: x.exp())
    outer = fg.jit(lambda x: inner(x) * 2)
    x = leaf(3)
    for _ in range(3):
        same(outer(x), x.exp() * 2)
    assert outer.stats.compiled_calls == 2 and inner.stats.calls == 0


def test_writing_over_a_result_before_backward_is_an_error():
    g = fg.jit(lambda x: x.exp())
    x = leaf(3)
    g(x)
    out = g(x)
    with fg.no_grad():
        out.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        out.sum().backward()


def test_jit_refuses_what_cannot_be_called():
    with pytest.raises(TypeError, match="jit takes a function"):
        fg.jit(3)


def test_too_many_kinds_of_arguments_run_eagerly_and_say_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fusegrad.compiler.jit.MOST_KEYS", 3)
    g = fg.jit(lambda x: x * 2)
    for rank in range(1, 7):
        assert g(fg.ones(*[1] * rank)).sum().item() == 2
    assert g.stats.compiles == 3
    assert g(fg.ones(1, 1)).tolist() == [[2.0]] and g.stats.compiled_calls == 1
    assert "kinds of arguments" in str(g.explain())


def test_a_forked_child_computes_alone():
    g = fg.jit(lambda x: x.exp().sum())
    x = fg.ones(300, 300)
    expected = (g(x), g(x))[1].item()
    child = os.fork()
    if child == 0:
        os._exit(0 if g(x).item() == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_function_may_be_required_to_replay():
    @fg.jit(require="replay")
    def closed(x):
        return x * 2

    for _ in range(3):
        assert closed(fg.ones(2)).tolist() == [2, 2]
    assert closed.stats.compiled_calls == 2
    log = []

    @fg.jit(require="replay")
    def inserts(x):
        log.insert(99, 1)
        return x * 2

    for _ in range(2):
        with pytest.raises(JitError, match=r"required to replay(.|\n)*insert(.|\n)*test_jit.py"):
            inserts(fg.ones(2))
    assert log == [1]
    with pytest.raises(ValueError, match="require"):
        fg.jit(closed, require="speed")


def test_every_nth_replay_is_verified(monkeypatch: pytest.MonkeyPatch):
    @fg.jit(verify=2)
    def f(x):
        return {"y": x.exp() + 1, "n": 3}

    for _ in range(6):
        f(fg.ones(3))
    assert f.stats.compiled_calls == 5

    true = f.__wrapped__
    f.__wrapped__ = lambda x: {"y": true(x)["y"] * 1.1, "n": 3}  # as if the compiled code were wrong
    with pytest.raises(JitError, match="compiled and eager differ in result"):
        f(fg.ones(3))
        f(fg.ones(3))
