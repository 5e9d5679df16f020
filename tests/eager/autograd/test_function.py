"""Custom Functions, checkpoint and anomaly mode, against torch."""

from __future__ import annotations

import functools
import gc
import weakref

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.utils.checkpoint import checkpoint, checkpoint_sequential


def same(program):
    """Run `program(lib)` in both libraries and compare what it returns, or the kind of its error."""
    outcomes = []
    for lib in (fg, torch):
        try:
            outcomes.append(program(lib))
        except Exception as error:
            outcomes.append(type(error).__name__)
    assert outcomes[0] == outcomes[1]
    return outcomes[0]


def cube(lib):
    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale=1.0):
            ctx.save_for_backward(x)
            ctx.scale = scale
            return x**3 * scale

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            assert ctx.needs_input_grad == ((True, False) if ctx.scale != 1.0 else (True,))
            return (3 * x * x * ctx.scale * g, None)[: len(ctx.needs_input_grad)]

    return Cube


def test_gradients_of_two_orders():
    def program(lib):
        x = lib.tensor([2.0, 3.0], requires_grad=True)
        y = cube(lib).apply(x, 2.0)
        (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = lib.autograd.grad(g.sum(), x)
        cube(lib).apply(x).sum().backward()
        return g.tolist(), h.tolist(), x.grad.tolist(), type(y.grad_fn).__name__, y.requires_grad

    assert same(program)[0] == [24.0, 54.0]


def test_outputs_saved_and_several():
    def program(lib):
        class ExpAndSign(lib.autograd.Function):
            @staticmethod
            def forward(x, other):
                return x.exp(), x > 0, x * other, "text"

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(output[0], *inputs)
                ctx.mark_non_differentiable(output[1])

            @staticmethod
            def backward(ctx, ge, gs, gm, text=None):
                e, x, other = ctx.saved_tensors
                return ge * e + gm * other, gm * x

        x = lib.tensor([1.0, -1.0], requires_grad=True)
        w = lib.tensor([2.0, 3.0], requires_grad=True)
        e, s, m, text = ExpAndSign.apply(x, w)
        (g,) = lib.autograd.grad(e.sum() + (m * m).sum(), x, create_graph=True)
        (h,) = lib.autograd.grad(g.sum(), x)
        flags = [t.requires_grad for t in (e, s, m)]
        return [[round(v, 4) for v in t.tolist()] for t in (g, h)], flags, text, s.tolist()

    same(program)


def test_unused_outputs_and_materialized_gradients():
    def program(lib):
        seen = []

        class Two(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, materialize):
                ctx.set_materialize_grads(materialize)
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, a, b):
                seen.append((a is None, b is None))
                return (a if b is None else a + b), None

        for materialize in (True, False):
            x = lib.tensor([1.0], requires_grad=True)
            Two.apply(x, materialize)[0].sum().backward()
            seen.append(x.grad.tolist())
        return seen

    same(program)


