"""Hooks, retained gradients, nodes' attributes: the same program in fusegrad and in torch."""

from __future__ import annotations

import gc
import weakref

import pytest
from oracle import torch

import fusegrad as fg


def same(program):
    """Run `program(lib, log)` in both libraries; the logs must agree. Gives the log."""
    logs = []
    for lib in (fg, torch):
        log: list = []
        program(lib, log)
        logs.append(log)
    assert logs[0] == logs[1]
    return logs[0]


def values(tensors):
    return [t if t is None else t.tolist() for t in tensors]


def test_tensor_hooks_run_in_order_and_change_gradients():
    def program(lib, log):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        first = y.register_hook(lambda g: log.append(("first", g.tolist())))
        y.register_hook(lambda g: g * 10)
        y.register_hook(lambda g: log.append(("third", g.tolist())))
        x.register_hook(lambda g: log.append(("leaf", g.tolist())) or g + 1)
        (y * y + x).sum().backward(retain_graph=True)
        log.append(x.grad.tolist())
        first.remove()
        first.remove()
        (y.sum() + x.sum()).backward()
        log.append(x.grad.tolist())

    assert len(same(program)) == 7


def test_a_leaf_hook_sees_the_whole_gradient_once():
    def program(lib, log):
        x = lib.tensor(2.0, requires_grad=True)
        with x.register_hook(lambda g: log.append(g.item())):
            (x * x + x * 3 + lib.sin(x)).backward()
        x.register_post_accumulate_grad_hook(lambda t: log.append(("after", t is x, t.grad.item())))
        (x * x).backward()
        log.append(lib.autograd.grad(x * x, x)[0].item())  # no accumulation, no such hook

    same(program)


def test_optimizing_in_backward():
    def program(lib, log):
        x = lib.tensor([1.0, 2.0], requires_grad=True)

        def step(parameter):
            with lib.no_grad():
                parameter.sub_(parameter.grad * 0.1)
            parameter.grad = None

        x.register_post_accumulate_grad_hook(step)
        for _ in range(3):
            (x * x).sum().backward()
        log.append([round(v, 5) for v in x.tolist()])
        log.append(x.grad)

    same(program)


def test_retain_grad():
    def program(lib, log):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        y.retain_grad()
        y.retain_grad()
        y.register_hook(lambda g: g * 3)
        log.append((y.retains_grad, x.retains_grad))
        (y * y).sum().backward(retain_graph=True)
        log.append(values([y.grad, x.grad]))
        (y * y).sum().backward()
        log.append(values([y.grad, x.grad]))
        z = x * 1
        z.retain_grad()
        z.mul_(3)
        z.sum().backward()
        log.append((values([z.grad]), z.retains_grad))

    same(program)


def test_a_retained_gradient_has_its_own_memory():
    x = fg.tensor([1.0], requires_grad=True)
    kept = []
    y = x + 0
    y.retain_grad()
    y.register_hook(lambda g: kept.append(g))
    (y + 0).sum().backward()
    x.grad.add_(1)
    assert y.grad.item() == kept[0].item() == 1.0


def test_node_hooks():
    def program(lib, log):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        w = lib.tensor([3.0, 4.0], requires_grad=True)
        y = x * w
        y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
        y.grad_fn.register_hook(lambda made, given: log.append((values(made), values(given))))
        y.grad_fn.register_hook(lambda made, given: (made[0] * 10, made[1]))
        y.sum().backward()
        log.append(values([x.grad, w.grad]))

    same(program)


def test_wrong_hooks():
    def program(lib, log):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        for wrong in (lambda g: 3, lambda g: lib.ones(7)):
            y = x * 2
            y.register_hook(wrong)
            try:
                y.sum().backward()
            except (RuntimeError, TypeError) as error:
                log.append(type(error).__name__)
        for call in (
            lambda: lib.ones(1).register_hook(print),
            lambda: (x * 2).register_post_accumulate_grad_hook(print),
            lambda: lib.ones(1).register_post_accumulate_grad_hook(print),
            lambda: lib.ones(1).retain_grad(),
        ):
            with pytest.raises(RuntimeError):
                call()

    same(program)


def test_errors_in_hooks_show_the_forward_line():
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2  # the line
    y.register_hook(lambda g: fg.ones(3) + g)
    with pytest.raises(RuntimeError, match=r"y = x \* 2  # the line"):
        y.sum().backward()
    z = x * 5  # another line

    def fails(g):
        raise KeyError("mine")

    z.register_hook(fails)
    with pytest.raises(KeyError) as error:
        z.sum().backward()
    assert any("z = x * 5  # another line" in note for note in error.value.__notes__)


