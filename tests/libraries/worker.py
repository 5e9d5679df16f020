"""Runs a library's program in this process, and writes down what came of it.

    python worker.py NAME WAY STATES RESULT

WAY is "torch", "fusegrad", or "compiled", which is fusegrad with the step jitted. STATES is the folder of the
weights that PyTorch begins with: written by "torch", read by the others. RESULT is a file of JSON:
`imported`, `error` (of the import, if there is one), `imports` (errors by packages of the list), and for each
case `losses`, `values`, `gradients` (of the first step: of each the sum of the magnitudes, and the sum),
`state` (what is left of the weights: the sums of their magnitudes), `error`, and, if compiled, `entered` and
`why`.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

LATE = 10  # from this step on, a compiled step enters no Python if it replays


def main() -> None:
    name, way, states, result = sys.argv[1:]
    sys.path.insert(0, str(Path(__file__).parents[1]))
    found: dict[str, Any] = {"imported": False, "error": "", "cases": {}}
    try:
        import torch

        from libraries import listed

        torch.manual_seed(0)
        program = importlib.import_module(f"libraries.programs.{name}")
        found["imported"] = True
        for title in program.CASES:
            told: dict[str, Any] = {"error": ""}
            found["cases"][title] = told
            try:
                case = built(name, title, way, states)
                run(case, way == "compiled", told)
            except Exception as error:
                told["error"] = last_line(error)
            Path(result).write_text(json.dumps(found))
        found["imports"] = listed.imports(name)
    except BaseException as error:
        found["error"] = last_line(error)
    Path(result).write_text(json.dumps(found))


def built(name: str, title: str, way: str, states: str) -> Any:
    """A case of a library's program, with the weights that PyTorch begins with."""
    import torch

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    case = importlib.import_module(f"libraries.programs.{name}").CASES[title]()
    if case.model is not None:
        same_weights(case.model, way, Path(states) / f"{name}.{title}.npz")
    return case


def last_line(error: BaseException) -> str:
    traceback.print_exc()
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
    return f"{text} ({Path(frame.filename).name}:{frame.lineno})"


def same_weights(model: Any, way: str, file: Path) -> None:
    """Keep a model's weights in a file, or take them from there."""
    import torch

    state = {k: v for k, v in model.state_dict().items() if isinstance(v, torch.Tensor)}
    if way == "torch":
        np.savez(file, **{key: value.detach().numpy() for key, value in state.items()})
        return
    kept = dict(np.load(file))
    if set(kept) != set(state):
        raise ValueError(f"the state has other names: {sorted(set(kept) ^ set(state))[:6]}")
    model.load_state_dict({key: torch.from_numpy(kept[key]) for key in kept}, strict=False)


def run(case: Any, compiled: bool, told: dict[str, Any]) -> None:
    """Train for so many steps, and ask for the values."""
    from libraries.case import STEPS

    if case.step is not None:
        step, before = case.step, 0
        if compiled:
            import fusegrad
            from fusegrad.compiler.base import background
            from fusegrad.eager.core import settings

            settings.budget.seconds = None  # what would be compiled beside the program is there at once
            step = fusegrad.jit(step)
        told["losses"] = []
        for number in range(STEPS):
            if compiled and number == LATE:
                background.worker.wait()
                before = replays(step)
            told["losses"].append(float(step()))
            if number == 0 and case.model is not None:
                told["gradients"] = gradients_of(case.model)
        if compiled:
            told["entered"] = STEPS - LATE - (replays(step) - before)
            told["why"] = str(step.explain())
        state = case.model.state_dict() if case.model is not None else {}
        told["state"] = {
            key: float(abs(value.detach().double()).sum())
            for key, value in state.items()
            if getattr(value, "dtype", None) is not None and value.dtype.is_floating_point
        }
    if case.values is not None and not compiled:
        told["values"] = {
            key: np.asarray(value.detach() if hasattr(value, "detach") else value, np.float64)
            .ravel()
            .tolist()
            for key, value in case.values().items()
        }


def gradients_of(model: Any) -> dict[str, list[float]]:
    """Two sums of each parameter's gradient, by its name."""
    found = {name: p.grad.detach().double() for name, p in model.named_parameters() if p.grad is not None}
    return {name: [float(grad.abs().sum()), float(grad.sum())] for name, grad in found.items()}


def replays(jitted: Any) -> int:
    """How many calls of a jitted function were answered without Python."""
    from public.one_script import replays as count

    return count(jitted)


if __name__ == "__main__":
    main()
