"""A network of ours and PyTorch's of the same parts, and what both say."""

from __future__ import annotations

import re

from oracle import torch

import fusegrad as fg

SIDES = [fg, torch]


def build(ns):
    """A network with everything: nesting, shared parts, buffers, places left empty."""

    class Inner(ns.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = ns.nn.Linear(2, 2)
            self.weight = ns.nn.Parameter(ns.ones(3))
            self.register_buffer("mean", ns.zeros(2))
            self.register_buffer("hidden", ns.ones(1, dtype=ns.int64), persistent=False)
            self.register_parameter("nothing", None)
            self.register_module("missing", None)

        def extra_repr(self):
            return "kind=inner"

        def forward(self, x, scale=1.0):
            return self.layer(x) * scale + self.mean

    class Net(ns.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Inner()
            self.second = ns.nn.Sequential(ns.nn.Linear(2, 2), ns.nn.Tanh())
            self.again = self.first
            self.tied = self.second[0].weight
            self.scale = 2.0

        def extra_repr(self):
            return "one\n\ntwo"

        def forward(self, x):
            return self.second(self.first(x, scale=self.scale))

    return Net()


def both(look):
    """What `look` says of our network and of PyTorch's."""
    ours, theirs = (look(ns, build(ns)) for ns in SIDES)
    assert ours == theirs
    return ours


def outcome(function):
    """The result, or the kind of error and what it says before our line number."""
    try:
        return repr(function())
    except Exception as error:
        text = re.sub(r"torch\.nn\.modules\.\w+\.", "", str(error).split("\n  at ")[0])
        return type(error).__name__, re.sub(r"^\w+: ", "", text)


def with_ones(ns, net):
    with ns.no_grad():
        for parameter in net.parameters():
            parameter.fill_(1.0)
