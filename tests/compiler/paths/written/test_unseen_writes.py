"""Memory written between forward and backward, with no counter that tells: gradients are PyTorch's.

Eager's nodes keep inputs and outputs as they lie in memory, and find there what was written; all else they
computed before. A compiled backward computes again, reads other things than eager's nodes have, or came along
with the forward.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.compiler.paths.autograd_node import CompiledNode
from fusegrad.eager.core import shared

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "an output, computed again": lambda w, v: w.exp(),
    "an input alone": lambda w, v: w * w,
    "an output and its input": lambda w, v: w.square() * v,
    "outputs of outputs": lambda w, v: (w.exp() * v).tanh() * v,
    "a product": lambda w, v: (w @ v).sigmoid(),
    "what is between": lambda w, v: (w + 1) * (v + 2),
    "an input twice": lambda w, v: w.cosh() + w.sinh() * v,
    "functions of inputs": lambda w, v: w.log() * v.cos(),
    "a softmax": lambda w, v: w.softmax(-1) * v,
    "a deviation": lambda w, v: w.std(-1) * v.mean(-1),
    "views": lambda w, v: w.t().exp()[1:] * v[:-1],
    "a view of an output": lambda w, v: (w.exp() * v).sigmoid().t(),
    "a view of an input": lambda w, v: (w.exp() * v).t()[1:] + w.view(-1)[:4],
    "a mask": lambda w, v: w.relu() * v.clamp(0.7, 1.2),
    "parts put together": lambda w, v: w.square()[0] * v[1] + (v * w.sqrt())[2],
    "a division": lambda w, v: v / (w + v.exp()),
    "nothing kept": lambda w, v: w * 3 + v,
}


def _through_out(lib: Any, t: Any) -> None:
    lib.mul(t.detach(), 2, out=t.data)


def _by_a_step(lib: Any, t: Any) -> None:
    parameter = t.data.requires_grad_()
    parameter.grad = lib.ones_like(t)
    lib.optim.SGD([parameter], lr=0.25).step()


def _by_replacing(lib: Any, t: Any) -> None:
    t.data = t.data * 2


def _by_swapping_and_writing(lib: Any, t: Any) -> None:
    other = t.detach() * 2
    t.data = other
    other.mul_(2)


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "mul_": lambda lib, t: t.data.mul_(2),
    "twice": lambda lib, t: (t.data.mul_(2), t.data.add_(1)),
    "copy_": lambda lib, t: t.data.copy_(t.detach() * 2),
    "fill_": lambda lib, t: t.data.fill_(0.5),
    "all of it": lambda lib, t: t.data.__setitem__(..., 0.75),
    "a row": lambda lib, t: t.data.__setitem__(1, 0.75),
    "a view of it": lambda lib, t: t.data[..., 1:].mul_(2),
    "it of a view": lambda lib, t: t.t().data.mul_(2),
    "it, detached": lambda lib, t: t.data.detach().mul_(2),
    "out": _through_out,
    "a step": _by_a_step,
    "other memory": _by_replacing,
    "memory of another": _by_swapping_and_writing,
    "noticed": lambda lib, t: t.detach().mul_(2),
}


def inputs(lib: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    return [lib.tensor(rng.random((4, 4)) + 0.5, requires_grad=True) for _ in range(2)]


def _numbers(tensors: Any) -> Any:
    return [None if t is None else t.detach().numpy().tolist() for t in tensors]


def outcome(lib: Any, program: Callable[..., Any], whose: int, write: Callable[[Any], Any]) -> Any:
    """The gradients where an input (or the result: 2) is written before backward; or that this is refused."""
    leaves = inputs(lib)
    made = [leaf * 1 for leaf in leaves]  # which are no leaves: those could not be written otherwise
    result = program(*made)
    write([*made, result][whose])
    try:
        (result * 1).sum().backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
        return "refused"
    return _numbers([leaf.grad for leaf in leaves])


@functools.cache
def expected(name: str, way: str, whose: int) -> Any:
    return outcome(torch, PROGRAMS[name], whose, lambda t: WAYS[way](torch, t))


def compiled(program: Callable[..., Any]) -> Any:
    jitted = fg.jit(lambda w, v: program(w, v))
    for _ in range(3):
        (jitted(*[leaf * 1 for leaf in inputs(fg)]) * 1).sum().backward()
    assert jitted.stats.compiled_calls
    return jitted


def differing() -> list[tuple[str, str, int]]:
    """The cells of the table in which a compiled call has other gradients than PyTorch."""
    found = []
    for name, program in PROGRAMS.items():
        jitted = compiled(program)
        for way, write in WAYS.items():
            for whose in range(3):
                ours = outcome(fg, jitted, whose, lambda t, w=write: w(fg, t))
                if not alike(ours, expected(name, way, whose)):
                    found.append((name, way, whose))
    return found


def alike(ours: Any, theirs: Any) -> bool:
    if "refused" in (ours, theirs):
        return bool(ours == theirs)
    return all(
        (a is None) == (b is None) and (a is None or np.allclose(a, b))
        for a, b in zip(ours, theirs, strict=True)
    )


def test_gradients_after_writes_are_pytorchs() -> None:
    assert differing() == []


def test_eagers_are_too() -> None:
    for name, program in PROGRAMS.items():
        for way, write in WAYS.items():
            for whose in range(3):
                ours = outcome(fg, program, whose, lambda t, w=write: w(fg, t))
                assert alike(ours, expected(name, way, whose)), (name, way, whose)


def test_writes_that_nobody_tells_of_are_found_by_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "tell_watching", lambda *given: None)
    monkeypatch.setattr(shared, "tell_replaced", lambda *given: None)
    found = differing()
    assert len(found) > 100 and {whose for _, _, whose in found} == {0, 1, 2}
    assert {way for _, way, _ in found} == set(WAYS) - {"noticed"}


def _program(w: Any, v: Any) -> Any:
    return (w.exp() * v * v).sum()


def _second_derivatives(lib: Any, call: Any, w: Any, v: Any) -> Any:
    result = call(w, v)
    w.data.mul_(2)
    gradients = lib.autograd.grad(result, [w, v], create_graph=True)
    return [*gradients, *lib.autograd.grad(sum(g.sum() for g in gradients), [w, v])]


def _of_what_nobody_keeps(lib: Any, call: Any, w: Any, v: Any) -> Any:
    x = v.detach() * 1
    result = call(w, x * 2)
    x.data.mul_(2)
    return lib.autograd.grad(result, [w], create_graph=True)


def _several_backwards(lib: Any, call: Any, w: Any, v: Any) -> Any:
    result = call(w, v)
    first = lib.autograd.grad(result, [w, v], retain_graph=True)
    w.data.mul_(2)
    second = lib.autograd.grad(result, [w, v], retain_graph=True)
    v.data.mul_(3)
    return [*first, *second, *lib.autograd.grad(result, [w, v])]


def _a_leaf(lib: Any, call: Any, w: Any, v: Any) -> Any:
    result = call(w, v)
    w.data = w.data * 2
    v.data.copy_(w.data)
    return lib.autograd.grad(result, [w, v])


def _taken_before(lib: Any, call: Any, w: Any, v: Any) -> Any:
    data = v.data
    result = call(w, v)
    data.mul_(2)
    return lib.autograd.grad(result, [w, v])


def _many(lib: Any, call: Any, w: Any, v: Any) -> Any:
    results = [call(w, v * k) for k in range(3)]
    w.data.mul_(2)
    return [g for result in results for g in lib.autograd.grad(result, [w, v])]


def _tensors_of_one_array(lib: Any, call: Any, w: Any, v: Any) -> Any:
    array = v.detach().numpy().copy()
    one, other = lib.from_numpy(array), lib.from_numpy(array)
    result = call(w, one.requires_grad_())
    other.mul_(2)
    return lib.autograd.grad(result, [w, one])


def _lent(lib: Any, call: Any, w: Any, v: Any) -> Any:
    other = lib.from_numpy(v.detach().numpy())
    result = call(w, v)
    other.mul_(2)
    return lib.autograd.grad(result, [w, v])


def _a_module_that_moves(lib: Any, call: Any, w: Any, v: Any) -> Any:
    layer = lib.nn.Linear(4, 4)
    layer.weight.data = w.data
    result = call(layer.weight, v)
    layer.double()
    layer.weight.data.mul_(2)
    return lib.autograd.grad(result, [layer.weight, v])


def _under_no_grad(lib: Any, call: Any, w: Any, v: Any) -> Any:
    result = call(w, v)
    with lib.no_grad():
        w.data.mul_(2)
    with lib.inference_mode():
        v.data.mul_(2)
    return lib.autograd.grad(result, [w, v])


RUNS = [
    _second_derivatives,
    _of_what_nobody_keeps,
    _several_backwards,
    _a_leaf,
    _taken_before,
    _many,
    _tensors_of_one_array,
    _lent,
    _a_module_that_moves,
    _under_no_grad,
]


@pytest.mark.parametrize("run", RUNS)
def test_programs_with_writes_have_pytorchs_gradients(run: Callable[..., Any]) -> None:
    jitted = compiled(_program)
    for _ in range(3):
        ours, theirs = _numbers(run(fg, jitted, *inputs(fg))), _numbers(run(torch, _program, *inputs(torch)))
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine, other)
    assert jitted.stats.eager_calls <= 2, jitted.explain()


@pytest.mark.parametrize("prints", [False, True])
def test_writes_in_other_calls_of_jitted_functions_are_told(prints: bool) -> None:
    """Recorded, replayed, and deferred ones."""
    w, v = inputs(fg)
    jitted, gradients = compiled(_program), []

    @fg.jit
    def step(scale: Any) -> None:
        if prints:
            print(end="")
        w.data.mul_(scale)

    for lib, call, write in (
        (torch, _program, lambda w: w.data.mul_(1.5)),
        (fg, jitted, lambda _: step(fg.tensor(1.5))),
    ):
        leaves = inputs(lib) if lib is torch else [w, v]
        for _ in range(6):
            result = call(*leaves)
            write(leaves[0])
            gradients.append(_numbers(lib.autograd.grad(result, leaves)))
    for theirs, ours in zip(gradients[:6], gradients[6:], strict=True):
        np.testing.assert_allclose(ours, theirs)


@pytest.mark.parametrize("way", ["mul_", "other memory", "memory of another"])
def test_a_captured_tensor_and_several_results(way: str) -> None:
    seen = []
    for lib in (fg, torch):
        w, v = inputs(lib)

        def program(x: Any, w: Any = w, v: Any = v) -> Any:
            y = (w * x).exp()
            return y, (y * v).sigmoid().sum()

        call = fg.jit(program) if lib is fg else program
        for turn in range(6):
            y, z = call(v.detach())
            WAYS[way](lib, [w, v, y][turn % 3])
            if turn % 2:
                seen.append(_numbers(lib.autograd.grad(z, [w, v])))
            else:
                seen.append(_numbers(lib.autograd.grad([y.sum(), z], [w, v])))
    for ours, theirs in zip(seen[:6], seen[6:], strict=True):
        np.testing.assert_allclose(ours, theirs)


def test_writes_ask_no_call_twice_for_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred calls on the graph, and a hundred writes that no counter tells of."""
    asked = []
    memory = CompiledNode.memory
    monkeypatch.setattr(CompiledNode, "memory", lambda self: asked.append(self) or memory(self))
    w = fg.ones(3, requires_grad=True)
    function = fg.jit(lambda x: (x * w).sum())
    results = []
    for _ in range(100):
        results.append(function(fg.ones(3)))
        scratch = fg.zeros(3)
        scratch.data.mul_(2)
    assert function.stats.compiled_calls > 90
    assert 90 < len(asked) <= 110
    sum(results).backward()
    assert w.grad.tolist() == [100.0] * 3


