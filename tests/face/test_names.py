"""Public paths: what classes and functions say of themselves, pickles of now and before, and trust."""

from __future__ import annotations

import importlib
import pickle
import sys
import warnings
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from face.test_packages import PACKAGES, in_a_new_process

import fusegrad as fg
from fusegrad import nn
from fusegrad.eager.core.public import home
from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.lookup import is_schedule_class

OLD = Path(__file__).with_name("pickled_by_0.1.0.pickle")


def published() -> list[Any]:
    """Every class and function of ours that a public module lists."""
    modules = [fg, *(importlib.import_module(name) for name in PACKAGES)]
    values = [getattr(module, name) for module in modules for name in module.__all__]
    kinds = [v for v in values if isinstance(v, (type, FunctionType))]
    return [v for v in kinds if v.__module__.startswith("fusegrad")]  # `multiprocessing` hands on others


def test_what_is_public_says_a_public_path_that_leads_to_it() -> None:
    for value in published():
        assert value.__module__ in {"fusegrad", *PACKAGES}, value
        assert pickle.loads(pickle.dumps(value)) is value


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (fg.Tensor, "fusegrad.Tensor"),
        (fg.dtype, "fusegrad.dtype"),
        (fg.Generator, "fusegrad.Generator"),
        (nn.Linear, "fusegrad.nn.Linear"),
        (nn.ReLU, "fusegrad.nn.ReLU"),
        (nn.Parameter, "fusegrad.nn.Parameter"),
        (fg.optim.Adam, "fusegrad.optim.Adam"),
        (fg.tanh, "fusegrad.tanh"),
        (nn.functional.gelu, "fusegrad.nn.functional.gelu"),
    ],
)
def test_the_path_is_the_shortest(value: Any, path: str) -> None:
    assert f"{value.__module__}.{value.__qualname__}" == path


def test_the_path_is_the_same_whatever_was_imported_before() -> None:
    program = "import {}, fusegrad as fg; print(fg.nn.Linear, fg.randn.__module__, fg.func.vjp.__module__)"
    first = ("fusegrad.eager.nn.linear", "fusegrad.random", "fusegrad.func")
    said = {in_a_new_process(program.format(module)) for module in first}
    assert said == {"<class 'fusegrad.nn.Linear'> fusegrad fusegrad"}


def test_pickles_name_public_paths_alone() -> None:
    layer = nn.Linear(2, 1)
    made = [fg.ones(2), layer, fg.optim.Adam(layer.parameters()), fg.Generator(), fg.bool, fg.Size([2])]
    assert b"fusegrad.eager" not in pickle.dumps(made, protocol=2)


def test_pickles_from_before_the_modules_moved_load() -> None:
    moved = ("tensor", "interop", "generator", "dtypes")
    for name in moved:
        sys.modules.pop(f"fusegrad.eager.{name}", None)
    with pytest.warns(DeprecationWarning, match="Save again") as warned:
        old = pickle.loads(OLD.read_bytes())
    assert {str(w.message).split()[0] for w in warned} == {f"fusegrad.eager.{name}" for name in moved}
    assert old["tensor"].tolist() == [1.0, 2.0]
    assert type(old["parameter"]) is nn.Parameter and old["parameter"].requires_grad
    assert (old["size"], old["device"], old["dtype_class"]) == (fg.Size([2, 3]), fg.device("cpu"), fg.dtype)
    assert old["generator"].initial_seed() == 5
    assert old["finfo"].max == fg.finfo(fg.float32).max
    assert old["model"](fg.ones(3, 2)).shape == (3, 2)
    assert old["encoder"](fg.ones(1, 2, 2)).shape == (1, 2, 2)
    assert old["packed"].batch_sizes.tolist() == [2, 1]
    before = old["optimizer"].param_groups[0]["params"][0].tolist()
    old["optimizer"].param_groups[0]["params"][0].grad = fg.ones(1, 2)
    old["optimizer"].step()
    assert old["optimizer"].param_groups[0]["params"][0].tolist() != before
    old["schedule"].optimizer.step()
    old["schedule"].step()
    again = pickle.loads(pickle.dumps(old["model"]))
    assert type(again) is nn.Sequential


