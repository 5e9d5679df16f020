"""What the tests of exporting share: programs recorded without `export`, runs of ONNX files, examples."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import nn
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.pytree import flatten
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.nn import functional as F
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
    leaves: list = []
    call, given = flatten((tensors, {}), leaves), tuple(recorder.inputs)
    put_together, present = flatten(results, []), (True,) * len(results)
    captured = dict(recorder.captured)
    return Program(
        name, graph, given, captured, constants, tensors, call, tuple(leaves), put_together, present, {}
    )


def run_onnx(data, *arrays):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    feeds = {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)}
    return session.run(None, feeds)


def can_link() -> bool:
    """Whether libraries can be written here."""
    from fusegrad.compiler.library import files

    return sys.platform.startswith("linux") and files._linker() is not None


def run_library(path, given, expected):
    """What a library's function gives for arrays; expected: arrays like its results."""
    results = [np.full(array.shape, 7, array.dtype) for array in expected]
    function = getattr(ctypes.CDLL(str(path)), path.stem)
    code = function(*(ctypes.c_void_p(array.ctypes.data) for array in (*given, *results)))
    assert code == 0, f"the code {code}"
    return results


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


def convolutional() -> nn.Module:
    first = [nn.Conv2d(1, 2, 3, padding=1, stride=2), nn.BatchNorm2d(2), nn.ReLU()]
    return nn.Sequential(*first, nn.AvgPool2d(2, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def causal(x: fg.Tensor) -> fg.Tensor:
    ahead = fg.triu(fg.ones(x.shape[1], x.shape[1]), 1).bool()
    return fg.softmax((x @ x.transpose(1, 2)).masked_fill(ahead, -1e9), -1)


# A function, its examples (lists of sizes; floats draw normal numbers, "i" whole ones), open axes of each.
OPEN_PROGRAMS: dict[str, tuple[Callable[[], Any], list[list[Any]], list[dict[int, str]]]] = {
    "layers": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)), [[2, 4]], [{0: "batch"}]),
    "an example of one": (lambda: nn.Linear(4, 3), [[1, 4]], [{0: "batch"}]),
    "an encoder": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        [[3, 5, 8]],
        [{0: "batch", 1: "time"}],
    ),
    "attention": (lambda: nn.MultiheadAttention(8, 2), [[5, 3, 8]] * 3, [{0: "time", 1: "batch"}] * 3),
    "images of all sizes": (convolutional, [[1, 1, 8, 9]], [{0: "batch", 2: "height", 3: "width"}]),
    "pools": (lambda: nn.MaxPool1d(3, 2, 1, ceil_mode=False), [[2, 3, 8]], [{0: "batch", 2: "time"}]),
    "flattened": (
        lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.Flatten()),
        [[2, 2, 9]],
        [{0: "n", 2: "time"}],
    ),
    "groups": (
        lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.GroupNorm(2, 4)),
        [[2, 2, 9]],
        [{0: "n", 2: "t"}],
    ),
    "a recurrent net": (lambda: nn.LSTM(3, 4), [[3, 2, 3]], [{1: "batch"}]),
    "two ways": (lambda: nn.GRU(3, 4, bidirectional=True, batch_first=True), [[2, 3, 3]], [{0: "batch"}]),
    "words": (lambda: nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 2)), [["i", 2, 5]], [{0: "n", 1: "m"}]),
    "moments": (lambda: lambda x: x.mean(0) + x.var(0) + x.std(), [[3, 4]], [{0: "n"}]),
    "halves": (lambda: lambda x: x[: x.shape[0] // 2].sum(0) + x[:1] * x[-1], [[6, 4]], [{0: "n"}]),
    "joined": (lambda: lambda x, y: fg.cat([x, y]).flip(0).cumsum(0), [[6, 4], [3, 4]], [{0: "a"}, {0: "b"}]),
    "numbered": (lambda: lambda x: x * fg.arange(1, x.shape[0] + 1)[:, None] / 2, [[6, 4]], [{0: "n"}]),
    "spaced": (lambda: lambda x: x * fg.linspace(0, 1, x.shape[1]), [[6, 4]], [{0: "n"}]),
    "masked": (lambda: causal, [[2, 6, 4]], [{0: "batch", 1: "time"}]),
    "product attention": (
        lambda: lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        [[2, 3, 6, 4]],
        [{0: "batch", 2: "time"}],
    ),
    "ordered": (lambda: lambda x: x.topk(2, 1)[0] + x.sort(1)[0][:, :2], [[2, 6]], [{0: "n"}]),
    "grown": (lambda: lambda x: F.interpolate(x, scale_factor=2), [[2, 3, 6, 4]], [{0: "n"}]),
    "unfolded": (lambda: lambda x: x.reshape(-1, 2, x.shape[1]).sum(1), [[6, 4]], [{1: "m"}]),
}


def drawn(shape: list[Any], sizes: dict[int, int]) -> fg.Tensor:
    kind, shape = (int, shape[1:]) if shape[0] == "i" else (float, shape)
    shape = [sizes.get(axis, n) for axis, n in enumerate(shape)]
    return fg.randint(0, 10, tuple(shape)) if kind is int else fg.randn(*shape)
