"""Indexing against PyTorch: random shapes, layouts and expressions, read, written and differentiated."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from oracle import torch

import fusegrad as fg

FEW = settings(max_examples=120, deadline=None, derandomize=True)
ERRORS = (IndexError, ValueError, TypeError, RuntimeError)


@st.composite
def arrays(draw: Any, least: int = 0) -> np.ndarray:
    """float64 arrays of up to four dimensions, empty ones and non-contiguous ones included."""
    shape = draw(st.lists(st.integers(0, 4) | st.just(3), min_size=least, max_size=4))
    steps = [draw(st.sampled_from((1, 1, 2))) for _ in shape]
    order = draw(st.permutations(range(len(shape))))
    whole = np.arange(1.0, 1 + np.prod([n * s for n, s in zip(shape, steps, strict=True)]))
    whole = whole.reshape([n * s for n, s in zip(shape, steps, strict=True)])
    return whole[(*(slice(None, None, s) for s in steps), ...)].transpose(order)


@st.composite
def indices(draw: Any, shape: tuple[int, ...]) -> Any:
    """An index for `shape`, which `built` turns into either library's; sometimes a wrong one."""
    entries: list[Any] = []
    length = draw(st.integers(0, 3))
    dim = 0
    ellipsis = False
    while dim < len(shape) and draw(st.integers(0, 4)):
        n = shape[dim]
        kind = draw(
            st.sampled_from("int slice slice none ellipsis bool list tensor tensor mask range array".split())
        )
        place = st.integers(-n, n - 1) if n else st.just(0)
        if kind == "int":
            entries.append(draw(place if draw(st.integers(0, 9)) else st.integers(-n - 2, n + 1)))
        elif kind == "slice":
            edge = st.none() | st.integers(-n - 1, n + 1)
            entries.append(slice(draw(edge), draw(edge), draw(st.none() | st.integers(1, 3))))
        elif kind == "none":
            entries.append(None)
            continue
        elif kind == "ellipsis":
            if ellipsis:
                continue
            ellipsis = True
            entries.append(...)
            dim = draw(st.integers(dim, len(shape)))
            continue
        elif kind == "bool":
            entries.append(draw(st.booleans()))
            continue
        elif kind == "mask":
            covered = shape[dim : dim + draw(st.integers(0, 2))]
            bits = draw(
                st.lists(st.booleans(), min_size=int(np.prod(covered)), max_size=int(np.prod(covered)))
            )
            entries.append(("tensor", np.array(bits, bool).reshape(covered)))
            dim += len(covered)
            continue
        else:
            count = draw(st.sampled_from((length, length, 1)))
            values = draw(st.lists(place, min_size=count, max_size=count))
            if kind == "range":
                entries.append(range(min(n, count)))
            elif kind == "list":
                entries.append(values)
            elif kind == "array":
                entries.append(np.array(values, np.int64))
            else:
                dtype = draw(st.sampled_from((np.int64, np.int32)))
                shape_ = draw(st.sampled_from(((count,), (1, count), (count, 1))))
                entries.append(("tensor", np.array(values, dtype).reshape(shape_)))
        dim += 1
    if len(entries) == 1 and draw(st.booleans()):
        return entries[0]
    return tuple(entries)


def built(index: Any, library: Any) -> Any:
    """The index with `library`'s tensors in it."""
    if isinstance(index, tuple) and len(index) == 2 and isinstance(index[0], str):
        return library.tensor(index[1])
    return tuple(built(e, library) for e in index) if isinstance(index, tuple) else index