def test_writing_in_place():
    def program(lib):
        class Double(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x.mul_(2)
                ctx.mark_dirty(x)
                return x

            @staticmethod
            def backward(ctx, g):
                return g * 2

        x = lib.tensor([1.0, 2.0], requires_grad=True)
        y = x * 1
        z = Double.apply(y)
        (y * y).sum().backward()
        results = [z is y, x.grad.tolist(), y._version]
        x.grad = None
        y = x * 1
        Double.apply(y[:1])
        y.sum().backward()
        results.append(x.grad.tolist())
        kept = x * 1
        product = kept * kept
        Double.apply(kept)
        for refused in (lambda: Double.apply(x), lambda: product.sum().backward()):
            try:
                refused()
                results.append("done")
            except RuntimeError:
                results.append("refused")
        return results

    same(program)


def test_an_input_given_back_and_views():
    def program(lib):
        class Same(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, part):
                return x[:1] if part else x

            @staticmethod
            def backward(ctx, g):
                return g * 7, None

        x = lib.tensor([1.0], requires_grad=True)
        y = Same.apply(x, False)
        y.sum().backward()
        results = [y is x, x.grad.tolist()]
        base = x * 1
        view = Same.apply(base, True)
        try:
            view.mul_(2)
            results.append("done")
        except RuntimeError:
            results.append("refused")
        with lib.no_grad():
            results.append(Same.apply(x, False).requires_grad)
        return results

    same(program)


@pytest.mark.parametrize("case", range(6))
def test_wrong_backwards(case):
    def program(lib):
        class Wrong(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, n):
                ctx.save_for_backward(x)
                return x * n

            @staticmethod
            def backward(ctx, g):
                return [
                    lambda: g,
                    lambda: (g, g),
                    lambda: (lib.ones(7), None),
                    lambda: (g, None, None),
                    lambda: (g, None, g),
                    lambda: ("text", None),
                ][case]()

        x = lib.tensor([1.0, 2.0], requires_grad=True)
        Wrong.apply(x, 3).sum().backward()
        return x.grad.tolist()

    same(program)


def test_saved_tensors_are_checked_and_freed():
    def program(lib):
        results = []
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        y = x * 1
        z = cube(lib).apply(y)
        y.add_(1)
        for call in (lambda: z.sum().backward(),):
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                call()
        z = cube(lib).apply(x).sum()
        z.backward()
        with pytest.raises(RuntimeError, match="second time"):
            z.backward()
        with pytest.raises((RuntimeError, TypeError)):
            cube(lib)()(x)
        return results

    same(program)


def test_once_differentiable():
    def program(lib):
        class Once(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            @lib.autograd.function.once_differentiable
            def backward(ctx, g):
                return 2 * ctx.saved_tensors[0] * g

        x = lib.tensor([1.0, 2.0], requires_grad=True)
        Once.apply(x).sum().backward()
        (g,) = lib.autograd.grad((Once.apply(x) ** 2).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            g.sum().backward()
        return x.grad.tolist(), g.requires_grad

    same(program)


def test_errors_in_backward_show_the_forward_line():
    class Bad(fg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g + fg.ones(5)

    x = fg.tensor([1.0, 2.0], requires_grad=True)
    y = Bad.apply(x)  # here
    with pytest.raises(RuntimeError, match=r"Bad\.apply\(x\)  # here"):
        y.sum().backward()


def test_no_circles_and_no_holding():
    gc.collect()
    gc.disable()
    try:

        class Keep(fg.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                out = x.exp()
                ctx.save_for_backward(x, out)
                return out

            @staticmethod
            def backward(ctx, g):
                return g * ctx.saved_tensors[1]

        x = fg.ones(3, requires_grad=True)
        y = Keep.apply(x * 1)
        gone = [weakref.ref(y), weakref.ref(y.grad_fn), weakref.ref(y.array)]
        (g,) = fg.autograd.grad(y.sum(), x, create_graph=True)
        gone.append(weakref.ref(g))
        del y, g
        assert [r() for r in gone] == [None] * 4
    finally:
        gc.enable()


def test_inside_jit_it_runs_eagerly_and_says_so():
    Cube = cube(fg)

    @fg.jit
    def f(x):
        return Cube.apply(x).sum()

    x = fg.tensor([2.0], requires_grad=True)
    for _ in range(3):
        x.grad = None
        f(x).backward()
        assert x.grad.tolist() == [12.0]
    assert "custom Function Cube" in str(f.explain())


# Checkpoint.


def block(lib, w):
    def f(x, scale=1.0):
        h = lib.tanh(x @ w) * scale
        return {"out": lib.sin(h) + h, "side": h.sum()}

    return f


def test_checkpoint_gives_the_same_gradients():
    torchs = torch.utils.checkpoint.checkpoint

    results = []
    for lib, run in ((fg, checkpoint), (torch, torchs), (fg, None)):
        x = lib.tensor([[1.0, 2.0]], dtype=lib.float64, requires_grad=True)
        w = lib.tensor([[0.1, 0.2], [0.3, -0.4]], dtype=lib.float64, requires_grad=True)
        f = block(lib, w)
        call = f if run is None else lambda *a, f=f, run=run, **k: run(f, *a, use_reentrant=False, **k)
        y = call(call(x)["out"], scale=2.0)
        (y["out"].sum() + y["side"]).backward(retain_graph=True)
        results.append([x.grad.tolist(), w.grad.tolist()])
        (g,) = lib.autograd.grad((y["out"] ** 2).sum(), x, create_graph=True)
        results[-1].append(lib.autograd.grad(g.sum(), w)[0].tolist())
    for a, b in zip(results[0], results[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    for a, b in zip(results[0], results[2], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_checkpoint_runs_twice_and_draws_the_same():
    runs, drawn = [], []

    def f(x):
        runs.append(1)
        noise = fg.rand(3)
        drawn.append(noise.tolist())
        return (x * noise).exp() * x

    x = fg.ones(3, requires_grad=True)
    y = checkpoint(f, x, use_reentrant=False)
    after = fg.get_rng_state().tolist()
    assert len(runs) == 1
    y.sum().backward()
    assert len(runs) == 2 and drawn[0] == drawn[1]
    assert fg.get_rng_state().tolist() == after
    expected = np.exp(np.array(drawn[0])) * (1 + np.array(drawn[0]))
    np.testing.assert_allclose(x.grad.tolist(), expected, rtol=1e-5)
    with fg.no_grad():
        checkpoint(f, x)
    assert len(runs) == 3


def test_checkpoint_nested_sequential_and_in_the_middle():
    x = fg.ones(4, dtype=fg.float64, requires_grad=True)
    layers = [fg.tanh, fg.sin, fg.exp, lambda t: t * t, fg.cos]

    def plain(t):
        for layer in layers:
            t = layer(t)
        return t

    (expected,) = fg.autograd.grad(plain(x * 1).sum(), x)
    apart = functools.partial(checkpoint, use_reentrant=False)
    (nested,) = fg.autograd.grad(apart(lambda t: apart(lambda u: plain(u) * 1, t * 1), x).sum(), x)
    (parts,) = fg.autograd.grad(checkpoint_sequential(layers, 3, x, use_reentrant=False).sum(), x)
    np.testing.assert_allclose(nested.numpy(), expected.numpy())
    np.testing.assert_allclose(parts.numpy(), expected.numpy())


def test_checkpoint_notices_another_second_run():
    sizes = iter([3, 4])

    def f(x):
        return (x * fg.ones(next(sizes), 3)).exp().sum()

    x = fg.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="different metadata"):
        checkpoint(f, x).backward()
    count = iter([2, 1])

    def g(x):
        for _ in range(next(count)):
            x = x.exp()
        return x

    with pytest.raises(RuntimeError, match="different number of tensors"):
        checkpoint(g, x).sum().backward()


def test_checkpoint_keeps_nothing_and_closes_no_circle():
    gc.collect()
    gc.disable()
    try:
        x = fg.ones(1000, requires_grad=True)
        arrays = []

        def f(t):
            h = t.exp()
            arrays.append(weakref.ref(h.array))
            return (h * h).sum()

        y = checkpoint(f, x)
        assert arrays[0]() is None
        y.backward()
        assert arrays[1]() is None
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


def test_checkpoint_and_jit():
    inner = fg.jit(lambda t: (t * t).exp())
    x = fg.tensor([0.5], dtype=fg.float64, requires_grad=True)
    for _ in range(3):
        x.grad = None
        checkpoint(lambda t: inner(t).sum(), x).backward()
        assert x.grad.item() == pytest.approx(2 * 0.5 * np.exp(0.25))
    outer = fg.jit(lambda t: checkpoint(lambda u: (u * u).exp(), t).sum())
    for _ in range(3):
        x.grad = None
        outer(x).backward()
        assert x.grad.item() == pytest.approx(2 * 0.5 * np.exp(0.25))


def test_checkpoint_of_a_custom_function():
    Cube = cube(fg)
    x = fg.tensor([2.0], requires_grad=True)
    checkpoint(lambda t: Cube.apply(t * 1).sum(), x).backward()
    assert x.grad.tolist() == [12.0]


# Anomaly mode.


def test_anomaly_mode_names_the_forward():
    x = fg.tensor([0.0, 1.0], requires_grad=True)

    def inner(t):
        return fg.sqrt(t) * 0  # the culprit

    with fg.autograd.detect_anomaly():
        y = inner(x).sum()
        with pytest.raises(
            RuntimeError, match=r"SqrtBackward0' returned nan(?s:.*)in inner(?s:.*)the culprit"
        ):
            y.backward()
    assert not fg.is_anomaly_enabled()
    inner(x).sum().backward()
    assert np.isnan(x.grad.tolist()[0])
    fg.autograd.set_detect_anomaly(True, check_nan=False)
    try:
        assert fg.is_anomaly_enabled() and not fg.is_anomaly_check_nan_enabled()
        inner(x).sum().backward()
    finally:
        fg.autograd.set_detect_anomaly(False)


@pytest.mark.parametrize("given", [(), (4,)])
def test_setup_context_sees_the_defaults_of_forward(given):
    def gradient(lib):
        class Power(lib.autograd.Function):
            @staticmethod
            def forward(x, y=3):
                return x**y

            @staticmethod
            def setup_context(ctx, inputs, output):
                x, ctx.y = inputs
                ctx.save_for_backward(x)

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * ctx.y * x ** (ctx.y - 1), None

        x = lib.tensor([1.0, 2.0], requires_grad=True)
        Power.apply(x, *given).sum().backward()
        return x.grad.tolist()

    assert gradient(fg) == gradient(torch)
