# ruff: noqa: E501  (one layer a line reads as the table that it is)
"""Every layer against its twin of torch: results, gradients, buffers, names of the state, text, errors."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from layer_twins import compare, flat, leaf, same, twins
from oracle import torch

import fusegrad as fg

_random = np.random.default_rng(3)


def f(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return _random.uniform(low, high, shape)


def i(*shape: int, low: int = 0, high: int = 5) -> np.ndarray:
    return _random.integers(low, high, shape)


def signs(*shape: int) -> np.ndarray:
    return _random.choice([-1, 1], shape)


LAYERS = {
    "Identity": [(lambda nn: nn.Identity(3, bias=False), f(2, 3))],
    "Linear": [(lambda nn: nn.Linear(3, 4), f(2, 3)), (lambda nn: nn.Linear(3, 4, bias=False), f(5, 2, 3))],
    "Bilinear": [(lambda nn: nn.Bilinear(3, 4, 2), f(5, 3), f(5, 4))],
    "Embedding": [(lambda nn: nn.Embedding(7, 3, padding_idx=-2), i(2, 4, high=7)), (lambda nn: nn.Embedding(7, 3, max_norm=1.0, norm_type=1), i(5, high=7)),
                  (lambda nn: nn.Embedding(7, 3, scale_grad_by_freq=True), i(6, high=4))],
    "EmbeddingBag": [(lambda nn: nn.EmbeddingBag(7, 3), i(2, 4, high=7)), (lambda nn: nn.EmbeddingBag(7, 3, mode="max", padding_idx=1), i(2, 4, high=7)),
                     (lambda nn: nn.EmbeddingBag(7, 3, mode="sum"), i(6, high=7), np.array([0, 2, 2, 5]))],
    "Flatten": [(lambda nn: nn.Flatten(), f(2, 3, 4))],
    "Unflatten": [(lambda nn: nn.Unflatten(1, (2, 3)), f(2, 6))],
    "LayerNorm": [(lambda nn: nn.LayerNorm(4), f(3, 4)), (lambda nn: nn.LayerNorm((2, 4), bias=False), f(3, 2, 4)), (lambda nn: nn.LayerNorm(4, elementwise_affine=False), f(3, 4))],
    "RMSNorm": [(lambda nn: nn.RMSNorm(4), f(3, 4)), (lambda nn: nn.RMSNorm((2, 4), eps=0.1, elementwise_affine=False), f(3, 2, 4))],
    "GroupNorm": [(lambda nn: nn.GroupNorm(2, 4), f(3, 4, 5)), (lambda nn: nn.GroupNorm(4, 4, bias=False), f(3, 4, 2, 2)), (lambda nn: nn.GroupNorm(1, 4, affine=False), f(3, 4))],
    "LocalResponseNorm": [(lambda nn: nn.LocalResponseNorm(3, 0.1), f(2, 5, 3)), (lambda nn: nn.LocalResponseNorm(2), f(2, 5, 3, 3))],
    "BatchNorm1d": [(lambda nn: nn.BatchNorm1d(4), f(5, 4)), (lambda nn: nn.BatchNorm1d(4, momentum=None), f(5, 4, 3)), (lambda nn: nn.BatchNorm1d(4, affine=False, track_running_stats=False), f(5, 4))],
    "BatchNorm2d": [(lambda nn: nn.BatchNorm2d(4, eps=0.1), f(3, 4, 2, 3)), (lambda nn: nn.BatchNorm2d(4, bias=False), f(3, 4, 2, 3))],
    "BatchNorm3d": [(lambda nn: nn.BatchNorm3d(2), f(3, 2, 2, 3, 2))],
    "InstanceNorm1d": [(lambda nn: nn.InstanceNorm1d(4, affine=True), f(3, 4, 5)), (lambda nn: nn.InstanceNorm1d(4, track_running_stats=True), f(4, 5))],
    "InstanceNorm2d": [(lambda nn: nn.InstanceNorm2d(4, track_running_stats=True, affine=True), f(3, 4, 2, 3))],
    "InstanceNorm3d": [(lambda nn: nn.InstanceNorm3d(2), f(3, 2, 2, 3, 2))],
    "Dropout": [(lambda nn: nn.Dropout(0.0), f(3, 4)), (lambda nn: nn.Dropout(1.0), f(3, 4))],
    "Dropout1d": [(lambda nn: nn.Dropout1d(1.0), f(3, 4))], "Dropout2d": [(lambda nn: nn.Dropout2d(0.0), f(3, 4, 2, 2))], "Dropout3d": [(lambda nn: nn.Dropout3d(1.0), f(3, 4, 2, 2))],
    "AlphaDropout": [(lambda nn: nn.AlphaDropout(1.0), f(3, 4))], "FeatureAlphaDropout": [(lambda nn: nn.FeatureAlphaDropout(0.0), f(3, 4))],
    "Threshold": [(lambda nn: nn.Threshold(0.1, 20), f(3, 4)), (lambda nn: nn.Sequential(nn.Linear(4, 4), nn.Threshold(0.1, 20, True)), f(3, 4))],
    "RReLU": [(lambda nn: nn.RReLU(0.2, 0.2), f(3, 4))],
    "PReLU": [(lambda nn: nn.PReLU(), f(3, 4)), (lambda nn: nn.PReLU(4, 0.1), f(3, 4))],
    "GLU": [(lambda nn: nn.GLU(0), f(4, 3))],
    "GELU": [(lambda nn: nn.GELU(), f(3, 4)), (lambda nn: nn.GELU("tanh"), f(3, 4))],
    "Hardshrink": [(lambda nn: nn.Hardshrink(0.3), f(3, 4))], "Softshrink": [(lambda nn: nn.Softshrink(0.3), f(3, 4))],
    "Softplus": [(lambda nn: nn.Softplus(2.0, 3.0), f(3, 4))], "LeakyReLU": [(lambda nn: nn.LeakyReLU(0.2), f(3, 4))],
    "Softmax": [(lambda nn: nn.Softmax(1), f(3, 4))], "Softmin": [(lambda nn: nn.Softmin(0), f(3, 4))], "LogSoftmax": [(lambda nn: nn.LogSoftmax(dim=-1), f(3, 4))],
    "Softmax2d": [(lambda nn: nn.Softmax2d(), f(2, 3, 2, 2))],
    **{name: [(lambda nn, name=name: getattr(nn, name)(), f(3, 4))] for name in (
        "ReLU", "ReLU6", "SiLU", "SELU", "Mish", "Hardswish", "Hardsigmoid", "Tanh", "Sigmoid", "LogSigmoid",
        "Softsign", "Tanhshrink", "ELU", "CELU", "Hardtanh")},
    "Sequential": [(lambda nn: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2))), f(2, 3))],
    "CosineSimilarity": [(lambda nn: nn.CosineSimilarity(), f(3, 4), f(3, 4))],
    "PairwiseDistance": [(lambda nn: nn.PairwiseDistance(keepdim=True), f(3, 4), f(3, 4))],
    "MSELoss": [(lambda nn: nn.MSELoss(), f(3, 4), f(3, 4))], "L1Loss": [(lambda nn: nn.L1Loss(reduction="sum"), f(3, 4), f(3, 4))],
    "SmoothL1Loss": [(lambda nn: nn.SmoothL1Loss(beta=0.5), f(3, 4), f(3, 4))], "HuberLoss": [(lambda nn: nn.HuberLoss("none", 0.5), f(3, 4), f(3, 4))],
    "SoftMarginLoss": [(lambda nn: nn.SoftMarginLoss(), f(3, 4), signs(3, 4))],
    "BCELoss": [(lambda nn: nn.BCELoss(torch_or(nn, [0.5, 1.0, 2.0])), f(4, 3, low=0.1, high=0.9), f(4, 3, low=0, high=1))],
    "BCEWithLogitsLoss": [(lambda nn: nn.BCEWithLogitsLoss(pos_weight=torch_or(nn, [0.5, 1.0, 2.0])), f(4, 3), f(4, 3, low=0, high=1))],
    "NLLLoss": [(lambda nn: nn.NLLLoss(torch_or(nn, [0.5, 1.0, 2.0]), ignore_index=1), f(4, 3), i(4, high=3))],
    "CrossEntropyLoss": [(lambda nn: nn.CrossEntropyLoss(label_smoothing=0.1), f(4, 3), i(4, high=3)), (lambda nn: nn.CrossEntropyLoss(torch_or(nn, [0.5, 1.0, 2.0])), f(2, 3, 4), i(2, 4, high=3))],
    "KLDivLoss": [(lambda nn: nn.KLDivLoss(reduction="batchmean"), f(3, 4), f(3, 4, low=0)), (lambda nn: nn.KLDivLoss(log_target=True), f(3, 4), f(3, 4))],
    "PoissonNLLLoss": [(lambda nn: nn.PoissonNLLLoss(full=True), f(3, 4), f(3, 4, low=0.5, high=5))],
    "GaussianNLLLoss": [(lambda nn: nn.GaussianNLLLoss(full=True), f(3, 4), f(3, 4), f(3, 4, low=0))],
    "CTCLoss": [(lambda nn: nn.CTCLoss(), np.log(f(6, 2, 5, low=0.1)), i(2, 3, low=1), np.array([6, 5]), np.array([3, 2]))],
    "HingeEmbeddingLoss": [(lambda nn: nn.HingeEmbeddingLoss(0.5), f(3, 4), signs(3, 4))],
    "CosineEmbeddingLoss": [(lambda nn: nn.CosineEmbeddingLoss(0.1), f(3, 4), f(3, 4), signs(3))],
    "MarginRankingLoss": [(lambda nn: nn.MarginRankingLoss(0.1), f(3), f(3), signs(3))],
    "MultiLabelMarginLoss": [(lambda nn: nn.MultiLabelMarginLoss(), f(2, 4), np.array([[3, 0, -1, 1], [2, -1, 0, 0]]))],
    "MultiLabelSoftMarginLoss": [(lambda nn: nn.MultiLabelSoftMarginLoss(torch_or(nn, [0.5, 1.0, 2.0])), f(4, 3), f(4, 3, low=0, high=1))],
    "MultiMarginLoss": [(lambda nn: nn.MultiMarginLoss(2, weight=torch_or(nn, [0.5, 1.0, 2.0])), f(4, 3), i(4, high=3))],
    "TripletMarginLoss": [(lambda nn: nn.TripletMarginLoss(swap=True), f(3, 4), f(3, 4), f(3, 4))],
    "LinearCrossEntropyLoss": [(lambda nn: nn.LinearCrossEntropyLoss(3, 5, bias=True, label_smoothing=0.1), f(4, 3), i(4)), (lambda nn: nn.LinearCrossEntropyLoss(3, 5, out_features=(2,)), f(4, 3), i(4, 2))],
    "AdaptiveLogSoftmaxWithLoss": [(lambda nn: nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], 2.0, True), f(6, 8), np.array([0, 9, 4, 2, 5, 7])), (lambda nn: nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3]), f(8), np.array(7))],
    "TripletMarginWithDistanceLoss": [(lambda nn: nn.TripletMarginWithDistanceLoss(margin=2.0), f(3, 4), f(3, 4), f(3, 4))],
}  # fmt: skip


def torch_or(nn: Any, values: list[float]) -> Any:
    """A float64 tensor of the library that `nn` belongs to."""
    namespace = torch if nn is torch.nn else fg
    return namespace.tensor(values, dtype=namespace.float64)


CASES = [
    pytest.param(case[0], case[1:], id=f"{name}-{number}")
    for name, cases in LAYERS.items()
    for number, case in enumerate(cases)
]


@pytest.mark.parametrize(("make", "inputs"), CASES)
def test_layers_are_torchs(make: Any, inputs: tuple[Any, ...]):
    compare(lambda namespace: make(namespace.nn), *inputs, runs=2 if "Norm" in repr(make(fg.nn)) else 1)


@pytest.mark.parametrize(("make", "inputs"), CASES)
def test_layers_are_torchs_in_evaluation(make: Any, inputs: tuple[Any, ...]):
    compare(lambda namespace: make(namespace.nn), *inputs, train=False)


@pytest.mark.parametrize("name", LAYERS)
def test_constructors_take_what_torchs_take(name: str):
    ours, theirs = (list(inspect.signature(getattr(n.nn, name)).parameters) for n in (fg, torch))
    if "args" not in theirs:
        assert ours == [p for p in theirs if p not in ("min_value", "max_value")]  # Hardtanh's old names


# What is set on a layer later: another value for each kind of number. Apart is where torch draws numbers, or refuses
# what costs nothing here.
OTHERS = {bool: lambda v: [not v], int: lambda v: [v + 1], float: lambda v: [2 * v, 0.0]}
APART = {
    ("EmbeddingBag", "sparse"), ("EmbeddingBag", "include_last_offset"), ("RReLU", "lower"), ("RReLU", "upper"),
    ("Dropout1d", "inplace"), ("Dropout3d", "inplace"), ("AlphaDropout", "inplace"),
}  # fmt: skip


def changed(make: Any, inputs: tuple[Any, ...], train: bool) -> list[str]:
    """The attributes of a layer that mean something else than in torch when they are set later."""
    different = []
    for name, value in vars(make(torch.nn)).items():
        if name[0] == "_" or name == "training" or (type(make(fg.nn)).__name__, name) in APART:
            continue
        for other in OTHERS.get(type(value), lambda value: [])(value):
            layers, results = twins(lambda namespace: make(namespace.nn), train), []
            for namespace, layer in zip((fg, torch), layers, strict=True):
                setattr(layer, name, other)
                try:
                    results.append(flat(layer(*(leaf(namespace, x) for x in inputs))))
                except (RuntimeError, LookupError, ValueError, TypeError) as error:
                    results.append(error)
            if isinstance(results[1], Exception) != isinstance(results[0], Exception):
                different.append(f"{name}={other}: {results[0]!r}, torch: {results[1]!r}")
            elif not isinstance(results[0], Exception):
                same(*results, f"{name}={other}")
    return different


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize(("make", "inputs"), CASES)
def test_attributes_set_later_mean_what_they_mean_to_torch(make: Any, inputs: tuple[Any, ...], train: bool):
    assert changed(make, inputs, train) == []


def test_an_attribute_that_is_not_heeded_is_found(monkeypatch: pytest.MonkeyPatch):
    forward = fg.nn.LayerNorm.forward

    def planted(self: Any, input: Any) -> Any:
        self.eps = 1e-5
        return forward(self, input)

    monkeypatch.setattr(fg.nn.LayerNorm, "forward", planted)
    with pytest.raises(AssertionError, match="eps="):
        changed(lambda nn: nn.LayerNorm(4), (1e-3 * f(3, 4),), True)


ERRORS = [
    (lambda nn: nn.BatchNorm1d(4), f(1, 4), ValueError), (lambda nn: nn.BatchNorm2d(4), f(3, 4), ValueError), (lambda nn: nn.BatchNorm1d(4), f(3, 5), RuntimeError),
    (lambda nn: nn.InstanceNorm1d(4), f(3, 4, 1), ValueError), (lambda nn: nn.InstanceNorm1d(4, affine=True), f(3, 5, 2), ValueError),
    (lambda nn: nn.GroupNorm(2, 4), f(3, 5, 2), RuntimeError), (lambda nn: nn.LayerNorm(4), f(3, 5), RuntimeError), (lambda nn: nn.LocalResponseNorm(2), f(3, 5), ValueError),
    (lambda nn: nn.Linear(3, 4), f(2, 2), RuntimeError), (lambda nn: nn.Embedding(3, 4), np.array([3]), IndexError), (lambda nn: nn.Softmax2d(), f(3, 5), ValueError),
    (lambda nn: nn.Dropout1d(), f(5), RuntimeError), (lambda nn: nn.GroupNorm(3, 4), None, ValueError), (lambda nn: nn.Dropout(2), None, ValueError),
    (lambda nn: nn.Embedding(3, 4, padding_idx=3), None, AssertionError), (lambda nn: nn.Bilinear(0, 2, 3), None, ValueError), (lambda nn: nn.Threshold(1), None, TypeError),
    (lambda nn: nn.ReLU(1, 2), None, TypeError), (lambda nn: nn.Unflatten(1, 3), None, TypeError),
]  # fmt: skip


@pytest.mark.parametrize(("make", "value", "kind"), ERRORS)
def test_errors_are_torchs(make: Any, value: Any, kind: type[Exception]):
    for namespace in (fg, torch):
        with pytest.raises(kind):
            layer = make(namespace.nn)
            layer(namespace.tensor(value if value.dtype.kind == "i" else value.astype("float32")))


@pytest.mark.parametrize(
    "name", ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"]
)
def test_dropout_drops(name: str):
    fg.manual_seed(0)
    layer = getattr(fg.nn, name)(0.25)
    x = fg.randn(60, 60, *(4,) * (int(name[-2]) if name[-1] == "d" else name.startswith("Feature")))
    result = layer(x)
    if "Alpha" in name:
        assert abs(result.mean().item()) < 0.1 and abs(result.std().item() - 1) < 0.1
        low = result.min() if name[0] == "A" else None
        assert low is None or low.item() < -1
    else:
        dropped = (result == 0).float()
        assert abs(dropped.mean().item() - 0.25) < 0.05
        assert fg.allclose(result[result != 0], (x / 0.75)[result != 0])
    if name[-1] == "d":  # whole channels
        each = (result == 0).reshape(3600, -1).float().mean(1)
        assert set(each.tolist()) == {0.0, 1.0}
    assert fg.equal(layer.eval()(x), x)


def test_gumbel_softmax_samples():
    fg.manual_seed(0)
    logits = fg.log(fg.tensor([0.1, 0.2, 0.7])).expand(20_000, 3).clone().requires_grad_()
    hard = fg.nn.functional.gumbel_softmax(logits, tau=0.5, hard=True)
    assert set(hard.detach().flatten().tolist()) == {0.0, 1.0}
    assert fg.allclose(hard.mean(0).detach(), fg.tensor([0.1, 0.2, 0.7]), atol=0.02)
    hard[:, 0].sum().backward()
    assert logits.grad.abs().sum().item() > 0


CTC = [
    ("lengths that do not fit", (4, 2, 5), [[1, 1, 1], [2, 3, 4]], [4, 4], [3, 3], {}), ("no labels", (4, 2, 5), [[1, 2], [3, 4]], [4, 3], [0, 2], {}),
    ("in one row", (6, 2, 5), [1, 2, 3, 4, 1], [6, 5], [2, 3], {"blank": 0}), ("another blank", (6, 2, 5), [[1, 2], [3, 3]], [6, 4], [2, 2], {"blank": 4}), ("one sequence", (6, 5), [1, 2], 6, 2, {}),
]  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("zero_infinity", [True, False])
@pytest.mark.parametrize(
    ("size", "labels", "lengths", "counts", "options"), [c[1:] for c in CTC], ids=[c[0] for c in CTC]
)
def test_ctc_loss_at_its_edges(size, labels, lengths, counts, options, zero_infinity, reduction):
    scores, found = f(*size), []
    for namespace in (fg, torch):
        x = namespace.tensor(scores).requires_grad_()
        given = [namespace.tensor(v) for v in (labels, lengths, counts)]
        logp = namespace.log_softmax(x, -1)
        loss = namespace.nn.functional.ctc_loss(
            logp, *given, reduction=reduction, zero_infinity=zero_infinity, **options
        )
        loss.sum().backward()
        found.append((loss.detach().numpy(), x.grad.numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-9)
    if np.isfinite(found[1][0]).all():  # else torch's gradients are NaN
        np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-7, atol=1e-12)


# Containers.


def test_containers_behave_as_torchs():
    def used(nn: Any) -> list[Any]:
        first = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
        first.insert(1, nn.Tanh())
        del first[0]
        modules = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)]) + [nn.ReLU()]  # noqa: RUF005
        modules.insert(1, nn.Tanh())
        modules += [nn.ReLU()]
        named = nn.ModuleDict({"a": nn.ReLU()})
        named["b"] = nn.Linear(1, 1)
        named.update([("c", nn.Tanh())])
        popped = named.pop("a")
        zeros = torch.zeros if nn is torch.nn else fg.zeros
        parameters = nn.ParameterList([zeros(2, 3), 4])
        parameters.append(zeros(1))
        values = nn.ParameterDict({"w": zeros(2), "text": "t"})
        values["v"] = zeros(3, 1)
        both = values | nn.ParameterDict({"u": zeros(1)})
        return [
            repr(first * 2), repr(first + first), repr(first[1:]), repr(modules), len(modules), repr(modules[1:3]), repr(modules.pop(0)), list(modules.state_dict()),
            repr(named), list(named), repr(popped), repr(parameters), list(parameters.state_dict()), repr(parameters[1:]), repr(values), list(both.state_dict()), both.pop("u").shape[0], list(both),
        ]  # fmt: skip

    assert used(fg.nn) == used(torch.nn)
    for namespace in (fg, torch):
        with pytest.raises(IndexError):
            namespace.nn.Sequential()[0]
        with pytest.raises(TypeError):
            namespace.nn.ModuleList([1])
        with pytest.raises(RuntimeError):
            namespace.nn.ParameterList()(1)


# Initialisers.

FILLS = [
    ("uniform_", (-1.0, 2.0)), ("normal_", (1.0, 0.5)), ("trunc_normal_", (0.5, 1.0, -0.5, 1.0)), ("constant_", (0.3,)), ("ones_", ()), ("zeros_", ()), ("eye_", ()),
    ("xavier_uniform_", (2.0,)), ("xavier_normal_", ()), ("kaiming_uniform_", (0.1,)), ("kaiming_normal_", (0, "fan_out", "relu")), ("sparse_", (0.25, 0.1)), ("orthogonal_", (1.5,)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), FILLS)
def test_initialisers_draw_as_torchs(name: str, args: tuple[Any, ...]):
    found = []
    for namespace in (fg, torch):
        namespace.manual_seed(0)
        w = namespace.empty(200, 100)
        assert getattr(namespace.nn.init, name)(w, *args) is w
        found.append(
            [w.mean().item(), w.std().item(), w.min().item(), w.max().item(), (w == 0).sum().item() / 20000]
        )
    np.testing.assert_allclose(found[0][:2], found[1][:2], atol=0.02, rtol=0.02)
    np.testing.assert_allclose(found[0][4], found[1][4], atol=1e-6)
    if name in ("uniform_", "trunc_normal_", "xavier_uniform_", "kaiming_uniform_"):
        np.testing.assert_allclose(found[0][2:4], found[1][2:4], rtol=0.01)


def test_initialisers_of_structure():
    w = fg.nn.init.orthogonal_(fg.empty(6, 4, 2))
    assert fg.allclose(w.flatten(1) @ w.flatten(1).T, fg.eye(6), atol=1e-5)
    for groups in (1, 2):
        ours, theirs = fg.empty(4, 2, 3, 3), torch.empty(4, 2, 3, 3)
        assert fg.nn.init.dirac_(ours, groups).tolist() == torch.nn.init.dirac_(theirs, groups).tolist()
    for name, param in (
        ("relu", None),
        ("tanh", None),
        ("leaky_relu", 0.3),
        ("selu", None),
        ("linear", None),
        ("conv2d", None),
    ):
        assert fg.nn.init.calculate_gain(name, param) == torch.nn.init.calculate_gain(name, param)
    for namespace in (fg, torch):
        with pytest.raises(ValueError):
            namespace.nn.init.calculate_gain("unknown")
        with pytest.raises(ValueError):
            namespace.nn.init.xavier_uniform_(namespace.empty(3))


SPREAD = [lambda nn: nn.Linear(200, 100), lambda nn: nn.Bilinear(30, 20, 10), lambda nn: nn.Embedding(100, 50), lambda nn: nn.PReLU(300), lambda nn: nn.BatchNorm1d(300)]  # fmt: skip


@pytest.mark.parametrize("make", SPREAD)
def test_initial_weights_have_torchs_spread(make: Any):
    fg.manual_seed(0)
    for a, b in zip(make(fg.nn).parameters(), make(torch.nn).parameters(), strict=True):
        if a.numel() >= 100:
            assert abs(a.std().item() - b.std().item()) <= 0.15 * b.std().item()
            assert abs(a.abs().max().item() - b.abs().max().item()) <= 0.3 * b.abs().max().item()


def test_adaptive_softmax_predicts_as_torchs():
    ours, theirs = twins(lambda namespace: namespace.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], 2.0))
    x = f(20, 8) * 3
    np.testing.assert_allclose(
        ours.log_prob(fg.tensor(x)).detach().numpy(), theirs.log_prob(torch.tensor(x)).detach()
    )
    assert ours.predict(fg.tensor(x)).tolist() == theirs.predict(torch.tensor(x)).tolist()
    for layer, namespace in ((ours, fg), (theirs, torch)):
        with pytest.raises(RuntimeError):
            layer(namespace.tensor(x), namespace.full((20,), 10))


def test_twins_share_state():
    ours, theirs = twins(lambda namespace: namespace.nn.BatchNorm1d(3))
    assert ours.num_batches_tracked.dtype is fg.int64 and theirs.num_batches_tracked.item() == 0


def test_a_padding_row_gets_no_gradient_not_even_a_nan():
    def gradient(lib):
        weight = lib.arange(6.0).reshape(3, 2).requires_grad_()
        rows = lib.nn.functional.embedding(lib.tensor([[0, 1], [1, 1]]), weight, padding_idx=1)
        lib.sqrt(rows * lib.tensor([1.0, 0.0])).sum().backward()  # an infinite slope times 0
        return weight.grad[1].tolist()

    assert gradient(fg) == gradient(torch) == [0.0, 0.0]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_bags_of_either_integer_dtype(mode, dtype):
    def bags(lib):
        weight = lib.arange(8.0).reshape(4, 2)
        numbers, offsets = (lib.tensor(v, dtype=getattr(lib, dtype)) for v in ([0, 1, 3, 2], [0, 0, 3]))
        return lib.nn.functional.embedding_bag(numbers, weight, offsets, mode=mode).tolist()

    assert bags(fg) == bags(torch)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    "offsets",
    [[], [0], [0, 2, 4], [1, 3], [-1, 2], [0, 7], [0, 4], [0, 0, 4], [0, 2, 3], [0, 2, 2]],
)
def test_bags_begin_one_after_the_other(offsets: list[int], last: bool):
    def bags(lib):
        weight, numbers = lib.arange(8.0).reshape(4, 2), lib.tensor([0, 1, 3, 2])
        starts, bag = lib.tensor(offsets, dtype=lib.int64), lib.nn.functional.embedding_bag
        try:
            result = bag(numbers, weight, starts, mode="sum", include_last_offset=last)
        except RuntimeError:
            return "refused"
        return result.shape, result.tolist()

    assert bags(fg) == bags(torch)


@pytest.mark.parametrize("last", [False, True])
def test_bags_that_decrease_are_refused(last: bool):
    # PyTorch refuses them, or reads memory that nobody has written.
    numbers, starts = fg.tensor([0, 1, 3, 2]), fg.tensor([0, 2, 1])
    with pytest.raises(RuntimeError, match="offsets must not decrease"):
        fg.nn.functional.embedding_bag(numbers, fg.ones(4, 2), starts, include_last_offset=last)


def test_bags_refuse_numbers_outside_of_the_table():
    for lib in (fg, torch):
        table, offsets = lib.ones(3, 2), lib.tensor([0, 2])
        for mode in ("sum", "mean", "max"):
            for number in (-1, 3):
                with pytest.raises(RuntimeError):
                    lib.nn.functional.embedding_bag(lib.tensor([0, number, 2]), table, offsets, mode=mode)
        with pytest.raises(RuntimeError, match="padding_idx must be within the number of embeddings"):
            lib.nn.functional.embedding_bag(lib.tensor([0, 1, 2]), table, offsets, padding_idx=5)
