"""What is handed out: a wheel and an sdist, with all files, one version, and nothing of the checkout."""

from __future__ import annotations

import importlib.metadata
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from distribution.conftest import ROOT, run

import fusegrad as fg


def in_the_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as files:
        return set(files.namelist())


def on_disk() -> set[str]:
    """The files of the package in the checkout, where they lie when installed."""
    kinds = {".py", ".pyi", ".css", ".js", ".typed"}
    found = {p.relative_to(ROOT) for p in (ROOT / "fusegrad").rglob("*") if p.suffix in kinds}
    for part in ("eager", "tracer", "compiler"):
        found |= {"fusegrad" / p.relative_to(ROOT) for p in (ROOT / part).rglob("*") if p.suffix in kinds}
    return {p.as_posix() for p in found} | {"fusegrad/py.typed", "fusegrad/torch/surface.txt"}


def test_the_wheel_has_every_file_and_no_other(built: tuple[Path, Path]) -> None:
    packed = {name for name in in_the_wheel(built[0]) if ".dist-info/" not in name}
    assert packed == on_disk()


def test_the_sdist_has_what_the_wheel_needs(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[1]) as files:
        packed = {name.partition("/")[2] for name in files.getnames()}
    sources = {name.removeprefix("fusegrad/") if (ROOT / name).suffix and not (ROOT / name).exists() else name
               for name in on_disk()}  # fmt: skip
    assert sources <= packed
    assert {"pyproject.toml", "README.md", "LICENSE"} <= packed


def test_both_pass_twine(built: tuple[Path, Path]) -> None:
    assert "FAILED" not in run(sys.executable, "-m", "twine", "check", "--strict", *built)


def test_the_version_stands_in_one_place(installed: Any, tmp_path: Path) -> None:
    program = "import fusegrad, importlib.metadata as m; print(fusegrad.__version__, m.version('fusegrad'))"
    assert run(installed.python, "-c", program, cwd=tmp_path).split() == [fg.__version__, fg.__version__]
    assert f"-{fg.__version__}-" in installed.wheel.name
    assert importlib.metadata.version("fusegrad") == fg.__version__


def test_what_is_installed_is_what_is_imported(installed: Any, tmp_path: Path) -> None:
    program = "import fusegrad.eager.core.tensor as t, fusegrad.nn as n; print(t.__file__, n.__file__)"
    for file in run(installed.python, "-c", program, cwd=tmp_path).split():
        assert Path(file).is_relative_to(installed.python.parent.parent)


def test_the_command_is_there(installed: Any, tmp_path: Path) -> None:
    assert "compare" in run(installed.python.parent / "fusegrad", "--help", cwd=tmp_path)
