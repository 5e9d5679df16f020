"""Each op as a library, float32 and float64: it gives what eager gives, or is refused with its name and line.

`PYTHONPATH=tests python tests/compiler/library/test_library_ops.py` takes the first sample of all ops, with a
number every sample.
"""

from __future__ import annotations

import collections
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from op_samples import SAMPLES, Sample

import fusegrad as fg
from fusegrad.compiler.library import files, parts
from fusegrad.compiler.library.api import ExportError

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or files._linker() is None, reason="nothing links libraries here"
)
# What may be said of an op that is not exported, and nothing else.
REFUSALS = (
    "has no native code, only NumPy's",
    "is LAPACK's to compute",
    "C has no type for",
    "does what a file cannot repeat",
    "asks if a number",
    "can be exported",
    "one tensor is given for two arguments",
)


def outcome(sample: Sample, dtype: str, folder: str) -> str:
    """What became of a library: "written", why it was refused, or what is wrong with it."""
    tensors = [fg.tensor(a.astype(dtype) if a.dtype.kind == "f" else a) for a in sample.inputs]
    try:
        fg.export(lambda *given: sample.call(fg, *given), tuple(tensors), os.path.join(folder, "library.so"))
    except ExportError as error:
        return next((refusal for refusal in REFUSALS if refusal in str(error)), f"WRONG: {error}")
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        # The op itself may refuse.
        try:
            sample.call(fg, *tensors)
        except type(error):
            return "the op refuses"
        return f"WRONG: {error!r}"
    return "written"


def wrong(names: list[str], most: int, dtypes: tuple[str, ...], folder: str) -> collections.Counter[str]:
    found: collections.Counter[str] = collections.Counter()
    for name in names:
        for number, sample in enumerate(SAMPLES[name][:most]):
            for dtype in dtypes:
                became = outcome(sample, dtype, folder)
                if became.startswith("WRONG"):
                    print(name, number, dtype, became, flush=True)
                found[became if not became.startswith("WRONG") else "WRONG"] += 1
    return found


def test_ops_as_libraries(tmp_path: Path) -> None:
    found = wrong([*SAMPLES][::37], 1, ("float32",), str(tmp_path))
    assert 3 * found["written"] > found.total() and not found["WRONG"], found


def test_a_library_that_gives_something_else_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of this table, planted: a plan whose blocks have another number in them."""
    plan = parts.plan

    def spoilt(*args: Any) -> Any:
        planned = plan(*args)
        bits = planned.steps[0].block
        bits[bits.index(np.float32(3).view(np.int32))] = int(np.float32(5).view(np.int32))
        return planned

    monkeypatch.setattr(parts, "plan", spoilt)
    with pytest.raises(ExportError, match="something else than eager"):
        fg.export(lambda x: x * 3.0, (fg.ones(4),), tmp_path / "library.so")
    assert not [*tmp_path.iterdir()]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        every = len(sys.argv) > 1
        print(wrong([*SAMPLES], 1000 if every else 1, ("float32", "float64")[: 1 + every], folder))
