"""What libraries ask of PyTorch beside its ops: type hints, names, metadata, classes to build on."""

from __future__ import annotations

import importlib
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.core import public
from fusegrad.torch import SITE
from fusegrad.torch.parts import VERSION

MODULES = "nn nn.utils.parametrize optim optim.lr_scheduler distributions autograd utils.data"


def run(folder: Path, text: str) -> str:
    """What a script prints that `python -m fusegrad.torch` runs."""
    (folder / "script.py").write_text(text)
    command = [sys.executable, "-m", "fusegrad.torch", "script.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def public_classes() -> list[type]:
    modules = [fg, *(importlib.import_module(f"fusegrad.{name}") for name in MODULES.split())]
    found = {v for m in modules for n in dir(m) if isinstance(v := getattr(m, n), type)}
    return [kind for kind in found if kind.__module__.startswith("fusegrad")]


def without_hints() -> list[str]:
    """The public classes whose subclasses have no type hints, because a name in theirs is not found."""
    found = []
    for kind in public_classes():
        try:
            typing.get_type_hints(kind)
        except NameError:
            found.append(kind.__qualname__)
    return found


def test_classes_have_type_hints():
    assert len(public_classes()) > 250 and without_hints() == []

    class Model(fg.nn.Module):
        config: int

    assert typing.get_type_hints(Model)["config"] is int
    assert typing.get_type_hints(fg.nn.Module)["_buffers"] == dict[str, fg.Tensor | None]


def test_hints_that_are_not_found_are_found(monkeypatch: pytest.MonkeyPatch):
    class Broken:
        held: NotHere  # noqa: F821

    Broken.__module__ = "fusegrad.eager.nn.module"
    monkeypatch.setattr(fg.nn, "Broken", Broken, raising=False)
    public.locate("fusegrad.nn", {"Broken": Broken}, ["Broken"])
    assert without_hints() == ["Broken"]


@pytest.mark.parametrize("path", ["distributions.Distribution", "distributions.Transform"])
def test_classes_may_be_modules_too(path: str):
    for lib in (fg, torch):
        package, name = path.split(".")
        base: Any = getattr(getattr(lib, package), name)

        class Both(base, lib.nn.Module):
            arg_constraints: typing.ClassVar = {}

            def __init__(self, nn: Any) -> None:
                super().__init__()
                self.layer = nn.Linear(1, 1)

        assert list(Both(lib.nn).state_dict()) == ["layer.weight", "layer.bias"]


def test_divergences_of_any_class():
    class Own: ...

    for lib in (fg, torch):
        function = lib.distributions.register_kl(lib.distributions.Normal, Own)(lambda p, q: 1)
        assert function(None, None) == 1


def test_wrappers_of_optimizers_without_init():
    for lib in (fg, torch):

        class Wrapped(lib.optim.Optimizer):
            def __init__(self, optimizer: Any) -> None:
                self.optimizer = optimizer

            def step(self, closure: Any = None) -> Any:
                return self.optimizer.step()

        p = lib.nn.Parameter(lib.ones(2))
        p.grad = lib.ones(2)
        Wrapped(lib.optim.SGD([p], lr=0.5)).step()
        assert p.tolist() == [0.5, 0.5]


def test_storage_of_all_dtypes():
    for lib in (fg, torch):
        for dtype in (lib.float16, lib.bfloat16, lib.float32, lib.int8, lib.bool):
            x = lib.ones(3, dtype=dtype)
            assert x.untyped_storage().nbytes() == 3 * dtype.itemsize
            assert x.untyped_storage().data_ptr() == x.data_ptr()


def test_messages_name_what_was_called(tmp_path: Path):
    with pytest.raises(TypeError, match=r"^save: "):
        fg.save(fg.nn.Linear(1, 1), str(tmp_path / "model.safetensors"))
    with pytest.raises(ValueError, match="got float"):
        fg.grad(lambda x: x**2)(3.0)
    for lib in (fg, torch):
        with pytest.raises(RuntimeError, match="condition to be a boolean tensor"):
            lib.where(lib.ones(2), 1.0, 2.0)


def test_names_that_libraries_only_mention(tmp_path: Path):
    text = """
import torch, torch.fx, torch.distributed, importlib.metadata
import torch.nn.init, torch.distributions
print(importlib.metadata.version("torch") == torch.__version__)
print([name in vars(module) for module, name in (
    (torch.distributions, "Bernoulli"), (torch, "matmul"), (torch.nn.init, "kaiming_uniform_")
)])

@torch.jit.script
def double(x): return x * 2

@torch.jit.ignore()
def one(): return 1

@torch.fx.wrap
@torch.compiler.allow_in_graph
@torch.jit.unused
def two(): return 2

print(double(torch.ones(2)).tolist(), one(), two(), torch.jit.Final[int])
scripted = torch.jit.ScriptModule
print(issubclass(scripted, torch.nn.Module) and not isinstance(torch.nn.ReLU(), scripted))
print(torch.distributed.is_available(), torch.jit.is_scripting())
model = torch.compile(torch.nn.Linear(1, 1), backend="eager")
model.extra = 3
print(list(model.state_dict()), model._orig_mod.extra)
"""
    assert run(tmp_path, text).splitlines() == [
        "True",
        "[True, True, True]",
        "[2.0, 2.0] 1 2 typing.Final[int]",
        "True",
        "True False",
        "['_orig_mod.weight', '_orig_mod.bias'] 3",
    ]


def test_metadata_has_the_version():
    (folder,) = SITE.glob("torch-*.dist-info")
    assert f"Version: {VERSION}\n" in (folder / "METADATA").read_text()


def test_dtypes_of_eight_bits_tell_their_limits(tmp_path: Path):
    """Libraries ask when they are imported. PyTorch's eps of e5m2fnuz is one of three bits: it has two."""
    names = [name for name in vars(torch) if name.startswith("float8") and name != "float8_e5m2fnuz"]
    assert len(names) == 4
    asked = "bits eps max min tiny smallest_normal resolution dtype".split()
    text = f"""
import torch
for name in {names!r}:
    kind = getattr(torch, name)
    limits = torch.finfo(kind)
    print([getattr(limits, a) for a in {asked!r}], repr(limits), kind.itemsize, kind.is_floating_point)
"""
    right = []
    for name in names:
        kind = getattr(torch, name)
        limits = torch.finfo(kind)
        right.append(
            f"{[getattr(limits, a) for a in asked]} {limits!r} {kind.itemsize} {kind.is_floating_point}"
        )
    assert run(tmp_path, text).splitlines() == right


def test_whether_distributions_check_is_told_by_their_class():
    """pyro reads it there, and a class may say it for itself."""
    for lib in (fg, torch):
        base = lib.distributions.Normal
        lib.distributions.Distribution.set_default_validate_args(True)
        assert lib.distributions.Distribution._validate_args is True

        class Unchecked(base):
            _validate_args = False

        Unchecked(0.0, -1.0)
        with pytest.raises(ValueError):
            Unchecked(0.0, -1.0, validate_args=True)
        with pytest.raises(ValueError):
            base(0.0, -1.0)
