"""`torch.utils._import_utils`."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType


def _check_module_exists(name: str) -> bool:
    """Whether a module can be imported, which is not done."""
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def dill_available() -> bool:
    """Whether the package dill is installed."""
    return _check_module_exists("dill")


def import_dill() -> ModuleType | None:
    """The package dill, which is not to change what `pickle` does; None where it is not installed."""
    if not dill_available():
        return None
    dill = importlib.import_module("dill")
    dill.extend(use_dill=False)
    return dill
