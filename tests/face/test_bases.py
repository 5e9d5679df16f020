"""What classes derive from: libraries tell kinds of layers, optimizers and distributions apart by it."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

MODULES = """nn optim optim.lr_scheduler distributions distributions.constraints distributions.transforms
    autograd utils.data nn.utils.parametrize""".split()
# What PyTorch's classes are made of, and programs do not ask for: ours are made otherwise.
MADE_OTHERWISE = {
    "torch.autograd.Function": {"FunctionCtx", "_HookMixin", "_SingleLevelFunction"},
    "torch.autograd.enable_grad": {"_NoParamDecoratorContextManager"},
    "torch.autograd.no_grad": {"_NoParamDecoratorContextManager"},
    "torch.distributions.Gumbel": {"TransformedDistribution"},
}
ASKS = """
import importlib, json, sys, torch

def find(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name, None)

missing = {}
for path, bases in json.load(open(sys.argv[1])).items():
    kind = find(path)
    if type(kind).__name__ != "Declined":
        missing[path] = [base for base in bases if find(base) is None or not issubclass(kind, find(base))]
print(json.dumps(missing))
"""


def bases_in_torch() -> dict[str, list[str]]:
    """All public classes of the modules, with what PyTorch derives them from."""
    found = {}
    for name in MODULES:
        module = importlib.import_module(f"torch.{name}")
        for shown in getattr(module, "__all__", dir(module)):
            kind = getattr(module, shown)
            if isinstance(kind, type) and kind.__module__.startswith("torch.") and shown[0] != "_":
                places = [f"{b.__module__}.{b.__name__}" for b in kind.__mro__[1:]]
                own = [p for p in places if p.startswith("torch.") and not p.startswith("torch._")]
                found[f"torch.{name}.{shown}"] = own
    return found


def not_derived(folder: Path, bases: dict[str, list[str]]) -> dict[str, set[str]]:
    """What of it does not hold of the classes that stand in torch's place."""
    (folder / "bases.json").write_text(json.dumps(bases))
    command = [sys.executable, "-m", "fusegrad.torch", "-c", ASKS, str(folder / "bases.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    missing = json.loads(done.stdout)
    return {path: {base.rpartition(".")[2] for base in found} for path, found in missing.items() if found}


def test_classes_derive_from_what_pytorchs_do(tmp_path: Path):
    bases = bases_in_torch()
    assert len(bases) > 300
    bases["torch.nn.ReLU"].append("torch.nn.modules.padding._ConstantPadNd")  # which is not so: it is found
    assert not_derived(tmp_path, bases) == MADE_OTHERWISE | {"torch.nn.ReLU": {"_ConstantPadNd"}}
