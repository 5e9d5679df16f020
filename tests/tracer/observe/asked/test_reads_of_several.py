"""Reads that find more than one object, or none, beside others that are looked up by what they found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.tracer.observe.reads import Read


class Box:
    numbers = np.array([1.0, 2.0], np.float32)
    name = "".join(["a", "b"])


box, layer, name = Box(), fg.nn.Linear(2, 2), Box.name


def of_an_array(x: Any) -> Any:
    layer.train(not layer.training)
    return x * fg.tensor(box.numbers)


def of_a_number_of_an_array(x: Any) -> Any:
    layer.train(not layer.training)
    return x * float(box.numbers.sum())


def of_a_text(x: Any) -> Any:
    layer.train(not layer.training)
    return x * 2 if box.name is name else x


@pytest.mark.parametrize("function", [of_an_array, of_a_number_of_an_array, of_a_text])
def test_modules_that_change_their_mode_beside_what_is_looked_up(function: Any) -> None:
    expected, jitted = function(fg.ones(2)).tolist(), fg.jit(function)
    for _ in range(6):
        training = layer.training
        assert jitted(fg.ones(2)).tolist() == expected
        assert layer.training is not training


def kinds(of: type[Read]) -> set[type[Read]]:
    return {of, *(kind for derived in of.__subclasses__() for kind in kinds(derived))}


def test_every_read_can_be_asked_what_it_has_found() -> None:
    assert len(kinds(Read)) > 10
    assert all(kind.__new__(kind).found_object() is None for kind in kinds(Read))
