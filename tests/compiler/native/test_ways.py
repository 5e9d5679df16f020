"""Kernels of small ops, which native code finds: they are asked, and give what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from native_core import native_only

import fusegrad as fg
from fusegrad.compiler import eager_kernels
from fusegrad.compiler.native import running, ways
from fusegrad.eager.core import large
from fusegrad.eager.core.op import REGISTRY

pytestmark = native_only
F = fg.nn.functional

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, y: x.sum(1),
    "mean": lambda x, y: x.mean(0, keepdim=True),
    "amax": lambda x, y: x.amax(1),
    "var": lambda x, y: x.var(1, correction=2),
    "std": lambda x, y: x.std(),
    "softmax": lambda x, y: fg.softmax(x, 1),
    "log_softmax": lambda x, y: fg.log_softmax(x, 0),
    "cumsum": lambda x, y: x.cumsum(1),
    "clamp": lambda x, y: x.clamp(-0.5, 1),
    "where": lambda x, y: fg.where(x > 0, x, y),
    "sigmoid": lambda x, y: fg.sigmoid(x),
    "cat": lambda x, y: fg.cat([x, y], 1),
    "layer_norm": lambda x, y: F.layer_norm(x, (4,), y[0], y[1]),
    "cross_entropy": lambda x, y: F.cross_entropy(x, fg.tensor([0, 3, 2])),
    "gelu": lambda x, y: F.gelu(x) * y,
    "transposed": lambda x, y: fg.softmax(x.T, 1),
}


@pytest.fixture(autouse=True)
def small_ones_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels for what has come to some 5 calls."""
    fg.wait_for_eager_kernels()
    before = {op: (op.run, op.finish, op.large) for op in REGISTRY.values()}
    known = large.answers.kernels
    monkeypatch.setattr(large.answers, "enabled", True)
    monkeypatch.setattr(eager_kernels, "ELEMENTS", 60)
    monkeypatch.setattr(large.answers, "kernels", eager_kernels.EagerKernels())
    kept = {op: dict(found) for op, found in ways.WAYS.items()}
    for found in ways.WAYS.values():
        found.clear()
    running.install()
    yield
    fg.wait_for_eager_kernels()
    large.answers.kernels = known
    for op, (run, finish, least) in before.items():
        op.run, op.finish, op.large = run, finish, least
    for op, found in ways.WAYS.items():
        found.clear()
        found.update(kept.get(op, {}))
    running.take_small()


def _called(name: str) -> list[np.ndarray]:
    """The value and the gradients."""
    draw = np.random.default_rng(0)
    x, y = (fg.tensor(draw.standard_normal((3, 4)).astype(np.float32), requires_grad=True) for _ in range(2))
    made = PROGRAMS[name](x, y)
    made.backward(fg.tensor(np.cos(np.arange(made.numel(), dtype=np.float32)).reshape(made.shape)))
    grads = [np.zeros(1) if t.grad is None else t.grad.numpy() for t in (x, y)]
    return [made.detach().numpy(), *grads]


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_of_small_ops_give_what_numpy_gives(name: str) -> None:
    wanted = _called(name)
    for _ in range(2):
        for _ in range(15):
            _called(name)
        fg.wait_for_eager_kernels()
    assert any(way is not None for found in ways.WAYS.values() for way, _ in found.values())
    for found, expected in zip(_called(name), wanted, strict=True):
        assert (found.dtype, found.shape, found.strides) == (expected.dtype, expected.shape, expected.strides)
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


def test_they_stay_off_where_bits_are_to_be_numpys() -> None:
    x = fg.tensor(np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32))
    op = REGISTRY["softmax"]
    for _ in range(20):
        fg.softmax(x, 1)
    fg.wait_for_eager_kernels()
    assert type(op.run((x,), {"dim": 1}, True)) is fg.Tensor  # type: ignore[misc]
    fg.use_deterministic_algorithms(True)
    try:
        assert np.array_equal(fg.softmax(x, 1).numpy(), op.evaluate((x,), {"dim": 1}))
    finally:
        fg.use_deterministic_algorithms(False)
    fg.set_eager_kernels(False)
    try:
        assert np.array_equal(fg.softmax(x, 1).numpy(), op.evaluate((x,), {"dim": 1}))
    finally:
        fg.set_eager_kernels(True)


def test_kernels_that_native_code_cannot_run_are_asked_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy was asked instead: gelu of 1,000 x 1,000 took 12 ms where its kernel takes 0.2."""
    x, ran = fg.rand(1000, 1000), []
    for _ in range(2):
        for _ in range(4):
            made = F.gelu(x)
        fg.wait_for_eager_kernels()
    run = eager_kernels._Known.run
    monkeypatch.setattr(
        eager_kernels._Known, "run", lambda known, args: ran.append(known) or run(known, args)
    )
    np.testing.assert_allclose(F.gelu(x).numpy(), made.numpy(), 1e-5, 1e-6)
    assert len(ran) == 1
