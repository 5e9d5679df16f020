"""The switch of the native core, and what turns it off."""

from __future__ import annotations

import pytest
from native_core import in_a_process, native_only

from fusegrad.compiler.native import core

PROGRAM = """
import fusegrad as fg
from fusegrad.compiler.native import core

function = fg.jit(fg.value_and_grad(fg.tanh))
x = fg.tensor(0.5)
for _ in range(6):
    value, gradient = function(x)
assert function.stats.compiled_calls >= 4
assert abs(value.item() - 0.4621171) < 1e-6 and abs(gradient.item() - 0.7864477) < 1e-6
print(core.why_off())
"""


@native_only
def test_it_is_on_where_nothing_is_said():
    printed, shown = in_a_process(PROGRAM, FUSEGRAD_DEBUG="1")
    assert printed == "\n" and "native core" not in shown


def test_the_switch_turns_it_off():
    printed, _ = in_a_process(PROGRAM, **{core.SWITCH: "0"})
    assert printed == f"{core.SWITCH}=0\n"


@native_only
def test_a_probe_that_fails_turns_it_off():
    plant = """
from fusegrad.compiler.native import layouts

def fails():
    raise layouts.Unknown("2 places fit")

layouts.PROBES["arrays"] = fails
"""
    printed, shown = in_a_process(plant + PROGRAM, FUSEGRAD_DEBUG="1")
    assert printed == "the layout of arrays: 2 places fit\n"
    assert "the native core is off\nthe layout of arrays: 2 places fit\n" in shown


@native_only
def test_a_twin_that_answers_otherwise_turns_it_off():
    plant = """
from fusegrad.compiler.native import match, making

plain = {twin}
{twin} = lambda *given: {wrong}
"""
    for twin, wrong, name in (
        ("match.matches_plainly", "True", "match"),
        ("match.matches_plainly", "1 / 0", "match"),
        ("making.make_plainly", "plain(*given)[::-1]", "make"),
    ):
        asked = """
import numpy as np
import fusegrad as fg
from fusegrad.compiler.native import core

match.MATCH.of(np.zeros(2, np.int64))
making.MAKE.of(np.zeros(10, np.int64))
print(core.why_off())
"""
        printed, _ = in_a_process(plant.format(twin=twin, wrong=wrong) + asked)
        assert printed.startswith(f"fusegrad_{name}: "), printed


OUTLIVES = """
import ctypes, gc
import numpy as np
from fusegrad.compiler.native import core

function = core._maker(b"outlives", id(None))(np.zeros(1))
gc.collect()
others = [ctypes.create_string_buffer(b"x" * 31) for _ in range(20000)]
gc.collect()
print(function.__name__)
"""


@native_only
def test_functions_outlive_what_made_them():
    """As a process ends, the modules that hold their makers go first, and the collector looks at them."""
    assert in_a_process(OUTLIVES)[0] == "outlives\n"


@native_only
def test_methods_that_go_with_their_makers_are_found():
    plant = "import ctypes; ctypes.pythonapi.Py_IncRef = lambda kept: None\n"
    with pytest.raises(AssertionError):  # the process dies, or finds another name
        assert in_a_process(plant + OUTLIVES)[0] == "outlives\n"
