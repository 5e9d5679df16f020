"""`batched` and `batching`: what is done as one, when, and what is left as it is one by one."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.eager.batching import side_by_side
from fusegrad.eager.core.op import Op, bind
from fusegrad.eager.core.state import Interpreter, state

F = fg.nn.functional


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    fg.manual_seed(0)


def grown(depth: int) -> Any:
    return depth if depth < 2 else (grown(depth - 1), grown(depth - 2))


class Counting(Interpreter):
    """Counts the ops of a backward."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def bind(self, op: Op, args: Any, params: Any) -> Any:
        self.names.append(op.name)
        before, state.interpreter = state.interpreter, None
        try:
            return bind(op, args, params)
        finally:
            state.interpreter = before

    def backward(self, roots: Any, accumulates: bool) -> Interpreter:
        return self


def test_a_weight_gets_one_product_for_each_batch() -> None:
    w = fg.randn(3, 3, requires_grad=True)
    function = fg.batched(lambda x: fg.tanh(fg.tanh(x @ w) @ w).sum())
    total = fg.stack(function(list(fg.randn(10, 3)))).sum()
    assert function.report.batches["matmul"] == [10, 10]
    state.interpreter = counting = Counting()
    try:
        total.backward()
    finally:
        state.interpreter = None
    assert counting.names.count("matmul") == 4 - 1  # two for w, and one for what is between


def test_calls_of_a_kind_come_together_from_different_depths() -> None:
    w = fg.randn(3, 3)

    def up(tree: Any) -> fg.Tensor:
        return (
            fg.full((3,), tree * 1.0) if isinstance(tree, int) else fg.tanh((up(tree[0]) + up(tree[1])) @ w)
        )

    trees = [grown(n) for n in (2, 3, 4, 5, 4, 3)]
    function = fg.batched(up)
    made = function(trees)
    for x, y in zip(made, map(up, trees), strict=True):
        assert fg.allclose(x, y, atol=1e-6)
    assert len(function.report.batches["tanh"]) <= 4  # as many as the deepest tree has levels


def test_a_question_stops_one_example_alone() -> None:
    pytest.importorskip("greenlet")
    w = fg.eye(2) * 2

    def search(x: fg.Tensor) -> Any:
        steps = 0
        while x.sum() < 100:
            x, steps = x @ w, steps + 1
        return steps

    examples = [fg.full((2,), n * 1.0) for n in (1, 3, 9, 27, 1)]
    function = fg.batched(search)
    assert function(examples) == [search(x) for x in examples]
    assert function.report.batches["matmul"] == [5, 4, 4, 3, 3, 2]
    assert "all examples asked for values, 7 times" in function.explain()


def test_without_greenlet_it_goes_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "has_coroutines", lambda: False)
    order: list[int] = []

    def f(x: fg.Tensor) -> float:
        order.append(int(x[0]))
        return (x * 2).sum().item()

    function = fg.batched(f)
    assert function([fg.full((2,), n * 1.0) for n in range(3)]) == [0.0, 4.0, 8.0]
    assert order == [0, 1, 2]
    assert "fusegrad[batching]" in function.explain()


def test_what_is_raised_is_what_the_first_example_raises() -> None:
    """Though a later one comes to its error before, and its `finally` runs."""
    pytest.importorskip("greenlet")
    ended: list[int] = []

    def f(n: int) -> Any:
        try:
            x = fg.full((2,), n * 1.0) * 2
            if n == 3:
                raise KeyError("later")
            if x.sum() > 0 and n == 2:
                raise ValueError("earlier")
            return x.sum().item()
        finally:
            ended.append(n)

    with pytest.raises(ValueError, match="earlier"):
        fg.batched(f)([0, 1, 2, 3, 4])
    assert sorted(ended) == [0, 1, 2, 3]
    assert state.interpreter is None


def test_an_op_that_does_not_fit_is_refused_at_its_line() -> None:
    def f(x: fg.Tensor) -> fg.Tensor:
        y = x * 2
        return y @ fg.ones(3, 3)

    with pytest.raises(RuntimeError, match=r"test_batched.py:\d+: return y @ fg.ones"):
        fg.batched(f)([fg.ones(3), fg.ones(2), fg.ones(3)])


