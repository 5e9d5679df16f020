"""The public packages: modules on disk that give what the engine's modules list."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import fusegrad as fg
from fusegrad.eager.distributed import declined

COMMANDS = {"fusegrad.cli", "fusegrad.__main__", "fusegrad.moved"}
ENGINE = ("fusegrad.eager", "fusegrad.tracer", "fusegrad.compiler")


def packages() -> list[str]:
    """The public modules below `fusegrad`."""
    found = pkgutil.walk_packages([str(Path(fg.__file__).parent)], "fusegrad.")
    return [m.name for m in found if m.name not in COMMANDS and not m.name.startswith("fusegrad.torch")]


PACKAGES = packages()


def in_a_new_process(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_they_are_the_ones_of_pytorch() -> None:
    assert {"fusegrad.nn.functional", "fusegrad.nn.utils.rnn", "fusegrad.optim.lr_scheduler"} <= set(PACKAGES)
    assert not [name for name in PACKAGES if name.startswith(ENGINE)]


DECLINED = {f"fusegrad.distributed.{part}" for part in declined.WHY}  # of which any name says so


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_has_what_it_lists(name: str) -> None:
    module = importlib.import_module(name)
    assert Path(module.__file__ or "").parent.is_relative_to(Path(fg.__file__).parent)
    assert module.__name__ == name and sys.modules[name] is module
    if name in DECLINED:
        with pytest.raises(NotImplementedError, match=name.removeprefix("fusegrad.")):
            module.Anything()
    else:
        assert module.__all__
    assert set(module.__all__) <= set(dir(module))
    assert len(set(module.__all__)) == len(module.__all__)
    parent, _, child = name.rpartition(".")
    found = getattr(importlib.import_module(parent), child)
    # `autograd.gradcheck` is the function, as in PyTorch, whose module has the same name.
    assert found is module or found is getattr(module, child)


def test_forms_with_out_are_made_when_they_are_asked_for() -> None:
    """There are hundreds, and each takes a look at a signature."""
    program = (
        "import fusegrad as fg; from fusegrad.eager.core import public; "
        "print(len(public._forms), 'sin' in vars(fg));"
        "fg.sin, fg.absolute; print(len(public._forms), len(public.MAKERS) > 100, fg.abs is fg.absolute)"
    )
    assert in_a_new_process(program) == "0 False\n2 True True"


def test_fusegrad_lists_what_it_has() -> None:
    listed = in_a_new_process("import fusegrad as fg; print(*dir(fg))").split()
    assert {"nn", "optim", "linalg", "jit", "compare", "Tensor", "tanh"} <= set(listed)
    assert set(fg.__all__) <= set(listed)
    missing = "import fusegrad as fg; print([n for n in dir(fg) if not hasattr(fg, n)])"
    assert in_a_new_process(missing) == "[]"
    with pytest.raises(AttributeError, match="no attribute 'nnn'"):
        fg.nnn  # noqa: B018


@pytest.mark.parametrize(
    "name", ["nn.functional", "optim.lr_scheduler", "autograd.graph", "utils.checkpoint"]
)
def test_attributes_lead_there_without_an_import(name: str) -> None:
    assert in_a_new_process(f"import fusegrad as fg; print(fg.{name}.__name__)") == f"fusegrad.{name}"


def test_a_recorded_run_may_be_the_first_to_ask_for_a_package(tmp_path: Path) -> None:
    program = tmp_path / "first.py"
    program.write_text(
        "import fusegrad as fg\n"
        "@fg.jit\n"
        "def f(x):\n"
        "    return fg.special.expit(fg.nn.functional.silu(x)).sum()\n"
        "x = fg.ones(3)\n"
        "print(f(x) == f(x), f.stats.compiled_calls, f.stats.guard_failures)\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "tensor(True) 1 0"


def test_nothing_but_modules_stands_for_a_package() -> None:
    for name in ("nn", "optim", "linalg", "fft", "special", "masked", "func", "autograd", "random", "utils"):
        assert type(getattr(fg, name)) is ModuleType


# Engine modules that `import fusegrad` may load: the rooms of tensors and ops, and nothing that a program may
# never ask for. (`io.printing` and `io.interop` have methods of tensors.)
ROOMS = ("core", "autograd", "ops", "random", "io", "moved", "garbage", "forks")
LATE = {
    "autograd.func",
    "autograd.functional",
    "autograd.functional_call",
    "autograd.gradcheck",
    "autograd.graph",
}
LATE |= {"io.serialization"}
LINKS = {"batching", "batching.natively"}  # where the compiler is tied to what is loaded later


def test_importing_loads_tensors_and_ops_alone() -> None:
    loaded = in_a_new_process("import sys, fusegrad; print(*sys.modules)").split()
    ours = {name.removeprefix("fusegrad.") for name in loaded if name.startswith("fusegrad.")}
    assert {name.split(".")[0] for name in ours} == {"eager"}
    engine = {name.removeprefix("eager.") for name in ours - {"eager"}}
    assert {name.split(".")[0] for name in engine - LINKS} <= set(ROOMS)
    assert not engine & LATE
    packages = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names)
    assert not packages & {"scipy", "numba", "llvmlite", "rich", "matplotlib"}


@pytest.mark.parametrize("late", sorted(LATE))
def test_what_is_loaded_late_exists(late: str) -> None:
    importlib.import_module(f"fusegrad.eager.{late}")
