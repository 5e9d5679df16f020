"""How results lie in memory, as `stride()` and `is_contiguous()` tell: as PyTorch lays out its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from layouts import arrangements, placed, seen
from op_samples.table import SAMPLES, f, i
from oracle import torch

import fusegrad as fg

# Where ours lie otherwise, and why; by op, or by op and the number of its sample.
OTHERWISE = {
    # PyTorch's libraries choose: by sizes, dtypes and what they were built with.
    ("matmul", 6): "einsum gives a view of the product that it chose",
    ("convolution", 0): "1-dimensional convolutions with channels last, as oneDNN has them",
    ("convolution", 1): "as above",
    ("convolution", 2): "as above",
    ("convolution", 3): "as above",
    ("convolution", 8): "volumes with channels last, as oneDNN has them",
    ("conv_transpose", 0): "as above",
    ("conv_transpose", 1): "as above",
    ("conv_transpose", 2): "as above",
    "conv_weight": "a gradient: PyTorch's lie as the weight does",
    ("max_pool_put", 0): "a gradient: PyTorch's lie as the operand does",
    ("angle", 0): "PyTorch's loop over complex angles writes rows, that over real ones does not",
    # What LAPACK leaves in the memory of a larger or of a transposed matrix.
    "linalg_lstsq": "a part of the right-hand sides, with gaps",
    ("linalg_solve_ex", 4): "vectors of a batch, one in each column",
    ("linalg_solve_triangular", 3): "the reflectors' memory",
    ("linalg_solve_triangular", 4): "as above",
    # Views of one result, or copies of all the memory of a view.
    ("floor_divide", 3): "unravel_index gives columns of one table",
    ("diagonal_scatter", 0): "a view of a copy of all the memory, with its gaps",
    # Composed here of ops that merge dimensions, and so give rows.
    ("put", 0): "put",
    ("put", 1): "put",
    ("put", 2): "index_put with several index tensors",
    ("put", 8): "as_strided_scatter",
    ("resample", 6): "signals with channels last",
    ("resample", 8): "volumes with channels last, by area",
    ("resample", 26): "signals with channels last",
    ("max_pool_pick", 0): "as above",
    ("max_pool_place", 0): "as above",
    ("adaptive_max_place", 0): "as above",
}

# What no sample of an op shows.
PROGRAMS: dict[str, tuple[Callable[..., Any], Sequence[np.ndarray]]] = {
    "like": (
        lambda T, x: [g(x) for g in (T.zeros_like, T.ones_like, T.empty_like, T.rand_like, T.randn_like)],
        [f(2, 3, 4)],
    ),
    "like, with a number": (lambda T, x: [T.full_like(x, 2), T.randint_like(x, 5)], [f(2, 3, 4)]),
    "like, of another dtype": (lambda T, x: T.zeros_like(x, dtype=T.int64), [f(2, 3, 4)]),
    "either operand": (lambda T, x, y: [x + y, y + x, x * 2 + y], [f(3, 4), f(3, 4)]),
    "one over dimensions": (lambda T, x, y: [x + y, y - x], [f(2, 3, 4), f(3, 4)]),
    "two dtypes": (lambda T, x, y: [x + y, y * x, x > y], [f(3, 4), i(3, 4)]),
    "three operands": (lambda T, x, y, z: T.where(x > 0, y, z), [f(3, 4), f(3, 4), f(3, 4)]),
    "images side by side": (lambda T, x, y: [T.cat([x, y], 1), T.cat([x, y])], [f(2, 3, 4, 5)] * 2),
    "turned round": (lambda T, x: [x.flip(0), x.roll(1), x.roll(1, 0), T.rot90(x, 2)], [f(3, 4)]),
    "in order": (lambda T, x: [x.sort(0), x.argsort(), T.msort(x), x.topk(2)], [f(3, 4)]),
    "running": (lambda T, x: [x.cumsum(1), x.cumprod(0), x.cummax(1), x.logcumsumexp(0)], [f(3, 4)]),
    "rows of a table": (lambda T, x: [x[[1, 0]], x[:, [1, 0]], x.index_select(0, T.tensor([1]))], [f(3, 4)]),
    "two index tensors": (lambda T, x: x[[0, 1], [1, 0]], [f(3, 4, 5)]),
    "a mask": (lambda T, x: [x[x > 0], x.masked_fill(x > 0, 1.0), x.masked_select(x > 0)], [f(3, 4)]),
    "triangles": (lambda T, x: [x.tril(), x.triu(1)], [f(2, 3, 4)]),
    "over a dimension": (lambda T, x: [x.sum(0), x.amax(1), x.std(2), x.mean(1, True)], [f(3, 4, 5)]),
    "copies": (lambda T, x: [x.clone(), x.double(), x.contiguous(), x.reshape(-1)], [f(3, 4)]),
    "in place": (lambda T, x: [x.clone().mul_(2), x.clone().masked_fill_(x > 0, 1.0)], [f(3, 4)]),
    "powers": (lambda T, x: [x**2, 2**x, x**x, x.sqrt()], [f(3, 4, low=0.5)]),
    "images normalized": (
        lambda T, x: [T.nn.functional.group_norm(x, 2), T.nn.functional.instance_norm(x)],
        [f(2, 4, 3, 5)],
    ),
    "images in another order": (
        lambda T, x: [T.pixel_shuffle(x, 2), T.pixel_unshuffle(x, 2), T.channel_shuffle(x, 2)],
        [f(2, 8, 4, 6)],
    ),
    "images with something around": (
        lambda T, x: [
            T.nn.functional.pad(x, (1, 2, 0, 1), mode) for mode in ("constant", "reflect", "replicate")
        ],
        [f(2, 4, 3, 5)],
    ),
    "volumes": (
        lambda T, x: [T.nn.functional.group_norm(x, 2), T.nn.functional.pad(x, (1, 1, 1, 0, 0, 0))],
        [f(2, 4, 3, 2, 5)],
    ),
    "gradients of leaves": (lambda T, x: T.autograd.grad(x.requires_grad_().sin().sum(), x), [f(3, 4, 5)]),
    "products": (lambda T, x, y: [x @ y, x.mm(y), T.outer(x[0], y[0])], [f(3, 4), f(4, 3)]),
}


def dtyped(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype == np.float64 else array


def check(call: Callable[..., Any], inputs: Sequence[np.ndarray]) -> int:
    """Compare the results for all arrangements of the inputs; gives how many arrangements PyTorch takes."""
    count = 0
    for name, arrays in arrangements([dtyped(np.asarray(x)) for x in inputs]):
        try:
            expected = seen(call(torch, *[placed(torch, a) for a in arrays]))
        except RuntimeError:
            continue  # a view that strides cannot say, or a matrix that repeated values make singular
        try:
            found = seen(call(fg, *[placed(fg, a) for a in arrays]))
        except fg.linalg.LinAlgError:
            continue  # singular but for rounding
        strides = [tuple(s // a.itemsize for s in a.strides) for a in arrays]
        assert found == expected, f"{name}: {strides}"
        count += 1
    return count


@pytest.mark.parametrize("op", SAMPLES)
@pytest.mark.filterwarnings("ignore")
def test_results_lie_as_in_pytorch(op: str) -> None:
    for number, sample in enumerate(SAMPLES[op]):
        if op not in OTHERWISE and (op.removesuffix("_bias"), number) not in OTHERWISE:
            assert check(sample.call, sample.inputs), number


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_lies_as_in_pytorch(name: str) -> None:
    assert check(*PROGRAMS[name])


@pytest.mark.parametrize("key", OTHERWISE, ids=str)
def test_what_is_said_to_lie_otherwise_does(key: Any) -> None:
    op, numbers = (key[0], key[1:]) if isinstance(key, tuple) else (key, range(len(SAMPLES[key])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in numbers:
            sample = SAMPLES[op][number]
            try:
                check(sample.call, sample.inputs)
            except (AssertionError, RuntimeError):
                return
    pytest.fail("lies as in PyTorch")


def drawn(random: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    """Ones that lie in any order, with gaps or without."""
    order = random.permutation(len(shape))
    array = np.ones([shape[d] for d in order], np.float32)
    if random.random() < 0.3:
        array = np.repeat(array, 2, 0)[::2]
    return array.transpose(np.argsort(order))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(300))
def test_any_operands_of_one_op(seed: int) -> None:
    """Three operands, of which one has all elements, and others may be repeated."""
    random = np.random.default_rng(seed)
    shape = [int(n) for n in random.integers(2, 4, random.integers(2, 5))]
    arrays = [drawn(random, shape)]
    for _ in range(2):
        own = [n if random.random() < 0.8 else 1 for n in shape][int(random.random() < 0.2) :]
        arrays.append(drawn(random, own))
    x, y, z = (arrays[k] for k in random.permutation(3))

    def program(T: Any) -> Any:
        a, b, c = (placed(T, array) for array in (x, y, z))
        whole, other = placed(T, arrays[0]), placed(T, arrays[1])
        return [whole + other, other * whole, c * 2, T.lerp(a, b, c), T.addcmul(a, b, c)]

    assert seen(program(fg)) == seen(program(torch)), [array.strides for array in (x, y, z)]