def test_each_example_has_its_own_modes() -> None:
    pytest.importorskip("greenlet")
    w = fg.ones(2, requires_grad=True)

    def f(n: int) -> bool:
        with fg.set_grad_enabled(n % 2 == 0):
            if (w * n).sum() >= 0:
                return (w * n).requires_grad
        return False

    assert fg.batched(f)(range(4)) == [True, False, True, False]
    assert fg.is_grad_enabled()


def test_what_an_example_writes_others_do_not_see_in_another_order() -> None:
    pytest.importorskip("greenlet")
    counter = fg.zeros(())

    def counts(x: fg.Tensor) -> fg.Tensor:
        counter.add_(1)
        return x * counter

    made = fg.batched(counts)([fg.ones(()) for _ in range(4)])
    assert [m.item() for m in made] == [1.0, 2.0, 3.0, 4.0]

    def asks_before(x: fg.Tensor) -> fg.Tensor:
        if (x * counter).sum() > 0:
            counter.add_(1)
        return x * counter

    with pytest.raises(RuntimeError, match=r"add_: batched: example 3 has read .* example 0 came to write"):
        fg.batched(asks_before)([fg.ones(()) for _ in range(4)])


def test_rows_that_no_gradient_comes_to_make_no_nan() -> None:
    w = fg.ones(1, requires_grad=True)
    made = fg.batched(lambda x: fg.sqrt(x * w).sum())([fg.zeros(1), fg.ones(1), fg.ones(1) * 4])
    (made[1] + made[2]).backward()
    assert w.grad.tolist() == [1.5]


def test_a_loop_is_batched_as_it_stands() -> None:
    w = fg.randn(4, 4, requires_grad=True)
    xs = fg.randn(6, 4)
    with fg.batching() as batches:
        losses = [fg.tanh(x @ w).sum() for x in xs]
    total = sum(losses[1:], start=losses[0])
    total.backward()
    own, w.grad = w.grad, None
    fg.tanh(xs @ w).sum().backward()
    assert fg.allclose(own, w.grad, atol=1e-5)
    assert batches.report.batches["matmul"] == [6]
    assert "matmul: 1 of 6" in batches.explain()


def test_one_example_goes_unbatched() -> None:
    function = fg.batched(lambda x: x * 2)
    assert function([fg.ones(2)])[0].tolist() == [2.0, 2.0]
    assert function([]) == []
    assert function.report.joined == 0


def test_large_operands_that_lie_apart_are_not_copied() -> None:
    function = fg.batched(lambda x: x * 2)
    xs = [fg.ones(300, 300) for _ in range(3)]
    assert all(x.sum().item() == 180000 for x in function(xs))
    assert "mul, 3 times: its operands are large, and lie apart" in function.explain()


def test_another_thread_gets_values() -> None:
    found: list[Any] = []
    with fg.batching():
        x = fg.ones(3) * 2
        thread = threading.Thread(target=lambda: found.append(x.sum().item()))
        thread.start()
        thread.join()
    assert found == [6.0]


def test_a_call_of_a_jitted_function_waits_as_one() -> None:
    w = fg.randn(3, 3, requires_grad=True)

    @fg.jit
    def cell(a, b):
        return fg.tanh((a + b) @ w), a * b

    leaves = list(fg.randn(4, 3))

    def up(tree: Any) -> Any:
        if isinstance(tree, int):
            return leaves[tree], leaves[0]
        (a, x), (b, y) = up(tree[0]), up(tree[1])
        return cell(a + x * 0.1, b + y * 0.1)

    trees = [((0, 1), (2, 3)), (0, (1, 2)), ((3, 2), 1), (2, 0)]
    function = fg.batched(lambda tree: up(tree)[0])
    for _ in range(3):
        gradients = []
        for run in (lambda: [up(tree)[0] for tree in trees], lambda: function(trees)):
            fg.stack(run()).sum().backward()
            gradients.append(w.grad)
            w.grad = None
        assert fg.allclose(*gradients, atol=1e-5)
    name = next(name for name in function.report.batches if name.endswith("cell"))
    assert function.report.batches[name] == [5, 3]  # by their depth, also f(x, y) with a leaf
    assert name in function.explain()
    kinds = [kind for kind in cell._cells.known.kinds.values() if not isinstance(kind, str)]
    assert max(program.compiles for kind in kinds for program in kind._programs.values()) == 1


