"""`python -m fusegrad.torch script.py`: scripts run as they would with PyTorch, and hear what is missing."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from oracle import torch

RUN = [sys.executable, "-m", "fusegrad.torch"]


def run(folder: Path, text: str, *args: str, by: list[str] = RUN) -> subprocess.CompletedProcess[str]:
    """A script of this text, run in its folder."""
    (folder / "script.py").write_text(text)
    return subprocess.run([*by, "script.py", *args], capture_output=True, text=True, cwd=folder)


# What python itself makes of a script; none uses torch.
SCRIPTS = {
    "arguments": "import sys; print(sys.argv, __name__, __file__, sys.path[0], __spec__, __package__)",
    "main": "import __main__; x = 3; print(__main__.x, sorted(vars(__main__)))",
    "exit code": "raise SystemExit(3)",
    "exit with words": "import sys; sys.exit('no data')",
    "error": "def f():\n    1 / 0\n\n\nf()\n",
    "error from another": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('x') from e\n",
    "syntax": "x = (\n",
    "interrupted": "raise KeyboardInterrupt",
    "own hook": "import sys\nsys.excepthook = lambda k, e, t: print(k, t.tb_lineno)\n1 / 0\n",
    "at the end": "import atexit; atexit.register(print, 'end'); print('begin')",
    "pickles": "import pickle\nclass A: ...\nprint(type(pickle.loads(pickle.dumps(A()))).__module__)\n",
    "beside": "open('helper.py', 'w').write('y = 4')\nimport helper\nprint(helper.y)\n",
    "future": "from __future__ import annotations\ndef f(x: not_there): ...\nprint(f.__annotations__)\n",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_run_as_by_python(tmp_path: Path, name: str) -> None:
    ours, theirs = (run(tmp_path, SCRIPTS[name], "--steps", "3", by=by) for by in (RUN, [sys.executable]))
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)


ASKING = """
import torch
import torch.nn.functional as F
from torch import nn

for _ in range(3):
    assert not hasattr(torch, "no_such_function")
try:
    from torch.nn import NoSuchLayer
except ImportError:
    pass
try:
    import torch.no_such_module
except ImportError as error:
    assert error.name == "torch.no_such_module"
assert torch.float32 not in (torch.bfloat16, torch.sparse_coo)
print(F.relu(nn.Linear(2, 1)(torch.ones(3, 2))).shape)
torch.ones(2).no_such_method()
"""


def test_what_is_missing_is_listed_at_the_end(tmp_path: Path) -> None:
    done = run(tmp_path, ASKING)
    assert done.returncode == 1 and done.stdout == "torch.Size([3, 1])\n"
    told = done.stderr.partition("fusegrad lacks ")[2].splitlines()
    assert told[0] == "4 names of torch's that were asked for:"
    assert [line.split(maxsplit=2) for line in told[1:]] == [
        ["torch.Tensor.no_such_method", "script.py:18", "once"],
        ["torch.nn.NoSuchLayer", "script.py:9", "once"],
        ["torch.no_such_function", "script.py:7", "3 times"],
        ["torch.no_such_module", "script.py:13", "once"],
    ]


def test_nothing_is_said_where_nothing_is_missing(tmp_path: Path) -> None:
    done = run(tmp_path, "import torch\nprint(torch.ones(2).sum())\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "tensor(2.)\n", "")


def test_wrong_usage(tmp_path: Path) -> None:
    assert subprocess.run(RUN, capture_output=True).returncode == 2
    assert subprocess.run([*RUN, "no_such_file.py"], capture_output=True, cwd=tmp_path).returncode == 2


def test_imports_of_all_kinds_give_fusegrads_own(tmp_path: Path) -> None:
    text = """
import torch, fusegrad as fg
import torch.nn as nn
import torch.utils.data
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader
from torch.nn.utils.rnn import pad_sequence
from torch.nn.parameter import Parameter
from torch.autograd import Variable, Function, grad
names = {}
exec("from torch import *", names)
assert names["relu"] is torch.relu is fg.relu and "jit" not in names and "compare" not in dir(torch)
assert nn.Linear is fg.nn.Linear and StepLR is fg.optim.lr_scheduler.StepLR
assert DataLoader is fg.utils.data.DataLoader and Parameter is fg.nn.Parameter
assert torch.version.cuda is None and not torch.cuda.is_available() and torch.cuda.device_count() == 0
assert tuple(int(n) for n in torch.__version__.split("+")[0].split(".")) >= (2, 0)
assert torch.backends.cudnn.enabled is False and not torch.backends.mps.is_available()
"""
    done = run(tmp_path, text)
    assert done.returncode == 0, done.stderr


def test_distributions_are_where_pytorch_has_them(tmp_path: Path) -> None:
    package = torch.distributions
    modules = [module.name for module in pkgutil.iter_modules(package.__path__)]
    assert len(modules) > 40
    text = "import torch.distributions as d\n"
    for module in modules:
        theirs = importlib.import_module(f"{package.__name__}.{module}")
        for name in getattr(theirs, "__all__", []):
            text += f"from torch.distributions.{module} import {name} as found\n"
            if getattr(package, name, None) is getattr(theirs, name):
                text += f"assert found is d.{name}\n"
    done = run(tmp_path, text)
    assert done.returncode == 0, done.stderr


def test_processes_that_a_script_starts_find_fusegrad_too(tmp_path: Path) -> None:
    text = """
import subprocess, sys
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__mp_main__":
    print(torch.Tensor, flush=True)

