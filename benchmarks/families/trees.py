"""Have `import fusegrad` mean another checkout: its folders as its pyproject.toml maps them."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path
from typing import Any


class Finder:
    """Finds the packages of a checkout before whatever is installed is asked."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self.folders = folders

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a package at the top of a folder; modules inside are found along its path."""
        folder = self.folders.get(name)
        if folder is None:
            return None
        places = [str(folder)]
        return importlib.util.spec_from_file_location(
            name, folder / "__init__.py", submodule_search_locations=places
        )


def use(tree: Path) -> None:
    """Import fusegrad from `tree` from now on. Raises FileNotFoundError where it is no checkout."""
    settings = tomllib.loads((tree / "pyproject.toml").read_text())
    mapping = settings["tool"]["setuptools"]["package-dir"]
    sys.meta_path.insert(0, Finder({name: (tree / folder).resolve() for name, folder in mapping.items()}))


def python_of(tree: Path) -> str:
    """The checkout's own interpreter, or this one where it has none."""
    own = tree / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable
