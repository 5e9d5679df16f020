"""What the compiler uses of Numba, llvmlite and NumPy that these do not promise: all of it is listed here.

A release that lacks a part fails under its name. The upper bounds in pyproject.toml keep others from meeting
one that nobody has tried.
"""

from __future__ import annotations

import ast
import importlib
import tomllib
from pathlib import Path

import pytest

import fusegrad.compiler

ROOT = Path(__file__).resolve().parents[3]

# Where each is found: a module, and what of it.
CODEGEN = "numba.core.registry:cpu_target.target_context.codegen()"
PARTS = {
    # The target that Numba compiles for, with the settings of its users.
    "_tm_features": f"{CODEGEN}._tm_features",
    "_customize_tm_options": f"{CODEGEN}._customize_tm_options",
    # llvmlite's functions, of which those that take long are called past its lock.
    "_cfn": "llvmlite.binding.ffi:lib.LLVMPY_RunNewModulePassManager._cfn",
    "LLVMPY_RunNewModulePassManager": "llvmlite.binding.ffi:lib.LLVMPY_RunNewModulePassManager",
    "LLVMPY_TargetMachineEmitToMemory": "llvmlite.binding.ffi:lib.LLVMPY_TargetMachineEmitToMemory",
    "LLVMPY_GetBufferStart": "llvmlite.binding.ffi:lib.LLVMPY_GetBufferStart",
    "LLVMPY_GetBufferSize": "llvmlite.binding.ffi:lib.LLVMPY_GetBufferSize",
    "LLVMPY_DisposeMemoryBuffer": "llvmlite.binding.ffi:lib.LLVMPY_DisposeMemoryBuffer",
    # Its lock, which a forked child must find free.
    "_lock": "llvmlite.binding.ffi:lib._lock",
    "OutputString": "llvmlite.binding.ffi:OutputString",
    # NumPy's table of functions for C programs.
    "_ARRAY_API": "numpy:_core._multiarray_umath._ARRAY_API",
    "_multiarray_umath": "numpy:_core._multiarray_umath",
    "_core": "numpy:_core",
}
# Names of ours, or of Python's own, that look private to somebody who only reads.
OURS = {"_fields_", "_fields", "_replace", "_is_gil_enabled", "_getframe"}


@pytest.mark.parametrize("part", PARTS)
def test_it_is_there(part: str) -> None:
    module, _, path = PARTS[part].partition(":")
    found = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name.removesuffix("()"))
        if name.endswith("()"):
            found = found()
    assert found is not None


@pytest.mark.parametrize("library", ["numba", "llvmlite"])
def test_releases_that_nobody_has_tried_are_not_installed(library: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (bounds,) = (line for line in project["dependencies"] if line.startswith(library))
    installed = importlib.import_module(library).__version__.split(".")
    assert f"<{installed[0]}.{int(installed[1]) + 1}" in bounds


def test_nothing_else_of_the_kind_is_used() -> None:
    folder = Path(fusegrad.compiler.__file__).parent
    used = set()
    for path in (*(folder / "llvm").glob("*.py"), *(folder / "native").glob("*.py")):
        tree = ast.parse(path.read_text())
        own = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_own(node)}
        own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                private = node.attr.startswith("_") and not node.attr.endswith("__")
                if node.attr.startswith("LLVMPY_") or (private and node.attr not in own | OURS):
                    used.add(node.attr)
    assert used == PARTS.keys() - {"_cfn", "OutputString"}


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
