"""Runs one script for some steps of its optimizers, in this process, and writes down how that went.

    python one_script.py HOW STEPS SECONDS RESULT SCRIPT [ARGUMENTS...]

HOW is "torch", "fusegrad" or "compiled": fusegrad with each outermost module compiled, as
`torch.compile(model)` does, and each optimizer's step. RESULT is a file of JSON: `seconds`, when each step
ended; `optimizers`, how many there are; `error`, the last line of one; `missing`, what was asked for in vain;
`calls`, how many of what is compiled came after a third of the steps, `entered`, how many of these ran
Python, and `why`, what `explain` says.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import random
import runpy
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

STAND_INS = Path(__file__).parent / "stand_ins"


class Enough(BaseException):
    """The script has made its steps."""


class Steps:
    """Counts the steps of optimizers, and ends the script after so many, or half of them if these take long.

    longest: how many seconds are long.
    """

    def __init__(self, most: int, longest: float) -> None:
        self.most, self.longest = most, longest
        self.start = time.perf_counter()
        self.seconds: list[float] = []
        self.optimizers: set[int] = set()

    def are_enough(self) -> bool:
        number, taken = len(self.seconds), self.seconds[-1] - self.start
        return number >= self.most or (number >= self.most // 2 and taken > self.longest)

    def counted(self, step: Any) -> Any:
        @functools.wraps(step)
        def method(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            result = step(optimizer, *args, **kwargs)
            self.optimizers.add(id(optimizer))
            self.seconds.append(time.perf_counter())
            if self.are_enough():
                raise Enough
            return result

        return method


class Compiled:
    """What is compiled, and how many of its late calls entered Python. late: the step they count from."""

    def __init__(self, jit: Any, steps: Steps, late: int) -> None:
        self._jit, self._steps, self._late = jit, steps, late
        self._made: dict[Any, Any] = {}
        self._known: dict[int, Any] = {}
        self._within = False
        self.calls = self.entered = 0

    def noted(self, init: Any) -> Any:
        """The `__init__` of what is compiled: it is there before the first step, as what users compile is."""

        @functools.wraps(init)
        def noting(owner: Any, *args: Any, **kwargs: Any) -> None:
            if not self._steps.seconds:
                self._known[id(owner)] = owner  # as long as it lives, its id is its
            init(owner, *args, **kwargs)

        return noting

    def compiled(self, method: Any) -> Any:
        """A method, jitted for each known object, unless it is called within another."""

        @functools.wraps(method)
        def called(owner: Any, *args: Any, **kwargs: Any) -> Any:
            if self._within or id(owner) not in self._known:
                return method(owner, *args, **kwargs)
            key = id(owner), method
            if key not in self._made:
                self._made[key] = self._jit(method.__get__(owner))
            jitted = self._made[key]
            if len(self._steps.seconds) >= self._late:
                self.calls += 1
                self._count_entries(jitted)
            self._within = True
            try:
                return jitted(*args, **kwargs)
            finally:
                self._within = False

        return called

    def _count_entries(self, jitted: Any) -> None:
        function = jitted.__wrapped__
        if hasattr(function, "counts"):
            return

        def entering(*args: Any, **kwargs: Any) -> Any:
            self.entered += 1
            return function(*args, **kwargs)

        entering.counts = function  # type: ignore[attr-defined]  # it must live on: what it read is guarded
        jitted.__wrapped__ = entering

    def reasons(self) -> list[str]:
        """What `explain` says of each that is compiled."""
        return [str(jitted.explain()) for jitted in self._made.values()]


def optimizers(optim: Any) -> set[Any]:
    """The classes that have a `step` of their own."""
    given = [getattr(optim, name) for name in dir(optim) if not name.startswith("_")]
    kinds = [k for k in given if isinstance(k, type) and issubclass(k, optim.Optimizer)]
    return {base for k in kinds for base in k.__mro__ if "step" in vars(base)} - {optim.Optimizer}


def prepared(how: str, steps: Steps) -> Compiled | None:
    """Put fusegrad in torch's place, if it is to be, and have the steps of optimizers counted."""
    if how != "torch":
        from fusegrad.torch import put_in_place

        put_in_place()
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    compiled = None
    if how == "compiled":
        import fusegrad

        compiled = Compiled(fusegrad.jit, steps, steps.most // 3)
        torch.nn.Module.__init__ = compiled.noted(torch.nn.Module.__init__)
        torch.nn.Module.__call__ = compiled.compiled(torch.nn.Module.__call__)
        torch.optim.Optimizer.__init__ = compiled.noted(torch.optim.Optimizer.__init__)
    for kind in optimizers(torch.optim):
        step = kind.step if compiled is None else compiled.compiled(kind.step)
        kind.step = steps.counted(step)
    return compiled


def run(script: str, arguments: list[str]) -> str:
    """Run the script; the last line of its error, if there is one."""
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(script))
    try:
        runpy.run_path(script, run_name="__main__")
    except (Enough, SystemExit):
        return ""
    except BaseException as error:
        traceback.print_exc()
        return traceback.format_exception_only(error)[-1].strip()
    return ""


def main() -> None:
    how, most, longest, result, script, *arguments = sys.argv[1:]
    sys.path[0] = str(STAND_INS)
    os.environ["MPLBACKEND"] = "Agg"
    steps = Steps(int(most), float(longest))
    compiled = prepared(how, steps)
    found: dict[str, Any] = {"error": run(script, arguments), "seconds": steps.seconds}
    found["optimizers"] = len(steps.optimizers)
    if how != "torch":
        from fusegrad.torch import asked

        found["missing"] = asked.report()
    if compiled is not None:
        found |= {"calls": compiled.calls, "entered": compiled.entered, "why": compiled.reasons()}
    Path(result).write_text(json.dumps(found))
    os._exit(0)  # whatever processes and threads a script has left


if __name__ == "__main__":
    main()
