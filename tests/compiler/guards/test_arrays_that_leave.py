"""NumPy arrays that a call gives in the memory of its tensors: replays give their own, or the run is open."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from jit_checks import Entered, leaf, sealed

import fusegrad as fg
from fusegrad.compiler.verify import JitError, check_same

OUTSIDE = SimpleNamespace(weight=leaf(3, 4, seed=5), buffer=fg.ones(3, 4), shown=[], last=None)


def _loop(x: Any) -> Any:
    found = []
    for i in range(4):
        found.append((x * i).sum(1).numpy())
    return found


def _before_it_is_written(x: Any) -> Any:
    y = x * 2
    shown = y.numpy()
    y.add_(1)
    y[0] = 7
    return shown


def _popped(x: Any) -> Any:
    shown = [x.sin().numpy(), x.cos().numpy()]
    first = shown.pop()
    return first, shown


def _of_two(x: Any) -> Any:
    def shown(of: Any) -> Any:
        return of.detach().cpu().numpy()

    a, b = shown(x * 2), shown(x * 3)
    return {"b": b, "a": [a, (b, a)]}


def _within_no_grad(x: Any) -> Any:
    with fg.no_grad():
        h = x * OUTSIDE.weight
        return h.numpy(), h


RESULTS: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda x: (x * 2).numpy(),
    "of what is derived": lambda x: (x * OUTSIDE.weight).detach().cpu().numpy(),
    "data": lambda x: (x * OUTSIDE.weight).data.numpy(),
    "by force": lambda x: (x * OUTSIDE.weight).numpy(force=True),
    "asarray": lambda x: np.asarray(x.exp()),
    "__array__": lambda x: x.exp().__array__(),
    "squeezed": lambda x: (x * 2)[:1].squeeze().data.numpy(),
    "transposed": lambda x: (x * 2).t().numpy(),
    "expanded": lambda x: x.sum(1, keepdim=True).expand(3, 4).numpy(),
    "integers": lambda x: x.argmax(1).numpy(),
    "booleans": lambda x: (x > 0).numpy(),
    "doubles": lambda x: x.double().numpy(),
    "without elements": lambda x: (x * 2)[:0].numpy(),
    "without dimensions": lambda x: x.sum().numpy(),
    "a constant": lambda x: (fg.tensor([1.0, 2.0]).numpy(), x * 2),
    "drawn": lambda x: (fg.rand(3), fg.randn(2).numpy()),
    "beside its tensor": lambda x: (y := x * 2, y.numpy()),
    "beside what is derived": lambda x: (y := x * OUTSIDE.weight, y.detach().numpy()),
    "twice of one tensor": lambda x: ((y := x * 2).numpy(), y.numpy(), np.asarray(y)),
    "the same one twice": lambda x: [a := (x * 2).numpy(), {"again": a}],
    "in a loop": _loop,
    "written after": _before_it_is_written,
    "moved about": _popped,
    "of two": _of_two,
    "within no_grad": _within_no_grad,
    "with a number": lambda x: ((x * 2).numpy(), x.sum().item()),
    "of an argument": lambda x: (x.numpy(), x * 2),
    "of one from outside": lambda x: (OUTSIDE.buffer.numpy(), x * 2),
    "is not None": lambda x: None if (a := (x * 2).numpy()) is None else a,
}


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _leaves(item)]
    return _leaves([*value.values()]) if isinstance(value, dict) else [value]


def _memory(value: Any) -> np.ndarray | None:
    if isinstance(value, fg.Tensor):
        return value.detach().numpy()
    return value if isinstance(value, np.ndarray) else None


def facts(value: Any) -> list[Any]:
    """What can be seen of arrays and tensors: their kinds, which are the same, and which share memory."""
    leaves = _leaves(value)
    arrays = [_memory(leaf) for leaf in leaves]
    told: list[Any] = []
    for leaf_, array in zip(leaves, arrays, strict=True):
        same = [leaf_ is other for other in leaves]
        if array is None:
            told.append((type(leaf_), same))
            continue
        shares = [other is not None and np.shares_memory(array, other) for other in arrays]
        layout = array.shape, array.strides, array.dtype, array.flags.writeable
        told.append((type(leaf_), layout, same, shares, getattr(leaf_, "requires_grad", None)))
    return told


def agree(one: Any, other: Any) -> None:
    assert facts(one) == facts(other)
    for a, b in zip(_leaves(one), _leaves(other), strict=True):
        if a is not None:
            a, b = (x if (found := _memory(x)) is None else found for x in (a, b))
            np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("which", RESULTS)
def test_results_are_given_by_replays(which: str):
    function = fg.jit(RESULTS[which])
    inputs = [fg.randn(3, 4, generator=fg.Generator().manual_seed(seed)) for seed in range(8)]
    for x in inputs[:4]:
        function(x)
    sealed(function)
    kept = []
    for x in inputs:
        fg.manual_seed(3)
        ours = function(x)
        fg.manual_seed(3)
        agree(ours, RESULTS[which](x))
        kept.append((ours, [None if (m := _memory(v)) is None else m.copy() for v in _leaves(ours)]))
    for ours, before in kept:  # each has memory of its own, and keeps what it held
        for value, copy in zip(_leaves(ours), before, strict=True):
            if copy is not None:
                np.testing.assert_array_equal(_memory(value), copy)


def _written_into(x: Any) -> Any:
    shown = (x * 2).numpy()
    shown[0] = 5
    return shown


def _added_to(x: Any) -> Any:
    shown = (x * 2).numpy()
    shown += 1
    return shown


def _given_to_a_function(x: Any) -> Any:
    shown = (x * 2).numpy()
    np.add(shown, 1, out=shown)
    return shown


def _in_a_container_that_is_searched(x: Any) -> Any:
    found = [x.sum().numpy(), 3]
    return found.index(3)


def _made_a_tensor_of(x: Any) -> Any:
    y = x * 2
    return fg.from_numpy(y.numpy()) + y


def _formatted(x: Any) -> Any:
    return len(f"{x.sum().numpy()}") > 20


USES: dict[str, Callable[[Any], Any]] = {
    "a function": lambda x: np.argmax((x * 2).numpy()),
    "a ufunc": lambda x: np.exp((x * 2).numpy()),
    "an operator": lambda x: (x * 2).numpy() + 1,
    "a comparison": lambda x: (x * 2).numpy() > 1,
    "beside a tensor": lambda x: x * (x * 2).numpy(),
    "an index": lambda x: (x * 2).numpy()[0],
    "a method": lambda x: (x * 2).numpy().sum(),
    "tolist": lambda x: (x * 2).numpy().tolist(),
    "an attribute": lambda x: (x * 2).numpy().T,
    "its shape": lambda x: (x * 2).numpy().shape[0] * x,
    "float": lambda x: float(x.sum().numpy()),
    "a branch": lambda x: x if x.sum().numpy() else -x,
    "its length": lambda x: len((x * 2).numpy()),
    "a loop": lambda x: [row * 2 for row in (x * 2).numpy()],
    "unpacked": lambda x: [*(x * 2).numpy()],
    "a key": lambda x: x[(x > 0).numpy()],
    "text": _formatted,
    "printed": lambda x: print((x * 2).numpy()[:0]),
    "compared in a list": lambda x: [x.sum().numpy()] == [3.0],
    "looked for": lambda x: 3.0 in [x.sum().numpy()],
    "searched": _in_a_container_that_is_searched,
    "sorted": lambda x: sorted([x.sum().numpy(), x.mean().numpy()]),
    "greatest": lambda x: max(x.sum().numpy(), x.mean().numpy()),
    "a partial": lambda x: functools.partial(float, x.sum().numpy())(),
    "written into": _written_into,
    "added to": _added_to,
    "out": _given_to_a_function,
    "a tensor again": _made_a_tensor_of,
    "a tensor of a copy": lambda x: fg.tensor((x * 2).numpy()) * 3,
}

# The tensor is asked instead, or the function called between what is computed before and after.
REPLAYED = {
    "an index", "its shape", "float", "a function", "a ufunc", "an operator", "a comparison",
    "beside a tensor", "a method", "tolist", "an attribute", "its length", "a loop", "unpacked", "a key",
    "a tensor again", "a tensor of a copy",
}  # fmt: skip


@pytest.mark.parametrize("which", USES)
def test_any_other_use_runs_the_function(which: str, capsys: pytest.CaptureFixture[str]):
    function = fg.jit(USES[which])
    for seed in range(6):
        x = fg.randn(3, 4, generator=fg.Generator().manual_seed(seed))
        agree(function(x), USES[which](x))
    if which in REPLAYED:
        agree(sealed(function)(x), USES[which](x))
        return
    with pytest.raises(Entered):
        sealed(function)(x)


def _replaced_first(x: Any) -> Any:
    OUTSIDE.buffer.data = x * 2
    return OUTSIDE.buffer.numpy()


def _shown_first(x: Any) -> Any:
    shown = OUTSIDE.buffer.numpy()
    OUTSIDE.buffer.data = x * 2
    return shown


def _written_from_outside(x: Any) -> Any:
    OUTSIDE.buffer.add_(x)
    return OUTSIDE.buffer.numpy()


@pytest.mark.parametrize("function", [_replaced_first, _shown_first, _written_from_outside])
def test_the_memory_of_tensors_from_outside(function: Callable[[Any], Any]):
    def told(called: Callable[[Any], Any]) -> list[Any]:
        OUTSIDE.buffer, found = fg.zeros(3), []
        for i in range(6):
            shown = called(fg.full((3,), float(i)))
            found.append((shown.tolist(), np.shares_memory(shown, OUTSIDE.buffer.numpy())))
        return found

    assert told(fg.jit(function)) == told(function)


def _appended(x: Any) -> Any:
    OUTSIDE.shown.append((x * 2).numpy())


def _set(x: Any) -> Any:
    OUTSIDE.last = y = (x * 2).detach()
    OUTSIDE.shown = [y.numpy()]


@pytest.mark.parametrize("function", [_appended, _set])
def test_what_lists_and_attributes_get(function: Callable[[Any], Any]):
    OUTSIDE.shown, jitted = [], fg.jit(function)
    inputs = [fg.full((2,), float(i)) for i in range(6)]
    for i, x in enumerate(inputs):
        if i == 3:
            sealed(jitted)
        jitted(x)
        shown = OUTSIDE.shown[-1]
        assert type(shown) is np.ndarray
        assert shown.tolist() == [2.0 * i] * 2
        if function is _set:
            assert np.shares_memory(OUTSIDE.last.numpy(), shown)
    if function is _appended:
        assert [a[0] for a in OUTSIDE.shown] == [0, 2, 4, 6, 8, 10]


def test_gradients_come_as_ever():
    def attend(x: Any) -> Any:
        weights = (x @ OUTSIDE.weight.t()).softmax(-1)
        return (weights @ OUTSIDE.weight).sum(), weights.squeeze().data.numpy()

    function = fg.jit(attend)
    for seed in range(6):
        x = leaf(5, 4, seed=seed)
        if seed == 3:
            sealed(function)
        loss, shown = function(x)
        (ours,) = fg.autograd.grad(loss, [x])
        expected, weights = attend(x)
        (theirs,) = fg.autograd.grad(expected, [x])
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(shown, weights, rtol=1e-5)


def test_writing_into_the_array_writes_into_its_tensor_alone():
    function = fg.jit(lambda x: (y := x * 2, y.numpy()))
    x = fg.ones(3)
    for _ in range(4):
        tensor, array = function(x)
    sealed(function)
    tensor, array = function(x)
    other, another = function(x)
    array[0] = 9
    assert (tensor.tolist(), other.tolist(), another.tolist()) == ([9, 2, 2], [2, 2, 2], [2, 2, 2])
    del tensor, other
    for _ in range(3):  # nobody gets its memory as long as somebody has the array
        function(x)
    assert array.tolist() == [9, 2, 2]


def test_verifying_looks_at_arrays():
    function = fg.jit(lambda x: (x * 2).numpy(), verify=1)
    for _ in range(4):
        function(fg.ones(3))
    with pytest.raises(JitError):
        check_same(function, np.ones(3), np.zeros(3))


# Numbers: ours, eager's, and whether they agree to rounding.
NUMBERS = [
    (1.9444444444444444, 1.9444444444444446, True),
    (float("nan"), float("nan"), True),
    (float("inf"), float("inf"), True),
    (1.0, 1.01, False),
    (0.0, float("nan"), False),
    (1.0, 1, False),
    (3, 4, False),
]


@pytest.mark.parametrize("found, expected, same", NUMBERS)
def test_verifying_compares_numbers_to_rounding(found: float, expected: float, same: bool):
    function = fg.jit(lambda x: x)
    if same:
        check_same(function, [found], [expected])
    else:
        with pytest.raises(JitError, match="differ in result 0"):
            check_same(function, [found], [expected])
