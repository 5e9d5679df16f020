"""Parametrized modules, beside PyTorch's."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg


def kinds(lib: Any) -> dict[str, Any]:
    """Parametrizations, made for either library."""

    class Doubled(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2

        def right_inverse(self, x: Any) -> Any:
            return x / 2

    class Symmetric(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).T

    class Halves(lib.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x + y

        def right_inverse(self, x: Any) -> Any:
            return x / 4, x * 3 / 4

    return {"doubled": Doubled, "symmetric": Symmetric, "halves": Halves}


def layer(lib: Any, *names: str) -> Any:
    made = lib.nn.Linear(3, 3)
    with lib.no_grad():
        made.weight.copy_(lib.arange(9.0).reshape(3, 3))
    for name in names:
        lib.nn.utils.parametrize.register_parametrization(made, "weight", kinds(lib)[name]())
    return made


@pytest.mark.parametrize("names", [("doubled",), ("halves",), ("doubled", "doubled"), ("halves", "doubled")])
def test_assigning_sets_the_originals(names: tuple[str, ...]) -> None:
    def assigned(lib: Any) -> Any:
        made = layer(lib, *names)
        before = made.weight.tolist()
        made.weight = lib.full((3, 3), 8.0)
        originals = [p.tolist() for n, p in made.parametrizations.named_parameters()]
        return before, made.weight.tolist(), originals

    assert assigned(fg) == assigned(torch)


def test_what_has_no_inverse_cannot_be_assigned() -> None:
    for lib in (fg, torch):
        with pytest.raises(RuntimeError, match="right_inverse"):
            layer(lib, "symmetric").weight = lib.ones(3, 3)


def test_values_are_kept_inside_of_cached() -> None:
    for lib in (fg, torch):
        first, second = layer(lib, "doubled"), layer(lib, "doubled")
        parametrize = lib.nn.utils.parametrize
        with parametrize.cached():
            kept = first.weight
            with parametrize.cached():
                assert first.weight is kept and second.weight is not kept
            assert first.weight is kept
        assert first.weight is not kept


def test_classes_copies_and_pickles() -> None:
    for lib in (torch, fg):
        parametrize, made = lib.nn.utils.parametrize, layer(lib, "doubled")
        assert parametrize.type_before_parametrizations(made) is lib.nn.Linear
        assert parametrize.type_before_parametrizations(lib.nn.Linear(1, 1)) is lib.nn.Linear
        with pytest.raises(RuntimeError, match="only supported through state_dict"):
            pickle.dumps(made)
        twin = copy.deepcopy(made)
        assert parametrize.is_parametrized(twin) and twin.weight.tolist() == made.weight.tolist()
    # A copy has a class of its own; PyTorch's loses the attribute with the first.
    parametrize.remove_parametrizations(twin, "weight")
    assert type(twin) is fg.nn.Linear and made.weight.tolist() == twin.weight.tolist()


def test_new_parametrizations_train_as_the_module_does() -> None:
    for lib in (fg, torch):
        made = lib.nn.Linear(3, 3).eval()
        register = lib.nn.utils.parametrize.register_parametrization
        register(made, "weight", kinds(lib)["doubled"]())
        assert not made.parametrizations.weight[0].training
        made.train()
        register(made, "weight", kinds(lib)["doubled"]().eval())
        assert all(p.training for p in made.parametrizations.weight)


def test_parametrizations_are_handed_on() -> None:
    def handed(lib: Any) -> Any:
        source, target = layer(lib, "halves", "doubled"), lib.nn.Linear(3, 3)
        lib.nn.utils.parametrize.transfer_parametrizations_and_params(source, target)
        return target.weight.tolist(), len(target.parametrizations.weight)

    assert handed(fg) == handed(torch)


WRONG = {
    "no tensor": (lambda x: 2, None, "must return a tensor"),
    "another dtype": (lambda x: x > 0, None, "may not change the dtype"),
    "another shape": (lambda x: x[:-1], None, "may not change the shape"),
    "an inverse of nothing": (lambda x: x, lambda x: None, "Tensor or a Sequence of|must return a tensor"),
    "an inverse of parts": (lambda x, y: x, lambda x: (None, x), "of the sequence with type"),
    "an inverse of another dtype": (lambda x: x.float(), lambda x: x > 0, "change the dtype|same dtype"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("again", [False, True])
def test_wrong_parametrizations_are_refused_and_change_nothing(name: str, again: bool) -> None:
    forward, inverse, words = WRONG[name]
    if again and name == "an inverse of parts":
        return  # one that takes two tensors cannot stand behind another one
    for lib in (fg, torch):
        members: dict[str, Any] = {"forward": lambda self, *given: forward(*given)}
        if inverse is not None:
            members["right_inverse"] = lambda self, x: inverse(x)
        made = layer(lib, *(["doubled"] if again else []))
        wrong = type("Wrong", (lib.nn.Module,), members)()
        with pytest.raises(ValueError, match=words):
            lib.nn.utils.parametrize.register_parametrization(made, "weight", wrong)
        assert lib.nn.utils.parametrize.is_parametrized(made) == again
        np.testing.assert_array_equal(made.weight.detach().numpy(), np.arange(9.0).reshape(3, 3))
