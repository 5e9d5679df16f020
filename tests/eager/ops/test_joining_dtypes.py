"""Joining, padding and unpacking tensors of two dtypes, against torch: result dtypes, and exact integers."""

from __future__ import annotations

import itertools
import warnings

import pytest
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.core import dtypes

DTYPES = ["bool", "uint8", "int16", "int64", "float16", "float32", "float64", "complex64"]
LARGE = 2**53 + 1  # which no float64 holds


def of(T, dtype, shape):
    return T.full(shape, LARGE if dtype == "int64" else 1, dtype=getattr(T, dtype))


# Each of two dtypes, the second of which some do not use.
CALLS = {
    "cat": lambda T, a, b: T.cat([of(T, a, (2,)), of(T, b, (1,))]),
    "cat e": lambda T, a, b: T.cat([of(T, a, (0,)), of(T, b, (1,))]),
    "cat e2": lambda T, a, b: T.cat([of(T, a, (0,)), of(T, b, (1, 2))]),
    "cat e3": lambda T, a, b: T.cat([of(T, a, (2,)), of(T, b, (0,))]),
    "cat ee": lambda T, a, b: T.cat([of(T, a, (0,)), of(T, b, (0,))]),
    "stack": lambda T, a, b: T.stack([of(T, a, (2,)), of(T, b, (2,))]),
    "stack0": lambda T, a, b: T.stack([of(T, a, ()), of(T, b, ())]),
    "stack e": lambda T, a, b: T.stack([of(T, a, (0,)), of(T, b, (0,))]),
    "hstack": lambda T, a, b: T.hstack([of(T, a, (2,)), of(T, b, (0,))]),
    "hstack0": lambda T, a, b: T.hstack([of(T, a, ()), of(T, b, ())]),
    "vstack": lambda T, a, b: T.vstack([of(T, a, (2,)), of(T, b, (2,))]),
    "dstack": lambda T, a, b: T.dstack([of(T, a, (2,)), of(T, b, (2,))]),
    "column_stack": lambda T, a, b: T.column_stack([of(T, a, (2,)), of(T, b, (2,))]),
    "block_diag": lambda T, a, b: T.block_diag(of(T, a, (2, 2)), of(T, b, (1, 1))),
    "block_diag e": lambda T, a, b: T.block_diag(of(T, a, (0, 0)), of(T, b, (1, 1))),
    "cartesian_prod": lambda T, a, b: T.cartesian_prod(of(T, a, (2,)), of(T, b, (2,))),
    "broadcast": lambda T, a, b: T.broadcast_tensors(of(T, a, (2,)), of(T, b, (1,)))[0],
    "meshgrid": lambda T, a, b: T.meshgrid(of(T, a, (2,)), of(T, b, (1,)), indexing="ij")[0],
    "pad_sequence": lambda T, a, b: T.nn.utils.rnn.pad_sequence([of(T, a, (2,)), of(T, b, (1,))]),
    "pad_sequence v": lambda T, a, b: T.nn.utils.rnn.pad_sequence(
        [of(T, a, (2,)), of(T, a, (1,))], padding_value=1.5
    ),
    "pad_packed": lambda T, a, b: T.nn.utils.rnn.pad_packed_sequence(
        T.nn.utils.rnn.pack_sequence([of(T, a, (2,)), of(T, a, (1,))])
    )[0],
    "pad_packed v": lambda T, a, b: T.nn.utils.rnn.pad_packed_sequence(
        T.nn.utils.rnn.pack_sequence([of(T, a, (2,)), of(T, a, (1,))]), padding_value=2.5
    )[0],
    "unpack": lambda T, a, b: T.nn.utils.rnn.unpack_sequence(
        T.nn.utils.rnn.pack_sequence([of(T, a, (2,)), of(T, a, (1,))])
    )[1],
    "pack mixed": lambda T, a, b: T.nn.utils.rnn.pack_sequence([of(T, a, (2,)), of(T, b, (1,))]).data,
    "unpad": lambda T, a, b: T.nn.utils.rnn.unpad_sequence(of(T, a, (2, 2)), T.tensor([2, 1]))[1],
    "pad": lambda T, a, b: T.nn.functional.pad(of(T, a, (2,)), (1, 1)),
    "pad v": lambda T, a, b: T.nn.functional.pad(of(T, a, (2,)), (1, 1), value=2),
    "pad vf": lambda T, a, b: T.nn.functional.pad(of(T, a, (2,)), (1, 1), value=2.5),
    "constant_pad_nd": lambda T, a, b: T.constant_pad_nd(of(T, a, (2,)), (1, 1), 1),
    "masked_fill": lambda T, a, b: of(T, a, (2,)).masked_fill(T.tensor([True, False]), 0),
    "where": lambda T, a, b: T.where(T.tensor([True, False]), of(T, a, (2,)), of(T, b, (2,))),
    "where e": lambda T, a, b: T.where(T.tensor([], dtype=T.bool), of(T, a, (0,)), of(T, b, (0,))),
    "add e": lambda T, a, b: of(T, a, (0,)) + of(T, b, (0,)),
    "add e1": lambda T, a, b: of(T, a, (0,)) + of(T, b, (1,)),
    "add 0d": lambda T, a, b: of(T, a, (0,)) + of(T, b, ()),
    "scatter": lambda T, a, b: T.zeros(3, dtype=getattr(T, a)).scatter(0, T.tensor([0]), of(T, a, (1,))),
    "diag_embed": lambda T, a, b: T.diag_embed(of(T, a, (2,))),
    "diagflat": lambda T, a, b: T.diagflat(of(T, a, (2,))),
    "tril": lambda T, a, b: of(T, a, (2, 2)).tril(),
    "repeat_interleave": lambda T, a, b: T.repeat_interleave(of(T, a, (2,)), 2),
    "atleast": lambda T, a, b: T.atleast_2d(of(T, a, ())),
    "append": lambda T, a, b: T.diff(of(T, a, (3,)), append=of(T, a, (1,))),
    "combinations": lambda T, a, b: T.combinations(of(T, a, (3,))),
    "vander": lambda T, a, b: T.vander(of(T, a, (3,)), 2),
    "select_scatter": lambda T, a, b: T.select_scatter(of(T, a, (2, 2)), of(T, b, (2,)), 0, 0),
    "slice_scatter": lambda T, a, b: T.slice_scatter(of(T, a, (2, 2)), of(T, b, (1, 2)), 0, 0, 1),
    "diagonal_scatter": lambda T, a, b: T.diagonal_scatter(of(T, a, (2, 2)), of(T, b, (2,))),
    "roll": lambda T, a, b: of(T, a, (3,)).roll(1),
    "nan_to_num": lambda T, a, b: T.nan_to_num(of(T, a, (3,))),
    "clamp": lambda T, a, b: of(T, a, (3,)).clamp(max=of(T, b, (3,))),
    "one_hot": lambda T, a, b: T.nn.functional.one_hot(T.tensor([0])),
    "index_put": lambda T, a, b: of(T, a, (3,)).index_put((T.tensor([0]),), of(T, a, (1,))),
    "kron": lambda T, a, b: T.kron(of(T, a, (2,)), of(T, b, (2,))),
    "outer": lambda T, a, b: T.outer(of(T, a, (2,)), of(T, a, (2,))),
    "lerp": lambda T, a, b: T.lerp(of(T, a, (2,)), of(T, a, (2,)), of(T, a, (2,))),
}


