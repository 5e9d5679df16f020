"""`__torch_function__`: who is asked about what, and of which class results are, beside PyTorch."""

from __future__ import annotations

import copy
import inspect
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.ops.overrides import asking, protocol
from fusegrad.eager.ops.overrides.modes import TorchFunctionMode


class Seen:
    """What a class of users' was asked about in a library."""

    def __init__(self, lib: Any) -> None:
        seen = self.seen = []  # type: list[str]

        class Derived(lib.Tensor):  # type: ignore[misc, name-defined]
            @classmethod
            def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                seen.append(func.__name__)
                return super().__torch_function__(func, types, args, kwargs)

        self.kind = Derived

    def made(self, tensor: Any) -> Any:
        return tensor.as_subclass(self.kind)


class OfAnother:
    """A class that is not derived from `Tensor`: it tells what it was asked about, and of whom."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func.__name__, [kind.__name__ for kind in types], len(args), sorted(kwargs or {})


EXPRESSIONS = (
    """
x+1;1+x;y+x;x-1;1-x;x*2;2*x;x/2;x//2;2//x;x%2;2%x;x**2;2**x;x@x;-x;+x;abs(x);x==1;x!=1;x<1;x<=1;x>1;x>=1;i&1;1&i
i|1;1|i;i^1;1^i;i<<1;1<<i;i>>1;1>>i;x[0];len(x);float(x[0,0]);int(x[0,0]);bool(x[0,0]);1 in x;x.shape;x.T
x.grad;x.data;x.dtype;x.device;x.requires_grad;x.ndim;x.is_leaf;x.grad_fn;x.size();x.sum();x.mT;x.numpy();x.tolist()
o.iadd(x.clone(),1);o.isub(x.clone(),1);o.imul(x.clone(),1);o.itruediv(x.clone(),1);o.ifloordiv(x.clone(),1)
o.imod(x.clone(),1);o.ipow(x.clone(),1);x.float();x.to(t.float64);F.relu(x);F.linear(x,x);t.is_tensor(x)
t.cat([x,y]);t.zeros_like(x);t.tensor(x);t.stack([x]);t.einsum('ij->i',x);t.max(x,0);t.broadcast_tensors(x,y)
x.detach();x.requires_grad_();x.type();x.split(1);t.split(x,1);x.norm();t.norm(x);x.stride()
t.meshgrid(x[0],x[0]);t.numel(x);x.is_contiguous();x.storage_offset();x.numel();x.dim();x.element_size()
x.as_subclass(t.Tensor);y.add(x);t.where(x>1,x,y);t.autograd.grad((x*w).sum(),w);t.nn.Parameter(x);x.unique()
x[x>1];t.topk(x,1);x.max();y.copy_(x);t.add(x,1,alpha=2);nn.Linear(2,2)(x);x.view(4);x.new_zeros(2);x.mean(0)
""".replace("\n", ";")
    .strip(";")
    .split(";")
)
# Ours are called otherwise, or go by other functions of ours.
OTHERWISE = {"x.new_zeros(2)", "nn.Linear(2,2)(x)", "t.nn.Parameter(x)", "x.unique()"}


def outcome(lib: Any, expression: str) -> tuple[list[str], list[str]]:
    """What the class was asked about, and of which classes the results are."""
    seen = Seen(lib)
    names = {
        "t": lib,
        "F": lib.nn.functional,
        "nn": lib.nn,
        "o": operator,
        "x": seen.made(lib.arange(4.0).reshape(2, 2)),
        "i": seen.made(lib.ones(2, 2, dtype=lib.int64)),
        "y": lib.ones(2, 2),
        "w": lib.ones(2, 2, requires_grad=True),
    }
    seen.seen.clear()
    result = eval(expression, names)
    results = result if isinstance(result, (tuple, list)) else (result,)
    called = [] if expression in OTHERWISE else [*seen.seen]
    return called, [type(r).__name__ for r in results if isinstance(r, lib.Tensor)]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_derived_class_is_asked_as_pytorchs(expression: str) -> None:
    assert outcome(fg, expression) == outcome(torch, expression)


CALLS: list[Callable[[Any, Any, Any], Any]] = [
    lambda lib, x, f: lib.add(f, x),
    lambda lib, x, f: lib.add(x, f, alpha=2),
    lambda lib, x, f: x + f,
    lambda lib, x, f: x.matmul(f),
    lambda lib, x, f: lib.sum(f),
    lambda lib, x, f: lib.exp(f),
    lambda lib, x, f: lib.maximum(x, f),
    lambda lib, x, f: lib.cat([x, f]),
    lambda lib, x, f: lib.stack([f]),
    lambda lib, x, f: lib.matmul(x, f),
    lambda lib, x, f: lib.mean(f, dim=0),
    lambda lib, x, f: lib.linalg.norm(f),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_a_class_of_its_own_is_asked_as_pytorchs(number: int) -> None:
    ours, theirs = (CALLS[number](lib, lib.ones(2), OfAnother()) for lib in (fg, torch))
    assert (ours[0].removeprefix("linalg_"), *ours[1:]) == (theirs[0].removeprefix("linalg_"), *theirs[1:])


def training(lib: Any) -> list[float]:
    seen = Seen(lib)
    weight = lib.nn.Parameter(seen.made(lib.full((3, 4), 0.3)))
    optimizer = lib.optim.SGD([weight], lr=0.1, momentum=0.9)
    for _ in range(4):
        optimizer.zero_grad()
        loss = ((lib.arange(6.0).reshape(2, 3) @ weight).tanh() ** 2).mean()
        loss.backward()
        optimizer.step()
    assert type(weight) is seen.kind and isinstance(weight, lib.nn.Parameter) and type(loss) is seen.kind
    values: list[float] = weight.detach().flatten().tolist()
    return values


def test_a_derived_class_trains_as_pytorchs() -> None:
    assert training(fg) == pytest.approx(training(torch), rel=1e-6)


def test_nobody_is_asked_in_a_backward() -> None:
    seen = Seen(fg)
    y = fg.ones(2, 2, requires_grad=True)
    loss = (y * seen.made(fg.ones(2, 2))).as_subclass(fg.Tensor).sum()
    seen.seen.clear()
    loss.backward()
    assert seen.seen == [] and type(y.grad) is fg.Tensor


class Kept(fg.Tensor):
    """A class that pickles can find."""


def test_copies_and_pickles_are_of_the_class() -> None:
    x = fg.ones(2).as_subclass(Kept)
    x.unit = "K"
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(other) is Kept and other.unit == "K" and other.tolist() == [1, 1]


def test_a_class_without_questions() -> None:
    class Plain(fg.Tensor):
        __torch_function__ = staticmethod(protocol.disabled)

    assert type(fg.ones(2).as_subclass(Plain) + 1) is fg.Tensor


def test_who_declines_leaves_it_to_others() -> None:
    class Declines:
        @classmethod
        def __torch_function__(cls, *_: Any) -> Any:
            return NotImplemented

    assert fg.add(Declines(), OfAnother())[0] == "add"
    with pytest.raises(TypeError, match=r"no implementation found for 'fusegrad\.sum'"):
        fg.sum(Declines())


def test_pytorchs_own_tensors_are_not_asked() -> None:
    fg.ones(2).as_subclass(Kept)
    for other in (torch.ones(2), torch.nn.Parameter(torch.ones(2)), Seen(torch).made(torch.ones(2))):
        with pytest.raises(TypeError, match="from_dlpack"):
            fg.mul(fg.ones(2), other)
    assert fg.from_dlpack(torch.ones(2)).tolist() == [1, 1]


def test_functions_know_their_parameters_when_they_ask() -> None:
    fg.ones(2).as_subclass(Kept)
    assert [*inspect.signature(fg.add).parameters] == ["input", "other", "alpha", "out"]
    with pytest.raises(TypeError, match="must be Tensor, not str"):
        fg.sum("a")
    assert fg.sum(fg.ones(2, 3), axis=1).tolist() == [3, 3]


def test_names_of_arguments_are_the_same_when_functions_ask() -> None:
    """Also those of decorated functions, whose code has others than they show."""
    assert fg.sin(OfAnother())  # from now on functions ask
    x = fg.ones(2)
    assert fg.zero_(input=x) is x and fg.relu_(input=x) is x and x.tolist() == [0, 0]


def test_a_jitted_function_says_that_a_class_was_asked() -> None:
    jitted = fg.jit(lambda x: (x * 2).sum())
    for _ in range(4):
        result = jitted(fg.ones(3).as_subclass(Kept))
        assert type(result) is Kept and result.item() == 6
    assert "Kept.__torch_function__" in str(jitted.explain())


def asked_by(lib: Any, mode: type) -> list[str]:
    """What a mode is asked about in a library, by a program of all kinds of functions."""
    seen: list[str] = []

    class Counting(mode):  # type: ignore[misc, valid-type]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    layer = lib.nn.Linear(3, 2)
    with Counting():
        x = lib.ones(2, 3)
        (x * 2 + x).T.shape  # noqa: B018
        assert (layer(lib.exp(x[0])).sum() > -1e9) is not None
        lib.nn.functional.relu(x).sum(0)
        x.add_(1)
        with Counting():
            lib.tensor([1.0])
    assert (x - 1).tolist() == [[1.0] * 3] * 2
    return seen


def test_modes_are_asked_as_pytorchs() -> None:
    assert asked_by(fg, TorchFunctionMode) == asked_by(torch, torch.overrides.TorchFunctionMode)


def test_a_mode_stands_before_classes_and_may_leave_it_to_them() -> None:
    class Declines(TorchFunctionMode):
        def __torch_function__(self, *_: Any, **__: Any) -> Any:
            return NotImplemented

    with Declines():
        assert fg.add(OfAnother(), 1)[0] == "add"


def told_of(function: Any, *args: Any) -> Any:
    """The function that a class is asked about."""

    class Tells:
        @classmethod
        def __torch_function__(cls, func: Any, *_: Any) -> Any:
            return func

    return function(Tells(), *args)


FUNCTIONS = [fg.exp, fg.sum, fg.matmul, fg.stack, fg.nn.functional.relu, fg.linalg.norm, fg.special.erf]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_it_is_the_function_that_users_know(function: Any) -> None:
    """Handlers of users are found by it."""
    assert told_of(function, *([fg.ones(2)] if function is fg.matmul else [])) is function


def test_another_function_than_users_know_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    fg.ones(2).as_subclass(Kept)
    real = asking.form
    monkeypatch.setattr(asking, "form", lambda f: fg.mul if f is fg.relu else real(f))
    assert told_of(fg.relu) is not fg.relu


def test_what_asks_below_autograd_is_declined():
    """A class with a `__torch_dispatch__` was made, and never asked: what it says did not happen."""

    class Logged(fg.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise AssertionError("asked")

    class Off(fg.Tensor):
        __torch_dispatch__ = None

    x = fg.ones(2)
    ways = (
        lambda: Logged(x),
        lambda: x.as_subclass(Logged),
        lambda: fg.Tensor._make_subclass(Logged, x),
        lambda: fg.Tensor._make_wrapper_subclass(Logged, (2,)),
    )
    for make in ways:
        with pytest.raises(NotImplementedError, match=r"Logged has a __torch_dispatch__.*__torch_function__"):
            make()
    assert type(x.as_subclass(Off) + 1) is Off


@pytest.mark.parametrize("lib", [fg, torch])
def test_modes_are_asked_where_classes_are_not(lib: Any) -> None:
    asked = []
    mode = TorchFunctionMode if lib is fg else torch.overrides.TorchFunctionMode
    no_classes = protocol.classes_are_not_asked if lib is fg else torch._C.DisableTorchFunctionSubclass
    nobody = protocol.nobody_is_asked if lib is fg else torch._C.DisableTorchFunction

    class Notes(mode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(func.__name__)
            return func(*args, **(kwargs or {}))

    class Mine(lib.Tensor):
        pass

    x = lib.ones(2).as_subclass(Mine)
    with Notes(), no_classes():
        assert type(lib.exp(x)) is lib.Tensor
    with Notes(), nobody():
        assert type(lib.exp(x)) is lib.Tensor
    assert asked == ["exp"]
