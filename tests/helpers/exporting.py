"""What the tests of exporting share: programs recorded without `export`, runs of ONNX files, examples."""

from __future__ import annotations

import os

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.export.program import Program
from fusegrad.tracer.ir.graph import Graph
from fusegrad.tracer.record.recorder import Recorder

FILE = os.path.basename(__file__)  # where the examples stand


def recorded(function, *tensors, name="function"):
    """A program from one run under the recorder alone."""
    recorder = Recorder()
    for i, tensor in enumerate(tensors):
        recorder.argument(tensor, f"x{i}", i)
    previous, state.interpreter = state.interpreter, recorder
    try:
        result = function(*tensors)
    finally:
        state.interpreter = previous
    results = result if isinstance(result, tuple) else (result,)
    outputs = tuple(recorder.value_of(r) if isinstance(r, Tensor) else r for r in results)
    drawn = {
        host.value: host.array(tensors) for host, _ in recorder.hosts
    }  # weights that are then written over
    constants = {**recorder.constants, **drawn}
    inputs = (*recorder.inputs, *recorder.captured, *constants)
    graph = Graph(inputs, tuple(recorder.equations), outputs)
    return Program(name, graph, tuple(recorder.inputs), dict(recorder.captured), constants, tensors)


def run_onnx(data, *arrays):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    feeds = {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)}
    return session.run(None, feeds)


def tensor(*shape, seed=0, dtype="float32"):
    return wrap(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


WEIGHT = tensor(6, 4, seed=1)
LARGE = tensor(30, 20, seed=2)
SMALL = wrap(np.array([np.nan, -0.0, np.inf, -np.inf, 0.1, 1e-45], "float32"))


def network(x, bias):
    h = fg.tanh(x @ WEIGHT + bias)
    return (h * h).sum(), h


def branching(x):
    h = x * 2.0
    if h.sum() > 0:
        return h + 1.0
    return h - 1.0


def positive(n=3):
    return wrap(np.abs(np.random.default_rng(4).standard_normal(n)).astype("float32"))
