"""The nodes of shortcuts: on the graph they are what eager's nodes are, and their backward says the same."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.compiler.paths.autograd_node import CompiledNode
from fusegrad.compiler.paths.segments import MISSED
from fusegrad.eager.autograd import engine

WEIGHT = fg.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]]).requires_grad_()


def product(x: Any, y: Any) -> Any:
    return fg.tanh(x * y) * x


def several(x: Any, y: Any) -> Any:
    return x * y, {"sum": (x + y).sum(), "x": x, "text": "as it is"}, (x * 3).exp()


def twice(x: Any, y: Any) -> Any:
    z = fg.exp(x) * y
    return z, z


def outside(x: Any, y: Any) -> Any:
    return (x * WEIGHT).sigmoid() @ y.T


def loss(x: Any, y: Any) -> Any:
    return ((x - y) ** 2).mean()


PROGRAMS = (product, several, twice, outside, loss)


def arguments() -> tuple[fg.Tensor, fg.Tensor]:
    fg.manual_seed(0)
    return fg.randn(2, 3).requires_grad_(), fg.randn(2, 3).requires_grad_()


def shortened(f: Callable[..., Any]) -> Any:
    """`f` jitted, so often called and derived that a shortcut answers."""
    jitted = fg.jit(f)
    for _ in range(8):
        x, y = arguments()
        sum(t.sum() for t in tensors(jitted(x, y)) if t.grad_fn is not None).backward()
    assert jitted._answer is not None and jitted._answer((x, y)) is not MISSED, jitted.explain()
    return jitted


def tensors(value: Any) -> list[fg.Tensor]:
    if isinstance(value, (list, tuple, dict)):
        parts = value.values() if isinstance(value, dict) else value
        return [t for part in parts for t in tensors(part)]
    return [value] if isinstance(value, fg.Tensor) else []


def gradients(*inputs: fg.Tensor) -> list[Any]:
    return [None if t.grad is None else t.grad.tolist() for t in (*inputs, WEIGHT)]


def after(f: Callable[..., Any], what: Callable[[list[fg.Tensor], Any, Any], Any]) -> Any:
    """What is seen after `what` was done with the results and the arguments: an error, or gradients."""
    x, y = arguments()
    WEIGHT.grad = None
    try:
        seen = what(tensors(f(x, y)), x, y)
    except RuntimeError as error:
        return next(kind for kind in ("a second time", "modified by an inplace") if kind in str(error))
    return seen, gradients(x, y)


def close(a: Any, b: Any) -> bool:
    """Whether nested lists and tuples are the same up to rounding."""
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(close, a, b))
    return abs(a - b) <= 1e-6 + 1e-5 * abs(b) if isinstance(a, float) else a == b


def plain(results: list[fg.Tensor], x: Any, y: Any) -> None:
    for result in results:
        if result.grad_fn is not None:
            result.sum().backward(retain_graph=True)


def added(results: list[fg.Tensor], x: Any, y: Any) -> None:
    sum(r.sum() * (k + 1) for k, r in enumerate(results)).backward()


def weighted(results: list[fg.Tensor], x: Any, y: Any) -> None:
    results[0].backward(fg.ones_like(results[0]) * 2)


def two_backwards(results: list[fg.Tensor], x: Any, y: Any) -> None:
    results[0].sum().backward()
    results[0].sum().backward()


def second_derivative(results: list[fg.Tensor], x: Any, y: Any) -> None:
    (first,) = fg.grad(results[0].sum(), x, create_graph=True)
    first.sum().backward()


def some_gradients(results: list[fg.Tensor], x: Any, y: Any) -> Any:
    return [
        g.tolist()
        for g in fg.grad(results[-1].sum(), [y], retain_graph=True, allow_unused=True)
        if g is not None
    ]


def an_input_written(results: list[fg.Tensor], x: Any, y: Any) -> None:
    with fg.no_grad():
        x.mul_(2)
    results[0].sum().backward()


def hooked(results: list[fg.Tensor], x: Any, y: Any) -> Any:
    seen: list[Any] = []
    x.register_hook(lambda g: g * 10)
    results[0].register_hook(lambda g: seen.append(g.tolist()))
    results[0].sum().backward()
    return seen


def transposed(results: list[fg.Tensor], x: Any, y: Any) -> None:
    last = results[0]
    last.backward(fg.ones(*reversed(last.shape)).T) if last.ndim == 2 else last.backward()


def places(results: list[fg.Tensor], x: Any, y: Any) -> Any:
    same = [(a is b, a is x) for a in results for b in results]
    return [(r.requires_grad, r.is_leaf, r._version) for r in results], same


WAYS = (
    plain, added, weighted, two_backwards, second_derivative, some_gradients, an_input_written, hooked,
    transposed, places,
)  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_node_is_what_eager_s_nodes_are(program: Any, way: Any):
    jitted = shortened(program)
    assert close(after(jitted, way), after(program, way))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_the_written_derivative_answers(program: Any, monkeypatch: pytest.MonkeyPatch):
    jitted = shortened(program)
    x, y = arguments()
    results = [r for r in tensors(jitted(x, y)) if isinstance(r.grad_fn, CompiledNode)]
    monkeypatch.setattr(CompiledNode, "_reached", None)  # the long way
    (sum(r.sum() for r in results) if program is not loss else results[0]).backward()
    assert x.grad is not None


def derived(loss: Any, x: Any, y: Any) -> None:
    loss.backward()


def kept(loss: Any, x: Any, y: Any) -> None:
    loss.backward(retain_graph=True)
    loss.backward()


def freed(loss: Any, x: Any, y: Any) -> None:
    loss.backward()
    loss.backward()


def added_to(loss: Any, x: Any, y: Any) -> Any:
    known = x.grad = fg.ones(2, 3)
    loss.backward()
    return known is x.grad, known._version


def frozen(loss: Any, x: Any, y: Any) -> None:
    x.requires_grad_(False)
    loss.backward()


def with_gradients_off(loss: Any, x: Any, y: Any) -> Any:
    with fg.no_grad():
        loss.backward()
        return fg.is_grad_enabled()


def written(loss: Any, x: Any, y: Any) -> None:
    with fg.no_grad():
        y.add_(1)
    loss.backward()


def result_written(loss: Any, x: Any, y: Any) -> None:
    loss.mul_(3)
    loss.backward()


def seeded(loss: Any, x: Any, y: Any) -> None:
    loss.backward(fg.tensor(3.0))


def leaf_hooked(loss: Any, x: Any, y: Any) -> None:
    x.register_hook(lambda g: g * 10)
    loss.backward()


def result_hooked(loss: Any, x: Any, y: Any) -> None:
    loss.register_hook(lambda g: g * 10)
    loss.backward()


def retained(loss: Any, x: Any, y: Any) -> Any:
    loss.retain_grad()
    loss.backward()
    return loss.grad.item()


def accumulate_hooked(loss: Any, x: Any, y: Any) -> Any:
    seen: list[Any] = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    loss.backward()
    return seen


def in_anomaly_mode(loss: Any, x: Any, y: Any) -> None:
    with fg.autograd.detect_anomaly():
        loss.backward()


# What is done with a loss whose gradients have come along, and whether it takes a walk over the graph.
BACKWARDS = {
    derived: False, kept: True, freed: True, added_to: False, frozen: False, with_gradients_off: False,
    written: True, result_written: True, seeded: True, leaf_hooked: True, result_hooked: True,
    retained: True, accumulate_hooked: True, in_anomaly_mode: True,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("way", BACKWARDS, ids=lambda w: w.__name__)
def test_gradients_that_came_along_are_handed_on(way: Any, monkeypatch: pytest.MonkeyPatch):
    def outcome(function: Any) -> tuple[Any, bool]:
        walks: list[int] = []
        walk = engine.Walk.run
        with monkeypatch.context() as patched:
            patched.setattr(engine.Walk, "run", lambda *args: walks.append(1) or walk(*args))
            return after(function, lambda results, x, y: way(results[0], x, y)), bool(walks)

    found, walks = outcome(shortened(lambda x, y: (x * y).tanh().mean()))
    expected, _ = outcome(lambda x, y: (x * y).tanh().mean())
    assert close(found, expected)
    assert walks is BACKWARDS[way]


def test_gradients_are_handed_on_to_leaves_alone():
    jitted = shortened(loss)
    (x, y), (a, b) = arguments(), arguments()
    jitted(x * 2, y).backward()
    loss(a * 2, b).backward()
    assert close(gradients(x, y), gradients(a, b))


def test_a_message_names_the_user_s_line():
    jitted = shortened(product)
    x, y = arguments()
    z = jitted(x, y)  # this line
    assert isinstance(z.grad_fn, CompiledNode) and z.grad_fn.leaf.answers.derive is not None
    z.sum().backward()
    with pytest.raises(RuntimeError, match=r"test_nodes.py:\d+: z = jitted\(x, y\)  # this line"):
        z.sum().backward()


def test_a_node_goes_with_its_result():
    jitted = shortened(outside)
    x, y = arguments()
    z = jitted(x, y)
    gone = weakref.ref(z.grad_fn)
    gc.disable()
    try:
        del z
        assert gone() is None
    finally:
        gc.enable()


def test_a_shortcut_links_as_the_long_way() -> None:
    """Arguments that are no tensors, a tensor from outside, and a result that is not differentiable."""
    outside = fg.tensor([0.5, 0.25], requires_grad=True)

    @fg.jit
    def function(x: Any, factor: float, y: Any) -> Any:
        z = fg.tanh(x * factor) * outside + y
        return z, z > 0, fg.exp(z)

    x = fg.tensor([1.0, 2.0], requires_grad=True)
    y = fg.tensor([3.0, 4.0], requires_grad=True) * 2
    for _ in range(6):
        function(x, 2.0, y)
    assert function._answer is not None
    short = function(x, 2.0, y)
    function._answer = None
    long = function(x, 2.0, y)
    nodes: list[Any] = [short[0].grad_fn, long[0].grad_fn]
    assert nodes[0] is not nodes[1] and all(isinstance(n, CompiledNode) for n in nodes)
    for name in ("leaves", "types", "edges"):
        mine, other = (tuple(getattr(node, name)) for node in nodes)
        assert mine == other, name
    assert len(nodes[0].counters) == len(nodes[1].counters) and nodes[0].numbers == nodes[1].numbers
    for ours, theirs in zip(short, long, strict=True):
        assert ours.requires_grad == theirs.requires_grad and ours.output_index == theirs.output_index


def test_hooks_of_one_result_see_no_gradients_of_the_others():
    """A compiled call is one node, where eager has one for each result."""

    def function(x):
        return x * 2, x * 3

    jitted = fg.jit(function)
    for _ in range(3):
        for call in (function, jitted):
            x = fg.ones(2, requires_grad=True)
            first, second = call(x)
            seen: list[Any] = []
            first.register_hook(seen.append)
            second.sum().backward()
            assert seen == []
            assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("dtype", (fg.float32, fg.float64))
def test_a_number_out_of_a_tensor_is_kept_for_good(dtype: Any) -> None:
    """Eager's node of `x * n` holds a number, which no backward frees; one of `x * t` holds a tensor."""

    def by_number(x: Any, t: Any) -> Any:
        made = x * t.item() * float(t)
        return made.mT, made * 2

    def by_both(x: Any, t: Any) -> Any:
        made = x * t.item() * t
        return made.mT, made * 2

    for function, refused in ((by_number, False), (by_both, True)):
        jitted = fg.jit(function)
        for call in range(4):
            x = fg.ones(2, 3, dtype=dtype, requires_grad=True)
            first, second = jitted(x, fg.tensor(call + 2.0, dtype=dtype))
            first.sum().backward()
            if refused:
                with pytest.raises(RuntimeError, match="a second time"):
                    second.sum().backward()
            else:
                second.sum().backward()
                assert x.grad.tolist() == [[3 * (call + 2.0) ** 2] * 3] * 2
        assert jitted.stats.compiled_calls >= 2


