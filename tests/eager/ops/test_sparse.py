"""Sparse tensors beside PyTorch's: forms, products, sums, gradients; and in recorded runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

# Places that come twice, and not in order; one row is empty.
PLACES = [[2, 0, 2, 0, 3], [1, 2, 1, 0, 0]]
VALUES = [1.0, 2.0, 4.0, -3.0, 0.5]
DENSE = np.random.default_rng(0).standard_normal((3, 5))


def made(lib: Any, dtype: str = "float64", **more: Any) -> tuple[Any, Any]:
    """A sparse matrix [4, 3], and its values, which need gradients if they can."""
    values = lib.tensor(VALUES, dtype=getattr(lib, dtype))
    if dtype.startswith(("float", "complex")):
        values.requires_grad_()
    return lib.sparse_coo_tensor(lib.tensor(PLACES), values, (4, 3), **more), values


def dense(lib: Any, *shape: int, dtype: str = "float64") -> Any:
    numbers = np.random.default_rng(1).standard_normal(shape)
    return lib.tensor(numbers, dtype=getattr(lib, dtype), requires_grad=True)


# What is done with the sparse matrix, a dense one that fits it, and one as large.
DOINGS: dict[str, Any] = {
    "to_dense": lambda lib, a, x, y: a.to_dense(),
    "coalesced": lambda lib, a, x, y: a.coalesce().to_dense(),
    "values": lambda lib, a, x, y: a.coalesce().values(),
    "mm": lambda lib, a, x, y: lib.sparse.mm(a, x),
    "torch.mm": lambda lib, a, x, y: lib.mm(a, x),
    "spmm": lambda lib, a, x, y: lib.spmm(a, x),
    "matmul": lambda lib, a, x, y: lib.matmul(a, x),
    "@": lambda lib, a, x, y: a @ x,
    "coalesced @": lambda lib, a, x, y: a.coalesce() @ x,
    "@ vector": lambda lib, a, x, y: a @ x[:, 0],
    "dense @": lambda lib, a, x, y: y.t() @ a,
    "transposed": lambda lib, a, x, y: a.t() @ y,
    "transposed twice": lambda lib, a, x, y: a.transpose(0, 1).t().to_dense(),
    "addmm": lambda lib, a, x, y: lib.sparse.addmm(a.to_dense()[:, :1], a, x, beta=2.0, alpha=3.0),
    "sum": lambda lib, a, x, y: lib.sparse.sum(a),
    "sum of rows": lambda lib, a, x, y: lib.sparse.sum(a, 0).to_dense(),
    "sum of columns": lambda lib, a, x, y: lib.sparse.sum(a, -1).to_dense(),
    "sum of both": lambda lib, a, x, y: lib.sparse.sum(a, [0, 1]),
    "scaled": lambda lib, a, x, y: (2 * a * 3.0 / 4).to_dense(),
    "negative": lambda lib, a, x, y: (-a).to_dense(),
    "added": lambda lib, a, x, y: (a + 2 * a).to_dense(),
    "subtracted": lambda lib, a, x, y: (a - 3 * a).to_dense(),
    "added to dense": lambda lib, a, x, y: y + a,
    "a layer": lambda lib, a, x, y: lib.relu(a @ (x * 2).tanh()).square(),
    "twice": lambda lib, a, x, y: a.t() @ (a @ x),
}


@pytest.mark.parametrize("name", DOINGS)
def test_values_and_gradients(name: str) -> None:
    found = []
    for lib in (fg, torch):
        a, values = made(lib)
        x, y = dense(lib, 3, 5), dense(lib, 4, 3)
        result = DOINGS[name](lib, a, x, y)
        (result * result.detach().cos()).sum().backward()
        gradients = [np.zeros(()) if t.grad is None else t.grad.numpy() for t in (values, x, y)]
        found.append([result.detach().numpy(), *gradients])
    for mine, other in zip(*found, strict=True):
        assert mine.shape == other.shape
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "int64", "bool"])
def test_dtypes(dtype: str) -> None:
    for doing in (lambda a: a.to_dense(), lambda a: a.coalesce().values()):
        mine, other = (doing(made(lib, dtype)[0]).detach() for lib in (fg, torch))
        assert str(mine.dtype) == str(other.dtype)
        np.testing.assert_array_equal(mine.numpy(), other.numpy())
    if dtype in ("float32", "float64", "complex64"):
        found = []
        for lib in (fg, torch):
            a, values = made(lib, dtype)
            x = dense(lib, 3, 2, dtype=dtype)
            product = a @ x
            product.abs().sum().backward()
            found.append([t.numpy() for t in (product.detach(), values.grad, x.grad)])
        for mine, other in zip(*found, strict=True):
            assert mine.dtype == other.dtype
            np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


def test_what_it_is() -> None:
    for lib in (fg, torch):
        a, _ = made(lib)
        assert tuple(a.shape) == (4, 3) == tuple(a.size()) and a.size(1) == 3
        assert (a.dim(), a.sparse_dim(), a.dense_dim(), a._nnz(), a.numel()) == (2, 2, 0, 5, 12)
        assert a.is_sparse and a.layout == lib.sparse_coo and str(a.layout) == "torch.sparse_coo"
        assert a.requires_grad and not a.is_coalesced() and not a.detach().requires_grad
        once = a.coalesce()
        assert once.is_coalesced() and once.indices().tolist() == [[0, 0, 2, 3], [0, 2, 1, 0]]
        assert once.values().tolist() == [-3.0, 2.0, 5.0, 0.5]
        assert a._indices().tolist() == PLACES and a._values().tolist() == VALUES
        for ask in (a.indices, a.values):
            with pytest.raises(RuntimeError, match="on an uncoalesced tensor, please call"):
                ask()


def test_a_leaf_has_a_sparse_gradient() -> None:
    found = []
    for lib in (fg, torch):
        a = lib.sparse_coo_tensor(
            lib.tensor([[0, 1], [2, 0]]), lib.tensor([1.0, 2.0]), (2, 3), requires_grad=True
        )
        (a.to_dense() * 3).sum().backward()
        assert a.grad.is_sparse
        found.append(a.grad.to_dense().numpy())
    np.testing.assert_array_equal(*found)


def test_dense_dimensions() -> None:
    found = []
    for lib in (fg, torch):
        values = lib.arange(6.0).reshape(3, 2).requires_grad_()
        a = lib.sparse_coo_tensor(lib.tensor([[1, 0, 1]]), values, (3, 2))
        parts = [a.to_dense(), lib.sparse.sum(a, 0), lib.sparse.sum(a, 1).to_dense(), a.coalesce().values()]
        sum(p.square().sum() for p in parts).backward()
        found.append([p.detach().numpy() for p in parts] + [values.grad.numpy()])
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other)


def test_from_dense_and_old_names() -> None:
    matrix = [[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]
    found = []
    for lib in (fg, torch):
        a = lib.tensor(matrix).to_sparse()
        old = lib.sparse.FloatTensor(a.indices(), a.values(), lib.Size([2, 3]))
        inner = lib.tensor([[[0.0, 0.0], [1.0, 0.0]]]).to_sparse(2)
        found.append([a.indices(), a.values(), old.to_dense(), inner.indices(), inner.values()])
    for mine, other in zip(*found, strict=True):
        np.testing.assert_array_equal(mine.numpy(), other.numpy())


def test_gradients_twice() -> None:
    places = fg.tensor(PLACES)
    values = fg.tensor(VALUES, dtype=fg.float64, requires_grad=True)
    x = dense(fg, 3, 2)
    product = lambda v, x: (fg.sparse_coo_tensor(places, v, (4, 3)) @ x).tanh()  # noqa: E731
    assert fg.autograd.gradcheck(product, (values, x))
    assert fg.autograd.gradgradcheck(product, (values, x))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fg.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,)), "size is inconsistent with indices"),
        (lambda: fg.sparse_coo_tensor([[0, -1]], [1.0, 2.0], (3,)), "size is inconsistent with indices"),
        (lambda: fg.sparse_coo_tensor([[0, 1]], [1.0], (3,)), "must have same nnz"),
        (lambda: fg.sparse_coo_tensor([0, 1], [1.0], (3,)), "indices must be sparse_dim x nnz"),
        (lambda: fg.sparse_coo_tensor([[0]], [[1.0, 2.0]], (3,)), "values has incorrect size"),
        (lambda: made(fg)[0] @ fg.ones(4, 2), "cannot be multiplied"),
        (lambda: made(fg, "float32")[0] @ fg.ones(3, 2).double(), "same dtype"),
        (lambda: made(fg)[0] + fg.ones(3, 3).to_sparse(), "added of one shape"),
        (lambda: fg.relu(made(fg)[0]), "expected a Tensor or a number, got .*SparseTensor"),
        (lambda: made(fg)[0] @ made(fg)[0], "unsupported operand"),
        (lambda: fg.ones(2, requires_grad=True).to_sparse(), "to_sparse of a tensor that needs gradients"),
        (lambda: fg.sparse.sum(fg.ones(2)), "wants a sparse tensor"),
    ],
)
def test_errors(make: Any, message: str) -> None:
    with pytest.raises((RuntimeError, TypeError), match=message):
        make()


class GraphNet(fg.nn.Module):
    """Two layers of a graph convolutional network."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = fg.nn.Linear(6, 8), fg.nn.Linear(8, 3)

    def forward(self, x: fg.Tensor, adjacency: Any) -> fg.Tensor:
        hidden = fg.relu(fg.spmm(adjacency, self.first(x)))
        return fg.log_softmax(fg.sparse.mm(adjacency, self.second(hidden)), 1)


