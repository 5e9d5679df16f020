"""What modules of torch's have beside fusegrad's own: each module here is that of torch of the same name.

`supplied/utils/hooks.py` has what `torch.utils.hooks` gives under that command. What computes stands in the
engine; here are names, answers to questions, and PyTorch's ways with what fusegrad does otherwise.
"""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent


@functools.cache
def module(name: str) -> ModuleType | None:
    """The module that supplies names of torch's of this name, if there is one."""
    top, _, rest = name.partition(".")
    if top != "torch":
        return None
    path = HERE.joinpath(*(rest or "top").split("."))
    if not path.with_suffix(".py").exists() and not (path / "__init__.py").exists():
        return None
    return importlib.import_module(f"{__name__}.{rest or 'top'}")
