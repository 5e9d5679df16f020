"""Hooks of all modules, of last nodes, and on registration: PyTorch's order, arguments and words."""

from __future__ import annotations

import collections
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.nn.hooks import EVERYWHERE, Everywhere

Pair = collections.namedtuple("Pair", "first second")


@pytest.fixture(autouse=True)
def hooks_are_taken_away() -> Iterator[None]:
    yield
    EVERYWHERE.__init__()  # type: ignore[misc]
    module = torch.nn.modules.module
    module._global_is_full_backward_hook = None
    for name in ("forward_pre", "forward", "backward_pre", "backward"):
        getattr(module, f"_global_{name}_hooks").clear()


def registering(t: Any) -> Any:
    return importlib.import_module("fusegrad.nn.modules.module") if t is fg else t.nn.modules.module


def both(run: Callable[[Any], Any]) -> None:
    """`run` says the same with either library."""
    assert run(fg) == run(torch)


def shape(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(shape, value))
    return None if value is None else tuple(value.shape)


def calls(t: Any, names: list[str], **options: Any) -> list[Any]:
    """What hooks of these kinds see of a small network, in order; of all modules, and of its first layer."""
    seen: list[Any] = []

    def noting(where: str) -> Callable[..., None]:
        return lambda module, *given: seen.append((where, type(module).__name__, shape(given)))

    net = t.nn.Sequential(t.nn.Linear(3, 2), t.nn.Tanh())
    for name in names:
        getattr(registering(t), f"register_module_{name}")(noting(f"all {name}"), **options)
        getattr(net[0], f"register_{name}")(noting(name), **options)
    net(t.ones(4, 3, requires_grad=True)).sum().backward()
    return seen


@pytest.mark.parametrize(
    "names",
    [
        ["forward_pre_hook"],
        ["forward_hook"],
        ["full_backward_pre_hook"],
        ["full_backward_hook"],
        ["forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook"],
    ],
    ids=", ".join,
)
def test_hooks_of_all_modules_come_before_those_of_one(names: list[str]):
    both(lambda t: calls(t, names))


def test_what_a_hook_gives_replaces_what_it_was_given():
    def run(t: Any) -> Any:
        place = registering(t)
        place.register_module_forward_pre_hook(lambda module, args: (args[0] + 1,))
        place.register_module_forward_hook(lambda module, args, result: result * 2)
        place.register_module_full_backward_hook(lambda module, given, _: tuple(g * 3 for g in given))
        x = t.tensor([1.0, -3.0], requires_grad=True)
        result = t.nn.ReLU()(x)
        result.sum().backward()
        return result.tolist(), x.grad.tolist()

    both(run)


def test_with_kwargs_always_and_removal():
    def run(t: Any) -> Any:
        seen: list[Any] = []

        class Failing(t.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, x: Any, fail: bool = False) -> Any:
                if fail:
                    raise ValueError("as asked")
                return x

        place = registering(t)
        handles = [
            place.register_module_forward_hook(
                lambda m, a, k, r: seen.append(("kwargs", k)), with_kwargs=True
            ),
            place.register_module_forward_hook(lambda m, a, r: seen.append("always"), always_call=True),
        ]
        Failing()(t.ones(1), fail=False)
        handles[0].remove()
        with pytest.raises(ValueError, match="as asked"):
            Failing()(t.ones(1), fail=True)
        handles[1].remove()
        Failing()(t.ones(1))
        return seen

    both(run)


def test_the_two_kinds_of_backward_hooks_do_not_mix():
    def run(t: Any) -> Any:
        found = []
        layer = t.nn.Tanh()
        layer.register_backward_hook(lambda *_: None)
        registering(t).register_module_full_backward_hook(lambda *_: None)
        for register in (layer.register_full_backward_hook, registering(t).register_module_backward_hook):
            with pytest.raises(RuntimeError, match="Cannot use both regular") as error:
                register(lambda *_: None)
            found.append(str(error.value).partition("\n")[0].partition("Cannot")[2])
        return found

    both(run)


@pytest.mark.parametrize(
    ("forward", "count"),
    [
        (lambda t, x, y: t.tanh(x), 1),
        (lambda t, x, y: t.tanh(x).exp(), 1),
        (lambda t, x, y: (t.tanh(x), t.exp(y)), 2),
        (lambda t, x, y: [t.tanh(x)], 1),
        (lambda t, x, y: {"a": t.tanh(x)}, 1),
    ],
)
def test_hooks_that_are_not_full_see_the_last_node_and_warn_of_what_they_miss(forward: Any, count: int):
    def run(t: Any) -> Any:
        seen: list[Any] = []

        class Layer(t.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, x: Any, y: Any) -> Any:
                return forward(t, x, y)

        layer = Layer()
        layer.register_backward_hook(lambda m, given, received: seen.append((shape(given), shape(received))))
        x, y = (t.ones(2, requires_grad=True) for _ in range(2))
        with pytest.warns(FutureWarning, match="non-full backward hook") as warned:
            result = layer(x, y)
        first = next(iter(result.values())) if isinstance(result, dict) else result
        (first[0] if isinstance(first, (tuple, list)) else first).sum().backward()
        words = str(warned[0].message).partition(" is deprecated")[0]
        return seen, words

    both(run)


def test_full_hooks_keep_the_type_of_a_tuple_and_let_second_backwards_pass():
    def run(t: Any) -> Any:
        seen = []

        class Layer(t.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, x: Any) -> Any:
                return Pair(x * x * x, x + 1)

        layer = Layer()
        layer.register_full_backward_hook(lambda m, given, received: seen.append(shape(received)))
        x = t.ones(2, requires_grad=True)
        result = layer(x)
        (first,) = t.autograd.grad(result.first.sum(), x, create_graph=True)
        (second,) = t.autograd.grad(first.sum(), x)
        return type(result).__name__, seen, second.tolist()

    both(run)


def test_registration_hooks_see_what_modules_get_and_may_replace_it():
    def run(t: Any) -> Any:
        seen: list[Any] = []
        place = registering(t)

        def noting(module: Any, name: str, value: Any) -> Any:
            seen.append((type(module).__name__, name, type(value).__name__))
            return None

        with (
            place.register_module_parameter_registration_hook(noting),
            place.register_module_buffer_registration_hook(noting),
            place.register_module_module_registration_hook(noting),
        ):
            net = t.nn.Sequential(t.nn.Linear(2, 1), t.nn.BatchNorm1d(1))
            net.more = t.nn.Tanh()
            net.more = None
            net.add_module("late", t.nn.ReLU())
            net.register_buffer("kept", t.ones(1))
            net.kept = t.zeros(1)
        with place.register_module_module_registration_hook(lambda m, n, v: t.nn.Identity()):
            net.late = t.nn.Tanh()
        return sorted(seen), type(net.late).__name__  # layers make their parts in an order of their own

    both(run)


def test_a_jitted_network_calls_hooks_that_come_later_and_stops_when_they_go():
    net = fg.nn.Sequential(fg.nn.Linear(3, 2), fg.nn.Tanh())
    jitted = fg.jit(net.forward)
    x = fg.ones(4, 3)
    plain = net(x)
    for _ in range(3):
        assert fg.allclose(jitted(x), plain)
    with registering(fg).register_module_forward_hook(lambda module, args, result: result * 2):
        for _ in range(3):
            changed = jitted(x)
            assert not fg.allclose(changed, plain)
            assert fg.allclose(changed, net.forward(x))
    for _ in range(3):
        assert fg.allclose(jitted(x), plain)


def test_the_fixture_resets_all_that_there_is():
    assert vars(EVERYWHERE) == vars(Everywhere())
