"""The autograd engine: accumulation, freeing, higher orders, depth, memory, in-place writes."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg


def test_gradients_accumulate_and_can_be_retained():
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    held = x.grad
    y.backward()
    assert x.grad.tolist() == [4.0, 8.0]
    assert held is x.grad  # in place, as PyTorch does it


INDICES = (1, (2, 0), slice(1, None), (slice(None, None, 2), 3), (..., None, -2), None, (1, slice(0, 0)), ...)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_gradients_of_parts_are_added_where_the_part_is(index):
    found = []
    for library in (fg, torch):
        x = library.ones(3, 4, requires_grad=True)
        for factor in (2.0, 3.0, 5.0):
            (x[index] * x[0].sum() * factor).sum().backward()
        found.append(x.grad.tolist())
    assert found[0] == found[1]


def test_a_part_is_added_to_the_gradient_that_is_there_only_where_that_may_be_written():
    table = fg.ones(3, 2, requires_grad=True)
    table[0].sum().backward()
    held, writes = table.grad, table.grad._version
    (table[1] * table[2]).sum().backward()
    assert table.grad is held and held._version == writes + 2
    assert held.tolist() == [[1, 1]] * 3
    part = table[0]
    table.data = fg.ones(4, 2)
    table.grad = fg.zeros(4, 2)
    with pytest.raises(RuntimeError, match="cannot be added"):
        part.sum().backward()
    assert table.grad.tolist() == [[0, 0]] * 4
    table = fg.ones(3, 2, requires_grad=True)
    table.grad = fg.from_numpy(np.broadcast_to(np.float32(1), (3, 2)))
    table[1].sum().backward()
    assert table.grad.tolist() == [[1, 1], [2, 2], [1, 1]]


def parts_in_many_places(library):
    """What is seen of rows that are used again, looked at, and added to beside the whole table."""
    table = library.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    seen = []
    for _ in range(2):
        first, second, hooked, retained = table[0], table[1], table[2], table[0]
        hooked.register_hook(lambda g, seen=seen: seen.append(g.tolist()) or g * 2)
        retained.retain_grad()
        again = table[0] * second
        value = (first * first + first * again + hooked * retained).sum() + (table * table).sum()
        value.backward(retain_graph=True)
        (value * 3).backward()
        first.backward(library.tensor([7.0, 8.0]))
        library.autograd.backward([second, (second[0] * second)], [second.detach()] * 2)
        seen += [retained.grad.tolist(), table.grad.tolist(), library.autograd.grad(table[0].sum(), table)]
    return str(seen)


def test_parts_of_a_leaf_that_are_used_again_and_looked_at():
    assert parts_in_many_places(fg) == parts_in_many_places(torch)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (2, 3), (3, 1), (3, 2)])
@pytest.mark.parametrize("held", [False, True])
def test_a_gradient_that_does_not_fit_the_one_from_before_is_refused(before, after, held):
    def outcome(lib):
        x = lib.ones(before, requires_grad=True)
        x.sum().backward()
        held_by = x.grad[:] if held else None
        x.data = lib.ones(after)
        try:
            (x * 2).sum().backward()
        except RuntimeError:
            return "refused"
        return x.grad.tolist(), None if held_by is None else held_by.tolist()

    assert outcome(fg) == outcome(torch)


def test_a_gradient_is_not_shared_between_leaves():
    x, y = (fg.tensor([1.0], requires_grad=True) for _ in range(2))
    (x + y).backward()
    x.grad.zero_()
    assert y.grad.tolist() == [1.0]


def test_backward_twice_and_non_scalar_backward_are_errors():
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"second time.*MulBackward0(?s:.*)test_autograd.py:\d+") as error:
        (y * 1).backward()
    assert "retain_graph" in str(error.value)
    with pytest.raises(RuntimeError, match=r"scalar outputs.*float32\[2\](?s:.*)test_autograd.py:\d+"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        fg.ones(1).backward()
    with pytest.raises(RuntimeError, match="shape"):
        (x * 2).backward(fg.ones(3))


def test_backward_of_several_tensors_and_of_none():
    for lib in (fg, torch):
        x = lib.ones(3, requires_grad=True)
        assert lib.autograd.backward([]) is None and x.grad is None
        lib.autograd.backward([x.sum(), (x * 2).sum()])
        assert x.grad.tolist() == [3, 3, 3]


def test_grad_function():
    x = fg.tensor(3.0, requires_grad=True)
    unused = fg.tensor(1.0, requires_grad=True)
    y = x * x * x
    (first,) = fg.grad(y, x, create_graph=True)
    (second,) = fg.grad(first, x, create_graph=True)
    (third,) = fg.grad(second, x)
    assert (first.item(), second.item(), third.item()) == (27.0, 18.0, 6.0)
    assert x.grad is None
    assert fg.autograd.grad(x * 2, [x, unused], allow_unused=True)[1] is None
    with pytest.raises(RuntimeError, match="not have been used"):
        fg.grad(x * 2, unused)
    middle = x * 2
    assert fg.grad(middle * middle, middle)[0].item() == 12.0


def test_no_grad_and_detach():
    x = fg.tensor(2.0, requires_grad=True)
    with fg.no_grad():
        assert not (x * 2).requires_grad
        with fg.enable_grad():
            assert (x * 2).requires_grad
    assert not x.detach().requires_grad
    (x * x.detach()).backward()
    assert x.grad.item() == 2.0

    @fg.no_grad()
    def quiet():
        return fg.is_grad_enabled()

    assert not quiet() and fg.is_grad_enabled()


def test_a_chain_of_100000_ops():
    x = fg.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1.0
    y.backward()
    assert x.grad.item() == 1.0
    del y


def test_memory_returns_without_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        x = fg.tensor(np.ones(1000), requires_grad=True)
        y = fg.exp(x * x).softmax(0)
        middle = weakref.ref(y)
        arrays = [weakref.ref(y.array)]
        loss = (y * y).sum()
        loss.backward()
        del y, loss
        assert middle() is None and arrays[0]() is None
        z = fg.tanh(fg.layer_norm(x, (1000,))) if hasattr(fg, "layer_norm") else fg.tanh(x)
        gone = weakref.ref(z)
        (g,) = fg.grad(z.sum(), x, create_graph=True)
        del z, g
        assert gone() is None
    finally:
        gc.enable()


# Writing in place.


def test_in_place_ops_have_gradients():
    for namespace in (fg, torch):
        x = namespace.tensor([1.0, 2.0, 3.0], requires_grad=True)
        w = namespace.tensor([2.0, 2.0, 2.0], requires_grad=True)
        y = x * 1
        y.mul_(w).add_(1)
        y += x
        y[1] = 0.0
        y[y > 6] *= 2
        y.sum().backward()
        if namespace is fg:
            ours = (y.tolist(), x.grad.tolist(), w.grad.tolist())
        else:
            assert ours == (y.tolist(), x.grad.tolist(), w.grad.tolist())


def test_a_write_after_saving_is_an_error():
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    z = (y * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*MulBackward0.*float32\[2\]"):
        z.backward()
    e = fg.exp(x)
    s = e.sum()
    e.mul_(2)
    with pytest.raises(RuntimeError, match="ExpBackward0 kept its output"):
        (s + e.sum()).backward()


def test_writes_that_are_refused():
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"a leaf Variable that requires grad(?s:.*)test_autograd.py:\d+"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        x[0] = 1.0
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        x[:1].zero_()
    i = fg.tensor([1, 2])
    with pytest.raises(RuntimeError, match=r"result type Float can't be cast.*Long"):
        i += 1.5
    with pytest.raises(RuntimeError, match="broadcast shape"):
        fg.ones(2).add_(fg.ones(3, 2))
    with pytest.raises(RuntimeError, match="single memory location"):
        fg.ones(1).expand(3).add_(1)


def test_plain_views_share_memory():
    x = fg.zeros(2, 3)
    row = x[1]
    row += 1
    x.t()[0] = 5.0
    assert x.tolist() == [[5.0, 0.0, 0.0], [5.0, 1.0, 1.0]]
    assert row._version == x._version == 2
    a = np.zeros(3, np.float32)
    fg.from_numpy(a).fill_(2)
    assert a.tolist() == [2.0, 2.0, 2.0]


def test_setitem_matches_torch():
    writes = [
        (0, 1.0), ((slice(None), 1), [1.0, 2.0, 3.0, 4.0]), (([0, 2], [1, 3]), 9.0), ((..., -1), 7),
        ([0, 2], 5.0), ((slice(1, 3), [0, 2]), [[1.0, 2.0], [3.0, 4.0]]), ("mask", -1.0), ("row mask", 3.0),
        ((None, 1), 2.0), (slice(None, None, 2), 1.5), ((1, [0, 3]), 8.0),
    ]  # fmt: skip
    for index, value in writes:
        results = []
        for namespace in (fg, torch):
            x = namespace.arange(20).reshape(4, 5) * 1.0
            where = (
                {"mask": x > 7, "row mask": x[:, 0] > 7}.get(index, index)
                if isinstance(index, str)
                else index
            )
            x[where] = namespace.tensor(value) if isinstance(value, list) else value
            results.append(x.tolist())
        assert results[0] == results[1], index


def test_more_indexing_matches_torch():
    for index in (
        True, False, [], ([0, 1], None), np.array([1, 2]), np.int64(1), (0, [1, 2], slice(None)),
        (slice(None), None, [0, 1]), [True, False, True, False], ([[0], [1]], [[0, 1]]), (Ellipsis, [0, 1]),
        ([0, 1], Ellipsis, [1, 2]),
    ):  # fmt: skip
        results = []
        for namespace in (fg, torch):
            x = namespace.arange(60).reshape(4, 5, 3)
            results.append((tuple(x[index].shape), x[index].tolist()))
        assert results[0] == results[1], index
    x = fg.arange(6).reshape(2, 3)
    assert x[fg.tensor(1)].tolist() == [3, 4, 5]
    assert x[fg.tensor(0), fg.tensor([1, 2])].tolist() == [1, 2]
    for bad in (7, [0, 9], (0, 0, 0), 1.5, "a", (0, slice(None, None, -1))):
        with pytest.raises((IndexError, ValueError, TypeError), match=r"test_autograd\.py"):
            x[bad]


def test_in_place_forms_are_torchs():
    """Every in-place method that needs no other argument, or one number."""
    from fusegrad.eager.ops import inplace

    methods = {n: f for n, f in vars(fg.Tensor).items() if getattr(f, "__module__", "") == inplace.__name__}
    assert len(methods) > 100
    for name in methods:
        if name.startswith("__") or not hasattr(torch.Tensor, name):
            continue
        results = []
        for namespace in (fg, torch):
            x = namespace.tensor([[0.25, 0.5], [0.75, 0.125]])
            other = namespace.tensor([0.5, 0.25])
            for args in ((), (other,)):
                try:
                    result = getattr(x, name)(*args)
                except (TypeError, RuntimeError, AttributeError):
                    continue
                assert result is x
                results.append(x.tolist())
                break
            else:
                results.append(None)
        np.testing.assert_allclose(*[np.array(r, dtype=float) for r in results], rtol=1e-6, err_msg=name)


def test_activations_in_place():
    functional = fg.nn.functional
    for name in ("relu", "relu6", "silu", "elu", "leaky_relu", "hardtanh", "selu", "mish"):
        x = fg.tensor([-1.0, 0.5, 2.0])
        expected = getattr(functional, name)(x)
        assert getattr(functional, name)(x, inplace=True) is x
        assert fg.equal(x, expected)


def test_a_gradient_on_its_way_to_a_node_is_not_written_as_that_of_a_leaf():
    def gradient(lib):
        x = lib.ones(4).requires_grad_()
        first = x + 1  # waits for the gradient that x gets as well, at the last line
        second = x * 0.5
        third = x + first
        (third * 3 + second * 0.5).sum().backward()
        return x.grad.tolist()

    assert gradient(fg) == gradient(torch) == [6.25] * 4


def test_gradients_of_shared_arrays_over_two_backwards():
    for lib in (fg, torch):
        x, y = lib.ones(3).requires_grad_(), lib.ones(3).requires_grad_()
        for _ in range(2):
            (x + y + x).sum().backward()
        assert x.grad.tolist() == [4.0] * 3 and y.grad.tolist() == [2.0] * 3


def test_gradients_at_edges_of_the_graph():
    def found(lib):
        leaf = lib.tensor([1.0, 2.0], requires_grad=True)
        x = leaf.clone()
        before = lib.autograd.graph.get_gradient_edge(x)
        x *= 2
        total = (x * x).sum()
        edge = lib.autograd.graph.GradientEdge(total.grad_fn, total.output_nr)
        taken = lib.autograd.grad(
            edge, (before, x, lib.autograd.graph.get_gradient_edge(leaf)), retain_graph=True
        )
        lib.autograd.backward(total, inputs=(lib.autograd.graph.get_gradient_edge(leaf),))
        return [t.tolist() for t in taken], leaf.grad.tolist()

    assert found(fg) == found(torch)
    with pytest.raises(RuntimeError, match="does not require gradients"):
        fg.autograd.graph.get_gradient_edge(fg.ones(1))


def test_a_version_can_be_counted_up():
    for lib in (fg, torch):
        x = lib.ones(2, requires_grad=True)
        y = x.clone()
        z = (y * y).sum()
        lib.autograd.graph.increment_version(y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()
        lib.autograd.graph.increment_version([lib.ones(1), lib.ones(1)])


def test_zeros_for_unused_inputs_can_be_derived_again():
    for lib in (fg, torch):
        x, a = lib.tensor(0.5, requires_grad=True), lib.tensor(1.0, requires_grad=True)
        first = lib.autograd.grad(x * a, x, create_graph=True)
        second = lib.autograd.grad(first, x, create_graph=True, materialize_grads=True)
        assert lib.autograd.grad(second, x, materialize_grads=True)[0].item() == 0


def test_variables_are_tensors():
    for lib in (fg, torch):
        variable, data = lib.autograd.Variable, lib.ones(2)
        made = variable(data, requires_grad=True)
        assert made.requires_grad and made.is_leaf and not data.requires_grad
        assert isinstance(made, variable) and isinstance(made, lib.Tensor) and not isinstance(1.0, variable)
        data[0] = 5
        assert made.tolist() == [5.0, 1.0]
        assert variable().shape == (0,)
        with pytest.raises(TypeError, match="data has to be a tensor"):
            variable([1.0])


def test_the_node_of_a_leaf_has_metadata():
    for lib in (fg, torch):
        x = lib.ones(2, requires_grad=True)
        y = x.clone()
        y.grad_fn.next_functions[0][0].metadata["seen"] = 1
        assert y.grad_fn.next_functions[0][0].metadata == {"seen": 1}


def test_gradcheck_of_what_needs_no_gradient():
    for lib in (fg, torch):
        x = lib.ones(2, dtype=lib.float64, requires_grad=True)
        assert lib.autograd.gradcheck(lambda x: x.detach() * 0, (x,))
        with pytest.raises(RuntimeError, match="Numerical gradient for function expected to be zero"):
            lib.autograd.gradcheck(lambda x: x.detach() * 2, (x,))
