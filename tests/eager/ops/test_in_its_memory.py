"""In-place forms that NumPy computes in the tensor's memory, where nothing goes on the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.eager.ops import inplace

Step = Callable[[Any], Any]
# Those that are computed there, and the same out of place.
STEPS: dict[str, tuple[Step, Step]] = {
    "add a number": (lambda x: x.add_(1.5), lambda x: x + 1.5),
    "add a whole number": (lambda x: x.add_(2), lambda x: x + 2),
    "add scaled": (lambda x: x.add_(x.detach().clone(), alpha=-0.1), lambda x: x - 0.1 * x),
    "add itself": (lambda x: x.add_(x), lambda x: x + x),
    "sub scaled by a whole number": (lambda x: x.sub_(x[:1].clone(), alpha=3), lambda x: x - 3 * x[:1]),
    "sub a row": (lambda x: x.sub_(x[0].clone()), lambda x: x - x[0]),
    "operator": (lambda x: x.__imul__(3.0), lambda x: x * 3.0),
    "mul a tensor of one": (lambda x: x.mul_(fg.full((), 0.5, dtype=x.dtype)), lambda x: x * 0.5),
    "div": (lambda x: x.div_(0.3), lambda x: x / 0.3),
    "div by zero": (lambda x: x.div_(0), lambda x: x / 0),
    "neg": (lambda x: x.neg_(), lambda x: -x),
    "relu": (lambda x: x.relu_(), lambda x: x.relu()),
    "abs": (lambda x: x.abs_(), lambda x: x.abs()),
    "out of range": (lambda x: x.add_(1e300), lambda x: x + 1e300),
}  # fmt: skip


def tensors(dtype: Any) -> Iterator[fg.Tensor]:
    """Large and small, in order and not, with zeros of either sign."""
    draw = np.random.default_rng(0)
    for shape in ((), (3,), (7, 5), (300, 200)):
        x = fg.tensor(draw.standard_normal(shape)).to(dtype)
        if x.dim():
            x[..., 0], x[..., 1] = 0.0, -0.0
        yield x
        if x.dim() == 2:
            yield x.clone().T
            yield x.clone()[1:, ::2]


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64], ids=str)
@pytest.mark.parametrize("name", STEPS)
def test_in_the_memory_as_out_of_it(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    in_place, plain = STEPS[name]
    for x in tensors(dtype):
        if not x.dim() and ("row" in name or "whole number" in name):
            continue
        expected, shared = plain(x).numpy().copy(), x.view(x.shape)
        with monkeypatch.context() as patch:
            patch.setattr(inplace, "commit", None)
            version = x._version
            assert in_place(x) is x
            assert x._version == version + 1
        np.testing.assert_array_equal(x.numpy(), expected)
        np.testing.assert_array_equal(np.signbit(x.numpy()), np.signbit(expected))
        np.testing.assert_array_equal(shared.numpy(), expected)


def test_what_other_dtypes_have_goes_the_usual_way() -> None:
    whole = fg.arange(5)
    with pytest.raises(RuntimeError, match="can't be cast"):
        whole.add_(0.5)
    with pytest.raises(RuntimeError, match="can't be cast"):
        whole.div_(2)
    assert whole.add_(2).tolist() == [2, 3, 4, 5, 6]
    x = fg.ones(3)
    assert x.add_(fg.ones(3, dtype=fg.float64)).dtype is fg.float32
    assert x.mul_(fg.arange(3)).tolist() == [0, 2, 4]
    assert fg.ones(2, dtype=fg.bfloat16).add_(0.001).tolist() == [1.0, 1.0]


def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    x = fg.ones(1, 3)
    with pytest.raises(RuntimeError, match="shape"):
        x.add_(fg.ones(2, 3))
    with pytest.raises(RuntimeError):
        x.add_(fg.ones(2))
    with pytest.raises(TypeError):
        x.mul_("2")
    with pytest.raises(TypeError):
        x.mul_(2.0, alpha=2)
    with pytest.raises(RuntimeError, match="memory"):
        x[0, 1:].add_(x[0, :-1])
    assert x.tolist() == [[1, 1, 1]]
    assert x._version == 0


def test_backward_finds_what_was_written_meanwhile() -> None:
    w = fg.ones(3, requires_grad=True)
    x = fg.ones(3)
    loss = (w * x).sum()
    x.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    y = (w * 2).exp()
    y.detach().mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("name", ["add a number", "add itself", "operator", "neg", "relu", "div"])
def test_gradients_where_what_was_there_is_not_kept(name: str) -> None:
    in_place, plain = STEPS[name]
    x = fg.tensor(np.linspace(-1, 1, 6), requires_grad=True)
    found, wanted = x * 1.5, plain(x * 1.5)
    (expected,) = fg.autograd.grad((wanted * wanted).sum(), x)
    (gradient,) = fg.autograd.grad((in_place(found) ** 2).sum(), x)
    np.testing.assert_allclose(gradient.numpy(), expected.numpy(), rtol=1e-12)


def test_a_leaf_under_no_grad_stays_one() -> None:
    w = fg.ones(3, requires_grad=True)
    with fg.no_grad():
        w.add_(fg.ones(3), alpha=-0.5)
        w -= 0.25
    assert w.is_leaf and w.requires_grad and w.tolist() == [0.25] * 3 and w._version == 2


def test_inference_tensors_and_interpreters_see_the_write() -> None:
    with fg.inference_mode():
        x = fg.ones(3)
        assert x.add_(1.0).tolist() == [2, 2, 2] and x.is_inference()

    @fg.jit
    def function(x: fg.Tensor) -> fg.Tensor:
        return x.mul_(2.0).add_(x, alpha=0.5)

    for _ in range(3):
        x = fg.ones(3)
        assert function(x).tolist() == x.tolist() == [3, 3, 3]
