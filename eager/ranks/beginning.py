"""What a rank under `fusegrad run` does: a script, a module, or a function of another program."""

from __future__ import annotations

import os
import runpy
import sys

from fusegrad.eager.ranks.functions import call
from fusegrad.eager.ranks.places import place, publish


def begin(arguments: list[str]) -> None:
    """Run `script.py arguments`, `-m module arguments` or `--function file`."""
    where = place()
    if where is not None:
        publish(where)
    if arguments[0] == "--function":
        call(arguments[1], 0 if where is None else where.rank)
    elif arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
        runpy.run_path(arguments[0], run_name="__main__")
