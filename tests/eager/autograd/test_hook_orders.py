"""Hooks of tensors, nodes and modules: when they run and what they get and may give, against torch."""

from __future__ import annotations

import pytest
from hook_cases import Cases, listed, outcome
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.autograd import hooks

case = Cases()


@case
def full_double(T):
    m = T.nn.Linear(1, 1, bias=False)
    m.weight.data.fill_(2.0)
    seen = []
    m.register_full_backward_hook(lambda m, gi, go: seen.append((listed(gi[0]), listed(go[0]))))
    x = T.tensor([[3.0]], requires_grad=True)
    y = m(x) * m(x)
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    seen.append("first")
    g.sum().backward()
    return seen, listed(x.grad), listed(m.weight.grad)


@case
def full_double_change(T):
    m = T.nn.Linear(1, 1, bias=False)
    m.weight.data.fill_(2.0)
    m.register_full_backward_hook(lambda m, gi, go: (gi[0] * 10,))
    x = T.tensor([[3.0]], requires_grad=True)
    y = m(x) ** 3
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    return listed(g.detach()), listed(x.grad), listed(m.weight.grad)


@case
def pre_double(T):
    m = T.nn.Linear(1, 1, bias=False)
    m.weight.data.fill_(2.0)
    seen = []
    m.register_full_backward_pre_hook(lambda m, go: seen.append(listed(go[0])))
    x = T.tensor([[3.0]], requires_grad=True)
    y = m(x) ** 2
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    seen.append("f")
    g.sum().backward()
    return seen, listed(x.grad)


@case
def pre_double_change(T):
    m = T.nn.Linear(1, 1, bias=False)
    m.weight.data.fill_(2.0)
    m.register_full_backward_pre_hook(lambda m, go: (go[0] * go[0],))
    x = T.tensor([[3.0]], requires_grad=True)
    y = m(x) ** 2
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    return listed(g.detach()), listed(x.grad), listed(m.weight.grad)


@case
def order(T):
    m = T.nn.Linear(1, 1, bias=False)
    seen = []
    for i in (1, 2):
        m.register_full_backward_pre_hook(lambda m, go, i=i: seen.append(f"pre{i}"))
    m.register_full_backward_pre_hook(lambda m, go: seen.append("pre0"), prepend=True)
    for i in (1, 2):
        m.register_full_backward_hook(lambda m, gi, go, i=i: seen.append(f"post{i}"))
    m.register_full_backward_hook(lambda m, gi, go: seen.append("post0"), prepend=True)
    m.register_forward_pre_hook(lambda m, a: seen.append("f"))
    m.register_forward_pre_hook(lambda m, a: seen.append("f0"), prepend=True)
    m.register_forward_hook(lambda m, a, o: seen.append("g"))
    m.register_forward_hook(lambda m, a, o: seen.append("g0"), prepend=True)
    x = T.ones(1, 1, requires_grad=True)
    x.register_hook(lambda g: seen.append("x"))
    y = m(x)
    y.register_hook(lambda g: seen.append("y"))
    y.sum().backward()
    return seen


@case
def node_order(T):
    seen = []
    x = T.ones(2, requires_grad=True)
    y = x * 2
    z = y * 3
    y.grad_fn.register_prehook(lambda go: seen.append("pre"))
    y.register_hook(lambda g: seen.append("h1"))
    y.register_hook(lambda g: seen.append("h2"))
    y.grad_fn.register_prehook(lambda go: seen.append("pre2"))
    y.grad_fn.register_hook(lambda gi, go: seen.append("post"))
    y.retain_grad()
    y.register_hook(lambda g: seen.append("h3"))
    z.sum().backward()
    return seen, listed(y.grad)


@case
def retain_vs_hook(T):
    x = T.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    return listed(y.grad), listed(x.grad)


@case
def prehook_change(T):
    x = T.ones(2, requires_grad=True)
    y = x * 2
    y.grad_fn.register_prehook(lambda go: (go[0] * 10,))
    y.register_hook(lambda g: g + 1)
    y.sum().backward()
    return listed(x.grad)


@case
def inplace_hook(T):
    seen = []
    x = T.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: seen.append(("y", listed(g))))
    y.mul_(3)
    y.register_hook(lambda g: seen.append(("y2", listed(g))))
    y.sum().backward()
    return seen, listed(x.grad)


@case
def view_inplace_hook_use(T):
    seen = []
    x = T.ones(4, requires_grad=True)
    y = x * 2
    v = y[:2]
    v.register_hook(lambda g: seen.append(("v", listed(g))))
    y.mul_(3)
    (v * 5).sum().backward()
    return seen, listed(x.grad)


