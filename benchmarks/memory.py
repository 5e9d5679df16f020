"""Memory of training steps, beside torch eager: the peak over one network's step, and its course.

python benchmarks/memory.py [--json FILE] [--quick]

Each library runs the same program in a fresh process. The peak is the process's high-water mark
during the steps, over what it held before model and data were built (the library warmed up on a tiny
model). Then a thousand steps of a smaller network: what the process holds must not grow.
Linux only: it reads and resets the mark in /proc.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import harness

from fusegrad.compiler.compare.terminal import installed, print_table

LARGE = {"batch": 4096, "sizes": [784, 1024, 1024, 10], "steps": 3}
SMALL = {"batch": 64, "sizes": [64, 128, 64, 10], "steps": 1000}
GOAL = 1.1  # fusegrad over torch, at most
MEGABYTE = 2**20


def status(field: str) -> int:
    """Bytes that Linux reports for this process (`VmRSS`: held now, `VmHWM`: the most it held)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def forget_peak() -> None:
    """Have the high-water mark start anew at what is held now."""
    Path("/proc/self/clear_refs").write_text("5")


def training(library: Any, batch: int, sizes: list[int], **_: Any) -> Any:
    """A call that makes one step of a perceptron with Adam."""
    nn = library.nn
    layers: list[Any] = []
    for inner, outer in itertools.pairwise(sizes):
        layers += [nn.Linear(inner, outer), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    optimizer = library.optim.Adam(model.parameters(), lr=1e-3)
    inputs, labels = library.randn(batch, sizes[0]), library.randint(0, sizes[-1], (batch,))

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def measure(name: str, steps: int) -> dict[str, Any]:
    """In this process: peak over the large network's steps, and what is held along the small one's."""
    library = importlib.import_module(name)
    library.manual_seed(0)
    training(library, 2, [4, 4, 2])()
    gc.disable()  # memory must come back without it
    before = status("VmRSS")
    step = training(library, **LARGE)
    forget_peak()
    for _ in range(LARGE["steps"]):
        step()
    peak = status("VmHWM") - before
    del step
    step = training(library, **SMALL)
    held = []
    for i in range(steps):
        step()
        if (i + 1) % max(steps // 10, 1) == 0:
            held.append(status("VmRSS"))
    return {"peak": peak, "held": held}


def main() -> None:
    if len(sys.argv) == 4 and sys.argv[1] == "--measure":
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]))))
        return
    options = harness.options("measure the memory of training steps")
    steps = 20 if options.quick else SMALL["steps"]
    figures, rows = {}, []
    for name in [n for n in ("fusegrad", "torch") if installed(n)]:
        command = [sys.executable, __file__, "--measure", name, str(steps)]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        figures[name] = found
        growth = (found["held"][-1] - found["held"][0]) / 1024
        rows.append([name, f"{found['peak'] / MEGABYTE:.1f} MB", f"{growth:.0f} kB"])
    notes = []
    if len(figures) == 2:
        ratio = figures["fusegrad"]["peak"] / figures["torch"]["peak"]
        verdict = "within" if ratio <= GOAL else "ABOVE"
        notes.append(f"fusegrad's peak is {ratio:.2f} of torch's, {verdict} its goal of {GOAL}")
    title = f"memory: batch {LARGE['batch']}, layers {LARGE['sizes']}, Adam"
    print_table(title, ["", "peak of a step", f"growth over {steps} small steps"], rows, notes)
    harness.save(options.json, {"benchmark": "memory", "large": LARGE, "small": SMALL, "libraries": figures})


if __name__ == "__main__":
    main()
