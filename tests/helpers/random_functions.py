"""Functions put together at random: compared with eager, value and gradients, in both of the usual ways."""

from __future__ import annotations

import functools
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fusegrad as fg

_FOLDER = tempfile.TemporaryDirectory()


@functools.cache
def defined(text: str) -> dict[str, Any]:
    """What the text of a program defines, from a file: a function that is followed has a source."""
    path = Path(_FOLDER.name) / f"program{defined.cache_info().misses}.py"
    path.write_text(text)
    scope: dict[str, Any] = {}
    exec(compile(text, str(path), "exec", dont_inherit=True), scope)
    return scope


def tensors(seed: int, shapes: Sequence[tuple[int, ...]]) -> list[fg.Tensor]:
    """In float64: what amplifies roundings is no difference then."""
    generator = np.random.default_rng(seed)
    return [fg.tensor(generator.normal(size=shape) * 0.6, requires_grad=True) for shape in shapes]


def compare(ours: Sequence[fg.Tensor], theirs: Sequence[fg.Tensor]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        reference = b.detach().numpy()
        assert np.isfinite(reference).all()  # or the tolerance would be infinite, too
        np.testing.assert_allclose(a.detach().numpy(), reference, 1e-6, 1e-9 * (1 + np.abs(reference).max()))


def check(function: Callable[..., Any], shapes: Sequence[tuple[int, ...]], text: Any) -> Any:
    """Compare a function of tensors to a loss, which all of them reach, and a list of more values.

    The jitted function that derives inside. Raises AssertionError with `text` for a difference.
    """
    numbers = tuple(range(len(shapes)))

    def derived(*given: fg.Tensor) -> list[Any]:
        (loss, shown), gradients = fg.value_and_grad(function, numbers, has_aux=True)(*given)
        return [loss, *shown, *gradients]

    def backward(forward: Callable[..., Any], given: list[fg.Tensor]) -> list[Any]:
        loss, shown = forward(*given)
        loss.backward()
        return [loss, *shown, *(value.grad for value in given)]

    inner, outer = fg.jit(function), fg.jit(derived)
    threads = fg.get_num_threads()
    try:
        for call in range(4):
            fg.set_num_threads(1 + call % threads)
            expected = backward(function, tensors(call, shapes))
            compare(backward(inner, tensors(call, shapes)), expected)
            compare(outer(*(value.detach() for value in tensors(call, shapes))), expected)
        assert outer.stats.compiled_calls >= 2, str(outer.explain())
    except Exception as error:
        raise AssertionError(f"{text}") from error
    finally:
        fg.set_num_threads(threads)
    return outer


def differing(check: Callable[[int], object], seeds: Iterable[int]) -> int:
    """How many of these differ: where a fault was planted, some must."""
    found = 0
    for seed in seeds:
        try:
            check(seed)
        except Exception:
            found += 1
    return found


def run(check: Callable[[int], object]) -> None:
    """Check as many as the command line says, from the seed that it says; print those that differ."""
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    fg.set_compile_budget(None)  # however busy the machine is, the compiled programs are what is checked
    failed = 0
    for seed in range(first, first + count):
        try:
            check(seed)
        except Exception as error:
            failed += 1
            print(f"seed {seed}: {error}: {error.__cause__!r:.600}", flush=True)
    print(f"{count} programs from seed {first}, {failed} differ")
