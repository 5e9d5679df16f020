"""What eager's small ops leave behind natively and in Python: tensors, nodes, and nothing else."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from native_core import native_only
from op_samples import SAMPLES, Sample

import fusegrad as fg
from fusegrad.compiler.native import recording, running
from fusegrad.eager.autograd import node as nodes
from fusegrad.eager.autograd.writes.written import Refusal
from fusegrad.eager.core.errors import spot_text
from fusegrad.eager.core.op import REGISTRY
from fusegrad.eager.core.tensor import Tensor

pytestmark = native_only
CASES = [
    pytest.param(s, id=f"{name}-{k}") for name, samples in SAMPLES.items() for k, s in enumerate(samples)
]


def put(known: dict[str, tuple[Any, Any]]) -> None:
    for name, ways in known.items():
        REGISTRY[name].run, REGISTRY[name].finish = ways


@pytest.fixture(autouse=True, params=[recording, running], ids=["finish", "run"])
def natively(request: pytest.FixtureRequest) -> Iterator[None]:
    before = {name: (op.run, op.finish) for name, op in REGISTRY.items()}
    put(dict.fromkeys(REGISTRY, (None, None)))
    request.param.install()
    yield
    put(before)


@contextmanager
def in_python() -> Iterator[None]:
    known = {name: (op.run, op.finish) for name, op in REGISTRY.items()}
    put(dict.fromkeys(REGISTRY, (None, None)))
    try:
        yield
    finally:
        put(known)


def leaves_of(sample: Sample) -> list[Tensor]:
    made = [fg.tensor(a.astype("f4") if a.dtype == np.float64 else a) for a in sample.inputs]
    return [x.requires_grad_() if x.is_floating_point() else x for x in made]


def graph_of(results: Any, leaves: Sequence[Tensor]) -> list[Any]:
    """All that is known of results and the nodes behind them, with numbers in place of objects."""
    numbers: dict[int, Any] = {id(x): f"leaf {i}" for i, x in enumerate(leaves)}
    found: list[Any] = []
    outputs = [r for r in (results if isinstance(results, tuple) else (results,)) if isinstance(r, Tensor)]

    def value(x: Any) -> Any:
        return x if not isinstance(x, Tensor) else (x.array.dtype, x.array.shape, x.array.tobytes())

    def number(thing: Any) -> Any:
        if id(thing) not in numbers:
            numbers[id(thing)] = f"tensor {value(thing)}" if isinstance(thing, Tensor) else len(numbers)
            if not isinstance(thing, Tensor):
                pending.append(thing)
        return numbers[id(thing)]

    pending: list[Any] = []
    for x in outputs:
        node = None if x.grad_fn is None else number(x.grad_fn)
        state = x.needs_grad, x.output_index, list(x.version), x.gradient, x.alias is None, node
        found.append((value(x), type(x), state))
    while pending:
        node = pending.pop()
        edges = [(index, number(target), output) for index, target, output in node.edges]
        found.append((type(node), node.name(), edges, spot_text(node.spot)))
        if node.own not in (nodes.Node, nodes.PartNode):
            continue
        found.append((node.params, node.types, node.output_types, node.extra, sorted(node.versions)))
        found.append([value(x) for x in node.inputs or ()])
        found.append([value(x) for x in node.outputs or ()])
    return found


@pytest.mark.one_in(4)
@pytest.mark.parametrize("sample", CASES)
def test_every_op_leaves_the_same_graph(sample: Sample):
    made = []
    for way in (fg.enable_grad, in_python):
        leaves = leaves_of(sample)
        fg.manual_seed(0)
        with way():  # type: ignore[operator]
            results = sample.call(fg, *leaves)
        made.append(graph_of(results, leaves))
    assert repr(made[0]) == repr(made[1])


def test_it_is_what_runs():
    def program() -> Any:
        x = fg.ones(3, requires_grad=True)
        return ((x * 2.5).tanh() + x).sum() * x[0].view(1)

    program()  # in the first one Python finds out whose the files are
    before = nodes.record
    calls: list[Any] = []
    patch = pytest.MonkeyPatch()
    with patch.context() as on:
        on.setattr("fusegrad.eager.core.op.record", lambda *given: calls.append(given) or before(*given))
        assert program().grad_fn is not None and not calls
        with in_python():
            program()
        assert calls


def test_nothing_is_left():
    def program() -> list[weakref.ref[Any]]:
        x = fg.rand(3, 4, requires_grad=True)
        y = (x * 2 + x.exp()) @ x.T
        z = (y[0] / (1 + y.sigmoid())).sum() * x.sum()
        z.backward()
        kept = [x, y, z, y.grad_fn, z.grad_fn, x.array, y.array]
        return [weakref.ref(thing) for thing in kept]

    grown = []
    for _ in range(4):  # other threads may leave something as well, but not each time
        gc.collect()
        before = count()
        for _ in range(50):
            assert all(reference() is None for reference in program()), "only reference counts let go"
        gc.collect()
        grown.append(count() - before)
    assert min(grown) < 50, "each program has left something"


def count() -> int:
    # By their types: a weak proxy asks what it stands for, which may be gone.
    return sum(issubclass(type(thing), (Tensor, nodes.Node, np.ndarray, tuple)) for thing in gc.get_objects())


@pytest.mark.parametrize(
    "watching",
    [lambda: fg.autograd.detect_anomaly(), lambda: fg.autograd.graph.saved_tensors_hooks(double, halve)],
    ids=["anomaly", "saved"],
)
def test_who_watches_nodes_sees_each(watching: Callable[[], Any]):
    x = fg.ones(3, requires_grad=True)
    with watching():
        y = (x * x).exp()
    y.sum().backward()
    assert y.grad_fn.metadata or fg.equal(x.grad, 2 * x.exp())


def double(x: Any) -> Any:
    return x * 2


def halve(x: Any) -> Any:
    return x / 2


def test_what_is_said_of_a_missing_array_is_an_error():
    with pytest.raises(TypeError):
        fg.ones(3, requires_grad=True) * object()  # type: ignore[operator]


def test_nodes_that_take_no_gradient_are_refused_and_those_of_calls_are_not():
    x = fg.ones(3)
    x.needs_grad, x.grad_fn = True, Refusal("not any more")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not any more"):
            x * 2
    jitted, leaf = fg.jit(lambda x: x.exp()), fg.ones(3, requires_grad=True)
    jitted(leaf) * 2
    made = jitted(leaf)
    assert made.grad_fn.own is not nodes.Node
    calls: list[Any] = []
    with pytest.MonkeyPatch.context() as on:
        on.setattr("fusegrad.eager.core.op.record", lambda *given: calls.append(given))
        result = made * 2
    assert not calls and result.grad_fn.edges[0][1] is made.grad_fn


def test_more_inputs_than_a_word_has_bits():
    rows = [fg.full((2,), float(i), requires_grad=True) for i in range(200)]
    made = []
    for way in (fg.enable_grad, in_python):
        with way():  # type: ignore[operator]
            made.append(graph_of(fg.stack(rows) * 2, rows))
    assert repr(made[0]) == repr(made[1])


def test_writes_after_an_op_are_found():
    x = fg.ones(3, requires_grad=True)
    y = x * 2
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_gradients_of_several_threads():
    import threading

    failures: list[Any] = []

    def work(seed: int) -> None:
        try:
            for i in range(200):
                x = fg.tensor([1.0, 2.0, seed + i], requires_grad=True)
                ((x * x * 1e-3).exp().log() * 1e3 + x[1]).sum().backward()
                np.testing.assert_allclose(x.grad.numpy(), [2, 7, 2 * (seed + i)], rtol=1e-3)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