def test_a_module_that_moved_is_found_and_one_that_never_was_is_not() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("fusegrad.eager.no_such_module")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        tensor = importlib.import_module("fusegrad.eager.tensor")
        losses = importlib.import_module("fusegrad.eager.nn.scored_losses")
    assert tensor.Tensor is fg.Tensor
    assert losses.AdaptiveLogSoftmaxWithLoss is nn.AdaptiveLogSoftmaxWithLoss
    with pytest.raises(AttributeError):
        tensor.no_such_name  # noqa: B018


# Users' classes are theirs, whatever they say.


class OwnAdam(fg.optim.Adam):
    pass


class ClaimedAdam(fg.optim.Adam):
    __module__ = "fusegrad.optim"


class HomeAdam(fg.optim.Adam):
    __module__ = "fusegrad.eager.optim.adaptive"


# Where the namespace has no `__name__`, a class has no `__module__` of its own, and finds the one of Adam.
NAMELESS = eval("type('Adam', (base,), {})", {"base": fg.optim.Adam})


class Equal(type):
    """A metaclass whose classes are equal to ours."""

    def __eq__(cls, other: object) -> bool:
        return True

    def __hash__(cls) -> int:
        return hash(fg.optim.Adam)


class EqualAdam(fg.optim.Adam, metaclass=Equal):
    pass


USERS = [OwnAdam, ClaimedAdam, HomeAdam, NAMELESS, EqualAdam]


def test_a_class_may_not_say_where_it_is() -> None:
    assert "__module__" not in vars(NAMELESS)


@pytest.mark.parametrize("kind", USERS, ids=lambda k: k.__name__)
def test_a_users_optimizer_is_none_of_ours(kind: type) -> None:
    weight = fg.ones(2, requires_grad=True)
    assert purity.is_optimizer(fg.optim.Adam([weight]))
    assert not purity.is_optimizer(kind([weight]))
    assert home(kind) is None and not purity.is_trusted(kind)


def test_a_users_schedule_tensor_and_context_are_none_of_ours() -> None:
    optimizer = fg.optim.SGD([fg.ones(2, requires_grad=True)], lr=0.1)
    schedule = type("StepLR", (fg.optim.lr_scheduler.StepLR,), {"__module__": "fusegrad.optim.lr_scheduler"})
    assert is_schedule_class(type(fg.optim.lr_scheduler.StepLR(optimizer, 1)))
    assert not is_schedule_class(schedule)
    context = type("no_grad", (fg.no_grad,), {"__module__": "fusegrad.eager.core.state"})
    assert purity.is_known_context(fg.no_grad()) and not purity.is_known_context(context())
    tensor = type("Tensor", (fg.Tensor,), {"__module__": "fusegrad"})
    assert purity.is_trusted_object(fg.ones(2))
    mine = fg.ones(2)
    mine.__class__ = tensor
    assert not purity.is_trusted_object(mine) and repr(mine).startswith("Tensor(")


def test_a_users_subclass_with_our_name_runs_its_own_code() -> None:
    class Noisy(fg.optim.SGD):
        __module__ = "fusegrad.optim"

        def step(self, closure: Any = None) -> Any:
            calls.append(1)
            return super().step(closure)

    Noisy.__qualname__ = "SGD"
    calls: list[int] = []
    weight = fg.ones(2, requires_grad=True)
    optimizer = Noisy([weight], lr=0.5)

    @fg.jit
    def train(x: fg.Tensor) -> fg.Tensor:
        optimizer.zero_grad()
        loss = (weight * x).sum()
        loss.backward()
        optimizer.step()
        return loss

    found = [train(fg.ones(2)).item() for _ in range(4)]
    assert found == [2.0, 1.0, 0.0, -1.0] and len(calls) == 4
