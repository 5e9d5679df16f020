"""What ops in place give is kept in their target, which is then written where no counter tells of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.compiler.paths.autograd_node import CompiledNode

OPS = ["relu_", "exp_", "sigmoid_", "tanh_", "sqrt_", "reciprocal_", "rsqrt_"]
WRITES: dict[str, Callable[[Any], Any]] = {
    "rows": lambda z: z.data.__setitem__(slice(None, None, 2), z.data[::2].clone() + 1),
    "all": lambda z: z.data.add_(1),
    "a view": lambda z: z[1:].data.mul_(3),
    "filled": lambda z: z.data.fill_(0.5),
}


def outcome(lib: Any, run: Callable[..., Any], step: int, after: Callable[[Any], Any] | None) -> list[Any]:
    data = np.random.default_rng(step).normal(size=(4, 3)).astype("f4") ** 2 - 0.1 * (step % 2)
    a = lib.tensor(np.abs(data) + 0.1, requires_grad=True)
    results = run(a)
    if after is not None:
        after(results[0])
    sum((r * r).sum() for r in results).backward()
    return [a.grad.numpy(), *(r.detach().numpy() for r in results)]


def check(op: str, write: str, within: bool) -> Any:
    def function(a: Any) -> Any:
        z = a - 0.3 if op == "relu_" else a * 1.0
        getattr(z, op)()
        if within:
            WRITES[write](z)
        return (z * 1 if within else z), a * 2

    run, after = fg.jit(lambda a: function(a)), None if within else WRITES[write]
    for step in range(5):
        expected = outcome(torch, function, step, after)
        for ours in (function, run):
            for x, y in zip(outcome(fg, ours, step, after), expected, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
    return run


@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("op", OPS)
def test_backward_takes_what_is_there(op: str, write: str, within: bool) -> None:
    check(op, write, within)


def test_a_node_that_forgets_the_target_would_be_noticed(monkeypatch: Any) -> None:
    monkeypatch.setattr(CompiledNode, "keep_written", lambda self, index, output, target: None)
    with pytest.raises(AssertionError):
        check("relu_", "all", True)


def test_writes_elsewhere_pass_by_a_result_that_has_lost_its_memory() -> None:
    # As those have that wait for an op which fails.
    function = fg.jit(lambda x: (x.exp(), x.tanh()))
    x = fg.randn(3, requires_grad=True)
    kept = [function(x) for _ in range(5)]
    assert function.stats.compiled_calls
    del kept[-1][0].array
    total = fg.zeros(3)
    total.add_(1)
    fg.from_numpy(total.numpy()).mul_(2)
    assert total.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(AttributeError):
        kept[-1][1].sum().backward()
        kept[-1][0].sum()
