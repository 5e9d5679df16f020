"""Exporting real networks: modules, jitted functions and what calls them, in all four formats."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import nn
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.pytree import flatten
from fusegrad.nn import functional as F
from fusegrad.tracer.export.python_file import load_module

SUFFIXES = (".py", ".onnx", ".dot", ".html")


def tensor(*shape, seed=0):
    return wrap(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Dropout(0.5))
        self.heads = nn.ModuleList([nn.Linear(8, 3), nn.Linear(8, 2, bias=False)])
        self.scale = nn.Parameter(fg.ones(1) * 0.5)
        self.register_buffer("shift", fg.arange(6) * 0.1)

    def forward(self, x):
        h = self.body(x - self.shift)
        return {"a": F.softmax(self.heads[0](h) * self.scale, dim=-1), "b": self.heads[1](h)}

    @fg.jit
    def score(self, x):
        return self.forward(x)["b"].sum(1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.project = nn.Linear(8, 24)
        self.norm = nn.LayerNorm(8)

    def forward(self, tokens):
        x = self.embedding(tokens)
        q, k, v = self.project(self.norm(x)).chunk(3, -1)
        weights = F.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1)
        return x + F.gelu(weights @ v)


def digits():
    """A network for pictures of digits, with running statistics that are not the first ones."""
    network = nn.Sequential(
        *(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 8, 3, stride=2, groups=2), nn.GELU(), nn.AvgPool2d(2, ceil_mode=True)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(8, 10), nn.LogSoftmax(-1)),
    )
    network(tensor(5, 1, 12, 12) * 2.0 + 1.0)
    return network.eval()


def resized():
    """An encoder and decoder of pictures."""
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.GroupNorm(2, 4), nn.SiLU()),
        *(nn.ConvTranspose2d(4, 4, 3, stride=2, padding=1, output_padding=1), nn.InstanceNorm2d(4)),
        *(nn.Upsample(scale_factor=2, mode="bilinear"), nn.PixelShuffle(2), nn.ZeroPad2d(1)),
    )


fg.manual_seed(0)
BLOCK = Block().eval()
LINEAR = nn.Linear(6, 4)
ATTENTION = Attention()
W = tensor(6, 4, seed=7)
WEIGHTS = {"first": tensor(6, 4, seed=8), "rest": [tensor(4, seed=9)]}
TOKENS = fg.tensor([[1, 5, 10, 0], [3, 3, 2, 7]])
LABELS = fg.tensor([1, 0, 3])


@fg.jit
def jitted(x, labels):
    return F.cross_entropy(fg.relu(x @ W) + 1.0, labels)


def calls_modules(x, bias=fg.ones(4)):  # noqa: B008  (a default from outside is what is tested)
    h = LINEAR(x) + x @ WEIGHTS["first"] + WEIGHTS["rest"][0] + bias
    return jitted_part(h), BLOCK(x)["a"].argmax(-1)


@fg.jit
def jitted_part(h):
    return F.log_softmax(h, -1)


def indexing(x, tokens):
    one = F.one_hot(tokens[0] % 6, 6).float()
    picked = fg.gather(x, 1, tokens[:1, :3].expand(3, 3) % 6)
    written = x.index_add(1, tokens[0] % 6, x[:, :4]).scatter(1, tokens[:1, :3] % 6, 5.0)
    return one @ x.T, picked, written, x[tokens % 3, :2], fg.sort(x, 1).values, F.pad(x, (1, 2))


BLOCK_NAMES = ["shift", "body_0_weight", "body_0_bias", "body_2_weight", "body_2_bias"]
BLOCK_NAMES += ["heads_0_weight", "heads_0_bias", "scale", "heads_1_weight"]
CASES = {
    "Linear": (LINEAR, (tensor(3, 6),), ["weight", "bias"]),
    "Sequential": (
        nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.LayerNorm(5), nn.Linear(5, 2), nn.Softmax(-1)),
        (tensor(3, 6),),
        ["_0_weight", "_0_bias", "_2_weight", "_2_bias", "_3_weight", "_3_bias"],
    ),
    "Block": (
        BLOCK,
        (tensor(3, 6),),
        BLOCK_NAMES,
    ),
    "Attention": (
        ATTENTION,
        (TOKENS,),
        ["embedding_weight", "norm_weight", "norm_bias", "project_weight", "project_bias"],
    ),
    "CrossEntropyLoss": (nn.CrossEntropyLoss(label_smoothing=0.1), (tensor(3, 4), LABELS), []),
    "jit(module)": (fg.jit(LINEAR), (tensor(3, 6),), ["weight", "bias"]),
    "jitted": (jitted, (tensor(3, 6), LABELS), ["W"]),
    "jitted method": (
        BLOCK.score,
        (tensor(3, 6),),
        BLOCK_NAMES,
    ),
    "method": (BLOCK.forward, (tensor(3, 6),), None),
    "calls modules": (
        calls_modules,
        (tensor(3, 6),),
        ["LINEAR_weight", "LINEAR_bias", "WEIGHTS_first", "WEIGHTS_rest_0", "bias"],
    ),
    "module among the arguments": (
        lambda model, x: model(x),
        (LINEAR, tensor(3, 6)),
        ["model_weight", "model_bias"],
    ),
    "indexing": (indexing, (tensor(3, 6), TOKENS), None),
    "digits": (digits(), (tensor(3, 1, 12, 12, seed=5),), None),
    "resized": (resized(), (tensor(2, 1, 6, 6),), None),
    "LSTM": (nn.LSTM(4, 5, num_layers=2, bidirectional=True), (tensor(3, 2, 4),), None),
    "GRU": (nn.GRU(4, 5, batch_first=True), (tensor(3, 2, 4),), None),
    "GRUCell": (nn.GRUCell(4, 5), (tensor(3, 4),), None),
    "Transformer": (nn.Transformer(8, 2, 1, 1, 16).eval(), (tensor(3, 2, 8), tensor(4, 2, 8)), None),
    "TransformerEncoderLayer": (nn.TransformerEncoderLayer(8, 2, 16).eval(), (tensor(3, 2, 8),), None),
}


def results(function, args):
    leaves = []
    with fg.no_grad():
        flatten(function(*args), leaves)
    return [t.numpy() for t in leaves]


@pytest.mark.parametrize("name", CASES)
def test_modules_and_functions_export_to_all_formats_and_agree_in_onnxruntime(tmp_path, name):
    onnxruntime = pytest.importorskip("onnxruntime")
    function, args, captured = CASES[name]
    expected = results(function, args)
    for suffix in SUFFIXES:
        fg.export(function, args, tmp_path / f"graph{suffix}")
    given = [a for a in args if isinstance(a, fg.Tensor)]

    module = load_module((tmp_path / "graph.py").read_text())
    found = module["run"](*given)
    for a, b in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b)
    if captured is not None:
        assert [n for n in module["DATA"] if not n.startswith(("constant", "BLOCK"))] == captured

    session = onnxruntime.InferenceSession(tmp_path / "graph.onnx", providers=["CPUExecutionProvider"])
    feeds = {i.name: t.numpy() for i, t in zip(session.get_inputs(), given, strict=True)}
    for a, b in zip(session.run(None, feeds), expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)

    shown = (tmp_path / "graph.dot").read_text(), (tmp_path / "graph.html").read_text()
    assert all(n in text for n in captured or () for text in shown)


def test_a_convolutional_network_is_written_in_the_ops_that_onnx_has_for_it(tmp_path):
    onnx = pytest.importorskip("onnx")
    function, args, _ = CASES["digits"]
    fg.export(function, args, tmp_path / "graph.onnx")
    kinds = {node.op_type for node in onnx.load(tmp_path / "graph.onnx").graph.node}
    assert {"Conv", "MaxPool", "AveragePool", "Gemm"} <= kinds


def test_an_encoder_is_written_in_single_nodes(tmp_path):
    onnx = pytest.importorskip("onnx")
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu").eval()
    fg.export(layer, (tensor(3, 2, 8),), tmp_path / "graph.onnx")
    kinds = {node.op_type for node in onnx.load(tmp_path / "graph.onnx").graph.node}
    assert {"Gemm", "LayerNormalization", "Softmax", "Gelu"} <= kinds
    assert not {"Exp", "Erf", "ReduceSum", "Sqrt"} & kinds


def test_onnx_parameters_have_the_names_by_which_they_were_read(tmp_path):
    onnx = pytest.importorskip("onnx")
    fg.export(BLOCK, (tensor(3, 6),), tmp_path / "graph.onnx")
    model = onnx.load(tmp_path / "graph.onnx")
    assert [i.name for i in model.graph.input] == ["x"]  # as `forward` calls it
    assert {"body_0_weight", "shift", "scale"} <= {i.name for i in model.graph.initializer}
    assert model.graph.name == "Block"


def test_a_jitted_module_is_called_after_the_module(tmp_path):
    fg.export(fg.jit(LINEAR), (tensor(3, 6),), tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text().startswith('digraph "Linear" {')


def test_exporting_a_jitted_function_leaves_what_it_has_compiled_alone(tmp_path):
    @fg.jit
    def double(x):
        return x * 2.0

    x = tensor(3)
    double(x)
    stats = vars(double.stats).copy()
    fg.export(double, (x,), tmp_path / "graph.py")
    assert vars(double.stats) == stats


def test_training_mode_dropout_is_refused_because_it_draws(tmp_path):
    from fusegrad.tracer.export import ExportError

    with pytest.raises(ExportError, match="draws random numbers"):
        fg.export(nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5)), (tensor(3, 6),), tmp_path / "graph.onnx")
    assert os.listdir(tmp_path) == []


def test_an_exported_index_out_of_range_is_refused_by_onnxruntime(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    fg.export(nn.Embedding(5, 3), (fg.tensor([1, 2]),), tmp_path / "graph.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "graph.onnx", providers=["CPUExecutionProvider"])
    with pytest.raises(Exception, match="out of"):
        session.run(None, {session.get_inputs()[0].name: np.array([1, 5])})


def test_an_exported_module_runs_in_a_process_that_does_not_know_it(tmp_path):
    x = tensor(3, 6)
    fg.export(BLOCK, (x,), tmp_path / "exported.py")
    np.save(tmp_path / "x.npy", x.numpy())
    code = (
        "import numpy as np, exported\n"
        "a, b = exported.run(np.load('x.npy'))\n"
        "np.savez('out.npz', a=a.detach().numpy(), b=b.detach().numpy())\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    given = np.load(tmp_path / "out.npz")
    for name, value in zip("ab", results(BLOCK, (x,)), strict=True):
        np.testing.assert_array_equal(given[name], value)
