"""Reads the programs with torch or with fusegrad, and tells whether a jitted step is replayed."""

from __future__ import annotations

import functools
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jit_checks
import numpy as np

HERE = Path(__file__).parent
FILES = {path.stem: path for path in (*HERE.glob("*/*.py"), *HERE.glob("strangers/*/*.py"))}
NAMES = sorted(FILES)
STRANGERS = sorted(path.stem for path in HERE.glob("strangers/*/*.py"))  # see `strangers.toml`
IMPORT = re.compile(r"^(import|from) torch(\S*)( as \w+)?", re.MULTILINE)
FOLDER = tempfile.TemporaryDirectory()


def _other(library: str, found: re.Match[str]) -> str:
    """An import of torch as one of another library."""
    word, rest, alias = found.groups()
    known = alias or (" as torch" if word == "import" and not rest else "")
    return f"{word} {library}{rest}{known}"


def loaded(name: str, library: str) -> ModuleType:
    """The program, anew, with only its imports changed."""
    text = IMPORT.sub(functools.partial(_other, library), FILES[name].read_text())
    path = Path(FOLDER.name) / f"{name}_with_{library}.py"
    path.write_text(text)
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where dataclasses look for it
    exec(compile(text, str(path), "exec", dont_inherit=True), vars(module))
    return module


def losses(result: Any) -> np.ndarray:
    """What a step gave, as numbers."""
    results = result if isinstance(result, tuple) else (result,)
    return np.array([float(r.detach() if hasattr(r, "detach") else r) for r in results])


def is_replayed(jitted: Any, batch: Callable[[int], Any], start: int, steps: int = 3) -> bool:
    """Whether the next steps are answered without entering Python."""
    jit_checks.sealed(jitted)
    try:
        for i in range(start, start + steps):
            jitted(*batch(i))
    except jit_checks.Entered:
        return False
    finally:
        jitted.__wrapped__ = jitted.sealed
    return True