def test_kinds_of_cells_join_where_one_derives_by_all_that_the_other_does() -> None:
    w, xs = fg.randn(3, 3, requires_grad=True), [fg.randn(3) for _ in range(6)]

    @fg.jit
    def cell(a: fg.Tensor, b: fg.Tensor) -> fg.Tensor:
        with fg.no_grad():
            c = a * 2
        return fg.tanh((b + c) @ w)

    def apply(i: int) -> fg.Tensor:
        h = cell(xs[i], xs[i - 1])  # of what needs no gradient
        for _ in range(i % 3):
            h = cell(h, cell(h, h))
        return cell(h, xs[i])

    function, found = fg.batched(apply), []
    for run in (lambda: [*map(apply, range(6))], *[lambda: function(range(6))] * 3):
        fg.stack(run()).sum().backward()
        found.append(w.grad)
        w.grad = None
    assert all(fg.allclose(found[0], other, atol=1e-5) for other in found[1:])
    (sizes,) = [sizes for name, sizes in function.report.batches.items() if name.endswith("cell")]
    assert sizes == [6, 6, 4, 4, 2, 2]  # f(x, y), f(h, x), f(h, h) and f(h, g)


SHARING = {
    "itself": lambda x: x,
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "view": lambda x: x.view(3),
    "parameter": lambda x: fg.nn.Parameter(x, requires_grad=False),
    "from_numpy": lambda x: fg.from_numpy(x.numpy()),
}


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("sharing", SHARING)
def test_what_a_cell_takes_may_share_memory_or_not(sharing: str, first: bool) -> None:
    w, xs = fg.randn(3, 3), [fg.randn(3) for _ in range(4)]
    plain = lambda a, b, c: fg.tanh((a * 2 + b) @ w) - c * xs[0]  # noqa: E731
    cell = fg.jit(plain)

    def shared(f: Any) -> Any:
        return lambda i: f(xs[i], SHARING[sharing](xs[i]), SHARING[sharing](xs[0]))

    def apart(f: Any) -> Any:
        return lambda i: f(xs[i], xs[i - 1], xs[i - 2])

    for run in (shared, apart) if first else (apart, shared):
        expected = fg.stack([run(plain)(i) for i in range(4)])
        for _ in range(3):
            assert fg.allclose(fg.stack(fg.batched(run(cell))(range(4))), expected)


def test_groups_of_cells_have_one_product_a_weight() -> None:
    w = fg.randn(3, 3, requires_grad=True)
    cell = fg.jit(lambda a: fg.tanh(a @ w))
    function = fg.batched(lambda x: cell(cell(x)).sum())
    xs = [list(fg.randn(n, 3)) for n in (4, 6, 5, 5)]
    for examples in xs:
        total = fg.stack(function(examples)).sum()
        w.grad = None
        total.backward()
    assert [sizes for name, sizes in function.report.batches.items() if "lambda" in name] == [[5, 5]]
    own, w.grad = w.grad, None
    fg.tanh(fg.tanh(fg.stack(xs[-1]) @ w) @ w).sum().backward()
    assert fg.allclose(own, w.grad, atol=1e-5)


def test_a_cell_sees_what_it_reads_as_it_is_at_the_call() -> None:
    settings = {"scale": 1.0}
    w = fg.ones(2)

    @fg.jit
    def cell(x):
        return x * w * settings["scale"]

    def program(n: int) -> list[fg.Tensor]:
        settings["scale"] = 1.0
        first = cell(fg.ones(2) * n)
        settings["scale"] = 3.0
        return [first, cell(fg.ones(2) * n)]

    for _ in range(3):
        made = fg.batched(program)([1, 2, 3])
        assert [[x.tolist()[0] for x in pair] for pair in made] == [[1, 3], [2, 6], [3, 9]]


