"""The house: who may import whom, and that what lies on disk is what is installed."""

from __future__ import annotations

import ast
import graphlib
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Each may import itself and what stands before it.
ORDER = ["eager", "tracer", "compiler"]
FILES = [p for folder in ORDER for p in sorted((ROOT / folder).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
# The rooms of each folder, from the ground up: a room may import those before it. "" is the folder itself; a
# folder that is not listed belongs to the one that it lies in.
ROOMS = {
    "eager": [
        "core",
        "autograd",
        "ops",
        "ops/pointwise",
        "ops/create",
        "ops/shape",
        "ops/reduce",
        "ops/index",
        "random",
        "ops/linalg",
        "ops/nn",
        "ops/batches",
        "ops/loss",
        "nn",
        "nested",
        "optim",
        "utils",
        "batching",
        "io",
        "ranks",
        "distributed",
        "data",
        "devices",
        "processes",
        "library",
        "",
        "distributions",
    ],
    "tracer": ["ir", "twin", "observe", "record", "loops", "capture", "export", ""],
    "compiler": [
        "base",
        "artefacts",
        "kernel",
        "fuse",
        "llvm",
        "runtime",
        "native",
        "codegen/mathematics",
        "codegen",
        "transform",
        "gemm",
        "lower",
        "placement",
        "program",
        "library",
        "guards",
        "call_plan",
        "paths",
        "fastpath",
        "deferred",
        "batching",
        "explain",
        "",
        "compare",
    ],
}
ALIASES = sorted((ROOT / "fusegrad").rglob("*.py"))
MOST_MODULES, MOST_LINES = 21, 500
THIRD_PARTY = {"numpy", "numba", "llvmlite", "platformdirs", "scipy"}
# Extras, which only these files may import, inside functions.
EXTRAS = {
    "compiler/compare/terminal.py": {"rich", "tqdm", "matplotlib"},
    "compiler/compare/peers.py": {"torch", "jax"},
    "tracer/export/onnx/model_file.py": {"onnx", "onnxruntime"},
    "tracer/export/onnx/torch_names.py": {"onnx"},
    "tracer/export/onnx/builder.py": {"onnx", "onnxruntime"},
    "tracer/export/onnx/ops.py": {"onnx", "onnxruntime"},
    "eager/io/safetensors_file.py": {"safetensors"},
    "eager/core/dtypes.py": {"ml_dtypes"},
    "eager/batching/side_by_side.py": {"greenlet"},
    "eager/ranks/channel.py": {"mpi4py"},
    "eager/utils/summaries.py": {"tensorboard", "matplotlib", "PIL"},
    "eager/utils/tensorboard.py": {"tensorboard"},
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


def folder_of(path: Path) -> str:
    """The folder that a file lies in, from its top folder on; a package's own file lies in the package."""
    return "/".join(path.relative_to(ROOT).parts[1:-1])


def room_of(path: Path) -> str:
    """The room that a file lies in: its folder, or the next one up that is a room."""
    folders = [folder_of(path), *map(str, Path(folder_of(path)).parents)]
    return next(f for f in folders if f in ROOMS[path.relative_to(ROOT).parts[0]])


def module_file(module: str, name: str = "") -> Path | None:
    """Where a module of fusegrad lies, or the module that has `name` of a package."""
    parts = module.split(".")[1:] + ([name] if name else [])
    for tail in (parts, parts[:-1] if name else parts):
        path = ROOT.joinpath(*tail)
        for found in (path.with_suffix(".py"), path / "__init__.py"):
            if tail and found.exists():
                return found
    return None


def arrows(path: Path) -> set[Path]:
    """The modules of fusegrad that a file imports, wherever in it; not for type checkers alone."""
    tree = parsed(path)
    typing_only = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fusegrad."):
            found |= {module_file(node.module or "", alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {module_file(a.name) for a in node.names if a.name.startswith("fusegrad.")}
    return {p for p in found if p is not None and p != path}


@pytest.mark.parametrize("folder", ROOMS)
def test_arrows_between_rooms_go_one_way(folder: str) -> None:
    rooms = ROOMS[folder]
    for path in sorted((ROOT / folder).rglob("*.py")):
        own = rooms.index(room_of(path))
        for other in arrows(path):
            if other.relative_to(ROOT).parts[0] == folder:
                assert rooms.index(room_of(other)) <= own, f"{path} imports {other}"


@pytest.mark.parametrize("folder", ROOMS)
def test_no_modules_import_each_other(folder: str) -> None:
    graph = {p: arrows(p) for p in (ROOT / folder).rglob("*.py")}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(str(p.relative_to(ROOT)) for p in error.args[1]))


@pytest.mark.parametrize("folder", ROOMS)
def test_imports_stand_at_the_top(folder: str) -> None:
    for path in sorted((ROOT / folder).rglob("*.py")):
        code = False
        for node in parsed(path).body:
            imported = isinstance(node, (ast.Import, ast.ImportFrom))
            assert not (imported and code), f"{path}:{node.lineno}"
            code = code or isinstance(node, (ast.FunctionDef, ast.ClassDef))


def test_folders_have_few_modules() -> None:
    modules = Counter(p.parent for p in (*FILES, *ALIASES, *TESTS))
    assert max(modules.values()) <= MOST_MODULES, modules.most_common(3)


@pytest.mark.parametrize("folder", ROOMS)
def test_every_room_is_there(folder: str) -> None:
    assert {room_of(p) for p in (ROOT / folder).rglob("*.py")} == set(ROOMS[folder])


def test_what_tests_share_is_told_from_tests() -> None:
    """At the top of tests/ are tests; in helpers/, where each test may import from, are none."""
    for path in TESTS:
        shared = path.parent.name == "helpers"
        if shared or path.parent.name == "tests":
            is_test = path.name.startswith("test_") or path.name == "conftest.py"
            assert is_test != shared, path


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
    names = {"fusegrad." * (not f.startswith("fusegrad")) + f.replace("/", ".") for f in folders}
    assert set(project["tool"]["setuptools"]["packages"]) == names
    data = project["tool"]["setuptools"]["package-data"]
    others = {p for f in ORDER for p in (ROOT / f).rglob("*") if p.suffix in {".css", ".js", ".c", ".txt"}}
    packaged = {ROOT / k.removeprefix("fusegrad.").replace(".", "/") / n for k, v in data.items() for n in v}
    assert others <= packaged


def test_every_module_says_what_it_is_for() -> None:
    silent = [str(p) for p in FILES if p.stat().st_size and not ast.get_docstring(parsed(p))]
    assert not silent


def test_files_stay_small() -> None:
    for path in (*FILES, *ALIASES, *TESTS):
        lines = len(path.read_text().splitlines())
        assert lines <= MOST_LINES, path