# Leaves that are frozen between a call and its backward: the others get all that is theirs.


def one_number(x: Any, w: Any, b: Any) -> Any:
    return (x * w * b).sum()


def two_numbers(x: Any, w: Any, b: Any) -> Any:
    return (x * w * b).sum() + (w * b).exp().sum(0)


def rows(x: Any, w: Any, b: Any) -> Any:
    return (x * w).tanh() * b


def rounds(x: Any, w: Any, b: Any) -> Any:
    for _ in range(130):
        x = x + 0.01 * (w * x - b * x * x)
    return x


BACKWARDS: dict[str, Any] = {
    "plain": lambda lib, result, w: result.sum().backward(),
    "of other size": lambda lib, result, w: (result * 2).sum().backward(),
    "grad": lambda lib, result, w: lib.autograd.grad(result.sum(), [w]),
    "graph": lambda lib, result, w: lib.autograd.grad(result.sum(), [w], create_graph=True),
}


def after_freezing(lib: Any, function: Any, way: Any, derived: bool, has_gradient: bool) -> list[Any]:
    """What the fourth call gives, when its `b` is frozen. derived: whether those before were."""
    w, b = lib.tensor([0.5, 1.0, 1.5]).requires_grad_(), lib.tensor([1.0, 2.0, 0.5]).requires_grad_()
    call = fg.jit(function) if lib is fg else function
    x = lib.tensor([0.1, 0.2, 0.3])
    for _ in range(3):
        result = call(x, w, b)
        if derived:
            result.sum().backward()
    w.grad, b.grad = None, lib.zeros(3) if has_gradient else None
    result = call(x, w, b)
    b.requires_grad_(False)
    found = way(lib, result, w) or ()
    return [None if t is None else t.detach().numpy() for t in (w.grad, b.grad, *found)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("has_gradient", [False, True])
@pytest.mark.parametrize("derived", [False, True])
@pytest.mark.parametrize("way", BACKWARDS)
@pytest.mark.parametrize("function", [one_number, two_numbers, rows, rounds])
def test_leaves_that_are_frozen_since_get_nothing(
    function: Any, way: str, derived: bool, has_gradient: bool
) -> None:
    ours, theirs = (
        after_freezing(lib, function, BACKWARDS[way], derived, has_gradient) for lib in (fg, torch)
    )
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(torch.from_numpy(a), torch.from_numpy(b))


@pytest.mark.parametrize("rounds", [15, 150])
def test_data_that_is_written_since_is_read_by_each_round(rounds: int) -> None:
    def system(lib: Any, y: Any, a: Any) -> Any:
        for _ in range(rounds):
            y = y + 0.02 * (a * y - y * y * y)
        return (y * y).sum()

    jitted = fg.jit(lambda y, a: system(fg, y, a))
    for _ in range(2):
        found = []
        for lib, call in ((fg, jitted), (torch, lambda y, a: system(torch, y, a))):
            a, y = lib.tensor(0.5).requires_grad_(), lib.tensor([0.3, -0.4]).requires_grad_()
            loss = call(y, a)
            a.data.mul_(0.5)
            loss.backward()
            found.append(torch.tensor([a.grad.item(), *y.grad.tolist()]))
        torch.testing.assert_close(*found)
