"""Programs of one example at a time, batched as they stand: a training step of 64 trees, with plain ops and
with jitted cells, of 64 lattices, of a parser that asks for values, and of 64 chains that end where a value
says, beside the same one by one, in fusegrad and in torch, and batched by hand in torch, where it is found in
Python what goes together.

All contenders run in one process, in turns, and agree on values and gradients. Ratios are times of others
over `batched`'s, of the same round: the median of the rounds, and the least and the largest. Times are of the
processor, so that a machine with other work on it moves them less; so all have one thread. JAX is not among
them: it is no part of the development environment.

python benchmarks/structures.py [--widths N ...] [--rounds N] [--only NAME ...] [--json FILE] [--quick]
python benchmarks/structures.py --memory [--widths N ...] [--only NAME ...]  # of an example, beside by hand
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from structure_programs.by_hand import BY_HAND
from structure_programs.memory import bytes_for_each, peak
from structure_programs.one_by_one import EXAMPLES, PROGRAMS, Program

Step = Callable[[], list[np.ndarray]]


def stepped(program: Program, total: Callable[[], Any]) -> Step:
    """A training step: the value and the gradients."""

    def step() -> list[np.ndarray]:
        for weight in program.weights.values():
            weight.grad = None
        loss = total()
        loss.backward()
        gradients = [weight.grad for weight in program.weights.values()]
        return [loss.detach().numpy(), *(np.zeros(1) if g is None else g.numpy() for g in gradients)]

    return step


def summed(library: Any, program: Program, apply: Callable[[list[Any]], list[Any]]) -> Step:
    """The step of a program, of which `apply` gives the losses of examples."""
    return stepped(program, lambda: library.stack(apply(program.examples)).sum())


def one_by_one(library: Any, program: Program) -> Step:
    """The step, one example after the other."""
    return summed(library, program, lambda examples: [program.loss(example) for example in examples])


def contender(name: str, width: int, way: str, times: int = 1) -> Step:
    """The step of a program in a way of WAYS, with so many times as many examples."""
    library = importlib.import_module("torch" if way.startswith("torch") else "fusegrad")
    library.set_num_threads(1)
    program = PROGRAMS[name](library, width)
    program = program._replace(examples=program.examples * times)
    if way == "batched":
        return summed(library, program, library.batched(program.loss))
    if way == "torch by hand":
        total = BY_HAND[name](library, width, program)
        return stepped(program, lambda: total(program.examples))
    return one_by_one(library, program)


def ways(name: str) -> list[str]:
    """In which ways the step of a program can be made here."""
    found = ["batched", "one by one"]
    if importlib.util.find_spec("torch") is not None:
        found += ["torch one by one", *(["torch by hand"] if name in BY_HAND else [])]
    return found


def seconds(step: Step) -> float:
    began = time.process_time()
    step()
    return time.process_time() - began


def measured(program: str, width: int, rounds: int) -> dict[str, Any]:
    """The ratios to `batched`, by contender, and the milliseconds of it."""
    steps = {way: contender(program, width, way) for way in ways(program)}
    for way in ("batched", "one by one"):  # all is compiled that will be
        for _ in range(10 if rounds > 1 else 0):
            steps[way]()
    expected = steps["batched"]()
    for name, step in steps.items():
        for value, other in zip(expected, step(), strict=True):
            np.testing.assert_allclose(value, other, rtol=2e-3, atol=2e-3, err_msg=f"{program}, {name}")
    ratios: dict[str, list[float]] = {name: [] for name in steps if name != "batched"}
    own = []
    for _ in range(rounds):
        times = {name: seconds(step) for name, step in steps.items()}
        own.append(times["batched"])
        for name in ratios:
            ratios[name].append(times[name] / times["batched"])
    told = {n: [statistics.median(r), min(r), max(r)] for n, r in ratios.items()}
    return {"program": program, "width": width, "milliseconds": min(own) * 1000, "ratios": told}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[32, 128, 256])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="one round of the least width")
    parser.add_argument("--memory", action="store_true", help="what an example takes, in place of times")
    parser.add_argument("--alone", nargs=4, help=argparse.SUPPRESS)  # program, width, way, times: the peak
    options = parser.parse_args()
    if options.alone:
        name, width, way, times = options.alone
        step = contender(name, int(width), way, int(times))
        for _ in range(3):
            step()
        print(peak())
        return
    widths, rounds = (options.widths[:1], 1) if options.quick else (options.widths, options.rounds)
    if options.memory:
        for name in options.only:
            for width in widths:
                each = {
                    way: bytes_for_each(name, width, way, EXAMPLES) for way in ways(name) if "one" not in way
                }
                told = ", ".join(f"{way} {size / 1024:.0f} KB" for way, size in each.items())
                ratio = each["batched"] / each.get("torch by hand", float("nan"))
                print(f"{name}, width {width}: {told} for each example; {ratio:.2f} of by hand")
        return
    found = [measured(program, width, rounds) for program in options.only for width in widths]
    for f in found:
        ratios = [f"{n} {r[0]:.2f} ({r[1]:.2f} to {r[2]:.2f})" for n, r in f["ratios"].items()]
        print(f"{f['program']}, width {f['width']}: {f['milliseconds']:.1f} ms; {', '.join(ratios)}")
    if options.json:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