def graph(size: int, seed: int) -> Any:
    places = np.random.default_rng(seed).integers(0, size, (2, 4 * size))
    return fg.sparse_coo_tensor(fg.tensor(places), fg.full((4 * size,), 0.2), (size, size))


def test_a_graph_network_is_trained_in_recorded_steps() -> None:
    """The same numbers with and without jit, also for another graph, other values and another size."""
    losses: list[list[float]] = []
    for wrap in (fg.jit, lambda function: function):
        fg.manual_seed(0)
        net = GraphNet()
        optimizer = fg.optim.Adam(net.parameters(), lr=0.05)
        graphs = [graph(10, 0), graph(10, 1), graph(7, 2)]

        @wrap
        def step(x: fg.Tensor, labels: fg.Tensor, adjacency: Any, net: Any = net, by: Any = optimizer) -> Any:
            by.zero_grad()
            loss = fg.nn.functional.nll_loss(net(x, adjacency), labels)
            loss.backward()
            by.step()
            return loss

        losses.append([])
        for number in range(12):
            chosen = graphs[number % 3 if number > 5 else 0]
            if number == 4:
                chosen._values().mul_(2.0)
            x, labels = fg.randn(chosen.shape[0], 6), fg.randint(0, 3, (chosen.shape[0],))
            losses[-1].append(float(step(x, labels, chosen)))
    np.testing.assert_allclose(*losses, rtol=1e-4)


