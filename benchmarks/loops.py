"""Long loops beside JAX: first calls and later ones, value and gradient, of systems that are stepped in time,
and of a recurrent network over the rows of a tensor, whose states are stacked; and values of the method of
conjugate gradients, which goes on until an error is small (JAX has no gradient of such loops).

fusegrad gets a plain Python loop, JAX what is written for it, `jax.lax.scan` and `jax.lax.while_loop`. Each
runs in a process of its own; the values and gradients of both are compared. Ratios are JAX's times over
fusegrad's.

python benchmarks/loops.py [--rounds N ...] [--sizes N ...] [--only NAME ...] [--json FILE] [--quick]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import harness
import numpy as np

from fusegrad.compiler.compare.measure import seconds_text
from fusegrad.compiler.compare.terminal import print_table

STEP = 0.001
# Later calls are timed for so many seconds, and at least so many of them.
SECONDS, SAMPLES = 0.5, 5
ROUNDS, SIZES = (1_000, 10_000, 100_000), (1, 100, 1_000)


def lorenz(x: Any, y: Any, z: Any) -> tuple[Any, Any, Any]:
    """Lorenz's equations (1963): the derivatives by time of many systems at once."""
    return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 2.6666667 * z


def euler(x: Any, y: Any, z: Any) -> tuple[Any, Any, Any]:
    """A step by Euler's method."""
    dx, dy, dz = lorenz(x, y, z)
    return x + STEP * dx, y + STEP * dy, z + STEP * dz


def runge_kutta(x: Any, y: Any, z: Any) -> tuple[Any, Any, Any]:
    """A step by the classical method of fourth order."""
    half = STEP / 2
    ax, ay, az = lorenz(x, y, z)
    bx, by, bz = lorenz(x + half * ax, y + half * ay, z + half * az)
    cx, cy, cz = lorenz(x + half * bx, y + half * by, z + half * bz)
    dx, dy, dz = lorenz(x + STEP * cx, y + STEP * cy, z + STEP * cz)
    sixth = STEP / 6
    x = x + sixth * (ax + 2.0 * bx + 2.0 * cx + dx)
    y = y + sixth * (ay + 2.0 * by + 2.0 * cy + dy)
    return x, y, z + sixth * (az + 2.0 * bz + 2.0 * cz + dz)


STEPS: dict[str, Callable[..., tuple[Any, Any, Any]]] = {"euler": euler, "rk4": runge_kutta}


def start(size: int) -> list[np.ndarray]:
    """Where `size` systems begin."""
    draw = np.random.default_rng(0)
    return [draw.normal(size=size).astype(np.float32) + shift for shift in np.float32([1, 1, 20])]


def fusegrad_run(step: Any, rounds: int, size: int) -> Callable[[], list[np.ndarray]]:
    import fusegrad as fg

    def loss(x: fg.Tensor, y: fg.Tensor, z: fg.Tensor) -> fg.Tensor:
        for _ in range(rounds):
            x, y, z = step(x, y, z)
        return (x + y + z).mean()

    derived = fg.jit(fg.value_and_grad(loss, (0, 1, 2)))
    tensors = [fg.from_numpy(a) for a in start(size)]

    def run() -> list[np.ndarray]:
        value, gradients = derived(*tensors)
        return [value.numpy(), *(g.numpy() for g in gradients)]

    return run


def jax_run(step: Any, rounds: int, size: int) -> Callable[[], list[np.ndarray]]:
    import jax

    def loss(*state: Any) -> Any:
        state, _ = jax.lax.scan(lambda s, _: (step(*s), None), state, None, length=rounds)
        return sum(state).mean()

    derived = jax.jit(jax.value_and_grad(loss, (0, 1, 2)))
    arrays = [jax.numpy.asarray(a) for a in start(size)]

    def run() -> list[np.ndarray]:
        value, gradients = jax.block_until_ready(derived(*arrays))
        return [np.asarray(value), *map(np.asarray, gradients)]

    return run


def sequence(rounds: int, size: int) -> list[np.ndarray]:
    """Rows, the weights of a cell, and its first state."""
    draw = np.random.default_rng(0)
    shapes = (rounds, size), (size, size), (size, size), (size,)
    return [
        draw.normal(size=s).astype(np.float32) * scale
        for s, scale in zip(shapes, (1, 0.2, 0.2, 1), strict=True)
    ]


