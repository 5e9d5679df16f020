"""When results and gradients become one program: soon where there is little to plan, later where much."""

from __future__ import annotations

from typing import Any

import pytest

import fusegrad as fg
from fusegrad.compiler.base import background, debug
from fusegrad.compiler.paths import segments
from fusegrad.compiler.paths.tree import Tree
from fusegrad.compiler.program.program import Program


def loss(x: fg.Tensor) -> fg.Tensor:
    for _ in range(20):
        x = fg.sin(x) * 0.9
    return x.sum()


def branching(x: fg.Tensor) -> fg.Tensor:
    """The same, after a test: results and gradients alone have programs from the first call on."""
    return loss(x) if x.sum() > -1e9 else x.sum()


def calls_until_joint(function: Any, most: int) -> tuple[Any, int]:
    """The jitted function, and how often it was called and derived until it had a joint program."""
    jitted = fg.jit(function)
    x = fg.randn(5, requires_grad=True)
    for number in range(most):
        jitted(x).backward()
        if jitted.kernels().joint:
            return jitted, number + 1
    return jitted, most


def test_short_paths_have_one_soon() -> None:
    _, calls = calls_until_joint(branching, 20)
    assert calls <= segments.JOINT_AFTER + 2


def derived(function: Any, how: Any) -> list[Any]:
    """What three calls leave in a leaf, each derived in some way."""
    found = []
    for number in range(3):
        x = (fg.arange(5.0) * 0.3 + number).requires_grad_()
        result = function(x)
        with fg.no_grad() if how is None else fg.enable_grad():
            found += [result.detach() + 0.0, *((how(result, x)) if how is not None else [])]
        found.append(x.grad)
    return found


# Backwards that the program of both cannot answer, beside the one that it is made for.
BACKWARDS: dict[str, Any] = {
    "plain": lambda r, x: [r.backward()][:0],
    "scaled": lambda r, x: [(r * 3.0).backward()][:0],
    "from 2": lambda r, x: [r.backward(fg.tensor(2.0))][:0],
    "grad": lambda r, x: fg.autograd.grad(r, x),
    "twice": lambda r, x: [r.backward(retain_graph=True), r.backward()][:0],
    "again": lambda r, x: fg.autograd.grad(fg.autograd.grad(r, x, create_graph=True)[0].sum(), x),
    "not at all": None,
}


@pytest.mark.parametrize("name", BACKWARDS)
def test_calls_answer_each_backward_from_the_first_on(name: str) -> None:
    jitted = fg.jit(loss)
    for ours, theirs in zip(derived(jitted, BACKWARDS[name]), derived(loss, BACKWARDS[name]), strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            fg.testing.assert_close(ours, theirs)
    assert jitted.stats.compiled_calls == 2 and jitted.kernels().joint


def test_all_is_compiled_in_the_first_call_where_each_is_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    compiled = Program.compile
    monkeypatch.setattr(Program, "compile", lambda program: (begun.append(call), compiled(program))[1])
    jitted = fg.jit(loss)
    x = fg.randn(5, requires_grad=True)
    for call in range(8):  # noqa: B007
        jitted(x).backward()
    assert begun == [0]


def test_the_program_of_both_is_given_up_where_calls_are_not_derived() -> None:
    jitted = fg.jit(loss)
    x = fg.randn(5, requires_grad=True)
    jitted(x)
    (leaf,) = jitted.segments()
    for number in range(1, 8):
        jitted(x)
        assert leaf.code.program.is_begun == (number > segments.HOPED_FOR)
        assert leaf.answers.usage.expected() == (number < segments.HOPED_FOR)
    for _ in range(30):
        jitted(x).backward()
    assert leaf.answers.usage.expected()  # it is used again once calls are


def test_a_fault_in_the_program_of_both_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "faults_are_raised", lambda: False)
    monkeypatch.setattr(Tree, "joint_code", lambda *_: 1 // 0)
    jitted = fg.jit(loss)
    x = fg.arange(5.0).requires_grad_()
    for _ in range(6):
        jitted(x).backward()
    y = fg.arange(5.0).requires_grad_()
    for _ in range(6):
        loss(y).backward()
    fg.testing.assert_close(x.grad, y.grad)
    assert jitted.stats.compiled_calls == 5 and not jitted.kernels().joint


def test_long_paths_have_one_once_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "LONG_PATH", 40)
    monkeypatch.setattr(segments, "EQUATIONS_PER_CALL", 2)
    jitted, calls = calls_until_joint(branching, 200)
    (leaf,) = [segment for segment in jitted.segments() if segment.path is not None]
    equations = len(leaf.path.forward) + len(leaf.path.derivative.equations)
    assert equations // 2 <= calls <= equations // 2 + 2
    assert jitted.stats.compiled_calls == calls - 1


