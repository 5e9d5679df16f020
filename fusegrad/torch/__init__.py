"""fusegrad in torch's place: `python -m fusegrad.torch script.py` runs a PyTorch script as it is.

    python -m fusegrad.torch train.py --epochs 3

What the script and the libraries that it uses import as `torch`, `torch.nn`, ... are modules that give
fusegrad's names; PyTorch itself need not be installed. A name that fusegrad lacks is an AttributeError (an
ImportError where it is imported) that says which, and at the end of the run standard error has a list of all
that was asked for in vain, and where.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

from fusegrad.torch.face import TOPS, Finder

__all__ = ["install"]

# What processes that a program starts find torch in.
SITE = Path(__file__).with_name("site")


def put_in_place(finder: Finder | None = None) -> None:
    """Have imports of torch find fusegrad, in this process and those that it starts."""
    for name in [n for n in sys.modules if n.partition(".")[0] in TOPS]:
        del sys.modules[name]
    sys.meta_path.insert(0, finder or Finder())
    places = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    if str(SITE) not in places:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(SITE), *places])
    if str(SITE) not in sys.path:
        sys.path.insert(
            1, str(SITE)
        )  # processes of `multiprocessing` that are spawned have the path of this one


def install(finder: Finder | None = None) -> ModuleType:
    """Put fusegrad in torch's place in this process and those that it starts, and give the module `torch`.

    What was imported of PyTorch before is forgotten; do this first. `finder` is what finds the modules, where
    it is not the usual one.

    >>> import subprocess, sys
    >>> code = "from fusegrad.torch import install; install(); import torch; print(torch.ones(2) + 1)"
    >>> print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip())
    tensor([2., 2.])
    """
    put_in_place(finder)
    return importlib.import_module("torch")