def test_the_graph_can_be_walked():
    x = fg.tensor([1.0], requires_grad=True)
    y = (x * 2).exp()
    node = y.grad_fn
    assert node.name() == "ExpBackward0"
    ((inner, output),) = node.next_functions
    assert inner.name() == "MulBackward0" and output == 0
    leaf, *_ = inner.next_functions
    assert (
        leaf[0].variable is x and leaf[0].name().endswith("AccumulateGrad") and leaf[0].next_functions == ()
    )
    assert fg.pow(x, fg.tensor([2.0])).grad_fn.next_functions[1] == (None, 0)
    node.metadata["seen"] = 1
    assert y.grad_fn.metadata == {"seen": 1}
    assert node._sequence_nr() > inner._sequence_nr()


def test_hooks_leave_no_circles():
    gc.collect()
    gc.disable()
    try:
        x = fg.ones(3, requires_grad=True)
        y = x * 2
        y.retain_grad()
        y.register_hook(lambda g: g)
        y.grad_fn.register_hook(lambda a, b: None)
        gone = weakref.ref(y), weakref.ref(y.grad_fn)
        y.sum().backward()
        del y
        assert gone[0]() is None and gone[1]() is None
    finally:
        gc.enable()


def test_hooks_and_compiled_code():
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
    square = fg.jit(lambda x: (x * x).sum())
    for _ in range(3):
        x.grad = None
        square(x).backward()
    assert square.stats.compiled_calls == 2
    assert x.grad.tolist() == [4.0, 8.0]
    assert seen == [[2.0, 4.0]] * 3

    @fg.jit
    def hooked(x):
        y = x * 2
        y.register_hook(lambda g: g * 100)
        return y.sum()

    for _ in range(3):
        leaf = fg.tensor([1.0], requires_grad=True)
        hooked(leaf).backward()
        assert leaf.grad.tolist() == [200.0]
    assert "hook" in str(hooked.explain())


def test_saved_tensors_hooks():
    def program(lib, log):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        with lib.autograd.graph.saved_tensors_hooks(
            lambda t: log.append(("pack", t.tolist())) or t.tolist(),
            lambda p: log.append(("unpack", p)) or lib.tensor(p),
        ):
            y = x.exp()
            z = (y * x).sum()
        z.backward()
        log.append(x.grad.tolist())
        x.grad = None
        with lib.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
            z = (x.exp() * x).sum()
        (g,) = lib.autograd.grad(z, x, create_graph=True)
        (h,) = lib.autograd.grad(g.sum(), x)
        log.append([[round(v, 4) for v in t.tolist()] for t in (g, h)])

    for lib in (fg, torch):
        log: list = []
        program(lib, log)
        if lib is fg:
            ours = log
    kinds = [[e for e in entries if isinstance(e, list)] for entries in (ours, log)]
    for a, b in zip(*kinds, strict=True):
        assert torch.allclose(torch.tensor(a), torch.tensor(b), rtol=1e-4)
    counts = [[e[0] for e in entries if isinstance(e, tuple)].count("pack") for entries in (ours, log)]
    assert counts[0] == counts[1] == 3


@pytest.mark.parametrize("name", ["sin_", "exp_", "sigmoid_", "sqrt_", "tanh_", "square_", "neg_"])
@pytest.mark.parametrize("part", [slice(None), slice(1, 3), 2])
def test_writes_into_views_under_saved_tensors_hooks(name, part):
    """Whether the op keeps its output or its input: the hooks may have taken it."""

    def gradient(lib):
        a = lib.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        with lib.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            x = a.clone()
            getattr(x[part], name)()
            (x * x).sum().backward()
        return a.grad.tolist()

    assert gradient(fg) == pytest.approx(gradient(torch), rel=1e-5, abs=1e-6)


def test_prehooks_of_a_leafs_node_run_last_and_only_where_something_is_added():
    def seen(lib):
        log = []
        a = lib.tensor(1.0, requires_grad=True)
        b = a.clone()
        node = b.grad_fn.next_functions[0][0]
        a.register_hook(lambda g: log.append("tensor"))
        node.register_prehook(lambda gs: log.append("node"))
        a.register_hook(lambda g: log.append("tensor"))
        lib.autograd.grad(b, a, retain_graph=True)
        log.append("backward")
        b.backward()
        return log

    assert seen(fg) == seen(torch)