def drawn(choose: random.Random) -> Callable[..., Any]:
    """A function of three tensors that gives one to three sums, of ops some of which keep something."""
    steps = [
        (choose.randrange(6), choose.randrange(8), choose.randrange(8)) for _ in range(choose.randint(2, 8))
    ]
    picked = [choose.randrange(len(steps)) for _ in range(choose.randint(1, 3))]

    def function(*given: Any) -> Any:
        values = [*given]
        for op, first, second in steps:
            a, b = values[first % len(values)], values[second % len(values)]
            values.append((a + b, a * b, a * 2, a.tanh(), a - b, a * a)[op])
        return tuple(values[3 + place].sum() for place in picked)

    return function


def derived_apart(function: Callable[..., Any], seed: int, choose: random.Random) -> list[Any]:
    """What some backwards of the results to some of the inputs leave, or whether they are refused."""
    given = [fg.tensor([0.1 * seed, 0.5, i - 1.5], requires_grad=True) for i in range(3)]
    sums = function(*given)
    seen: list[Any] = []
    for _ in range(choose.randint(2, 4)):
        inputs, keeps = choose.sample(given, choose.randint(1, 3)), choose.random() < 0.2
        try:
            choose.choice(sums).backward(inputs=inputs, retain_graph=keeps)
        except RuntimeError as error:
            return [*seen, "a second time" in str(error)]
        seen += [[] if x.grad is None else x.grad.tolist() for x in given]
    return seen


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_backward_to_some_inputs_frees_what_it_goes_through(seed: int) -> None:
    function = drawn(random.Random(seed))
    jitted = fg.jit(function)
    for call in range(3):
        ours, eagers = (derived_apart(f, seed, random.Random(call)) for f in (jitted, function))
        assert len(ours) == len(eagers)
        for mine, eager in zip(ours, eagers, strict=True):
            assert mine == (eager if eager is True else pytest.approx(eager, rel=1e-3, abs=1e-4))
