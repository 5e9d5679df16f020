"""The packages of a list: which can be imported, and which do the first example of their documentation."""

from __future__ import annotations

import importlib
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGES: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("listed.toml").read_text())


def imports(program: str) -> dict[str, str]:
    """Why packages of a program cannot be imported in this process, by their names; empty where they can."""
    found = {}
    for package, (where, module, *_) in PACKAGES.items():
        if where == program:
            try:
                importlib.import_module(module)
                found[package] = ""
            except Exception as error:
                found[package] = f"{type(error).__name__}: {error}"
    return found


def rows(folder: Path) -> Iterator[tuple[Any, str | None]]:
    """How the first example of each package went, by the results that programs have left in a folder, and why
    the package cannot be imported: empty if it can, None if PyTorch cannot, either, or it is not here.
    """
    from libraries.runs import WAYS, Row  # which the libraries' venvs need not have

    absent: dict[str, Any] = {"cases": {}}
    for package, (program, _, *name) in PACKAGES.items():
        file = folder / f"{program}.json"
        found = json.loads(file.read_text()) if file.exists() else dict.fromkeys(WAYS, absent)
        case = name[0] if name else package
        told = {way: whole["cases"].get(case, {"error": "was not reached"}) for way, whole in found.items()}
        why = {way: whole.get("imports", {}).get(package, "was not reached") for way, whole in found.items()}
        yield Row(package, program, told), None if why["torch"] else why["fusegrad"]
