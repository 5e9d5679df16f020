"""Each tensor of a step of training, changed in each way between calls: eager and jit must agree.

The changes give a tensor other memory than what native code was compiled for, or the same in another guise. A
child process runs them with FUSEGRAD_RED_ZONES=1: a kernel that gets or writes anything else ends the run.
All of the table, and 2,000 random programs of such changes:

    FUSEGRAD_RED_ZONES=1 PYTHONPATH=tests/helpers python tests/compiler/random/test_changed_tensors.py 2000 1
"""

from __future__ import annotations

import gc
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from native_core import in_a_process
from planted import finds

import fusegrad as fg
from fusegrad.compiler.deferred import interpreter
from fusegrad.compiler.native.match import Match
from fusegrad.compiler.paths.path import Captured

SIZE = 6


class World:
    """A step of training, and all that it has tensors in."""

    def __init__(self, kind: str, momentum: float, compiled: bool) -> None:
        random_ = np.random.default_rng(0)

        def tensor() -> Any:
            return fg.tensor(random_.standard_normal(SIZE).astype(kind))

        self.parameter = fg.nn.Parameter(tensor())
        self.other = fg.nn.Parameter(tensor())
        self.buffer, self.closure, self.constant, self.argument = tensor(), tensor(), tensor(), tensor()
        self.optimizer = fg.optim.SGD([self.parameter, self.other], lr=0.05, momentum=momentum)
        self.last: Any = None
        closure = self.closure

        def step(x: Any) -> Any:
            self.optimizer.zero_grad(set_to_none=False)
            loss = ((self.parameter * x + self.other.sin() + closure).exp().sum() * self.constant).mean()
            loss.backward()
            self.buffer.mul_(0.9).add_(x.detach().sum() * 0.1)
            self.optimizer.step()
            return loss.detach()

        def loss(x: Any) -> Any:
            return ((self.parameter * x).exp() * closure).sum()

        self.step = fg.jit(step) if compiled else step
        self.loss = fg.jit(loss) if compiled else loss

    def of(self, place: str) -> Any:
        """The tensor at a place, if there is one now."""
        if place == "momentum":
            return self.optimizer.state.get(self.parameter, {}).get("momentum_buffer")
        return self.parameter.grad if place == "grad" else getattr(self, place, None)

    def seen(self) -> dict[str, Any]:
        """What all tensors are."""
        found = {}
        for place in PLACES:
            tensor = self.of(place)
            if tensor is not None:
                values = tensor.detach().array.astype(np.float64)
                found[place] = (str(tensor.dtype), tuple(tensor.shape), values)
        return found


PLACES = ("parameter", "other", "buffer", "momentum", "grad", "closure", "constant", "argument")


def _memory(array: np.ndarray, strides: int = 1) -> np.ndarray:
    """A copy in memory of its own, of which each second element is one where strides are 2."""
    whole = np.zeros((*array.shape[:-1], array.shape[-1] * strides), array.dtype)
    part = whole[..., ::strides]
    part[...] = array
    return part


def _give(tensor: Any, array: np.ndarray) -> None:
    tensor.data = fg.from_numpy(array)


def _frozen(world: World, place: str, tensor: Any) -> None:
    array = tensor.detach().array.copy()
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _give(tensor, array)


def _anew(world: World, place: str, tensor: Any) -> None:
    made = fg.tensor(tensor.detach().array.copy())
    if place == "momentum":
        world.optimizer.state[world.parameter]["momentum_buffer"] = made
    elif place == "grad":
        world.parameter.grad = made
    elif place in ("buffer", "constant", "argument"):
        setattr(world, place, made)
    else:
        _give(tensor, made.array)
    del tensor
    gc.collect()


def _subclass(world: World, place: str, tensor: Any) -> None:
    if place in ("buffer", "constant", "argument"):
        setattr(world, place, fg.nn.Parameter(tensor.detach().clone(), requires_grad=False))


def _written(world: World, place: str, tensor: Any) -> None:
    with fg.no_grad():
        tensor.mul_(0.5)


def _other_dtype(tensor: Any) -> Any:
    return np.float32 if tensor.array.dtype == np.float64 else np.float64


def _resize(world: World, place: str, tensor: Any) -> None:
    with fg.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor.resize_(SIZE + 5)
        tensor.fill_(0.25)


CHANGES: dict[str, Callable[[World, str, Any], None]] = {
    "nothing": lambda world, place, t: None,
    "written": _written,
    "dtype": lambda world, place, t: _give(t, t.detach().array.astype(_other_dtype(t))),
    "shape": lambda world, place, t: _give(t, np.full((2, SIZE), 0.25, t.array.dtype)),
    "one element": lambda world, place, t: _give(t, np.full(1, 0.25, t.array.dtype)),
    "strides": lambda world, place, t: _give(t, _memory(t.detach().array, 2)),
    "storage": lambda world, place, t: _give(t, _memory(t.detach().array)),
    "resize_": _resize,
    "anew": _anew,
    "expanded": lambda world, place, t: _give(t, np.broadcast_to(t.detach().array.ravel()[:1], t.shape)),
    "read-only": _frozen,
    "reversed": lambda world, place, t: _give(t, t.detach().array[..., ::-1].copy()[..., ::-1]),
    "one memory": lambda world, place, t: _give(t, world.other.detach().array),
    "subclass": _subclass,
}


