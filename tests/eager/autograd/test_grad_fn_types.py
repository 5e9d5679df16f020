"""`type(grad_fn).__name__`, which programs draw graphs by: PyTorch's names, along the whole graph."""

from __future__ import annotations

import pytest
from op_samples import SAMPLES
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.autograd import leaf_node

EVERY = 3


def made(T, sample):
    """What an op gives that needs a gradient."""
    given = [T.tensor(x, requires_grad=x.dtype.kind in "fc") for x in sample.inputs]
    result = sample.call(T, *given)
    results = result if isinstance(result, (list, tuple)) else [result]
    return [x for x in results if isinstance(x, T.Tensor) and x.grad_fn is not None]


def first(results):
    return [type(x.grad_fn).__name__ for x in results]


def along(node, depth=6):
    """The names of the nodes below one."""
    if node is None or not depth:
        return None
    below = [along(following, depth - 1) for following, _ in node.next_functions]
    return type(node).__name__, below


def samples(every):
    rows = [(name, sample) for name, listed in sorted(SAMPLES.items()) for sample in listed]
    return rows[::every]


def differences(every):
    """The ops whose results have nodes of another name than PyTorch's."""
    found = []
    for name, sample in samples(every):
        try:
            right, got = made(torch, sample), made(fg, sample)
        except Exception:
            continue
        if first(got) != first(right):
            found.append((name, first(got), first(right)))
    return found


# Ops some of whose samples are functions that are made of other ops than PyTorch's, or of one where that has
# more; with gradients of gradients among them.
APART = frozenset(
    """
    adaptive_max_place assign avg_pool_spread cat cdist clamp col2im conv_weight coo_product
    diagonal_scatter div elu embedding_bag_max exp expand floor_divide fractional_max_place gather
    geqrf gru_cell im2col l1_loss leaky_relu lgamma linalg_cofactors linalg_inv_ex linalg_lstsq
    linalg_lu_factor_ex linalg_solve_ex linalg_solve_triangular linalg_svdvals linear_recurrence
    linspace log_gamma_draw log_sigmoid log_softmax logsumexp lstm_cell lu_permutation matmul
    nll_loss nll_loss_weighted norm permute pixel_pick pixel_put pow put resample reshape rsqrt
    scatter scatter_reduce sign softmax sort special_ndtr special_zeta standardize
    standardize_affine sum take time_steps where
    """.split()
)


def test_the_last_node_of_each_op_has_its_name():
    found = differences(EVERY)
    assert not [row for row in found if row[0] not in APART], found
    assert len(found) < len(samples(EVERY)) / 5


PROGRAMS = {
    "a loss": lambda T, x: T.nn.functional.cross_entropy(x, T.tensor([0, 2])),
    "branches": lambda T, x: T.cat([x.exp(), x.sin()]).std(),
    "a part is written": lambda T, x: _written(x.clone()),
    "a matrix": lambda T, x: (x.exp() @ x.t()).logsumexp(0),
    "views": lambda T, x: x.t()[0].expand(2, 2).transpose(0, 1).unsqueeze(0),
}


def _written(x):
    x[0] = 1.0
    return x * x


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_have_the_same_nodes(name):
    found = []
    for T in (fg, torch):
        x = T.tensor([[0.3, 1.0, -0.5], [0.2, 0.7, 0.1]], requires_grad=True)
        found.append(along(PROGRAMS[name](T, x).grad_fn))
    assert found[0] == found[1]


def test_named_nodes_are_what_they_were():
    x = fg.rand(3, requires_grad=True)
    y = x[0] * x.exp().sum()
    node = y.grad_fn
    assert type(node) is type((x * x).grad_fn) and type(node).__name__ == node.name() == "MulBackward0"
    assert isinstance(node, fg.autograd.graph.Node) and repr(node).startswith("<MulBackward0")
    assert node.next_functions[0][0] is node.next_functions[0][0]
    (first,) = fg.autograd.grad(y, x, retain_graph=True)
    y.backward()
    assert fg.equal(first, x.grad)


def test_nodes_of_compiled_calls_have_names():
    function = fg.jit(lambda x: (x * 2).sum())
    for _ in range(4):
        x = fg.ones(3, requires_grad=True)
        y = function(x)
        assert type(y.grad_fn).__name__ == "SumBackward0"
        y.backward()
        assert x.grad.tolist() == [2, 2, 2]


def test_nodes_without_classes_of_their_own_are_found(monkeypatch):
    monkeypatch.setattr("fusegrad.eager.autograd.writes.lagging.named", lambda node: node)
    assert finds(test_the_last_node_of_each_op_has_its_name)
    assert leaf_node.named(None) is None