def outcome(T, call, a, b):
    try:
        result = call(T, a, b)
    except Exception:
        return "refused"
    return str(result.dtype), result.tolist()


@pytest.mark.parametrize("name", CALLS)
def test_dtypes_and_values(name):
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for a, b in itertools.product(DTYPES, DTYPES):
            if name == "add 0d" and (a, b) == ("float16", "complex64"):
                continue  # there is no complex32 here
            found, right = (outcome(T, CALLS[name], a, b) for T in (fg, torch))
            if found != right:
                wrong.append((a, b, found, right))
    assert not wrong


def test_packed_sequences_are_converted():
    kinds = ["double", "float", "half", "long", "int", "short", "char", "byte", "cpu"]

    def program(T):
        rnn = T.nn.utils.rnn
        packed = rnn.pack_sequence([T.tensor([1.0, 2.0]), T.tensor([4.0])], enforce_sorted=False)
        found = [str(getattr(packed, kind)().data.dtype) for kind in kinds]
        again = packed.long()
        return found, packed.is_cuda, type(again) is rnn.PackedSequence, again.sorted_indices.tolist()

    assert program(fg) == program(torch)
    with pytest.raises(RuntimeError):
        fg.nn.utils.rnn.pack_sequence([fg.ones(2)]).cuda()


def test_results_of_the_first_dtype_are_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dtypes, "promote", lambda first, other: first)
    assert finds(test_dtypes_and_values, "cat")