def test_a_weight_that_is_written_is_read_before() -> None:
    w = fg.ones(2)
    cell = fg.jit(lambda x: x * w)
    with fg.batching():
        for _ in range(2):
            before = [cell(fg.full((2,), n * 1.0)) for n in range(3)]
            w.mul_(2)
            after = [cell(fg.full((2,), n * 1.0)) for n in range(3)]
    assert [x.tolist()[0] for x in before] == [0, 2, 4]
    assert [x.tolist()[0] for x in after] == [0, 4, 8]


def test_a_position_out_of_range_is_refused_at_its_line() -> None:
    table = fg.randn(3, 2)
    word = fg.jit(lambda i: F.embedding(i, table))
    function = fg.batched(lambda n: word(fg.tensor(n)).sum())
    assert len(function([0, 1, 2])) == 3
    with pytest.raises(IndexError):
        function([0, 1, 3, 2])


def test_what_a_jitted_function_does_besides_leaves_it_to_the_program() -> None:
    seen: list[Any] = []

    @fg.jit
    def cell(x):
        seen.append(1)
        return x * 2

    function = fg.batched(cell)
    assert [x.item() for x in function([fg.ones(()) * n for n in range(4)])] == [0, 2, 4, 6]
    assert len(seen) == 4
    assert "cell" in function.explain()


def test_results_of_cells_have_the_places_that_they_have_one_by_one() -> None:
    """On the graph, in memory, and as to how often they were written: as without `jit`."""
    w = fg.randn(4, requires_grad=True)

    @fg.jit
    def apart(x):
        with fg.no_grad():
            y = x * w
        return y

    @fg.jit
    def halves(x):
        return (x * w).chunk(2)

    @fg.jit
    def written(x):
        y = x * w
        y[0] = 1.0
        return y

    def program(x: fg.Tensor) -> Any:
        left, right = halves(x.detach())
        y = written(x)
        return apart(x).requires_grad, left._base is right._base, y._version, y.requires_grad

    examples = [fg.randn(4) for _ in range(5)]
    for _ in range(2):
        assert fg.batched(program)(examples) == [(False, True, 1, True)] * 5


def test_in_a_jitted_step_and_under_no_grad() -> None:
    w = fg.randn(3, 3, requires_grad=True)
    examples = [fg.randn(3) for _ in range(4)]

    def loss(xs: list[fg.Tensor]) -> fg.Tensor:
        made = fg.batched(lambda x: fg.tanh(x @ w) if x.sum() > 0 else x @ w)(xs)
        return fg.stack(made).sum()

    step = fg.jit(loss)
    for _ in range(4):
        expected, found = loss(examples), step(examples)
        assert fg.allclose(expected, found, atol=1e-5)
        gradients = []
        for value in (expected, found):
            value.backward()
            gradients.append(w.grad)
            w.grad = None
        assert fg.allclose(*gradients, atol=1e-5)
    with fg.no_grad():
        assert not loss(examples).requires_grad


def test_a_function_is_asked_for() -> None:
    with pytest.raises(TypeError, match="batched: expected a function of one example, got int"):
        fg.batched(3)


class _Computes:
    """Is collected in the middle of anything, and computes then."""

    def __init__(self, tensor: Any, seen: list[Any]) -> None:
        self.own, self.tensor, self.seen = self, tensor, seen

    def __del__(self) -> None:
        self.seen.append(self.tensor * 3)


@pytest.mark.parametrize("threshold", [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13])
def test_finalizers_compute_while_an_op_is_put_down(threshold: int) -> None:
    w = fg.ones(4, requires_grad=True)

    def loss(x: Any) -> Any:
        seen: list[Any] = []
        for _ in range(6):
            _Computes(x, seen)
            b = fg.sin(x) * w + x
            x = b * 0.5 + b.max(0).values - x.sort(0)[0]
        return x.sum(), sum(tensor.sum() for tensor in seen)

    examples = list(fg.randn(8, 4))
    expected = [loss(x)[0].item() for x in examples]
    before = gc.get_threshold()
    gc.set_threshold(threshold)
    try:
        found = fg.batched(loss)(examples)
    finally:
        gc.set_threshold(*before)
    assert [value.item() for value, _ in found] == pytest.approx(expected, rel=1e-5)
