"""float16 and bfloat16: no op rounds more often than in PyTorch, by whatever door the first tensor comes."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from op_database.drive import UNSPECIFIED, entries
from op_database.halves import EPSILON, REASONS, error, run_halves, torch

import fusegrad as fg

SPARSE = {"to_sparse", "sparse.mm"}  # there, sparse tensors are no tensors
ENTRIES: dict[str, list] = {}
for _entry in entries():
    if _entry.name not in UNSPECIFIED | SPARSE and any(d in _entry.dtypes for d in EPSILON):
        ENTRIES.setdefault(_entry.name, []).append(_entry)


@pytest.mark.one_in(12)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", sorted(ENTRIES))
def test_the_samples_of(op: str):
    problems = [problem for entry in ENTRIES[op] for problem in run_halves(entry)]
    wrong = [problem for problem in problems if op not in REASONS or "off by" not in problem]
    assert not wrong, "\n".join(wrong[:10])


CURVES = (
    "relu6 elu selu celu gelu silu mish hardswish softplus softsign tanhshrink logsigmoid glu sigmoid tanh"
)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("dtype", EPSILON, ids=str)
@pytest.mark.parametrize("name", CURVES.split())
def test_gradients_whose_terms_cancel(name: str, dtype: object, jit: bool):
    torch.manual_seed(0)
    x, g = (torch.randn(64, 64) * 3).to(dtype), torch.randn(64, 64)
    theirs, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    mine = fg.tensor(x.float().numpy()).to(getattr(fg, str(dtype)[6:])).requires_grad_()
    results = []
    for lib, leaf in ((torch, theirs), (torch, exact), (fg, mine)):
        function = getattr(lib.nn.functional, name)
        if jit and lib is fg:
            function = fg.jit(function)
            function(leaf), function(leaf)
        result = function(leaf)
        weights = lib.tensor(g[:, : result.shape[1]].to(dtype).float().numpy()).to(result.dtype)
        (result * weights).sum().backward()
        results += [(result, leaf.grad)]
    for other, right, ours in zip(*results, strict=True):
        off, allowed = error(ours, right, EPSILON[dtype]), error(other, right, EPSILON[dtype])
        assert off <= 1.5 * allowed + 0.6, (
            f"off by {off:.2f} units of the last place, PyTorch by {allowed:.2f}"
        )


DOORS = {
    "from_numpy": "fg.from_numpy(numbers)",
    "tensor": "fg.tensor(numbers)",
    "as_tensor": "fg.as_tensor(numbers)",
    "half": "fg.tensor(numbers.astype('f')).half()",
    "dtype": "fg.tensor(numbers.tolist(), dtype=fg.float16)",
    "numpy's dtype": "fg.tensor(numbers.tolist(), dtype=np.float16)",
    "dlpack": "fg.from_dlpack(numbers)",
    "frombuffer": "fg.frombuffer(bytearray(numbers.tobytes()), dtype=fg.float16)",
    "view": "fg.tensor(numbers.view('i2')).view(fg.float16)",
    "nested": "fg.tensor([numbers[0], numbers[1]])",
    "scalar": "fg.tensor(numbers[0])[None]",
    "pickle": "pickle.loads(FILE)",
    "save": "fg.load(io.BytesIO(SAVED))",
    "bfloat16, pickle": "pickle.loads(WIDE)",
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("door", DOORS)
def test_the_first_of_a_process_is_computed_in_float32(door: str):
    numbers = np.linspace(-8, 8, 50).astype(np.float16)
    x = fg.tensor(numbers)
    fg.save(x, file := io.BytesIO())
    made = DOORS[door].replace("FILE", repr(pickle.dumps(x))).replace("SAVED", repr(file.getvalue()))
    if "bfloat16" in door:
        x = x.bfloat16()
        made = made.replace("WIDE", repr(pickle.dumps(x)))
    lines = (
        "import io, pickle, numpy as np, fusegrad as fg",
        "numbers = np.linspace(-8, 8, 50).astype(np.float16)",
        f"x = {made}.requires_grad_()",
        "fg.nn.functional.gelu(x).sum().backward()",
        "print(x.grad.tolist())",
    )
    run = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    x.requires_grad_()
    fg.nn.functional.gelu(x).sum().backward()
    length = len(json.loads(run.stdout or "[]"))
    assert length and run.stdout.strip() == str(x.grad.tolist()[:length]), run.stderr