def work():
    code = "import torch; print(torch.ones(2).__class__.__mro__[0])"
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
    data = TensorDataset(torch.arange(4.0))
    loader = DataLoader(data, batch_size=2, num_workers=1, multiprocessing_context="spawn")
    print([batch[0].tolist() for batch in loader])

if __name__ == "__main__":
    work()
"""
    done = run(tmp_path, text)
    ours = "<class 'torch.Tensor'>"
    assert done.stdout.split() == [*ours.split(), *ours.split(), "[[0.0,", "1.0],", "[2.0,", "3.0]]"], (
        done.stderr
    )


def test_compile_is_jit(tmp_path: Path) -> None:
    text = """
import torch

@torch.compile
def f(x):
    return torch.tanh(x * 2).sum()

@torch.compile(mode="max-autotune", fullgraph=True)
def g(x):
    return torch.sin(x)

model = torch.compile(torch.nn.Linear(3, 2))
for _ in range(4):
    f(torch.ones(3)), g(torch.ones(3)), model(torch.ones(1, 3)).sum().backward()
print([c.stats.compiled_calls for c in (f, g, model)], model.weight.grad.shape, len(list(model.parameters())))
"""
    done = run(tmp_path, text)
    assert done.stdout == "[3, 3, 3] torch.Size([2, 3]) 2\n", done.stderr


# Libraries that look for torch.

LIBRARIES = {
    "einops": """
from einops import einsum, pack, parse_shape, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
x = torch.arange(96.0).reshape(2, 3, 4, 4).requires_grad_()
assert torch.equal(rearrange(x, "b c h w -> b (h w) c"), x.permute(0, 2, 3, 1).reshape(2, 16, 3))
assert torch.equal(repeat(x, "b c h w -> b c h (w 2)"), x.repeat_interleave(2, -1))
for how in ("mean", "sum", "max", "min", "prod", "any", "all"):
    given = x > 3 if how in ("any", "all") else x
    found = reduce(given, "b c (h two) w -> b c h w", how, two=2)
    pairs = given.reshape(2, 3, 2, 2, 4)
    one, other = pairs[..., 0, :], pairs[..., 1, :]
    assert torch.allclose(found.float(), {
        "mean": lambda: (one + other) / 2, "sum": lambda: one + other, "prod": lambda: one * other,
        "max": lambda: torch.maximum(one, other), "min": lambda: torch.minimum(one, other),
        "any": lambda: one | other, "all": lambda: one & other}[how]().float()), how
assert torch.allclose(einsum(x, x, "b c h w, b d h w -> b c d"), torch.einsum("bchw,bdhw->bcd", x, x))
assert parse_shape(x, "b _ h _") == {"b": 2, "h": 4}
packed, shapes = pack([x, x[:, :, 0, 0]], "b c *")
assert torch.equal(unpack(packed, shapes, "b c *")[0], x)
model = torch.nn.Sequential(
    Rearrange("b c h w -> b (c h w)"), torch.nn.Linear(48, 16), Rearrange("b (c h) -> b c h", h=4),
    Reduce("b c h -> b c", "mean"), EinMix("b c -> b d", weight_shape="c d", c=4, d=5),
)
fg_jitted = torch.compile(model)
for _ in range(3):
    fg_jitted(x).sum().backward()
assert torch.allclose(fg_jitted(x), model(x), atol=1e-5) and x.grad.shape == x.shape
assert fg_jitted.stats.compiled_calls == 3, fg_jitted.explain()
""",
    "safetensors": """
import safetensors.torch as st
from safetensors import safe_open
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
st.save_file(model.state_dict(), "model.safetensors", metadata={"of": "a test"})
loaded = st.load_file("model.safetensors")
assert all(torch.equal(v, loaded[k]) and v.dtype == loaded[k].dtype for k, v in model.state_dict().items())
other = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
assert st.load_model(other, "model.safetensors") == (set(), [])
assert torch.equal(other[0].weight, model[0].weight)
with safe_open("model.safetensors", framework="pt") as file:
    assert file.metadata() == {"of": "a test"} and file.get_tensor("0.weight").shape == (2, 3)
    assert torch.equal(file.get_slice("0.weight")[:, 1:], model[0].weight[:, 1:])
assert torch.equal(st.load(st.save({"x": torch.arange(3)}))["x"], torch.arange(3))
""",
    "sklearn": """
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
X = torch.randn(50, 4)
y = (X[:, 0] > 0).long()
assert accuracy_score(y, LogisticRegression().fit(X, y).predict(X)) > 0.9
assert PCA(2).fit_transform(X).shape == (50, 2)
""",
    "scipy": """
import scipy.special
try:
    from scipy._external.array_api_compat import array_namespace, is_torch_array
except ImportError:  # before 1.18
    from scipy._lib.array_api_compat import array_namespace, is_torch_array
x = torch.arange(6.0).reshape(3, 2)
assert is_torch_array(x)
space = array_namespace(x)
assert torch.equal(space.sum(x, axis=0), x.sum(0)) and space.astype(x, space.int64).dtype == torch.int64
assert type(scipy.special.logsumexp(x, axis=0)) is torch.Tensor
""",
    "tqdm": """
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm, trange
bar = tqdm(DataLoader(TensorDataset(torch.arange(6)), batch_size=2))
for (batch,) in bar:
    bar.set_postfix(loss=batch.float().mean().item(), tensor=batch.sum())
assert [row.shape for row in tqdm(torch.ones(3, 2))] == [(2,)] * 3
""",
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_that_look_for_torch(tmp_path: Path, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    done = run(tmp_path, f"import torch\n{LIBRARIES[library]}")
    assert done.returncode == 0, done.stderr
