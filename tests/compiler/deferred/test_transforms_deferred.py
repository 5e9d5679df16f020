"""Transforms in functions with effects, whose ops wait: what they give, and the gradients, are eager's."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.autograd import functional
from fusegrad.eager.autograd import levels

func = fg.func
CALLS = 4


def _curve(v: Any) -> Any:
    return v.sin() * v


def _total(v: Any) -> Any:
    return _curve(v).sum()


USES: dict[str, Callable[[Any], Any]] = {
    "jvp": lambda x: func.jvp(_curve, (x,), (fg.ones_like(x),))[1],
    "jvp of what waits": lambda x: func.jvp(_curve, (x * 2,), (x.cos(),))[1],
    "jvp beside what waits": lambda x: func.jvp(lambda v: _curve(v) * x, (x + 1,), (x,))[1],
    "jvp of grad": lambda x: func.jvp(func.grad(_total), (x,), (x * 2,))[1],
    "vjp": lambda x: func.vjp(_curve, x)[1](fg.ones_like(x))[0],
    "grad": lambda x: func.grad(_total)(x),
    "grad_and_value": lambda x: func.grad_and_value(_total)(x)[0],
    "jacrev": lambda x: func.jacrev(_curve)(x),
    "jacfwd": lambda x: func.jacfwd(_curve)(x),
    "hessian": lambda x: func.hessian(_total)(x),
    "vmap": lambda x: func.vmap(_curve)(x.reshape(2, -1)),
    "vmap of what waits": lambda x: func.vmap(lambda r: _curve(r) * x.sum())((x * 2).reshape(2, -1)),
    "vmap of grad": lambda x: func.vmap(func.grad(_total))(x.reshape(2, -1)),
    "functional.jvp": lambda x: functional.jvp(_curve, x, x * 2)[1],
    "functional.vjp": lambda x: functional.vjp(_curve, x, x * 2)[1],
    "functional.hvp": lambda x: functional.hvp(_total, x, x * 2)[1],
    "functional.vhp": lambda x: functional.vhp(_total, x, x * 2)[1],
    "functional.jacobian": lambda x: functional.jacobian(_curve, x),
    "functional.hessian": lambda x: functional.hessian(_total, x),
}


def _differs(use: Callable[[Any], Any], grad: bool) -> bool:
    out = io.StringIO()

    def function(x: Any) -> Any:
        h = x * 1.5
        print("before", file=out)
        found = use(h) + 1
        print("after", file=out)
        return found.sum()

    jitted = fg.jit(function)
    for _ in range(CALLS):
        found = []
        for call in (jitted, function):
            x = fg.linspace(-2, 3, 6).requires_grad_(grad)
            result = call(x)
            if result.requires_grad:
                result.backward()
            found.append((float(result), None if x.grad is None else x.grad.numpy()))
        (a, da), (b, db) = found
        if not np.isclose(a, b, rtol=1e-4) or (da is None) != (db is None):
            return True
        if da is not None and not np.allclose(da, db, rtol=1e-4, atol=1e-5):
            return True
    return False


@pytest.mark.parametrize("grad", (False, True))
@pytest.mark.parametrize("name", USES)
def test_transforms_give_what_eager_gives(name: str, grad: bool) -> None:
    assert not _differs(USES[name], grad)


def test_the_table_finds_marks_on_tensors_without_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "reach", lambda *tensors: None)
    with pytest.raises(RuntimeError, match="no values yet"):
        _differs(USES["jvp"], False)
