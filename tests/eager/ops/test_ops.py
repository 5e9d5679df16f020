"""Every op against PyTorch, driven by the table of samples."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from op_samples import SAMPLES, Sample
from oracle import torch

import fusegrad as fg
from fusegrad.eager.core.families import Composite
from fusegrad.eager.core.op import REGISTRY, Op, TensorType, evaluate
from fusegrad.eager.core.state import Interpreter, no_grad, state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.library.opaque import OpaqueCall
from fusegrad.eager.ranks.exchange_op import BeginOp, EndOp, ExchangeOp
from fusegrad.tracer.observe.arrays.foreign import ForeignOp

CASES = [
    pytest.param(s, id=f"{name}-{k}") for name, samples in SAMPLES.items() for k, s in enumerate(samples)
]
DTYPES = ["float32", "float64"]
TOLERANCE = {"float32": {"rtol": 1e-5, "atol": 2e-6}, "float64": {"rtol": 1e-10, "atol": 1e-12}}


def arrays(sample: Sample, dtype: str) -> list[np.ndarray]:
    return [a.astype(dtype) if a.dtype == np.float64 else a for a in sample.inputs]


def parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def tensors(namespace: Any, sample: Sample, dtype: str, requires_grad: bool) -> list[Any]:
    made = [namespace.tensor(a) for a in arrays(sample, dtype)]
    for tensor in made:
        if requires_grad and tensor.is_floating_point():
            tensor.requires_grad_()
    return made


def numpy(tensor: Any) -> np.ndarray:
    return tensor.detach().numpy(force=True)


def same(ours: Any, theirs: Any, single: bool = False) -> None:
    a, b = numpy(ours), numpy(theirs)
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    tolerance = TOLERANCE["float64" if a.dtype == np.float64 and not single else "float32"]
    np.testing.assert_allclose(a, b, **tolerance)


BEFORE_ALL_TESTS = frozenset(REGISTRY)  # others make ops of their own


def test_the_table_covers_every_op():
    # No ops that a user calls are the tracer's guard, rounds, and what takes a number that varies in place of
    # another op (`clamp_by_min` is made when that is met); users' own ops, ranks' and those of
    # other libraries have tests of their own.
    siblings = {op.numbers_vary.name for op in REGISTRY.values() if isinstance(op.numbers_vary, Op)}
    siblings |= {name for name in REGISTRY if name.partition("_by_")[0] in REGISTRY.keys() - {name}}
    families = ("guard", "rolled")
    elsewhere = (OpaqueCall, ExchangeOp, BeginOp, EndOp, ForeignOp)
    ours = {n: op for n, op in REGISTRY.items() if n in BEFORE_ALL_TESTS or n in SAMPLES}
    known = {n for n, op in ours.items() if op.family not in families and not isinstance(op, elsewhere)}
    assert set(SAMPLES) == known - (siblings - set(SAMPLES))


class Seen(Interpreter):
    """Notes which ops run, and checks their shape and dtype rules on the way."""

    def __init__(self) -> None:
        self.ops: set[str] = set()

    def bind(self, op: Any, args: Any, params: Any) -> Any:
        self.ops.add(op.name)
        result = evaluate(op, args, params)
        types = [TensorType(a.array.shape, a.array.dtype) if isinstance(a, Tensor) else a for a in args]
        inferred = op.infer(types, params)
        given = tuple(TensorType(r.array.shape, r.array.dtype) for r in parts(result))
        assert (inferred if isinstance(result, tuple) else (inferred,)) == given, op
        self.check_decomposition(op, args, params, result)
        return result

    def follows(self, x: Any, index: Any, dim: int) -> bool:
        return True

    def check_decomposition(self, op: Any, args: Any, params: Any, result: Any) -> None:
        if not isinstance(op, Composite):
            return
        state.interpreter = None
        try:
            with no_grad():
                again = op.decompose(*args, **params)
        finally:
            state.interpreter = self
        for made, given in zip(parts(again), parts(result), strict=True):
            np.testing.assert_allclose(made.array, given.array, rtol=1e-5, atol=1e-6)
            assert made.array.dtype == given.array.dtype

    def decides_size(self, what: str, tensor: Any, asked: Any, count: Any) -> int:
        return int(count())

    def check(self, tensor: Any, passed: Any, within: Any = ()) -> bool:
        assert passed().array.item()
        return True


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_run_their_op_and_its_rules_agree(name: str):
    seen = Seen()
    for sample in SAMPLES[name]:
        made = tensors(fg, sample, "float32", False)
        state.interpreter = seen
        try:
            sample.call(fg, *made)
        finally:
            state.interpreter = None
    assert name in seen.ops or name == "stack"  # of a stack each sees what it is made of


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sample", CASES)
def test_values_and_gradients_are_torchs(sample: Sample, dtype: str):
    ours_in = tensors(fg, sample, dtype, sample.gradients)
    theirs_in = tensors(torch, sample, dtype, sample.gradients)
    ours, theirs = parts(sample.call(fg, *ours_in)), parts(sample.call(torch, *theirs_in))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if sample.random:
            assert a.shape == tuple(b.shape) and repr(a.dtype) == repr(b.dtype)
        else:
            same(a, b, sample.single)
            assert a.requires_grad == b.requires_grad
    if not sample.gradients or not theirs[0].requires_grad:
        return
    weights = np.random.default_rng(1).uniform(0.5, 1.5, ours[0].shape).astype(numpy(ours[0]).dtype)
    (ours[0] * fg.tensor(weights)).sum().backward()
    (theirs[0] * torch.tensor(weights)).sum().backward()
    for a, b in zip(ours_in, theirs_in, strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            same(a.grad, b.grad, sample.single)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("sample", [c for c in CASES if c.values[0].second and c.values[0].gradients])
def test_second_derivatives_are_torchs(sample: Sample):
    found = []
    for namespace in (fg, torch):
        inputs = tensors(namespace, sample, "float64", True)
        leaves = [x for x in inputs if x.requires_grad]
        result = parts(sample.call(namespace, *inputs))[0]
        if not result.requires_grad:
            return
        weights = np.random.default_rng(1).uniform(0.5, 1.5, tuple(result.shape))
        loss = (result * namespace.tensor(weights)).sum()
        first = namespace.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
        total = sum((g * g).sum() for g in first if g is not None and g.requires_grad)
        if isinstance(total, int):
            found.append([np.zeros(x.shape) for x in leaves])
            continue
        second = namespace.autograd.grad(total, leaves, allow_unused=True)
        found.append(
            [np.zeros(x.shape) if g is None else numpy(g) for g, x in zip(second, leaves, strict=True)]
        )
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float32", "float64"])
def test_clamped_by_tensors_has_the_dtype_of_all_three(dtype):
    kinds, shapes = "uint8 int32 int64 float16 float32 float64".split(), [(), (3,)]

    def found(lib):
        bounds = [lib.ones(s, dtype=getattr(lib, d)) for s in shapes for d in kinds]
        x = lib.ones(3, dtype=getattr(lib, dtype))
        return [str(lib.clamp(x, low, high).dtype) for low, high in itertools.product(bounds, bounds)]

    assert found(fg) == found(torch)