@pytest.mark.parametrize("name", DOINGS)
def test_recorded_runs(name: str) -> None:
    """The values change from call to call, the places too: results and gradients stay eager's."""

    def run(places: fg.Tensor, values: fg.Tensor, x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        a = fg.sparse_coo_tensor(places, values, (4, 3))
        return DOINGS[name](fg, a, x, y) * 2

    recorded = fg.jit(run)
    for number in range(5):
        places = fg.tensor(PLACES if number != 3 else [[0, 1, 2, 3, 3], [0, 0, 2, 2, 2]])
        found = []
        for function in (recorded, run):
            inputs = [dense(fg, 5), dense(fg, 3, 5), dense(fg, 4, 3)]
            inputs[0].data.add_(number)
            result = function(places, *inputs)
            result.square().sum().backward()
            found.append([result, *[fg.zeros(()) if t.grad is None else t.grad for t in inputs]])
        for mine, other in zip(*found, strict=True):
            assert fg.allclose(mine, other)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_what_it_is_is_told_by_all_names_for_it(dtype: str):
    told = []
    for lib in (fg, torch):
        x = lib.sparse_coo_tensor([[0, 1], [2, 0]], lib.tensor([1, 2]).to(getattr(lib, dtype)), (2, 3))
        asked = "dim ndimension numel nelement size is_floating_point is_complex element_size sparse_dim"
        found = [getattr(x, name)() for name in asked.split()]
        found.append(x.mT.to_dense().tolist())
        told.append([*found, x.ndim, x.is_leaf, x.is_sparse, x.requires_grad, tuple(x.shape)])
    assert told[0] == told[1]
