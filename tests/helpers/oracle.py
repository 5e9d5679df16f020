"""PyTorch, which many tests ask for the right answer: `from oracle import torch`.

Where it is not installed, whoever asks it for something is skipped: a test, or a whole file that asks while
it is read.
"""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

torch: Any
try:
    import torch
except ModuleNotFoundError:

    class _Missing:
        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith(("_", "pytest")):  # pytest looks whether it is a test or a fixture
                raise AttributeError(name)
            pytest.skip("needs torch", allow_module_level=True)

    torch = _Missing()
