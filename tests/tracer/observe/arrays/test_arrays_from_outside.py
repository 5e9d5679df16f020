"""NumPy's arrays from outside: arguments, attributes, globals, and what NumPy makes of them.

Each case is a function of a tensor, an array and a world. It is called many times, jitted and plain, in two
worlds that change alike: what arrays hold, which they are, their dtypes, layouts and whose memory they have.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from jit_checks import sealed
from planted import finds

import fusegrad as fg
from fusegrad.compiler.paths import commit
from fusegrad.tracer.observe.arrays import into_tensors, known

Case = Callable[[Any, np.ndarray, Any], Any]
CALLS = 14


def world() -> Any:
    shared = np.arange(6, dtype=np.float32) / 4
    return SimpleNamespace(
        table=np.linspace(-1, 1, 6),
        mask=np.array([True, False, True, True, False, True]),
        sizes=np.array([2, 3]),
        order=np.array([3, 1, 2, 5, 0, 4]),
        big=np.linspace(0, 1, 6000).reshape(1000, 6),
        rows=[np.ones(6, np.float32), np.zeros(6, np.float32)],
        shared=shared,
        weight=fg.from_numpy(shared).requires_grad_(),
        kept=None,
    )


def _horner(x: Any, a: Any, w: Any) -> Any:
    found = x * 0
    for i in range(len(w.table)):
        found = found * x + float(w.table[i])
    return found


def _branch(x: Any, a: Any, w: Any) -> Any:
    if w.table[0] > 0 or w.mask.any():
        return x * 2
    return x * 3


def _loop(x: Any, a: Any, w: Any) -> Any:
    for factor in w.table:
        x = x + factor
    return x


def _rows(x: Any, a: Any, w: Any) -> Any:
    first, second = w.rows
    for row in w.big[:3]:
        x = x + fg.tensor(row)
    return x * fg.from_numpy(first) + fg.tensor(second)


def _written_rows(x: Any, a: Any, w: Any) -> Any:
    found = x * 2
    found[w.order[:2]] = 7.0
    return found


def _step(x: Any, a: Any, w: Any) -> Any:
    loss = (fg.from_numpy(a).float().sum() * x * w.weight).sum()
    (gradient,) = fg.autograd.grad(loss, [w.weight])
    with fg.no_grad():
        w.weight -= 0.1 * gradient
    return loss.detach()


def _step_and_look(x: Any, a: Any, w: Any) -> Any:
    with fg.no_grad():
        w.weight.mul_(0.5)
    return x * float(w.shared[1]) if w.shared[2] > 0.1 else x + fg.tensor(w.shared)


def _step_then_read(x: Any, a: Any, w: Any) -> Any:
    with fg.no_grad():
        w.weight.mul_(0.5)
    return x + fg.from_numpy(a) + fg.tensor(a[2:3])


def _step_then_read_outside(x: Any, a: Any, w: Any) -> Any:
    with fg.no_grad():
        w.weight.mul_(0.5)
    return x + fg.tensor(w.shared)


def _written(x: Any, a: Any, w: Any) -> Any:
    t = fg.from_numpy(w.table)
    t.mul_(0.5)
    return x + t.sum()


def _written_copy(x: Any, a: Any, w: Any) -> Any:
    t = fg.tensor(a)
    t.mul_(2)
    return x + t


def _written_stack(x: Any, a: Any, w: Any) -> Any:
    stack = np.vstack([a, a])
    t = fg.from_numpy(stack)
    t.mul_(2)
    return x + t.sum() + float(stack.sum())


def _store(x: Any, a: Any, w: Any) -> Any:
    w.table[1] = 4.0
    return x + float(w.table[1])


def _keep(x: Any, a: Any, w: Any) -> Any:
    w.kept = a
    return x + fg.tensor(a).sum()


def _error(x: Any, a: Any, w: Any) -> Any:
    try:
        return x + fg.tensor(w.table.reshape(2, 3)).sum()
    except ValueError:
        return x


# Those that replay as long as only what arrays hold is another.
REPLAYS: dict[str, Case] = {
    "from_numpy": lambda x, a, w: x + fg.from_numpy(a).sum(),
    "tensor": lambda x, a, w: x + fg.tensor(a, dtype=fg.float32),
    "as_tensor": lambda x, a, w: x + fg.as_tensor(a, dtype=fg.float64),
    "asarray": lambda x, a, w: x + fg.asarray(w.table),
    "FloatTensor": lambda x, a, w: x + fg.FloatTensor(a),
    "a list of arrays": lambda x, a, w: x + fg.tensor([a, a * 2]).sum(0),
    "an operator": lambda x, a, w: x * a + w.table * x,
    "a function of an array": lambda x, a, w: fg.maximum(x, fg.from_numpy(a).float()) + x.sub(w.table),
    "computed": lambda x, a, w: x + fg.tensor((a - a.mean()) / (a.std() + w.big[0, 1] ** 2)),
    "numbers": lambda x, a, w: x * float(a[2]) + a.max() * w.big[0, 1] * x.mul(a[1]),
    "stacked": lambda x, a, w: x + fg.from_numpy(np.vstack([a, w.table])).sum(0),
    "polynomials": lambda x, a, w: x + fg.tensor(np.array([w.table**i for i in range(3)])).float().sum(0),
    "astype": lambda x, a, w: x + fg.from_numpy(a.astype(np.float32)),
    "a part": lambda x, a, w: x + fg.from_numpy(w.big[5]) + fg.tensor(w.big[1, 2]),
    "shapes": lambda x, a, w: x.reshape(a.shape) * a.ndim + len(a) + w.big.shape[0] + a.size,
    "a parameter's memory": lambda x, a, w: x + fg.from_numpy(w.shared),
    "derived": lambda x, a, w: fg.autograd.grad((w.weight * fg.tensor(a)).sum(), [w.weight])[0] + x,
    "a list": _rows,
    "indices": lambda x, a, w: x[w.order] + x[w.order[1:], None].sum() + w.weight[w.order],
    "indices written": _written_rows,
    "a training step": _step,
    "a copy written": _written_copy,
}
# Those that go by what arrays hold.
OTHERS: dict[str, Case] = {
    "masked": lambda x, a, w: x[fg.from_numpy(w.mask)],
    "kept": _keep,
    "coefficients": _horner,
    "a branch": _branch,
    "a loop": _loop,
    "a size": lambda x, a, w: x.reshape(int(w.sizes[0]), int(w.sizes[1])) + 1,
    "a list of numbers": lambda x, a, w: x + sum(w.table.tolist()),
    "one number of many": lambda x, a, w: x * float(w.big[3, 3]),
    "identity": lambda x, a, w: x * (2 if a is w.table else 3),
    "text": lambda x, a, w: x * len(str(a)),
    "step and look": _step_and_look,
    "step, then read": _step_then_read,
    "step, then read outside": _step_then_read_outside,
    "written as a tensor": _written,
    "stacked, and written as a tensor": _written_stack,
    "written": _store,
    "returned": lambda x, a, w: (x + 1, a),
    "its memory returned": lambda x, a, w: fg.from_numpy(a),
    "an error": _error,
}


def _fill(array: np.ndarray) -> None:
    if array.flags.writeable:
        array[...] = array * 3 + 1 if array.dtype != bool else ~array


def _reshape(w: Any) -> None:
    w.table.shape = (6, 1) if w.table.ndim == 1 else (6,)
    w.big.shape = w.big.shape[::-1]


CHANGES: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda w: None,
    "table": lambda w: _fill(w.table),
    "mask": lambda w: _fill(w.mask),
    "big": lambda w: _fill(w.big),
    "one of big": lambda w: w.big.__setitem__((3, 3), w.big[3, 3] + 1),
    "shared": lambda w: _fill(w.shared),
    "row": lambda w: _fill(w.rows[0]),
    "other row": lambda w: w.rows.__setitem__(1, w.rows[1] + 1),
    "order": lambda w: w.order.__setitem__(slice(None), np.roll(w.order, 1)),
    "sizes": lambda w: w.sizes.__setitem__(slice(None), w.sizes[::-1].copy()),
    "another table": lambda w: setattr(w, "table", w.table * 2),
    "a smaller dtype": lambda w: setattr(w, "table", w.table.astype(np.float32)),
    "another shape": _reshape,
    "another weight": lambda w: setattr(w, "weight", fg.from_numpy(w.shared.copy()).requires_grad_()),
}
ARGUMENTS: dict[str, Callable[[np.ndarray, Any], np.ndarray]] = {
    "as it is": lambda a, w: a,
    "float64": lambda a, w: a.astype(np.float64),
    "strided": lambda a, w: np.repeat(a, 2)[::2],
    "backwards": lambda a, w: a[::-1],
    "read-only": lambda a, w: np.frombuffer(a.tobytes(), np.float32),
    "the table": lambda a, w: w.table if w.table.ndim == 1 else w.table.reshape(6),
    "the shared one": lambda a, w: w.shared,
    "a view of the shared one": lambda a, w: w.shared[:],
    "a subclass": lambda a, w: a.view(np.matrix).A1 if False else a.view(np.recarray),
    "whole numbers": lambda a, w: (a * 10).astype(np.int64),
}


def _values(result: Any) -> Any:
    if isinstance(result, fg.Tensor):
        return result.detach().numpy().copy()
    if isinstance(result, tuple):
        return tuple(map(_values, result))
    return result


def _outcome(function: Case, x: Any, a: np.ndarray, w: Any) -> Any:
    try:
        return _values(function(x, a, w))
    except Exception as error:
        return type(error)


def _same(ours: Any, right: Any) -> None:
    if isinstance(right, tuple):
        for one, other in zip(ours, right, strict=True):
            _same(one, other)
    elif isinstance(right, np.ndarray):
        np.testing.assert_allclose(ours, right, rtol=1e-5, atol=1e-6)
        assert ours.dtype == right.dtype
    else:
        assert ours == right


def run(case: Case, seed: int, changes: list[str], arguments: list[str]) -> Any:
    """Many calls of a case, jitted and plain, with changes in between."""
    draws, jitted = random.Random(seed), fg.jit(lambda x, a, w: case(x, a, w))
    one, other = world(), world()
    for call in range(CALLS):
        change, argument = draws.choice(changes), draws.choice(arguments)
        x = fg.linspace(-1, 1, 6, dtype=fg.float32) + call
        array = np.arange(6, dtype=np.float32) + call
        found = []
        for function, w in ((jitted, one), (case, other)):
            CHANGES[change](w)
            found.append(_outcome(function, x, ARGUMENTS[argument](array.copy(), w), w))
        try:
            _same(*found)
            _same(
                tuple(v for v in vars(one).values() if isinstance(v, np.ndarray)),
                tuple(v for v in vars(other).values() if isinstance(v, np.ndarray)),
            )
            _same(_values(one.weight), _values(other.weight))
        except AssertionError as error:
            raise AssertionError(f"call {call}, after {change!r}, with {argument!r}: {error}") from None
    return jitted


@pytest.mark.parametrize("name", REPLAYS)
def test_replays_take_what_arrays_hold_now(name: str) -> None:
    written = ["table", "mask", "big", "shared", "row", "order", "nothing"]
    jitted = run(REPLAYS[name], 1, ["nothing"] if name == "masked" else written, ["as it is"])
    assert jitted.stats.compiles == 1 and jitted.stats.compiled_calls >= CALLS - 2, jitted.explain()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", REPLAYS | OTHERS)
def test_all_changes_are_noticed(name: str, seeds: int = 1) -> None:
    case = (REPLAYS | OTHERS)[name]
    for seed in range(seeds):
        run(case, seed, [*CHANGES], [*ARGUMENTS])
        run(case, seed, ["nothing", "shared"], ["as it is", "the shared one", "float64", "the table"])


@pytest.mark.parametrize("name", OTHERS)
def test_what_arrays_hold_is_asked_for(name: str) -> None:
    jitted = run(OTHERS[name], 1, ["nothing"], ["as it is"])
    if name in ("coefficients", "a branch", "a loop", "a size", "a list of numbers", "one number of many"):
        assert jitted.stats.compiled_calls >= CALLS - 2, jitted.explain()
    run(OTHERS[name], 2, ["table", "one of big", "sizes", "nothing", "nothing"], ["as it is"])


def test_the_body_is_not_entered() -> None:
    function = fg.jit(lambda a: fg.from_numpy(a / 2).sum() * len(a))
    for _ in range(2):
        function(np.ones(3))
    sealed(function)
    for number in range(4):
        assert function(np.full(3, float(number))).item() == 4.5 * number


def test_sizes_that_differ_have_code_of_their_own() -> None:
    function = fg.jit(lambda a: fg.from_numpy(a).sum() * a.shape[0])
    for number in range(24):
        size = 2 + number % 3
        assert function(np.ones(size)).item() == size * size
    assert function.stats.compiled_calls >= 12, function.explain()


def test_deterministic_calls_take_what_arrays_hold_now() -> None:
    fg.use_deterministic_algorithms(True)
    try:
        for name in ("computed", "stacked", "numbers", "a list", "coefficients", "a training step"):
            run((REPLAYS | OTHERS)[name], 3, [*CHANGES], ["as it is"])
    finally:
        fg.use_deterministic_algorithms(False)


# What is changed, and the case that finds it.
PLANTED: dict[str, tuple[str, Any, str, Any]] = {
    "what arrays hold is not asked for": ("a loop", known, "contents", lambda array: (array.shape, "")),
    "arguments are what they were": ("tensor", known.Arrays, "follow_argument", lambda *given: None),
    "identities of arguments count": ("identity", known.Arrays, "is_argument", lambda self, value: False),
    "arguments are apart from what is written": ("step, then read", commit, "arrays_of", lambda hosts: []),
    "memory is a copy": ("written as a tensor", into_tensors, "is_same", lambda one, other: False),
    "shapes are alike": (
        "asarray",
        into_tensors.ArrayInput,
        "array",
        lambda self, leaves, found: found.array,
    ),
    "numbers are what they were": ("one number of many", known, "number", lambda *given: given[-1]),
    "shapes are what they were": ("shapes", known, "ask_kind", lambda observer, getter, array: getter(array)),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, owner, name, planted = PLANTED[fault]
    monkeypatch.setattr(owner, name, planted)
    assert finds(test_all_changes_are_noticed, case, 6)


if __name__ == "__main__":
    for case in REPLAYS | OTHERS:
        test_all_changes_are_noticed(case, int(sys.argv[1]))