def test_in_place_of_the_others_long_paths_have_one_at_once_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    x = fg.randn(5, requires_grad=True)
    for puts_off, function in ((True, loss), (False, branching)):
        for room in (0, -1):
            jitted = fg.jit(function)
            monkeypatch.setattr(segments, "LONG_PATH", 1 << 30)
            jitted(x).backward()
            (path,) = {segment.path for segment in jitted.segments()} - {None}
            monkeypatch.setattr(segments, "LONG_PATH", segments.equations_of_both(path) + room)
            jitted = fg.jit(function)
            jitted(x).backward()
            assert bool(jitted.kernels().joint) == (puts_off or room == 0)


def test_what_takes_longer_than_a_call_waits_has_programs_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planned beside the program: a call would wait for them when hopes are given up."""
    monkeypatch.setattr(background, "takes_long", lambda ops: True)
    monkeypatch.setattr(segments, "LONG_PATH", 10)
    jitted = fg.jit(loss)
    x = fg.randn(5, requires_grad=True)
    jitted(x).backward()
    fg.wait_for_compilation()
    assert jitted.kernels().forward and jitted.kernels().backward and not jitted.kernels().joint


def test_long_paths_that_are_not_derived_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "LONG_PATH", 40)
    jitted = fg.jit(branching)
    for _ in range(30):
        jitted(fg.randn(5, requires_grad=True))
    assert not jitted.kernels().joint


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The programs that are planned."""
    found: list[Program] = []
    plan = Program.__init__

    def planning(program: Program, *given: Any, **named: Any) -> None:
        found.append(program)
        plan(program, *given, **named)

    monkeypatch.setattr(Program, "__init__", planning)
    return found


def test_programs_of_value_and_gradients_apart_are_planned_when_one_is_needed(planned: list[Program]) -> None:
    jitted = fg.jit(loss)
    x = fg.randn(5, requires_grad=True)
    for _ in range(6):
        jitted(x).backward()
    assert len(planned) == 1
    (leaf,) = jitted.segments()
    jitted(x).backward(fg.tensor(2.0))
    assert [*leaf.programs()] == [*planned[1:], planned[0]] and len(planned) == 3


def test_calls_that_are_not_derived_need_them_once_hopes_are_given_up(planned: list[Program]) -> None:
    jitted = fg.jit(loss)
    x = fg.randn(5, requires_grad=True)
    for number in range(6):
        assert len(planned) == (0 if not number else 1 if number <= segments.HOPED_FOR + 1 else 3)
        jitted(x)


def doubled(function: Any) -> Any:
    """The gradient of twice the loss of other values, each time another function is asked."""
    x = fg.arange(5.0).requires_grad_()
    function(x).backward(fg.tensor(2.0))
    return x.grad


def test_a_fault_in_planning_them_leaves_the_program_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "faults_are_raised", lambda: False)
    monkeypatch.setattr(Tree, "_plan_code", lambda *_: 1 // 0)
    jitted = fg.jit(loss)
    for _ in range(8):
        fg.testing.assert_close(doubled(jitted), doubled(loss))
    x = fg.arange(5.0).requires_grad_()
    for _ in range(8):
        fg.testing.assert_close(jitted(x).detach(), loss(x).detach())
    assert jitted.stats.compiled_calls == 15
    assert len(jitted.kernels().joint) >= 1 and not jitted.kernels().forward
    assert "at once" in str(jitted.explain())


def test_they_are_planned_for_the_default_dtype_of_the_call(planned: list[Program]) -> None:
    jitted = fg.jit(loss)
    doubled(jitted)
    x = fg.arange(5.0).requires_grad_()
    result = jitted(x)
    (leaf,) = jitted.segments()
    try:
        fg.set_default_dtype(fg.float64)
        result.backward(fg.tensor(2.0, dtype=fg.float32))
        assert len(planned) == 1 and not leaf.can_run_apart()
    finally:
        fg.set_default_dtype(fg.float32)
    fg.testing.assert_close(x.grad, doubled(loss))
    assert leaf.can_run_apart() and len(planned) == 3
