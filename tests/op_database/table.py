"""The table of outcomes, as `docs/op_database.md` keeps it, and the reasons for what fails."""

from __future__ import annotations

import re
from collections.abc import Iterable

from op_database.drive import Outcome

# Why samples of an op may fail. A failing op that is not here fails the tests.
TIES = "indices of equal elements: PyTorch's come from an unstable algorithm, ours are in order"
OUT = "an error sample gives an `out=` that does not fit; this op does not offer `out=`"
SINGLE = "float32 rounding, in an ill-conditioned sample; the float64 samples pass"
SKETCH = "float32 rounding: products with random matrices, of which some are nearly singular"
NOISE = "of a single element, the weight's gradient is exactly 0; PyTorch's is rounding noise of 1e-5"
POLES = "PyTorch's value near a pole is off by 2e-5; ours is SciPy's"
ROUNDING = (SINGLE, SKETCH, NOISE)
REASONS: dict[str, str] = {
    "aminmax": OUT,
    "arange": OUT,
    "argsort": TIES,
    "as_strided": "the samples reach behind a view into its storage, which is lost in conversion to NumPy",
    "as_strided_scatter": "PyTorch's gradient of what is written over is not 0, and fails its own gradcheck",
    "cat": OUT,
    "complex": OUT,
    "digamma": POLES,
    "gather": OUT,
    "grid_sampler_2d": SINGLE,
    "grid_sampler_3d": SINGLE,
    "kthvalue": f"{TIES}; {OUT}",
    "linalg.eigh": SINGLE,
    "linalg.householder_product": SINGLE,
    "linalg.lstsq": SINGLE,
    "linalg.svd": SINGLE,
    "logcumsumexp": SINGLE,
    "masked.logaddexp": "of what the mask leaves out, PyTorch's second gradient is NaN; ours is 0",
    "matrix_exp": SINGLE,
    "mode": TIES,
    "native_layer_norm": NOISE,
    "nn.functional.ctc_loss": "float32 rounding: PyTorch adds up exponentials in float32",
    "nn.functional.layer_norm": NOISE,
    "pca_lowrank": SKETCH,
    "polygamma": POLES,
    "sort": TIES,
    "sparse.mm": "of a matrix by its rows, of which PyTorch itself makes no array to compare",
    "special.bessel_j0": "PyTorch's value is off by 2e-7; ours is SciPy's",
    "special.bessel_y1": "PyTorch's value is off by 3e-7; ours is SciPy's",
    "special.polygamma": POLES,
    "svd": SINGLE,
    "svd_lowrank": f"with M, the rank is higher than asked for, and the result depends on draws; {SKETCH}",
    "to_sparse": "a tensor by its coordinates is no `Tensor`; of one that needs gradients it is refused",
    "topk": TIES,
}

HEAD = """# PyTorch's op database, run through fusegrad

PyTorch ships sample inputs for its ops (`torch.testing._internal.common_methods_invocations.op_db`).
Each sample of each op that fusegrad has under the same name runs through both: values, dtypes and shapes in
float32, float64, int64 and bool, gradients in float32 and float64, second gradients in float64, and the
inputs that PyTorch refuses must be refused with the same type of error. Where values are random, shapes and
dtypes are compared. `tests/eager/ops/test_op_database.py` runs all of it and holds this page to what it sees;
it is written by `cd tests; python -m op_database --markdown ../docs/op_database.md`.
"""
ROW = re.compile(r"^\| `(?P<name>[^`]+)` \| (?P<samples>\d+) \| (?P<failing>\d+) \|", re.MULTILINE)


def markdown(outcomes: Iterable[Outcome]) -> str:
    """The whole page."""
    rows = sorted(outcomes, key=lambda o: o.name)
    samples, failing = sum(o.samples for o in rows), sum(len(o.failures) for o in rows)
    ops = len({o.op for o in rows})
    share = 100 * (samples - failing) / samples
    lines = [HEAD, f"**{ops} ops, {samples} samples, {share:.2f} % pass.**", "", "## What fails, and why", ""]
    lines += ["| op | samples | failing | why |", "| --- | --- | --- | --- |"]
    lines += [_row(o, f" {REASONS.get(o.op, 'not explained yet')} |") for o in rows if o.failures]
    lines += ["", "## What passes", "", "| op | samples | failing |", "| --- | --- | --- |"]
    lines += [_row(o, "") for o in rows if not o.failures]
    return "\n".join(lines) + "\n"


def _row(outcome: Outcome, why: str) -> str:
    return f"| `{outcome.name}` | {outcome.samples} | {len(outcome.failures)} |{why}"


def read(page: str) -> dict[str, tuple[int, int]]:
    """Of each entry on a page, how many samples there are and how many fail."""
    return {row["name"]: (int(row["samples"]), int(row["failing"])) for row in ROW.finditer(page)}
