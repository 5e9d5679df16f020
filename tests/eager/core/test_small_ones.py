"""Attributes that can be written or deleted, and results that are the input itself, as in torch."""

from __future__ import annotations

import pytest
from oracle import torch

import fusegrad as fg


def both(program):
    assert program(fg) == program(torch)


def test_parts_are_assigned():
    def program(T):
        x = T.ones(2, dtype=T.complex64)
        x.real, x.imag = T.zeros(2), 5
        y = T.ones(2)
        y.real = T.tensor([3.0, 4.0])
        a, v = T.ones(2, dtype=T.complex64, requires_grad=True), T.zeros(2, requires_grad=True)
        z = a * 1
        z.real = v
        (z.real.sum() + 2 * z.imag.sum()).backward()
        return x.tolist(), y.tolist(), a.grad.tolist(), v.grad.tolist()

    both(program)
    with pytest.raises(RuntimeError):
        fg.ones(2).imag = 1


def test_flatten_of_nothing_is_the_tensor_itself():
    def program(T):
        x, y = T.ones(2, 2), T.ones(3)
        return [x.flatten(1, 1) is x, x.flatten(0, 0) is x, y.flatten() is y, x.flatten() is x]

    both(program)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding_to_nothing(mode):
    shapes = [(1, 1, 5), (1, 1, 5, 5), (1, 1, 5, 5, 5)]

    def program(T):
        found = []
        for shape in shapes:
            for first in [(-5, 0), (-3, -2), (-5, 1), (-6, 1), (0, -5), (1, 1)]:
                pad = (*first, *(0,) * (2 * (len(shape) - 3)))
                try:
                    found.append(tuple(T.nn.functional.pad(T.ones(shape), pad, mode=mode).shape))
                except RuntimeError:
                    found.append("refused")
        return found

    both(program)


def test_post_accumulate_hooks_give_nothing():
    def program(T):
        x = T.ones(2, requires_grad=True)
        x.register_post_accumulate_grad_hook(lambda p: p.grad)
        try:
            x.sum().backward()
        except RuntimeError as error:
            return str(error).splitlines()[0]
        return "taken"

    both(program)


def test_parametrizations_are_in_the_mode_of_their_module():
    def program(T):
        layer = T.nn.Linear(2, 2).eval()
        for _ in range(2):
            T.nn.utils.parametrize.register_parametrization(layer, "weight", T.nn.Dropout(0.5))
        return [m.training for m in layer.parametrizations.weight]

    both(program)


def test_kinds_of_errors():
    def program(T):
        found = []
        for call in (
            lambda: T.unravel_index(T.tensor(0.5), (2, 2)),
            lambda: T.unravel_index(T.tensor(True), (2, 2)),
        ):
            with pytest.raises((TypeError, RuntimeError)) as error:
                call()
            found.append(type(error.value))
        return found

    both(program)


POOLS = [f"{kind}max_pool{rank}d" for kind in ("", "adaptive_") for rank in (1, 2, 3)]


@pytest.mark.parametrize("name", POOLS)
def test_indices_of_pools_that_were_written_are_refused_by_backward(name):
    x = fg.rand(1, 2, *[4] * int(name[-2]), requires_grad=True)
    for writes in (False, True):
        values, indices = getattr(fg.nn.functional, name)(x, 2, return_indices=True)
        if not writes:
            values.sum().backward()
            continue
        indices.add_(1)
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            values.sum().backward()
