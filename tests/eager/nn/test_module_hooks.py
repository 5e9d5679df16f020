"""Hooks of modules, forward and backward, against PyTorch's."""

from __future__ import annotations

import pytest
from module_twins import SIDES, outcome, with_ones

import fusegrad as fg


def hooked(ns, add):
    """What hooks see and change around a layer that doubles."""

    class Double(ns.nn.Module):
        def forward(self, x, plus=0):
            if plus == "fail":
                raise ValueError("failed")
            return x * 2 + plus

    net, log = Double(), []
    handles = add(net, log) or ()
    for call in (lambda: net(1), lambda: net(1, plus=5), lambda: net(1, plus="fail")):
        log.append(outcome(call))
    for handle in handles:
        handle.remove()
    log.append(outcome(lambda: net(1)))
    return log


def say(log, word, gives=None):
    def hook(module, *seen):
        log.append((word, seen))
        return gives(*seen) if gives else None

    return hook


def fails(*seen):
    raise KeyError("from the hook")


HOOKS = {
    "pre": lambda net, log: [net.register_forward_pre_hook(say(log, "a"))],
    "pre replaces": lambda net, log: [net.register_forward_pre_hook(say(log, "a", lambda args: 10))],
    "pre kwargs": lambda net, log: [
        net.register_forward_pre_hook(say(log, "a", lambda args, kw: ((7,), {"plus": 1})), with_kwargs=True),
        net.register_forward_pre_hook(say(log, "b"), with_kwargs=True),
    ],
    "pre kwargs wrong": lambda net, log: [
        net.register_forward_pre_hook(lambda m, args, kw: 3, with_kwargs=True)
    ],
    "order": lambda net, log: [
        net.register_forward_hook(say(log, "a", lambda args, out: out + 1)),
        net.register_forward_hook(say(log, "b", lambda args, out: out * 10), prepend=True),
        net.register_forward_pre_hook(say(log, "c")),
        net.register_forward_pre_hook(say(log, "d"), prepend=True),
    ],
    "kwargs": lambda net, log: [net.register_forward_hook(say(log, "a"), with_kwargs=True)],
    "always": lambda net, log: [
        net.register_forward_hook(say(log, "a"), always_call=True),
        net.register_forward_hook(say(log, "b")),
    ],
    "always after failure": lambda net, log: [
        net.register_forward_hook(fails),
        net.register_forward_hook(say(log, "b"), always_call=True),
    ],
    "removed in between": lambda net, log: net.register_forward_hook(say(log, "a")).remove(),
}


@pytest.mark.parametrize("name", HOOKS)
def test_forward_hooks_are_torchs(name):
    ours, theirs = (hooked(ns, HOOKS[name]) for ns in SIDES)
    assert ours == theirs and len(ours) > 3


def backward(ns, add, inputs=True):
    """What backward hooks see and change in a module of two inputs and two outputs."""

    class Pair(ns.nn.Module):
        def forward(self, x, flag, y):
            return x * y, y * 3

    net, log = Pair(), []
    x = ns.tensor([1.0, 2.0], requires_grad=inputs)
    y = ns.tensor([3.0, 4.0], requires_grad=inputs)
    handles = add(ns, net, log)

    def run():
        x.grad = y.grad = None
        first, second = net(x, "flag", y)
        if not inputs:
            first = first * ns.ones(1, requires_grad=True)
        (first.sum() * 2 + second.sum()).backward()
        return x.grad, y.grad

    log.append(outcome(run))
    for handle in handles:
        handle.remove()
    log.append(outcome(run))
    return [repr(entry) for entry in log]


BACKWARD_HOOKS = {
    "see": lambda ns, net, log: [net.register_full_backward_hook(say(log, "a"))],
    "pre sees": lambda ns, net, log: [net.register_full_backward_pre_hook(say(log, "a"))],
    "replace": lambda ns, net, log: [
        net.register_full_backward_pre_hook(lambda m, g: (g[0] * 10, g[1])),
        net.register_full_backward_hook(say(log, "a", lambda gi, go: (gi[0] + 1, None, gi[2] * 2))),
        net.register_full_backward_hook(say(log, "b"), prepend=True),
    ],
    "wrong number": lambda ns, net, log: [net.register_full_backward_hook(lambda m, gi, go: gi[:1])],
    "wrong number before": lambda ns, net, log: [net.register_full_backward_pre_hook(lambda m, go: go[:1])],
}


@pytest.mark.parametrize("name", BACKWARD_HOOKS)
def test_backward_hooks_are_torchs(name):
    ours, theirs = (backward(ns, BACKWARD_HOOKS[name]) for ns in SIDES)
    assert ours == theirs


def test_backward_hooks_of_layers_without_gradients_of_inputs():
    logs = []
    for ns in SIDES:
        net, log = ns.nn.Linear(2, 1, bias=False), []
        with_ones(ns, net)
        net.register_full_backward_hook(say(log, "a"))
        net.register_full_backward_pre_hook(say(log, "b"))
        net(ns.ones(3, 2)).sum().backward()
        with ns.no_grad():
            net(ns.ones(3, 2))
        logs.append((repr(log), net.weight.grad.tolist()))
    assert logs[0] == logs[1]


def test_a_result_that_backward_hooks_cannot_watch():
    class Listed(fg.nn.Module):
        def forward(self, x):
            return [x]

    net = Listed()
    net.register_full_backward_hook(lambda *a: None)
    with pytest.warns(UserWarning, match="should be a Tensor or a tuple of Tensors"):
        net(fg.ones(1, requires_grad=True))
