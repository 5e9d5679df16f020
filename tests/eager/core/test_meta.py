"""Tensors of the meta device: what ops give has the CPU's shapes, dtypes and strides, and no values."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from op_samples import SAMPLES
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.core.places import meta_ops
from fusegrad.eager.core.state import in_modes, modes

EVERY = 6  # of the samples the suite takes each sixth


def described(result, on_meta):
    """Shapes, dtypes and strides of what an op gave; on the meta device there are no values besides."""
    found = result if isinstance(result, (list, tuple)) else [result]
    told = []
    for one in found:
        if isinstance(one, fg.Tensor):
            assert one.is_meta == on_meta
            told.append((tuple(one.shape), one.dtype, one.stride(), one.requires_grad))
        elif isinstance(one, (list, tuple)):
            told.append(described(one, on_meta))
    return told


def samples(every=EVERY):
    rows = [(name, sample) for name, listed in sorted(SAMPLES.items()) for sample in listed]
    return rows[::every]


def compare(name, sample):
    """Whether the op answers on the meta device; if it does, as on the CPU."""
    given = [fg.tensor(x, requires_grad=x.dtype.kind == "f") for x in sample.inputs]
    try:
        right = sample.call(fg, *given)
    except Exception:
        return None
    if not given or any(t._version for t in given):
        return None  # it writes, or there is nothing that could be on another device
    try:
        found = sample.call(fg, *[t.detach().to("meta").requires_grad_(t.requires_grad) for t in given])
    except (RuntimeError, NotImplementedError, TypeError):
        return False
    assert described(found, True) == described(right, False), name
    return True


def test_ops_answer_by_their_types():
    told = {True: [], False: [], None: []}
    for name, sample in samples():
        told[compare(name, sample)].append(name)
    assert len(told[True]) > 5 * len(told[False]), told[False]


@pytest.mark.parametrize("planted", ["order", "dtype"])
def test_answers_that_differ_are_found(monkeypatch, planted):
    plain = meta_ops.meta_array
    if planted == "order":
        monkeypatch.setattr(meta_ops, "meta_array", lambda shape, dtype, strides=None: plain(shape, dtype))
    else:
        half = lambda shape, dtype, strides=None: plain(shape, np.dtype(np.float16), None)  # noqa: E731
        monkeypatch.setattr(meta_ops, "meta_array", half)
    assert finds(test_ops_answer_by_their_types)


# Lines of programs, for both libraries: what comes of them, or the kind of the error.
LINES = [
    "s.item()",
    "bool(s)",
    "int(s)",
    "float(s)",
    "[1, 2][T.empty((), dtype=T.int64, device='meta')]",
    "x.tolist()",
    "x.numpy()",
    "np.asarray(x)",
    "f'{s}'",
    "x",
    "T.empty(2, 3, dtype=T.float64, device='meta', requires_grad=True)",
    "T.nn.Parameter(x)",
    "T.empty(2, 3, device='meta', requires_grad=True) * 2",
    "x.cpu()",
    "x.to('cpu')",
    "x.data_ptr()",
    "x.get_device()",
    "x.copy_(c)",
    "c.copy_(x)",
    "x + T.tensor(2.0)",
    "x[T.tensor([0, 1])]",
    "x.nonzero()",
    "copy.deepcopy(x)",
    "T.stack([T.empty(2, 3, 4, device='meta')] * 2, 1)",
    "T.stack([T.empty(2, 3, 4, 5, device='meta')] * 2)",
    "pickle.loads(pickle.dumps(x))",
    "T.where(x > 0, x, 0.0)",
    "T.equal(x, x)",
    "T.nn.Linear(2, 2, device='meta').to('cpu')",
    "T.nn.Linear(2, 2, device='meta').to_empty(device='cpu').weight.device",
    "T.nn.Linear(2, 2).to('meta').weight",
    "T.nn.Linear(2, 2).to_empty(device='meta').weight",
    "T.nn.Linear(2, 2, device='meta')(T.empty(3, 2, device='meta'))",
    "T.nn.LSTM(2, 3, device='meta').weight_hh_l0",
    "(x.is_meta, x.is_cpu, x.device == T.device('meta'), str(x.device))",
    "T.empty(2, 3, 4, device='meta').permute(2, 0, 1).add(1).stride()",
    "x.uniform_()",
    "x.add_(1)",
    "x.__setitem__(0, 1.0)",
    "len(x)",
    "list(x)[0]",
    "1 in x",
    "T.zeros_like(x)",
    "T.zeros_like(x, device='cpu')",
    "x.new_ones(2)",
    "x.new_ones(2, device='cpu')",
    "c.new_ones(2, device='meta')",
    "T.rand_like(x)",
    "T.tensor(c, device='meta')",
    "x.untyped_storage().device, x.untyped_storage().nbytes(), x.untyped_storage().data_ptr()",
    "T.empty(1 << 20, 1 << 20, device='meta') @ T.empty(1 << 20, 3, device='meta')",
    "T.get_default_device()",
]
INSIDE = [
    "T.zeros_like(c).device",
    "c.new_zeros(2).device",
    "T.tensor([1, 2])",
    "T.as_tensor(c).device",
    "T.from_numpy(np.ones(2)).device",
    "T.Tensor(2).device",
    "T.ones(2, device='cpu').device",
    "T.ones(2, device='cpu').mean()",
    "T.get_default_device()",
    "T.hann_window(3).device",
    "T.randperm(3).device",
    "T.normal(0.0, 1.0, (2,)).device",
    "T.tril_indices(2, 2).device",
    "T.arange(3), T.linspace(0, 1, 3), T.eye(2), T.full((2,), 3)",
    "T.rand(2), T.randn(2), T.randint(3, (2,))",
    "T.nn.Linear(2, 3).weight",
    "T.nn.Linear(2, 3, device='cpu').weight.device",
    "T.nn.Transformer(4, 1, 1, 1, 4).encoder.layers[0].linear1.weight",
    "T.nn.Embedding(3, 4)(T.tensor([1]))",
    "(c * 2).sum()",
]


def outcome(T, line, mode=None):
    names = {"T": T, "np": np, "copy": copy, "pickle": pickle, "c": T.ones(3)}
    names |= {"x": T.empty(3, device="meta"), "s": T.empty((), device="meta")}
    try:
        if mode is None:
            return repr(eval(line, names))
        with T.device(mode):
            return repr(eval(line, names))
    except Exception as error:
        # PyTorch says of some that they are not implemented, and of others how they are wrong.
        return "RuntimeError" if isinstance(error, RuntimeError) else type(error).__name__


@pytest.mark.parametrize("line", LINES)
def test_what_programs_ask_is_answered_as_by_torch(line):
    assert outcome(fg, line) == outcome(torch, line)


@pytest.mark.parametrize("line", INSIDE)
def test_what_is_made_in_a_block_is_there_as_in_torch(line):
    assert outcome(fg, line, "meta") == outcome(torch, line, "meta")


def test_blocks_end_and_nest():
    with fg.device("meta"):
        with fg.device("cpu"):
            assert fg.ones(1).device.type == "cpu"
        assert fg.ones(1).is_meta
    assert fg.ones(1).device.type == fg.get_default_device().type == "cpu"
    with in_modes(modes()):
        fg.set_default_device("meta")
        try:
            assert fg.ones(1).is_meta
        finally:
            fg.set_default_device("cpu")
        assert fg.ones(1).is_cpu


def test_a_default_that_is_set_in_a_block_is_in_effect_at_once_and_outlives_it():
    with in_modes(modes()):
        try:
            with fg.device("cpu"):
                fg.set_default_device("meta")
                assert fg.ones(1).is_meta
            assert fg.ones(1).is_meta
            with fg.device("meta"):
                fg.set_default_device(None)
                assert fg.ones(1).is_meta
            assert fg.ones(1).is_cpu
        finally:
            fg.set_default_device(None)


def test_gradients_are_meta_tensors():
    layer = fg.nn.Linear(3, 4, device="meta")
    for _ in range(2):
        fg.nn.functional.relu(layer(fg.ones(2, 3, device="meta"))).sum().backward()
    assert layer.weight.grad.is_meta and layer.weight.grad.shape == layer.weight.shape


def test_no_numbers_are_drawn():
    fg.manual_seed(3)
    right = fg.rand(2)
    fg.manual_seed(3)
    with fg.device("meta"):
        fg.rand(5), fg.nn.Linear(3, 3)
    fg.empty(4, device="meta").normal_()
    assert fg.equal(fg.rand(2), right)


def test_jitted_functions_do_not_replay_them():
    @fg.jit
    def function(x):
        return (x * 2 + fg.ones(3)).sum()

    for _ in range(3):
        assert function(fg.ones(3)).item() == 9
    for _ in range(3):
        assert function(fg.ones(3, device="meta")).is_meta
        with fg.device("meta"):
            assert function(fg.ones(3, device="cpu")).is_meta
        assert function(fg.ones(3)).item() == 9

    weight = fg.ones(3, device="meta")
    doubled = fg.jit(lambda: weight * 2)
    assert all(doubled().is_meta for _ in range(4))
    linear = fg.nn.Linear(3, 3)
    applied = fg.jit(lambda x: linear(x).sum())
    for _ in range(3):
        assert applied(fg.ones(1, 3)).is_cpu
    linear.to("meta")
    assert applied(fg.ones(1, 3, device="meta")).is_meta