def outcome(function: Any) -> Any:
    """What `function` gives, or the kind of error that it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function()
        except ERRORS as error:
            return next(k for k in ERRORS if isinstance(error, k))


def same(ours: Any, theirs: Any) -> bool:
    """Whether both failed alike; raises where results differ."""
    if isinstance(theirs, type) or isinstance(ours, type):
        assert ours is theirs
        return True
    for a, b in zip(ours, theirs, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    return False


def weights(shape: Any) -> np.ndarray:
    return np.random.default_rng(0).integers(1, 9, tuple(shape)).astype(float)


@st.composite
def cases(draw: Any) -> tuple[np.ndarray, Any]:
    x = draw(arrays())
    return x, draw(indices(x.shape))


@FEW
@given(cases())
@example((np.ones((2, 3)), (True, [0, 1])))
@example((np.ones((2, 3)), (("tensor", np.array(True)), 0)))
@example((np.ones((3, 3)), [[0, 1], [1, 2]]))
@example((np.ones((3, 3)), (slice(None, None, -1),)))
@example((np.ones((3, 3)), ("tensor", np.array([1, 0, 1], np.uint8))))
@example((np.ones((3, 3)), ("tensor", np.array([1, 0], np.int8))))
@example((np.ones((0, 3)), ("tensor", np.zeros((0, 3), bool))))
def test_reading_and_its_gradient(case: tuple[np.ndarray, Any]):
    x, index = case

    def read(library: Any) -> Any:
        leaf = library.from_numpy(x).requires_grad_()
        part = leaf[built(index, library)]
        (part * library.tensor(weights(part.shape))).sum().backward()
        return part, leaf.grad

    same(outcome(lambda: read(fg)), outcome(lambda: read(torch)))


@FEW
@given(cases(), st.sampled_from(("number", "scalar", "full", "row", "wrong")))
@example((np.ones(3), False), "wrong")
@example((np.ones((0, 3)), (False, slice(None), False)), "number")
@example((np.ones((0, 3, 0)), ([], range(0), np.array([0]))), "number")
def test_writing_and_its_gradient(case: tuple[np.ndarray, Any], kind: str):
    x, index = case
    part = outcome(lambda: torch.from_numpy(x)[built(index, torch)])
    size = () if isinstance(part, type) else tuple(part.shape)
    size = {"full": size, "row": size[-1:], "wrong": (7, 7)}.get(kind, ())
    repeated = isinstance(part, type) or len(set(part.reshape(-1).tolist())) < part.numel()
    # Which of several values written to one place stays is not said.
    filling = np.full(size, 0.5) if repeated else weights(size)

    def write(library: Any) -> Any:
        leaf = library.from_numpy(x).requires_grad_()
        value = library.tensor(filling).requires_grad_()
        y = leaf * 1
        y[built(index, library)] = 0.5 if kind == "number" else value
        (y * library.tensor(weights(y.shape))).sum().backward()
        return y, leaf.grad, library.zeros_like(value) if value.grad is None else value.grad

    ours, theirs = outcome(lambda: write(fg)), outcome(lambda: write(torch))
    if kind == "wrong" and isinstance(
        theirs, type
    ):  # the index may be wrong too: which error comes first is free
        assert isinstance(ours, type)
    else:
        same(ours, theirs)


@FEW
@given(arrays(least=1), st.data())
def test_functions_along_a_dimension(x: np.ndarray, data: Any):
    dim = data.draw(st.integers(-x.ndim, x.ndim - 1))
    n = x.shape[dim]
    count = data.draw(st.integers(0, 4)) if n else 0
    index = np.array(
        data.draw(st.lists(st.integers(0, max(0, n - 1)), min_size=count, max_size=count)), np.int64
    )
    size = list(x.shape)
    size[dim] = count
    source = weights(size)
    spread = np.broadcast_to(np.expand_dims(index, [d for d in range(x.ndim) if d != dim % x.ndim]), size)
    calls = {
        "index_select": lambda lib, a, i, s, j: lib.index_select(a, dim, i),
        "index_add": lambda lib, a, i, s, j: lib.index_add(a, dim, i, s, alpha=2),
        "index_fill": lambda lib, a, i, s, j: lib.index_fill(a, dim, i, 2.0),
        "gather": lambda lib, a, i, s, j: lib.gather(a, dim, j),
        "scatter_add": lambda lib, a, i, s, j: lib.scatter_add(a, dim, j, s),
        "amax": lambda lib, a, i, s, j: lib.scatter_reduce(a, dim, j, s, "amax"),
        "mean": lambda lib, a, i, s, j: lib.scatter_reduce(a, dim, j, s, "mean", include_self=False),
    }
    call = calls[data.draw(st.sampled_from(sorted(calls)))]

    def run(library: Any) -> Any:
        leaf, given_ = library.from_numpy(x).requires_grad_(), library.tensor(source).requires_grad_()
        result = call(
            library, leaf, library.tensor(index), given_, library.tensor(np.ascontiguousarray(spread))
        )
        (result * library.tensor(weights(result.shape))).sum().backward()
        return result, *(
            library.zeros(t.shape, dtype=t.dtype) if t.grad is None else t.grad for t in (leaf, given_)
        )

    ours, theirs = run(fg), run(torch)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)


def test_errors_name_the_dimension_and_its_size():
    x = fg.zeros(2, 3)
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 1 with size 3"):
        x[0:1, 3]
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 1 with size 3"):
        x[:, [0, 5]]
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 2"):
        x[0, 0, [0]]
    with pytest.raises(IndexError, match=r"shape of the mask \[3\] at index 0"):
        x[fg.tensor([True, False, True])]
    with pytest.raises(IndexError, match="index -1 is out of bounds for dimension 0"):
        fg.index_select(x, 0, fg.tensor([-1]))
    with pytest.raises(RuntimeError, match="index 7 is out of bounds for dimension 1 with size 3"):
        fg.gather(x, 1, fg.tensor([[7]]))


def test_a_list_of_lists_is_taken_for_a_tuple_with_a_warning():
    x = fg.arange(9).reshape(3, 3)
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[[0, 1], [1, 2]]].tolist() == [1, 5]


def test_out_takes_the_result_and_refuses_shared_memory():
    x, out = fg.arange(4.0), fg.zeros(0)
    assert fg.cat([x, x], out=out) is out and out.shape == (8,)
    with pytest.raises(RuntimeError, match="single memory location"):
        fg.take(x, fg.tensor([0, 1]), out=x[:2])


def test_warnings_about_an_index_name_the_line_that_reads():
    x = fg.ones(3, 4)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        x[[slice(0, 1), 0]]
        x[fg.ones(3, dtype=fg.uint8)]
    assert [w.filename for w in told] == [__file__, __file__]
