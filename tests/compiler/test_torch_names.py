"""`compile` and the names under `jit`: programs that use PyTorch's run, and give the same."""

from __future__ import annotations

import pickle
import typing

import pytest
from jit_checks import sealed
from oracle import torch

import fusegrad as fg
from fusegrad import nn


def test_compile_is_jit_of_functions():
    @fg.compile(fullgraph=True, dynamic=False, mode="max-autotune", backend="inductor", options={})
    def double(x):
        return x * 2

    for _ in range(3):
        assert double(fg.ones(2)).tolist() == [2.0, 2.0]
    sealed(double)
    assert double(fg.ones(2)).tolist() == [2.0, 2.0] and double.stats.compiled_calls == 3


def test_a_compiled_module_is_a_module():
    for lib in (fg, torch):
        inner = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.Dropout(0.5), lib.nn.Linear(3, 1))
        outer = lib.nn.Module()
        outer.net = lib.compile(inner, backend="eager")
        assert list(outer.state_dict()) == [
            f"net._orig_mod.{n}" for n in ("0.weight", "0.bias", "2.weight", "2.bias")
        ]
        assert [id(p) for p in outer.parameters()] == [id(p) for p in inner.parameters()]
        outer.eval()
        assert not inner.training and outer.net._orig_mod is inner
        assert isinstance(outer.net, lib.nn.Module) and outer.net.training is False
        x = lib.ones(4, 2)
        assert lib.equal(outer.net(x), inner(x))


def test_a_compiled_module_replays():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    compiled = fg.compile(model)
    x = fg.randn(4, 2)
    for _ in range(3):
        compiled(x).sum().backward()
    assert compiled._jitted.stats.compiled_calls == 2
    with fg.no_grad():
        model[0].weight.mul_(2)
    assert fg.allclose(compiled(x), model(x))
    again = pickle.loads(pickle.dumps(compiled))
    assert fg.allclose(again(x), model(x))


def test_what_compile_refuses():
    assert fg.compile(len, disable=True) is len
    with pytest.raises(NotImplementedError, match="backend that is a function"):
        fg.compile(lambda x: x, backend=lambda graph, inputs: graph)
    with pytest.raises(RuntimeError, match="not int"):
        fg.compile(3)


def test_scripts():
    @fg.jit.script
    def total(x: fg.Tensor, n: int) -> fg.Tensor:
        for _ in range(n):
            x = x + 1
        return x.sum()

    for n in (1, 3):
        assert total(fg.zeros(2), n) == 2 * n
    assert fg.jit.script(total) is total

    @fg.jit.script
    class Pair:
        def __init__(self, x: fg.Tensor) -> None:
            self.x = x

    assert Pair(fg.ones(1)).x == 1

    class Net(fg.jit.ScriptModule):
        scale: fg.jit.Final[int]

        def __init__(self) -> None:
            super().__init__()
            self.scale = 2
            self.linear = fg.jit.trace(nn.Linear(2, 2), fg.ones(1, 2))

        @fg.jit.script_method
        def forward(self, x: fg.Tensor) -> fg.Tensor:
            if fg.jit.is_scripting() or fg.jit.is_tracing():
                raise AssertionError
            return self.halved(self.linear(x) * self.scale)

        @fg.jit.ignore
        def halved(self, x: fg.Tensor) -> fg.Tensor:
            return x / 2

        @fg.jit.unused
        def other(self) -> None: ...

        @fg.jit.ignore(drop=True)
        def another(self) -> int:
            return fg.jit.annotate(int, 3)

    net = fg.jit.script(Net())
    assert isinstance(net, Net) and len(list(net.parameters())) == 2 and net.another() == 3
    assert fg.allclose(net(fg.ones(3, 2)), net.linear(fg.ones(3, 2)))
    assert fg.jit.Final is typing.Final
    assert fg.jit.freeze(net.eval()) is net


def test_a_trace_takes_other_ways_later():
    """PyTorch's keeps the way that the example took, and warns."""

    def absolute(x):
        return x if x.sum() > 0 else -x

    traced = fg.jit.trace(absolute, (fg.ones(2),))
    assert traced(fg.full((2,), -3.0)).tolist() == [3.0, 3.0]
    assert traced(fg.full((2,), 3.0)).tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError):
        fg.jit.trace(nn.Linear(2, 2), fg.ones(1, 3))


def test_files_of_scripts_are_refused():
    for name in ("save", "load"):
        with pytest.raises(NotImplementedError, match="state_dict"):
            getattr(fg.jit, name)("file")
