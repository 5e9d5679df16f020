"""Runs one script for some steps of its optimizers, in this process, and writes down how that went.

    python one_script.py HOW STEPS SHORTEST LONGEST RESULT SCRIPT [ARGUMENTS...]

HOW is "torch", "fusegrad" or "compiled": fusegrad with each outermost module compiled, as
`torch.compile(model)` does, and each optimizer's step. RESULT is a file of JSON: `seconds`, when each step
ended; `model_calls`, how many calls of outermost modules there were by then; `optimizers`, how many there
are; `error`, the last line of one; `missing`, what was asked for in vain; `calls`, how many of what is
compiled came after a third of the steps, `entered`, how many of these ran Python, and `why`, what `explain`
says.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

STAND_INS = Path(__file__).parent / "stand_ins"


class Enough(BaseException):
    """The script has made its steps."""


class Steps:
    """Counts the steps of optimizers, and ends the script after so many, or half of them if these take long,
    or more if they take no time.

    shortest: how many seconds, from the first step on, they are at least to take: programs are compiled
    beside the first ones. longest: how many seconds are long. model_calls: how many calls of modules, but for
    those within others, there were up to the end of each step: games that last longer have more of them.
    """

    def __init__(self, most: int, shortest: float, longest: float) -> None:
        self.most, self.shortest, self.longest = most, shortest, longest
        self.start = time.perf_counter()
        self.seconds: list[float] = []
        self.model_calls: list[int] = []
        self._calls, self._in_model = 0, False
        self.optimizers: set[int] = set()

    def are_enough(self) -> bool:
        number, last = len(self.seconds), self.seconds[-1]
        if number >= self.most:
            return last - self.seconds[0] >= self.shortest
        return number >= self.most // 2 and last - self.start > self.longest

    def counted(self, step: Any) -> Any:
        @functools.wraps(step)
        def method(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            result = step(optimizer, *args, **kwargs)
            self.optimizers.add(id(optimizer))
            self.model_calls.append(self._calls)
            self.seconds.append(time.perf_counter())
            if self.are_enough():
                raise Enough
            return result

        return method

    def with_calls(self, call: Any) -> Any:
        """`Module.__call__`, counted where it is not within another."""

        @functools.wraps(call)
        def method(module: Any, *args: Any, **kwargs: Any) -> Any:
            if self._in_model:
                return call(module, *args, **kwargs)
            self._calls += 1
            self._in_model = True
            try:
                return call(module, *args, **kwargs)
            finally:
                self._in_model = False

        return method


class Compiled:
    """What is compiled, and how many of its late calls entered Python. late: the step they count from."""

    def __init__(self, jit: Any, steps: Steps, late: int, kinds: Sequence[type]) -> None:
        """kinds: the classes of what is compiled."""
        self._jit, self._steps, self._late = jit, steps, late
        self._plain = {kind: kind.__init__ for kind in kinds}  # type: ignore[misc]  # of each its own
        self._made: dict[Any, Any] = {}
        self._known: dict[int, Any] = {}
        self._before: dict[Any, int] = {}  # how many replays there were before the late calls
        self._within = self._noted = False
        self.calls = 0
        self._note(True)

    def _note(self, on: bool) -> None:
        """Whether what is made is noted: before the first step, as what users compile is there then, and not
        within what is compiled, which is the script's code and no more. Classes are left alone where that is
        so already: whoever changes one has all that is known of it, and of those derived from it, asked anew.
        """
        if on is self._noted:
            return
        self._noted = on
        for kind, init in self._plain.items():
            kind.__init__ = self._noting(init) if on else init  # type: ignore[misc]

    def _noting(self, init: Any) -> Any:
        @functools.wraps(init)
        def noting(owner: Any, *args: Any, **kwargs: Any) -> None:
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
                if key not in self._before:
                    self._before[key] = replays(jitted)
            self._within = True
            self._note(False)
            try:
                return jitted(*args, **kwargs)
            finally:
                self._within = False
                if not self._steps.seconds:
                    self._note(True)

        return called

    def entered(self) -> int:
        """How many of the late calls ran Python. It is asked, not counted on the way: what a call does
        besides the script's own would be part of what is compiled.
        """
        answered = sum(replays(self._made[key]) - before for key, before in self._before.items())
        return self.calls - answered

    def reasons(self) -> list[str]:
        """What `explain` says of each that is compiled."""
        return [str(jitted.explain()) for jitted in self._made.values()]


def replays(jitted: Any) -> int:
    """How many calls were answered without Python."""
    entries = jitted.explain().as_dict()["entries"]
    return sum(path["calls"] for entry in entries for path in entry["paths"])


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
    compiled, module = None, torch.nn.Module
    if how == "compiled":
        import fusegrad

        kinds = module, torch.optim.Optimizer
        compiled = Compiled(fusegrad.jit, steps, steps.most // 3, kinds)
        module.__call__ = compiled.compiled(module.__call__)
    module.__call__ = steps.with_calls(module.__call__)
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
    how, most, shortest, longest, result, script, *arguments = sys.argv[1:]
    sys.path[0] = str(STAND_INS)
    os.environ["MPLBACKEND"] = "Agg"
    steps = Steps(int(most), float(shortest), float(longest))
    compiled = prepared(how, steps)
    found: dict[str, Any] = {"error": run(script, arguments), "seconds": steps.seconds}
    found |= {"optimizers": len(steps.optimizers), "model_calls": steps.model_calls}
    if how != "torch":
        from fusegrad.torch import asked

        found["missing"] = asked.report()
    if compiled is not None:
        found |= {"calls": compiled.calls, "entered": compiled.entered(), "why": compiled.reasons()}
    Path(result).write_text(json.dumps(found))
    os._exit(0)  # whatever processes and threads a script has left


if __name__ == "__main__":
    main()
