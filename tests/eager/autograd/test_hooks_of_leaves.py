"""Hooks of leaves' nodes, and of several tensors at once, against torch."""

from __future__ import annotations

import pytest
from hook_cases import Cases, listed, outcome
from oracle import torch

import fusegrad as fg

case = Cases()


@case
def leaf_node_kept(T):
    seen = []
    x = T.ones(2, requires_grad=True)
    y = x * 2
    n = y.grad_fn.next_functions[0][0]
    n.register_hook(lambda gi, go: seen.append(("post", [listed(g) for g in gi], [listed(g) for g in go])))
    y.sum().backward()
    del y
    (x * 3).sum().backward()
    return seen, n is (x * 1).grad_fn.next_functions[0][0]


@case
def leaf_node_grad(T):
    seen = []
    x = T.ones(2, requires_grad=True)
    y = x * 2
    n = y.grad_fn.next_functions[0][0]
    n.register_hook(lambda gi, go: seen.append(1))
    n.register_prehook(lambda go: seen.append(2))
    T.autograd.grad(y.sum(), x)
    return seen


@case
def leaf_pre_change(T):
    x = T.ones(2, requires_grad=True)
    y = x * 2
    n = y.grad_fn.next_functions[0][0]
    n.register_prehook(lambda go: (go[0] * 10,))
    y.sum().backward()
    return listed(x.grad)


@case
def multi_all(T):
    seen = []
    a, b, c, d = [T.ones(2, requires_grad=True) for _ in range(4)]
    h = T.autograd.graph.register_multi_grad_hook(
        (a, b, c, d), lambda gs: seen.append([listed(g) for g in gs])
    )
    (a * b * 2 + c).sum().backward(retain_graph=True)
    (a + d).sum().backward()
    n = len(seen)
    h.remove()
    (a + b + c + d).sum().backward()
    return seen, n


@case
def multi_any(T):
    seen = []
    a, b = [T.ones(2, requires_grad=True) for _ in range(2)]
    y = a * 2
    z = b * 3
    h = T.autograd.graph.register_multi_grad_hook((y, z), lambda g: seen.append(listed(g)), mode="any")
    (y + z * 2).sum().backward(retain_graph=True)
    (z * 5).sum().backward(retain_graph=True)
    h.remove()
    (y + z).sum().backward()
    return seen


@case
def multi_inter(T):
    seen = []
    a = T.ones(2, requires_grad=True)
    y = a * 2
    z = y * 3
    w = a * 4
    T.autograd.graph.register_multi_grad_hook((y, z, w), lambda gs: seen.append([listed(g) for g in gs]))
    z.sum().backward(retain_graph=True)
    (w + z).sum().backward(retain_graph=True)
    T.autograd.grad(w.sum(), a)
    return seen


@case
def multi_bad(T):
    a = T.ones(2)
    T.autograd.graph.register_multi_grad_hook((a,), lambda gs: None)


@case
def multi_mode(T):
    a = T.ones(2, requires_grad=True)
    T.autograd.graph.register_multi_grad_hook((a,), lambda gs: None, mode="foo")


@case
def multi_twice_same(T):
    seen = []
    a = T.ones(2, requires_grad=True)
    y = a * 2
    T.autograd.graph.register_multi_grad_hook((y, y, a), lambda gs: seen.append([listed(g) for g in gs]))
    y.sum().backward()
    return seen


@case
def multi_unreached(T):
    seen = []
    a, b = [T.ones(2, requires_grad=True) for _ in range(2)]
    T.autograd.graph.register_multi_grad_hook((a, b), lambda gs: seen.append([listed(g) for g in gs]))
    (a * 2).sum().backward()
    T.autograd.grad((a * b).sum(), a)
    return seen


@case
def multi_inputs_of_backward(T):
    seen = []
    a, b, c = (T.ones(2, requires_grad=True) for _ in range(3))
    y = a * b
    hook = T.autograd.graph.register_multi_grad_hook
    hook((a, b, c, y), lambda gs: seen.append([listed(g) for g in gs]))
    y.sum().backward(inputs=(a,), retain_graph=True)
    y.sum().backward()
    return seen, listed(a.grad), listed(b.grad)


@case
def leaf_node_order(T):
    x = T.ones(3, requires_grad=True)
    node = x.view_as(x).grad_fn.next_functions[0][0]

    def half_more(p):
        p.grad.add_(0.5)

    def tenfold(gi, go):
        x.grad = go[0] * 10

    x.register_hook(lambda g: g - 2)
    node.register_prehook(lambda go: (go[0] / 5,))
    x.register_post_accumulate_grad_hook(half_more)
    node.register_hook(tenfold)
    x.sum().backward()
    first = listed(x.grad)
    x.sum().backward()
    return first, listed(x.grad)


@case
def multi_returns(T):
    a = T.ones(2, requires_grad=True)
    T.autograd.graph.register_multi_grad_hook((a,), lambda gs: 5)
    (a * 2).sum().backward()
    return listed(a.grad)


@pytest.mark.parametrize("program", case, ids=lambda program: program.__name__)
def test_as_in_torch(program):
    assert outcome(program, fg) == outcome(program, torch)


def _told_when_over(lib, wrap):
    """What hooks that queue callbacks note, and what these see; in three backwards."""
    x, noted = lib.ones(2, requires_grad=True), []
    engine = lib.autograd.Variable._execution_engine

    def over():
        noted.append(("over", x.grad.tolist()))
        if len(noted) % 3 == 2:
            engine.queue_callback(lambda: noted.append("last"))

    def hook(gradient):
        noted.append("hook")
        engine.queue_callback(over)
        return gradient * 2

    x.register_hook(hook)

    def step(factor):
        (x * factor).sum().backward()
        return x.grad * 1

    step = wrap(step)
    results = [step(lib.tensor(number)).tolist() for number in (1.0, 2.0, 3.0)]
    return noted, results, engine


@pytest.mark.parametrize("wrap", [lambda function: function, fg.jit], ids=["eager", "jit"])
def test_callbacks_run_when_a_backward_is_over(wrap):
    ours, theirs = _told_when_over(fg, wrap), _told_when_over(torch, lambda function: function)
    assert ours[:2] == theirs[:2] and len(ours[0]) == 9
    for _, _, engine in (ours, theirs):
        with pytest.raises(RuntimeError, match="can only be installed during backward pass"):
            engine.queue_callback(print)
