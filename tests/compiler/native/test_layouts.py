"""Where native code finds things: what is refused, what is tried, and what becomes of a wrong place."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_core import in_a_process, native_only

from fusegrad.compiler.native import layouts
from fusegrad.compiler.native.layouts import PROBES, Unknown, place_of, slot_of
from fusegrad.eager.core.tensor import Tensor

look = layouts.layouts.__wrapped__  # anew each time


@native_only
def test_all_is_found_here():
    found = look()
    assert found.head == object.__basicsize__ and found.tuple_items == tuple.__basicsize__
    assert found.class_version
    assert len({slot_of(Tensor, name) for name in ("array", "version", "needs_grad")}) == 3


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (sys, "_is_gil_enabled", lambda: False),
        (sys, "version", "3.13.0 experimental free-threading build"),
        (sys, "version_info", (3, 10, 0)),
        (sys, "gettotalrefcount", lambda: 1),
        (sys, "byteorder", "big"),
        (np, "__version__", "3.0.0"),
    ],
)
def test_what_is_not_known_is_refused(
    owner: Any, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, value, raising=False)
    with pytest.raises(Unknown):
        look()


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_that_fails_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> dict[str, int]:
        raise Unknown("2 places fit")

    monkeypatch.setitem(PROBES, name, fails)
    with pytest.raises(Unknown, match=f"the layout of {name}: 2 places fit"):
        look()


def test_a_place_must_be_one_and_fit_all():
    first, second, other = object(), object(), object()
    pair, twice = (first, second), (first, first)
    begin, end = tuple.__basicsize__, tuple.__basicsize__ + 16
    assert place_of([(pair, id(second))], begin, end) == begin + 8
    for examples in ([(twice, id(first))], [(pair, id(other))], [(pair, id(first)), (pair, id(second))]):
        with pytest.raises(Unknown):
            place_of(examples, begin, end)


def test_numbers_of_numpys_functions_are_those_of_its_headers():
    path = Path(np.get_include()) / "numpy" / "__multiarray_api.h"
    text = re.sub(r"\\\n|\s+", " ", path.read_text())
    for name, number in (
        ("PyArray_GetNDArrayCVersion", layouts._GET_ABI_VERSION),
        ("PyArray_NewFromDescr", layouts._NEW_FROM_DESCR),
    ):
        (found,) = re.findall(rf"#define {name} [^#]*?PyArray_API\[(\d+)\]", text)
        assert int(found) == number


PLANTED = """
import numpy as np
from fusegrad.compiler.native import core, layouts
from fusegrad.compiler.native.apart import Apart
from fusegrad.compiler.native.classes import Classes
from fusegrad.compiler.native.items import Items
from fusegrad.compiler.native.match import Match
from fusegrad.eager.core.op import wrap
from fusegrad.tracer.observe.values import Expected

right = layouts.layouts.__wrapped__()
layouts.PROBES["planted"] = lambda: {planted}
x, y, held = wrap(np.zeros((2, 3))), wrap(np.ones(4)), type("Held", (), {{}})()
apart, classes = Apart([x], [y], {{id(y)}}), Classes([int, type(held)])
items = Items([("held", Expected(held))])
classes.note(classes.versions(int, type(held)))
assert Match([x, y]).matches(x, y) and not Match([x, y]).matches(y, x)
assert apart.holds(x, y) and not apart.holds(y, y) and items.holds({{"held": held}}) and not items.holds({{}})
print(core.why_off())
"""


@native_only
@pytest.mark.parametrize(
    ("planted", "noticed"),
    [
        ("{'array_ndim': right.array_ndim + 4}", "match"),
        ("{'array_shape': right.array_strides}", "match"),
        ("{'array_strides': right.array_shape}", "match"),
        ("{'array_dtype': right.array_dtype - 8}", "match"),
        ("{'array_flags': right.array_flags + 4}", "apart"),
        ("{'referent': right.referent + 8}", "items"),
        ("{'class_version': 32}", "classes"),  # where the size of a class's objects is
    ],
)
def test_a_wrong_place_is_noticed_before_it_is_used(planted: str, noticed: str) -> None:
    printed, _ = in_a_process(PLANTED.format(planted=planted))
    assert printed.startswith(f"fusegrad_{noticed}: ArithmeticError")
