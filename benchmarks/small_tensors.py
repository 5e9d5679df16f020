"""Eager speed on small tensors, beside torch eager, HIPS autograd and MyGrad, in one process.

python benchmarks/small_tensors.py [--json FILE] [--quick]

Float32 tensors of 8 and of 1,024 elements; forward with backward. Nothing is compiled here.
"""

from __future__ import annotations

from typing import Any

import harness
import numpy as np
from small_workloads import Call, autograd_calls, mygrad_calls, torch_style_calls

import fusegrad
from fusegrad.compiler.compare.measure import interleaved, seconds_text
from fusegrad.compiler.compare.terminal import installed, print_table

SIZES = (8, 1024)
GOAL = 1.2  # fusegrad over torch, at most
TITLES = {
    "tanh": "(tanh(x*w)+x).sum()",
    "adds": "200 scalar adds",
    "perceptron": "3 layers and Adam's step",
    "lstm": "LSTM cell, 20 steps",
}


def contenders(size: int) -> dict[str, dict[str, Call]]:
    """For each library that is installed, its calls by name."""
    found = {"fusegrad": torch_style_calls(fusegrad, size)}
    if installed("torch"):
        import torch

        found["torch"] = torch_style_calls(torch, size)
    if installed("autograd"):
        found["autograd"] = autograd_calls(size)
    if installed("mygrad"):
        found["mygrad"] = mygrad_calls(size)
    return found


def check(results: dict[str, Any]) -> None:
    """Raise AssertionError where a library's result differs from fusegrad's."""
    ours = np.asarray(results["fusegrad"])
    for name, result in results.items():
        np.testing.assert_allclose(np.asarray(result), ours, rtol=1e-4, atol=1e-5, err_msg=name)


def main() -> None:
    options = harness.options("time eager programs on small tensors")
    rows, figures = [], {}
    for size in SIZES[:1] if options.quick else SIZES:
        found = contenders(size)
        for name, title in TITLES.items():
            calls = {library: made[name] for library, made in found.items() if name in made}
            check({library: call() for library, call in calls.items()})
            timings = interleaved(calls, options.repeat)
            ours = timings["fusegrad"].median
            ratios = {library: ours / timings[library].median for library in timings}
            row = [f"{title}, {size}", seconds_text(ours)]
            row += [f"{ratios[o]:.2f}" if o in ratios else "" for o in ("torch", "autograd", "mygrad")]
            rows.append(row)
            figures[f"{name} {size}"] = {
                "timings": {library: t.as_dict() for library, t in timings.items()},
                "fusegrad_over": ratios,
            }
    header = ["", "fusegrad", "over torch", "over autograd", "over mygrad"]
    notes = [f"goal: at most {GOAL} of torch's time, below 1 of the others'"]
    print_table("eager, forward with backward", header, rows, notes)
    harness.save(options.json, {"benchmark": "small_tensors", "workloads": figures})


if __name__ == "__main__":
    main()
