"""The venvs: one for each library, in which torch is not, and a folder that has PyTorch alone."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "build" / "libraries"
# What each library is installed by, besides its own name.
LIBRARIES: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("libraries.toml").read_text())
# Libraries that come with PyTorch say which of its releases they are for: this one.
RELEASE = "torch==2.13.0"
# What PyTorch needs of others to be imported.
WITH_TORCH = ("torch", "sympy", "mpmath", "setuptools")


def python_of(name: str) -> Path:
    return FOLDER / name / "bin" / "python"


def make(name: str) -> None:
    """A venv with a library, and with fusegrad as it stands here. Raises CalledProcessError."""
    base = FOLDER / "base"
    if not base.exists():
        _venv(base)
        _pip(base, "install", "-e", f"{REPOSITORY}[safetensors,blas,onnx]", "onnxruntime", "pytest")
    if not python_of(name).exists():
        _venv(FOLDER / name)
        # What all have in common lies in one of them: half a gigabyte, mostly NumPy's, SciPy's and Numba's.
        shared = f"import site; site.addsitedir({str(_packages(base))!r})"
        (_packages(FOLDER / name) / "base.pth").write_text(shared)
    subprocess.run(
        [
            python_of(name),
            *"-m fusegrad.torch -m pip install -q".split(),
            RELEASE,
            *LIBRARIES[name]["install"],
        ],
        check=True,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )


def _venv(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)


def _pip(folder: Path, *words: str) -> None:
    subprocess.run([folder / "bin" / "python", "-m", "pip", "-q", *words], check=True)


def _packages(folder: Path) -> Path:
    return next((folder / "lib").glob("python*/site-packages"))


def torch_alone() -> Path:
    """A folder that has PyTorch, as it is installed for the tests, and no more than it needs."""
    folder = FOLDER / "torch"
    folder.mkdir(parents=True, exist_ok=True)
    for name in WITH_TORCH:
        files = importlib.metadata.distribution(name).files or ()
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            link = folder / top
            if not link.exists():
                link.symlink_to(files[0].locate().parents[len(files[0].parts) - 1] / top)
    return folder


def version(name: str, package: str = "") -> str:
    """The release of a library that is installed, or of another package in its venv."""
    asked = package or LIBRARIES[name]["install"][0]
    code = f"import importlib.metadata as m; print(m.version({asked!r}))"
    return subprocess.run(
        [python_of(name), "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