# Not among them: a hook on a view after its base was written makes PyTorch 2.13 crash, now and then; one on
# a view that is then written runs here, as PyTorch's notes on hooks have it, and is lost there; those on a
# leaf's node last here as long as the leaf, there as long as the node.


@case
def retain_view_write(T):
    x = T.ones(4, requires_grad=True)
    y = x * 2
    y.retain_grad()
    v = y[:2]
    v.retain_grad()
    v.mul_(3)
    (y * 5).sum().backward()
    return listed(y.grad), listed(v.grad), listed(x.grad)


@case
def hook_writes_another_gradient(T):
    found = []
    for later in (1, 2, 3):
        w, v = T.ones(3, requires_grad=True), T.ones(3, requires_grad=True)
        v2 = v * 2
        v2.register_hook(lambda g, w=w: (w.grad.mul_(5), None)[1])
        y = w + v2 if later == 1 else (w + v2) * 1 if later == 2 else sum([w, v2, w])
        y.sum().backward()
        found.append((listed(w.grad), listed(v.grad)))
    return found


@case
def hook_writes_the_gradient_it_is_told_of(T):
    w, v = T.ones(3, requires_grad=True), T.ones(3, requires_grad=True)

    def clear(p):
        p.grad.zero_()

    w.register_post_accumulate_grad_hook(clear)
    (w + v * 2).sum().backward()
    return listed(w.grad), listed(v.grad)


@case
def hook_returns_bad(T):
    x = T.ones(2, requires_grad=True)
    x.register_hook(lambda g: "a")
    x.sum().backward()


@case
def hook_returns_shape(T):
    x = T.ones(2, requires_grad=True)
    x.register_hook(lambda g: T.ones(3))
    x.sum().backward()


@case
def hook_returns_dtype(T):
    x = T.ones(2, requires_grad=True)
    x.register_hook(lambda g: g.double())
    x.sum().backward()
    return str(x.grad.dtype)


@case
def full_hook_noninput(T):
    m = T.nn.Linear(1, 1, bias=False)
    seen = []
    m.weight.data.fill_(1.0)
    m.register_full_backward_hook(lambda m, gi, go: seen.append((listed(gi[0]), listed(go[0]))))
    m(T.ones(1, 1)).sum().backward()
    return seen


@case
def full_hook_inplace_output(T):
    m = T.nn.Linear(1, 1, bias=False)
    m.register_full_backward_hook(lambda m, gi, go: None)
    y = m(T.ones(1, 1, requires_grad=True))
    y.mul_(2)
    y.sum().backward()


@case
def full_hook_inplace_input(T):
    class M(T.nn.Module):
        def forward(self, x):
            return x.mul_(2)

    m = M()
    m.register_full_backward_hook(lambda m, gi, go: None)
    x = T.ones(1, requires_grad=True)
    y = m(x * 1)
    y.sum().backward()
    return listed(x.grad)


@case
def full_hook_removed(T):
    m = T.nn.Linear(1, 1, bias=False)
    seen = []
    h = m.register_full_backward_hook(lambda m, gi, go: seen.append(1))
    y = m(T.ones(1, 1, requires_grad=True))
    h.remove()
    y.sum().backward()
    return seen


@case
def full_hook_bad_return(T):
    m = T.nn.Linear(1, 1, bias=False)
    m.register_full_backward_hook(lambda m, gi, go: (1, 2))
    m(T.ones(1, 1, requires_grad=True)).sum().backward()


@case
def twice_backward(T):
    m = T.nn.Linear(1, 1, bias=False)
    seen = []
    m.register_full_backward_hook(lambda m, gi, go: seen.append(listed(go[0])))
    y = m(T.ones(1, 1, requires_grad=True))
    y.sum().backward(retain_graph=True)
    (y * 2).sum().backward()
    return seen


@case
def post_acc_order(T):
    seen = []
    x = T.ones(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda p: seen.append(listed(p.grad)))
    x.register_hook(lambda g: seen.append(("h", listed(g))))
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    return seen


@case
def post_acc_grad_call(T):
    seen = []
    x = T.ones(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda p: seen.append(1))
    T.autograd.grad((x * 2).sum(), x)
    return seen


@case
def post_acc_set_none(T):
    x = T.ones(2, requires_grad=True)

    def h(p):
        p.grad = None

    x.register_post_accumulate_grad_hook(h)
    (x * 2).sum().backward()
    return x.grad


@case
def hook_grad_input_capture(T):
    x = T.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    (g,) = T.autograd.grad(y.sum(), y)
    return listed(g)


