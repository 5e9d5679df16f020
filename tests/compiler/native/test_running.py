"""Ops in one native call are those of Python: values, dtypes, places in memory, errors, graphs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.native import core, recording, running
from fusegrad.eager.core import op as ops_of_eager
from fusegrad.eager.core.op import REGISTRY, Op, wrap

pytestmark = pytest.mark.skipif(not core.is_on(), reason="the native core is off")

_DTYPES = ("float32", "float64", "int64", "int32", "uint8", "bool", "complex64", "float16")
_NUMBERS = (0, 0.0, -0.0, 2, 2.5, True, -1, 2**70, float("nan"), 1e300, 1j)
_ALONG = ({"dim": None, "keepdim": False}, {"dim": (0,), "keepdim": True}, {"dim": (1,), "keepdim": False})


def _operands() -> list[Any]:
    draw = np.random.default_rng(0)
    found = []
    for dtype in _DTYPES:
        array = (draw.standard_normal((3, 4)) * 3).astype(np.complex64 if dtype == "complex64" else float)
        array = np.abs(array) if dtype == "uint8" else array
        given = array.astype(dtype)
        found += [given, given[0], given[:, :1]] if dtype != "float32" else []
    array = draw.standard_normal((3, 4)).astype(np.float32)
    turned = np.asfortranarray(array)
    found += [array, turned, array[:, ::2], array[0], array[:1], np.float32(2) * np.ones(()), array[:0]]
    return [wrap(np.asarray(a)) for a in found]


def _cases(op: Op) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    operands = _operands()
    if op.family == "reduction" or op.name in ("mean",):
        yield from (((x,), params) for x in operands for params in _ALONG)
    elif op.name in ("softmax", "log_softmax", "cumsum"):
        yield from (((x,), {"dim": 0}) for x in operands)
    elif len(op.arguments) == 1:
        yield from (((x,), {}) for x in operands)
    elif len(op.arguments) == 2:
        some = operands[::3] + operands[-7:]
        yield from ((pair, {}) for pair in itertools.product(some, some))
        yield from (((x, n), {}) for x in some for n in _NUMBERS)
        yield from (((n, x), {}) for x in some for n in _NUMBERS)
    else:
        yield from ((row, {}) for row in itertools.product(operands[::5], operands[::6], operands[-7:]))


_OPS = """abs acos add  amax amin atan2 bitwise_and ceil cos cumsum div eq erf exp expm1
floor floor_divide fmax fmod ge isnan log log_softmax logical_and lt matmul maximum mean minimum mul ne neg
pow reciprocal relu remainder rsqrt sigmoid sign sin softmax sqrt sub sum tanh where xlogy""".split()


def _outcome(op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    try:
        made = ops_of_eager.bind(op, args, params)
    except Exception as error:
        return type(error), str(error)
    array = made.array
    return array.tobytes(), array.shape, array.strides, array.dtype, type(array), type(made)


@pytest.mark.parametrize("name", [name for name in _OPS if name in REGISTRY])
@pytest.mark.filterwarnings("ignore")
def test_what_an_op_gives_natively_is_what_it_gives_in_python(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = REGISTRY[name]
    assert running.is_run(op)
    native = running.RUN.of(running._table(op))
    done = 0
    for args, params in _cases(op):
        monkeypatch.setattr(op, "run", None)
        wanted = _outcome(op, args, params)
        monkeypatch.setattr(op, "run", native)
        assert _outcome(op, args, params) == wanted, (name, args, params)
        if isinstance(wanted[0], bytes):
            done += type(native(args, params, True)) is fg.Tensor
    assert done, "no case was done natively"


def test_what_is_left_on_the_way_is_finished_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """An op runs once, even where its node is to be made in Python."""
    op, times = REGISTRY["sum"], []
    given = running._METHODS.get(op, op.reduced)  # type: ignore[attr-defined]
    counted = lambda *args, **params: times.append(1) or given(*args, **params)  # noqa: E731
    monkeypatch.setitem(running._METHODS, op, counted)
    monkeypatch.setattr(op, "run", running.RUN.of(running._table(op)))
    x = fg.ones(2, 3, requires_grad=True)
    with fg.autograd.detect_anomaly():
        x.sum(0).sum().backward()
    assert len(times) == 2 and x.grad.tolist() == [[1.0] * 3] * 2


def test_errors_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY["add"], "run", running.RUN.of(running._table(REGISTRY["add"])))
    with pytest.raises(RuntimeError, match=r"add.*must match the size") as caught:
        fg.ones(2, 3) + fg.ones(4)
    assert "test_running.py" in str(caught.value)


def test_within_inference_mode_results_are_inference_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY["exp"], "run", running.RUN.of(running._table(REGISTRY["exp"])))
    with fg.inference_mode():
        assert fg.exp(fg.ones(2)).is_inference()


def test_all_that_is_run_can_be_finished() -> None:
    assert all(recording.is_plain(op) for op in REGISTRY.values() if running.is_run(op))