def _outcome(run: Callable[[], Any]) -> Any:
    """What it gives, or that it raises."""
    try:
        return run()
    except (RuntimeError, ValueError, TypeError, IndexError):
        return "an error"


def _history(program: list[tuple[str, str]], kind: str, momentum: float, compiled: bool) -> list[Any]:
    """What a world does in the calls around changes."""
    world = World(kind, momentum, compiled)
    found: list[Any] = []

    def call() -> bool:
        result = _outcome(lambda: float(world.step(world.argument)))
        found.append((result, world.seen()))
        return not isinstance(result, str)

    for _ in range(4):
        call()
    for place, change in program:
        tensor = world.of("parameter" if place == "saved" else place)
        if tensor is None:
            continue
        if place == "saved":  # between a forward and its backward
            loss = _outcome(lambda: world.loss(world.argument))
            found.append(_outcome(partial(CHANGES[change], world, "parameter", tensor)))
            found.append(loss if isinstance(loss, str) else _outcome(loss.backward))
        else:
            found.append(_outcome(partial(CHANGES[change], world, place, tensor)))
        del tensor
        # What an error has left half done is not compared.
        if not all(call() for _ in range(3)):
            break
    return found


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return bool(np.isclose(a, b, 1e-4, 1e-5, equal_nan=True))
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and np.allclose(a, b, 1e-4, 1e-5, equal_nan=True)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return bool(a == b)


def _is_lost(values: np.ndarray) -> bool:
    """Whether training has diverged so far that a last digit decides what `sin` and `exp` give next."""
    return not bool((np.abs(values) < 1e6).all())


def check(program: list[tuple[str, str]], kind: str = "float32", momentum: float = 0.9) -> None:
    """Raises where jit does another thing than eager."""
    ways = [_history(program, kind, momentum, compiled) for compiled in (False, True)]
    for number, (right, found) in enumerate(zip(*ways, strict=False)):
        if isinstance(right, tuple) and isinstance(right[0], str):
            assert found[0] == right[0], f"{program}: at {number} {found[0]} and not {right[0]}"
            return  # what an error has left half done is not compared
        if isinstance(right, tuple) and any(_is_lost(values) for _, _, values in right[1].values()):
            return
        assert _same(found, right), f"{program} {kind}: at {number}\n{found}\nand not\n{right}"
    assert len(ways[0]) == len(ways[1]), program


def table() -> Iterator[tuple[list[tuple[str, str]], str]]:
    for kind in ("float32", "float64"):
        for place in (*PLACES, "saved"):
            for change in CHANGES:
                yield [(place, change)], kind


def drawn(seed: int) -> tuple[list[tuple[str, str]], str, float]:
    """A random program: some changes, with calls in between."""
    draw = random.Random(seed)
    places = (*PLACES, "saved")
    count = draw.randrange(1, 5)
    program = [(draw.choice(places), draw.choice([*CHANGES])) for _ in range(count)]
    return program, draw.choice(["float32", "float64"]), draw.choice([0.0, 0.9])


def main(programs: int, seed: int, each: int = 1) -> None:
    """Check the table, or each so many-th of it, and random programs; print what differs."""
    wrong = 0
    rows = [(*row, 0.9) for row in [*table()][seed % each :: each]]
    for row in [*rows, *map(drawn, range(seed, seed + programs))]:
        try:
            check(*row)
        except AssertionError as error:
            wrong += 1
            print(error, flush=True)
    print(f"{len(rows)} rows and {programs} programs: {wrong} wrong")


def test_changed_tensors_under_red_zones() -> None:
    code = f"import runpy; runpy.run_path({__file__!r})['main'](2, 1, 60)"
    helpers = str(Path(__file__).parents[2] / "helpers")
    said, _ = in_a_process(code, FUSEGRAD_RED_ZONES="1", PYTHONPATH=helpers)
    assert said.endswith(" 0 wrong\n"), said


def test_what_nobody_asks_again_is_found(monkeypatch: Any) -> None:
    monkeypatch.setattr(Match, "__init__", _answers_all)
    monkeypatch.setattr(Captured, "memory", lambda self: self.reference().array)
    found = [finds(check, [(place, "dtype")]) for place in ("buffer", "constant", "closure", "parameter")]
    assert any(found)


def test_ops_that_wait_where_their_gradient_lies_elsewhere_are_found(monkeypatch: Any) -> None:
    program = [("grad", "one memory"), ("closure", "strides")]
    check(program)
    monkeypatch.setattr(interpreter, "_gradient_is_exposed", lambda tensor: False)
    assert finds(check, program)


def _answers_all(self: Any, *given: Any, **options: Any) -> None:
    self.matches = lambda *tensors: True


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