@case
def leaf_hook_grad(T):
    x = T.ones(2, requires_grad=True)
    x.register_hook(lambda g: g * 10)
    (g,) = T.autograd.grad((x * 2).sum(), x)
    return listed(g)


@case
def hook_during_no_grad_double(T):
    x = T.ones(2, requires_grad=True)
    y = x * x
    flags = []
    y.register_hook(lambda g: flags.append((T.is_grad_enabled(), g.requires_grad)))
    (y * y).sum().backward()
    y = x * x
    y.register_hook(lambda g: flags.append((T.is_grad_enabled(), g.requires_grad)))
    T.autograd.grad((y * y).sum(), x, create_graph=True)
    return flags


@case
def unused_input(T):
    class M(T.nn.Module):
        def forward(self, a, b):
            return a * 2

    m = M()
    seen = []
    m.register_full_backward_hook(
        lambda m, gi, go: seen.append(([listed(g) for g in gi], [listed(g) for g in go]))
    )
    a, b = T.ones(2, requires_grad=True), T.ones(2, requires_grad=True)
    m(a, b).sum().backward()
    return seen, listed(a.grad), listed(b.grad)


@case
def unused_output(T):
    class M(T.nn.Module):
        def forward(self, a):
            return a * 2, a * 3

    m = M()
    seen = []
    m.register_full_backward_hook(
        lambda m, gi, go: seen.append(([listed(g) for g in gi], [listed(g) for g in go]))
    )
    m.register_full_backward_pre_hook(lambda m, go: seen.append(["pre", [listed(g) for g in go]]))
    a = T.ones(2, requires_grad=True)
    m(a)[0].sum().backward()
    return seen, listed(a.grad)


@case
def both(T):
    class M(T.nn.Module):
        def forward(self, a, b):
            return a * 2, b * 3

    m = M()
    seen = []
    m.register_full_backward_hook(
        lambda m, gi, go: seen.append(([listed(g) for g in gi], [listed(g) for g in go]))
    )
    a, b = T.ones(2, requires_grad=True), T.ones(2, requires_grad=True)
    m(a, b)[0].sum().backward()
    return seen, listed(a.grad), listed(b.grad)


@case
def grad_call(T):
    class M(T.nn.Module):
        def forward(self, a, b):
            return a * 2, b * 3

    m = M()
    seen = []
    m.register_full_backward_hook(
        lambda m, gi, go: seen.append(([listed(g) for g in gi], [listed(g) for g in go]))
    )
    a, b = T.ones(2, requires_grad=True), T.ones(2, requires_grad=True)
    r = T.autograd.grad(m(a, b)[0].sum(), [a, b], allow_unused=True)
    return seen, [listed(x) for x in r]


@case
def nongrad_input(T):
    class M(T.nn.Module):
        def forward(self, a, b):
            return a * b

    m = M()
    seen = []
    m.register_full_backward_hook(
        lambda m, gi, go: seen.append(([listed(g) for g in gi], [listed(g) for g in go]))
    )
    a, b = T.ones(2, requires_grad=True), T.ones(2)
    m(a, b).sum().backward()
    return seen, listed(a.grad)


@case
def prehook_only(T):
    class M(T.nn.Module):
        def forward(self, a, b):
            return a * 2

    m = M()
    seen = []
    m.register_full_backward_pre_hook(lambda m, go: seen.append([listed(g) for g in go]))
    a, b = T.ones(2, requires_grad=True), T.ones(2, requires_grad=True)
    m(a, b).sum().backward()
    return seen, listed(a.grad), listed(b.grad)


@case
def pre_replaces_none(T):
    class M(T.nn.Module):
        def forward(self, a):
            return a * 2, a * 3

    m = M()
    m.register_full_backward_pre_hook(lambda m, go: (go[0], T.ones(2)))
    a = T.ones(2, requires_grad=True)
    m(a)[0].sum().backward()
    return listed(a.grad)


@case
def hook_gives_none(T):
    class M(T.nn.Module):
        def forward(self, a, b):
            return a * b

    m = M()
    m.register_full_backward_hook(lambda m, gi, go: (gi[0], None))
    a, b = T.ones(2, requires_grad=True), T.ones(2, requires_grad=True)
    m(a, b).sum().backward()
    return listed(a.grad), listed(b.grad)


@pytest.mark.parametrize("program", case, ids=lambda program: program.__name__)
def test_as_in_torch(program):
    assert outcome(program, fg) == outcome(program, torch)


@pytest.mark.parametrize("name", ["received", "before", "after"])
def test_hooks_that_are_not_called_are_found(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hooks.Extra, name, lambda self, slots, *_: slots)
    assert sum(finds(test_as_in_torch, program) for program in case) >= 1
