"""Bytes that move: kernels of long pointwise programs read the inputs and write the results, nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.fuse.fusion import Fusion
from fusegrad.compiler.kernel.bound_kernel import BoundKernel

SIZE = 500


def horner(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
    """220 ops, of which each waits for the one before."""
    total = y
    for number in range(110):
        total = total * x + (0.3 if number % 3 else -0.02 * number)
    return (total * y).mean()


def clenshaw(x: fg.Tensor) -> fg.Tensor:
    """160 ops, with two values alive."""
    one, two = 0 * x, 0 * x
    for number in range(40):
        one, two = 0.1 * number + 2 * x * one - two, one
    return (one - x * two).mean()


def rates(*given: fg.Tensor) -> fg.Tensor:
    """Some 150 ops on seven inputs, with divisions."""
    *species, slow, fast = given
    for _ in range(6):
        a, b, c, d, e = species
        one, two, three, four = slow * a * b, fast * c / (1 + d), 0.3 * d * d, slow * e / (0.5 + a)
        changes = three - one, four - one, one - two, two - 2 * three, one - four
        species = [x + 0.02 * change for x, change in zip(species, changes, strict=True)]
    return sum(species[1:], species[0]).mean()


def layers(depth: fg.Tensor, albedo: fg.Tensor) -> fg.Tensor:
    """120 ops with elementary functions, conditions and clamps among them."""
    reflected, passed = 0.1 * albedo, 1 - 0.2 * albedo
    for layer in range(10):
        through = fg.exp(-depth * (0.05 + 0.002 * layer))
        scattered = fg.where(albedo > 0.9, albedo, 0.5) * (1 - through)
        bounced = 1 / (1 - reflected * scattered).clamp(min=0.1)
        reflected, passed = scattered + through * through * reflected * bounced, passed * through * bounced
    return (reflected + passed).sum()


# Whole rows of what is in `benchmarks/families` take long to compile: these are its kinds, shortened.
PROGRAMS: list[tuple[Callable[..., fg.Tensor], int]] = [(horner, 2), (clenshaw, 1), (rates, 7), (layers, 2)]
table = pytest.mark.parametrize(("program", "inputs"), PROGRAMS)


def drawn(count: int) -> list[fg.Tensor]:
    random = np.random.default_rng(0)
    return [fg.tensor(random.uniform(0.5, 0.9, SIZE)) for _ in range(count)]


def moved(kernels: Iterable[BoundKernel]) -> tuple[int, int]:
    """How many numbers kernels read, and how many they write."""
    kernels = list(kernels)
    return sum(map(sum, map(_read, kernels))), sum(map(sum, map(_written, kernels)))


def _read(bound: BoundKernel) -> Iterator[int]:
    yield from (math.prod(value.shape) for value in {a.value for a in bound.inputs})


def _written(bound: BoundKernel) -> Iterator[int]:
    yield from (math.prod(value.shape) for value in {a.value for a in bound.outputs})


def values_and_gradients(program: Any, inputs: int) -> tuple[int, int]:
    """What moves for a value with its gradients, which are eager's."""
    function = fg.value_and_grad(program, argnums=tuple(range(inputs)))
    jitted, given = fg.jit(function), drawn(inputs)
    expected_value, expected = function(*given)
    for _ in range(3):
        value, gradients = jitted(*given)
        np.testing.assert_allclose(value.item(), expected_value.item(), rtol=1e-12)
        for ours, eagers in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(ours.numpy(), eagers.numpy(), rtol=1e-9, atol=1e-14)
    assert jitted.stats.compiled_calls == 2
    return moved([*jitted.kernels().forward, *jitted.kernels().backward])


@table
def test_values_and_gradients(program: Any, inputs: int) -> None:
    assert values_and_gradients(program, inputs) == (inputs * SIZE, inputs * SIZE + 1)


@table
def test_a_call_that_is_derived_later(program: Any, inputs: int) -> None:
    """What was computed forward is computed again, tile by tile: nothing is kept for backward."""
    jitted = fg.jit(program)
    given = [x.requires_grad_() for x in drawn(inputs)]
    for _ in range(3):
        jitted(*given).backward()
    kernels = jitted.kernels()
    assert moved(kernels.forward) == (inputs * SIZE, 1)
    assert moved(kernels.backward) == (inputs * SIZE + 1, inputs * SIZE)


def test_the_table_finds_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = Fusion._joined

    def capped(self: Fusion, first: Any, second: Any) -> Any:
        return joined(self, first, second) if len(first.numbers) + len(second.numbers) <= 160 else None

    monkeypatch.setattr(Fusion, "_joined", capped)
    read, written = values_and_gradients(horner, 2)
    assert read > 4 * SIZE and written > 20 * SIZE
