"""What deep networks cost until they run at their speed: CPU time of the first steps, beside torch's steps.

Warm-up is what all steps have taken up to the one from which on they are within 1.2 of the later ones (the
median of the last third), less what so many later ones take: CPU time of all threads, so that work beside the
program counts, and other programs hardly do. It is given in steps of torch's eager, and for jit also in
milliseconds an op. Each contender runs in a process of its own, without machine code kept from another.

python benchmarks/warm_up [--only NAME ...] [--steps N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from networks import networks, step_of

CONTENDERS = ("torch", "eager", "jit")
NEAR = 1.2


def measured(contender: str, name: str, steps: int) -> dict[str, Any]:
    """CPU seconds of each step of a network in this process, its losses, and what jit has compiled."""
    if contender == "torch":
        import torch as lib
    else:
        import fusegrad as lib  # type: ignore[no-redef]

    lib.manual_seed(0)
    net, x, target = networks(lib)[name]()
    draw = np.random.default_rng(0)
    with lib.no_grad():  # the same weights for all
        for path, p in net.named_parameters():
            if path.endswith("bias"):
                p.zero_()
            elif p.ndim > 1:
                scale = (2.0 / p[0].numel()) ** 0.5
                p.copy_(lib.from_numpy((draw.standard_normal(tuple(p.shape)) * scale).astype(np.float32)))
    step = step_of(lib, net)
    compiled = lib.jit(step) if contender == "jit" else step
    seconds, losses = [], []
    for _ in range(steps):
        started = time.process_time()
        losses.append(compiled(x, target).item())
        seconds.append(time.process_time() - started)
    found: dict[str, Any] = {"seconds": seconds, "losses": losses}
    if contender != "torch":
        from fusegrad.compiler.llvm.llvm_jit import Statistics

        found |= {"kernels": Statistics.kernels, "ops": _nodes(net(x).grad_fn)}
    return found


def _nodes(root: Any) -> int:
    """How many nodes a graph has: one for each op of the forward that has a gradient."""
    seen, waiting = set(), [root]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return len(seen)


def warm_up(seconds: list[float]) -> tuple[float, float]:
    """CPU seconds of warm-up, and of a later step."""
    later = statistics.median(seconds[-(len(seconds) // 3) :])
    slow = [number for number, s in enumerate(seconds) if s > NEAR * later]
    count = slow[-1] + 1 if slow else 0
    return max(0.0, sum(seconds[:count]) - count * later), later


def in_a_process(contender: str, name: str, steps: int) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__)), "--one", contender, name, "--steps", str(steps)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "FUSEGRAD_CACHE": "0"}, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name}, {contender}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def compared(name: str, steps: int) -> dict[str, Any]:
    """The figures of one network, all contenders."""
    found = {contender: in_a_process(contender, name, steps) for contender in CONTENDERS}
    for contender in ("eager", "jit"):
        got, expected = (found[who]["losses"][0] for who in (contender, "torch"))
        if abs(got - expected) > 1e-3 * max(1.0, abs(expected)):  # rounding grows from step to step
            raise RuntimeError(f"{name}: {contender} gives a loss of {got}, and torch of {expected}")
    torch_step = warm_up(found["torch"]["seconds"])[1]
    figures: dict[str, Any] = {"torch's step": torch_step, "ops": found["jit"]["ops"]}
    for contender in ("eager", "jit"):
        warm, later = warm_up(found[contender]["seconds"])
        figures[contender] = {
            "steps of torch": warm / torch_step,
            "ms an op": warm / found["jit"]["ops"] * 1000,
            "later": torch_step / later,
            "kernels": found[contender]["kernels"],
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of the warm-up of deep networks")
    parser.add_argument("--only", nargs="+", help="networks whose names begin so")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(*given.one, given.steps)))
        return
    import fusegrad as fg

    figures = {}
    print(f"{'':24} {'eager, steps':>13} {'jit, steps':>11} {'ms an op':>9} {'kernels':>8} {'later':>12}")
    for name in networks(fg):
        if given.only and not any(name.startswith(one) for one in given.only):
            continue
        figures[name] = one = compared(name, given.steps)
        eager, jit = one["eager"], one["jit"]
        print(
            f"{name:24} {eager['steps of torch']:13.1f} {jit['steps of torch']:11.1f} {jit['ms an op']:9.2f} "
            f"{jit['kernels']:8} {eager['later']:6.2f}, {jit['later']:.2f}",
            flush=True,
        )
    print("warm-up as steps of torch's; later: torch's step over eager's, and over jit's")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
