"""What programs ask of tensors alike in shape, dtype, layout and `requires_grad`: jit answers as eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from planted import finds

import fusegrad as fg
from fusegrad.tracer.observe import attributes
from fusegrad.tracer.observe.arrays import untold

ASKED: dict[str, Callable[[Any, Any], Any]] = {
    "is_leaf": lambda a, b: a.is_leaf,
    "is_leaf of a view": lambda a, b: a.view(3).is_leaf,
    "is_leaf of a result": lambda a, b: (a * 2).is_leaf,
    "grad_fn": lambda a, b: a.grad_fn is None,
    "grad_fn.name()": lambda a, b: a.grad_fn.name() if a.grad_fn is not None else "",
    "_base": lambda a, b: a._base is None,
    "_is_view()": lambda a, b: a._is_view(),
    "storage_offset()": lambda a, b: a.storage_offset(),
    "storage_offset() of a part": lambda a, b: a[1:].storage_offset(),
    "output_nr": lambda a, b: a.output_nr,
    "retains_grad": lambda a, b: a.retains_grad,
    "is_inference()": lambda a, b: a.is_inference(),
    "data_ptr()": lambda a, b: a.data_ptr() == b.data_ptr(),
    "identity": lambda a, b: a is b,
    "isinstance": lambda a, b: isinstance(a, fg.nn.Parameter),
    "hasattr": lambda a, b: hasattr(a, "tag"),
    "getattr": lambda a, b: getattr(a, "tag", 0),
    "grad": lambda a, b: a.grad is None,
    "untyped_storage().nbytes()": lambda a, b: a.untyped_storage().nbytes(),
    "is_set_to()": lambda a, b: a.is_set_to(b),
    "__dict__": lambda a, b: len(a.__dict__),
}


def _needing() -> Any:
    return fg.ones(3, requires_grad=True)


def _given(way: str) -> tuple[Any, Any]:
    """Two tensors of three ones."""
    other = fg.ones(3)
    if way == "one twice":
        return other, other
    if way == "a view of the other":
        return other.view(3), other
    if way == "tagged":
        other.tag = 2
        return other, fg.ones(3)
    if way == "hooked":
        made = _needing()
        made.register_hook(lambda gradient: None)
        return made, other
    if way == "retaining":
        made = _needing() * 1
        made.retain_grad()
        return made, other
    if way == "with a gradient":
        made = _needing()
        made.grad = fg.ones(3)
        return made, other
    plain: dict[str, Callable[[], Any]] = {
        "made": lambda: fg.ones(3),
        "the first part": lambda: fg.ones(6)[:3],
        "the last part": lambda: fg.ones(6)[3:],
        "a leaf": _needing,
        "a product": lambda: _needing() * 1,
        "a sum": lambda: _needing() + _needing(),
        "a split": lambda: fg.ones(6, requires_grad=True).split(3)[1],
        "a parameter": lambda: fg.nn.Parameter(fg.ones(3)),
        "a frozen parameter": lambda: fg.nn.Parameter(fg.ones(3), requires_grad=False),
    }
    return plain[way](), other


WAYS = (
    "made", "the first part", "the last part", "a leaf", "a product", "a sum", "a split", "a parameter",
    "a frozen parameter", "one twice", "a view of the other", "tagged", "hooked", "retaining",
    "with a gradient",
)  # fmt: skip


def check(asked: str, first: str, is_argument: bool = True) -> None:
    """Calls with tensors of one way, and then with one of each other."""
    ask, box = ASKED[asked], []

    def body(a: Any, b: Any) -> Any:
        if not is_argument:
            a, b = box
        found = ask(a, b)
        return a * 2 if found else a + 5, found

    for second in WAYS:
        function = fg.jit(body)
        for way in (first, first, first, second):
            given = _given(way)
            box[:] = given
            made, found = function(*(given if is_argument else _given("made")))
            right, expected = body(*given)
            assert found == expected, f"{asked}: {second} after {first}"
            np.testing.assert_array_equal(made.detach().numpy(), right.detach().numpy())


@pytest.mark.one_in(8)
@pytest.mark.parametrize("is_argument", [True, False])
@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("asked", ASKED)
def test_what_tensors_tell(asked: str, first: str, is_argument: bool) -> None:
    check(asked, first, is_argument)


def test_attributes_that_are_missed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attributes, "note_absent", lambda *given: None)
    assert finds(check, "hasattr", "made") and finds(check, "getattr", "made")


def test_what_arguments_lack_is_no_reason_to_run_the_body() -> None:
    function = fg.jit(ASKED["hasattr"])
    for _ in range(4):
        assert function(fg.ones(3), fg.ones(3)) is False
    assert function.stats.compiled_calls == 3


@pytest.mark.parametrize("asked", ["is_leaf", "storage_offset()", "_is_view()"])
def test_questions_that_nobody_notes_are_found(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untold, "_note", lambda *given: None)
    assert any(finds(check, asked, first) for first in ("a leaf", "the first part"))