def fusegrad_rnn(rounds: int, size: int) -> Callable[[], list[np.ndarray]]:
    import fusegrad as fg

    def loss(x: fg.Tensor, w: fg.Tensor, u: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        states = []
        for t in range(len(x)):
            h = fg.tanh(x[t] @ w + h @ u)
            states.append(h)
        return (fg.stack(states) ** 2).mean()

    derived = fg.jit(fg.value_and_grad(loss, (0, 1, 2, 3)))
    tensors = [fg.from_numpy(a) for a in sequence(rounds, size)]

    def run() -> list[np.ndarray]:
        value, gradients = derived(*tensors)
        return [value.numpy(), *(g.numpy() for g in gradients)]

    return run


def jax_rnn(rounds: int, size: int) -> Callable[[], list[np.ndarray]]:
    import jax

    def loss(x: Any, w: Any, u: Any, h: Any) -> Any:
        def step(h: Any, row: Any) -> tuple[Any, Any]:
            h = jax.numpy.tanh(row @ w + h @ u)
            return h, h

        _, states = jax.lax.scan(step, h, x)
        return (states**2).mean()

    derived = jax.jit(jax.value_and_grad(loss, (0, 1, 2, 3)))
    arrays = [jax.numpy.asarray(a) for a in sequence(rounds, size)]

    def run() -> list[np.ndarray]:
        value, gradients = jax.block_until_ready(derived(*arrays))
        return [np.asarray(value), *map(np.asarray, gradients)]

    return run


def system(size: int) -> list[np.ndarray]:
    """A positive definite matrix, and a right-hand side."""
    draw = np.random.default_rng(0)
    matrix = draw.normal(size=(size, size))
    return [
        (matrix @ matrix.T / size + np.eye(size)).astype(np.float32),
        draw.normal(size=size).astype(np.float32),
    ]


def improved(matrix: Any, x: Any, r: Any, p: Any, error: Any) -> tuple[Any, Any, Any, Any]:
    """A round of the method of conjugate gradients (Hestenes and Stiefel, 1952)."""
    q = matrix @ p
    step = error / (p @ q)
    x, r = x + step * p, r - step * q
    now = r @ r
    return x, r, r + (now / error) * p, now


def fusegrad_solver(rounds: int, size: int) -> Callable[[], list[np.ndarray]]:
    import fusegrad as fg

    @fg.jit
    def solved(matrix: fg.Tensor, b: fg.Tensor) -> fg.Tensor:
        x, r, p, error = b * 0, b, b, b @ b
        for _ in range(rounds):
            if error < 1e-8:
                break
            x, r, p, error = improved(matrix, x, r, p, error)
        return x

    tensors = [fg.from_numpy(a) for a in system(size)]
    return lambda: [solved(*tensors).numpy()]


def jax_solver(rounds: int, size: int) -> Callable[[], list[np.ndarray]]:
    import jax

    @jax.jit
    def solved(matrix: Any, b: Any) -> Any:
        def goes_on(state: Any) -> Any:
            return (state[-1] < rounds) & (state[3] >= 1e-8)

        def round_(state: Any) -> Any:
            return *improved(matrix, *state[:4]), state[-1] + 1

        return jax.lax.while_loop(goes_on, round_, (b * 0, b, b, b @ b, 0))[0]

    arrays = [jax.numpy.asarray(a) for a in system(size)]
    return lambda: [np.asarray(jax.block_until_ready(solved(*arrays)))]


CONTENDERS = {
    "fusegrad": (fusegrad_run, fusegrad_rnn, fusegrad_solver),
    "jax": (jax_run, jax_rnn, jax_solver),
}
# The rows and the widths of recurrent networks.
RNN_ROUNDS, RNN_SIZES = (1_000, 10_000), (8, 64)
# The most rounds of a solver, and the sizes of what it solves.
SOLVER_ROUNDS, SOLVER_SIZES = 1_000, (8, 64, 512)


def measured(contender: str, name: str, rounds: int, size: int) -> dict[str, Any]:
    """The figures of one contender, in this process."""
    stepped, network, solver = CONTENDERS[contender]
    stepped(euler, 300, 2)()  # what is loaded and made once
    others = {"rnn": network, "conjugate gradients": solver}
    run = others[name](rounds, size) if name in others else stepped(STEPS[name], rounds, size)
    started = time.perf_counter()
    results = run()
    first = time.perf_counter() - started
    for _ in range(6):
        run()
    later = []
    while sum(later) < SECONDS or len(later) < SAMPLES:
        started = time.perf_counter()
        run()
        later.append(time.perf_counter() - started)
    return {"first": first, "later": statistics.median(later), "results": [r.tolist() for r in results]}


def in_own_process(*what: Any) -> dict[str, Any]:
    """The figures of one contender, from a fresh process."""
    command = [sys.executable, __file__, "--one", ":".join(map(str, what))]
    done = subprocess.run(command, env=harness.environment(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{what} failed\n{done.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = harness.parser("time long loops beside JAX's scan")
    parser.add_argument("--rounds", nargs="+", type=int, default=ROUNDS)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these alone")
    parser.add_argument("--one", metavar="WHO:WHAT:ROUNDS:SIZE", help="one in this process; prints JSON")
    options = harness.parsed(parser)
    if options.one:
        who, name, rounds, size = options.one.split(":")
        print(json.dumps(measured(who, name, int(rounds), int(size))))
        return
    figures: dict[str, Any] = {}
    rows = []
    cases = [(n, r, s) for n in STEPS for r in options.rounds for s in options.sizes]
    cases += [("rnn", r, s) for r in RNN_ROUNDS for s in RNN_SIZES]
    cases += [("conjugate gradients", SOLVER_ROUNDS, s) for s in SOLVER_SIZES]
    quick = [("euler", 300, 3), ("rnn", 300, 4), ("conjugate gradients", 99, 4)]
    chosen = [c for c in (quick if options.quick else cases) if not options.only or c[0] in options.only]
    for name, rounds, size in chosen:
        ours, theirs = (in_own_process(who, name, rounds, size) for who in CONTENDERS)
        for a, b in zip(ours.pop("results"), theirs.pop("results"), strict=True):
            # Lorenz's systems amplify the last bits of a step.
            if rounds <= 1_000:
                np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-3)
        figures[f"{name}:{rounds}:{size}"] = {"fusegrad": ours, "jax": theirs}
        times = [seconds_text(f[k]) for k in ("first", "later") for f in (ours, theirs)]
        ratios = [f"{theirs[k] / ours[k]:.2f}" for k in ("first", "later")]
        what = f"{name}, {rounds:,} rounds, {'3 x ' if name in STEPS else ''}{size:,}"
        rows.append([what, *times, *ratios])
        print(*rows[-1], sep="  ", flush=True)
    heads = ["", "first", "JAX's", "later", "JAX's", "first, ratio", "later, ratio"]
    print_table("long loops, value and gradients", heads, rows, ["ratios: JAX's time over ours"])
    harness.save(options.json, {"benchmark": "loops", "programs": figures})


if __name__ == "__main__":
    main()
