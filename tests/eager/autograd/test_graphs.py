"""The autograd graph: what `grad` and `backward` take, and what they and writes leave behind."""

from __future__ import annotations

import gc
import weakref

from oracle import torch

import fusegrad as fg


def test_grad_and_backward_take_and_refuse_what_torch_does():
    def program(lib):
        log = []
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        w = lib.tensor([3.0, 4.0], requires_grad=True)
        unused = lib.tensor([1.0, 2.0], requires_grad=True)
        grad, backward = lib.autograd.grad, lib.autograd.backward

        def noted(call):
            try:
                made = call()
                log.append([None if g is None else g.tolist() for g in made] if made is not None else None)
            except Exception as error:
                log.append(type(error).__name__)

        y, z = x * w, (x * x).sum()
        noted(lambda: grad([y, z], [x, w], [lib.ones(2), None], retain_graph=True))
        noted(lambda: grad(z, [x, unused], allow_unused=True, retain_graph=True))
        noted(lambda: grad(z, [x, unused], materialize_grads=True, retain_graph=True))
        noted(lambda: grad(z, [x, unused], retain_graph=True))
        noted(lambda: grad(z, [x], materialize_grads=True, allow_unused=False))
        noted(lambda: grad(y, x))
        noted(lambda: grad(y, x, lib.ones(3)))
        noted(lambda: grad(y, []))
        noted(lambda: grad(y, [lib.ones(2)]))
        noted(lambda: grad(lib.ones(1), [x]))
        noted(lambda: backward(y, lib.ones(2), inputs=[]))
        noted(lambda: backward([y, z], [lib.ones(2), None], retain_graph=True, inputs=[x]))
        log.append((x.grad.tolist(), w.grad))
        middle = x * 2
        noted(lambda: (middle * middle).sum().backward(inputs=[middle]))
        log.append((middle.grad.tolist(), x.grad.tolist()))
        noted(lambda: (x + 1).sum().backward())
        s = (x + 1).sum()
        noted(lambda: (s.backward(), s.backward())[2:])
        noted(lambda: z.backward())
        noted(lambda: z.backward())
        noted(lambda: z.backward(3.0))
        a = x * x
        noted(lambda: grad((a * 2).sum(), a))  # does not touch what lies behind `a`
        noted(lambda: grad(a.sum(), x))
        return log

    assert program(fg) == program(torch)


def test_detach_in_place():
    def program(lib):
        log = []
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        y.detach_()
        log += [y.requires_grad, y.is_leaf]
        y = x * 2
        d = y.detach()
        d.mul_(3)
        log += [y.tolist(), y._version == d._version, d._is_view(), y[0]._is_view(), y[0]._base is y]
        try:
            y[0].detach_()
        except RuntimeError:
            log.append("refused")
        log += [
            y[:1].reshape(-1)._base is y,
            y[1].storage_offset(),
            y.is_set_to(y.detach()),
            y.is_set_to(y[:1]),
        ]
        log.append(y[1].data_ptr() - y.data_ptr())
        return log

    assert program(fg) == program(torch)


def test_transforms_leave_nothing_behind():
    gc.collect()
    gc.disable()
    try:
        kept = []

        def f(x):
            h = fg.tanh(x * 2)
            kept.append(weakref.ref(h.array))
            return (h * h).sum()

        x = fg.ones(4)
        fg.value_and_grad(f)(x)
        fg.hessian(f)(x)
        fg.jvp(f, (x,), (x,))
        value, pull = fg.vjp(f, x)
        pull(fg.tensor(1.0))
        del value, pull
        fg.grad(lambda x: fg.grad(f)(x).sum())(x)
        assert [r for r in kept if r() is not None] == []
    finally:
        gc.enable()


def test_writes_leave_no_circles():
    gc.collect()
    gc.disable()
    try:
        x = fg.ones(4, requires_grad=True)
        y = x * 1
        v = y[:2]
        y[0] = x[0] * 2
        v.mul_(x[:2])
        y.add_(x)
        v.exp_()
        gone = [weakref.ref(y), weakref.ref(y.array), weakref.ref(y.grad_fn), weakref.ref(v)]
        y.sum().backward()
        del y, v
        assert [r() for r in gone] == [None] * 4
        y = x * 1
        y.mul_(y)  # cannot be derived, and must go all the same
        gone = weakref.ref(y)
        del y
        assert gone() is None
    finally:
        gc.enable()


def test_deep_graphs_go_without_recursion():
    class Step(fg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x + 1

        @staticmethod
        def backward(ctx, g):
            return g

    steps = {
        "ops": lambda y: y * y,
        "views": lambda y: y.reshape(1),
        "writes": lambda y: y.mul_(1.0),
        "views written": lambda y: y[:1].mul_(1.0)._base,
        "functions": Step.apply,
    }
    for name, step in steps.items():
        x = fg.ones(1, requires_grad=True)
        for use in (False, True):
            y = x * 1
            for _ in range(30_000 if name == "ops" else 10_000):
                y = step(y)
            if use:
                y.sum().backward()
                assert x.grad is not None
            del y


def test_backward_drops_what_it_used():
    """Never more than a few of the gradients and kept tensors of a long chain are alive at a time."""
    import tracemalloc

    size, length = 1 << 16, 20
    x = fg.ones(size, requires_grad=True)

    def chain():
        y = x
        for _ in range(length):
            y = y.exp().mul(1e-3)
        return y.sum()

    chain().backward()
    x.grad = None
    loss = chain()
    tracemalloc.start()
    try:
        loss.backward()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # What forward kept was allocated before; backward alone holds three gradients at a time.
    assert peak < 4.5 * 4 * size, peak / (4 * size)
