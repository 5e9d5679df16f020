"""The house: who may import whom, and that what lies on disk is what is installed."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Each may import itself and what stands before it.
ORDER = ["eager", "tracer", "compiler"]
FILES = [p for folder in ORDER for p in sorted((ROOT / folder).rglob("*.py"))]
THIRD_PARTY = {"numpy", "numba", "llvmlite", "scipy"}
# Extras, which only these files may import, inside functions.
EXTRAS = {
    "compiler/compare/terminal.py": {"rich", "tqdm", "matplotlib"},
    "compiler/compare/peers.py": {"torch", "jax"},
    "tracer/export/onnx_file.py": {"onnx", "onnxruntime"},
    "tracer/export/onnx_builder.py": {"onnx", "onnxruntime"},
    "tracer/export/onnx_ops.py": {"onnx", "onnxruntime"},
    "compiler/gemm/matmul.py": {"scipy_openblas32"},
    "compiler/openblas.py": {"scipy_openblas32"},
    "eager/io/serialization.py": {"safetensors"},
}


def imports(tree: ast.AST) -> list[tuple[str, int]]:
    """The modules that a file imports, with their lines; relative imports start with a dot."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            if module == "fusegrad":
                found += [(f"fusegrad.{alias.name}", node.lineno) for alias in node.names]
            else:
                found.append((module, node.lineno))
    return found


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_never_go_back(path: Path) -> None:
    floor = ORDER.index(path.relative_to(ROOT).parts[0])
    allowed = {f"fusegrad.{name}" for name in ORDER[: floor + 1]}
    for module, line in imports(parsed(path)):
        where = f"{path}:{line} imports {module}"
        assert not module.startswith("."), f"{where}: write fusegrad.… out"
        assert module.split(".")[0] not in ORDER, f"{where}: write fusegrad.{module}"
        if module.startswith("fusegrad"):
            assert ".".join(module.split(".")[:2]) in allowed, where


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_but_the_dependencies_is_imported(path: Path) -> None:
    import sys

    extras = EXTRAS.get(str(path.relative_to(ROOT)), set())
    allowed = sys.stdlib_module_names | THIRD_PARTY | {"fusegrad"} | extras
    for module, line in imports(parsed(path)):
        assert module.split(".")[0] in allowed, f"{path}:{line} imports {module}"
    for node in parsed(path).body:  # at the top level extras would be needed by everybody
        for module, line in imports(node) if isinstance(node, (ast.Import, ast.ImportFrom)) else []:
            assert module.split(".")[0] not in extras, f"{path}:{line} imports {module} at the top"


@pytest.mark.parametrize("folder", ["eager", "tracer"])
def test_only_the_compiler_needs_numba(folder: str) -> None:
    for path in sorted((ROOT / folder).rglob("*.py")):
        for module, line in imports(parsed(path)):
            assert module.split(".")[0] not in {"numba", "llvmlite"}, f"{path}:{line} imports {module}"


def test_every_folder_is_packaged() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = {str(p.parent.relative_to(ROOT)) for p in ROOT.glob("fusegrad/**/__init__.py")}
    folders |= {str(p.parent.relative_to(ROOT)) for f in ORDER for p in (ROOT / f).rglob("__init__.py")}
    names = {f if f == "fusegrad" else "fusegrad." + f.replace("/", ".") for f in folders}
    assert set(project["tool"]["setuptools"]["packages"]) == names
    data = project["tool"]["setuptools"]["package-data"]
    others = {p for f in ORDER for p in (ROOT / f).rglob("*") if p.suffix in {".css", ".js", ".c", ".txt"}}
    packaged = {ROOT / k.removeprefix("fusegrad.").replace(".", "/") / n for k, v in data.items() for n in v}
    assert others <= packaged


def test_every_module_says_what_it_is_for() -> None:
    silent = [str(p) for p in FILES if p.stat().st_size and not ast.get_docstring(parsed(p))]
    assert not silent


def test_files_stay_small() -> None:
    long = [f"{p}: {n}" for p in FILES if (n := len(p.read_text().splitlines())) > 700]
    assert not long
