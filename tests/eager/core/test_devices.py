"""There is the CPU, and `meta`: every function that takes a `device` says so of another one."""

from __future__ import annotations

import inspect
import pickle
from types import ModuleType

import pytest
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.ops.create import creation

nn = fg.nn
x = fg.ones(2, 2)
# How each is called, but for the device. A function or class that takes one and is not listed fails a test.
CALLS = {
    "arange": lambda **o: fg.arange(3, **o),
    "as_tensor": lambda **o: fg.as_tensor([1], **o),
    "asarray": lambda **o: fg.asarray([1], **o),
    "empty": lambda **o: fg.empty(2, **o),
    "empty_like": lambda **o: fg.empty_like(x, **o),
    "empty_permuted": lambda **o: fg.empty_permuted((2, 3), (1, 0), **o),
    "empty_strided": lambda **o: fg.empty_strided((2,), (1,), **o),
    "eye": lambda **o: fg.eye(2, **o),
    "fftfreq": lambda **o: fg.fft.fftfreq(3, **o),
    "from_dlpack": lambda **o: fg.from_dlpack(x, **o),
    "full": lambda **o: fg.full((2,), 1, **o),
    "full_like": lambda **o: fg.full_like(x, 1, **o),
    "linspace": lambda **o: fg.linspace(0, 1, 3, **o),
    "logspace": lambda **o: fg.logspace(0, 1, 3, **o),
    "normal": lambda **o: fg.normal(0.0, 1.0, (2,), **o),
    "ones": lambda **o: fg.ones(2, **o),
    "ones_like": lambda **o: fg.ones_like(x, **o),
    "rand": lambda **o: fg.rand(2, **o),
    "rand_like": lambda **o: fg.rand_like(x, **o),
    "randint": lambda **o: fg.randint(3, (2,), **o),
    "randint_like": lambda **o: fg.randint_like(x, 3, **o),
    "randn": lambda **o: fg.randn(2, **o),
    "randn_like": lambda **o: fg.randn_like(x, **o),
    "randperm": lambda **o: fg.randperm(3, **o),
    "range": lambda **o: fg.range(0, 3, **o),
    "rfftfreq": lambda **o: fg.fft.rfftfreq(3, **o),
    "scalar_tensor": lambda **o: fg.scalar_tensor(1, **o),
    "sparse_coo_tensor": lambda **o: fg.sparse_coo_tensor([[0]], [1.0], (2,), **o),
    "tensor": lambda **o: fg.tensor([1], **o),
    "tril_indices": lambda **o: fg.tril_indices(2, 2, **o),
    "triu_indices": lambda **o: fg.triu_indices(2, 2, **o),
    "zeros": lambda **o: fg.zeros(2, **o),
    "zeros_like": lambda **o: fg.zeros_like(x, **o),
    "Generator": lambda **o: fg.Generator(**o),
    "Tensor.new": lambda **o: x.new(2, **o),
    "Tensor.to": lambda **o: x.to(**o),
    "Tensor.to, by place": lambda device: x.to(device),
    "Tensor.new_empty": lambda **o: x.new_empty(2, **o),
    "Tensor.new_full": lambda **o: x.new_full((2,), 1, **o),
    "Tensor.new_ones": lambda **o: x.new_ones(2, **o),
    "Tensor.new_tensor": lambda **o: x.new_tensor([1], **o),
    "Tensor.new_zeros": lambda **o: x.new_zeros(2, **o),
    "Module.to": lambda **o: nn.Linear(1, 1).to(**o),
    "Module.to, by place": lambda device: nn.Linear(1, 1).to(device),
    "AdaptiveLogSoftmaxWithLoss": lambda **o: nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2], **o),
    "BatchNorm1d": lambda **o: nn.BatchNorm1d(2, **o),
    "BatchNorm2d": lambda **o: nn.BatchNorm2d(2, **o),
    "BatchNorm3d": lambda **o: nn.BatchNorm3d(2, **o),
    "Bilinear": lambda **o: nn.Bilinear(2, 2, 2, **o),
    **{f"Conv{d}d": lambda d=d, **o: getattr(nn, f"Conv{d}d")(1, 1, 1, **o) for d in (1, 2, 3)},
    **{
        f"ConvTranspose{d}d": lambda d=d, **o: getattr(nn, f"ConvTranspose{d}d")(1, 1, 1, **o)
        for d in (1, 2, 3)
    },
    "Embedding": lambda **o: nn.Embedding(2, 2, **o),
    "EmbeddingBag": lambda **o: nn.EmbeddingBag(2, 2, **o),
    "GRU": lambda **o: nn.GRU(1, 1, **o),
    "GRUCell": lambda **o: nn.GRUCell(1, 1, **o),
    "GroupNorm": lambda **o: nn.GroupNorm(1, 1, **o),
    "InstanceNorm1d": lambda **o: nn.InstanceNorm1d(2, affine=True, **o),
    "InstanceNorm2d": lambda **o: nn.InstanceNorm2d(2, affine=True, **o),
    "InstanceNorm3d": lambda **o: nn.InstanceNorm3d(2, affine=True, **o),
    "LSTM": lambda **o: nn.LSTM(1, 1, **o),
    "LSTMCell": lambda **o: nn.LSTMCell(1, 1, **o),
    "LinearCrossEntropyLoss": lambda **o: nn.LinearCrossEntropyLoss(2, 3, **o),
    **{
        f"Lazy{kind}": lambda kind=kind, count=count, **o: getattr(nn, f"Lazy{kind}")(*[1] * count, **o)
        for count, kinds in (
            (2, [f"Conv{way}{d}d" for way in ("", "Transpose") for d in (1, 2, 3)]),
            (1, ["Linear"]),
            (0, [f"{norm}Norm{d}d" for norm in ("Batch", "Instance") for d in (1, 2, 3)]),
        )
        for kind in kinds
    },
    "UninitializedBuffer": lambda **o: nn.UninitializedBuffer(**o),
    "UninitializedParameter": lambda **o: nn.UninitializedParameter(**o),
    "LayerNorm": lambda **o: nn.LayerNorm(2, **o),
    "Linear": lambda **o: nn.Linear(1, 1, **o),
    "MultiheadAttention": lambda **o: nn.MultiheadAttention(2, 1, **o),
    "PReLU": lambda **o: nn.PReLU(**o),
    "RMSNorm": lambda **o: nn.RMSNorm(2, **o),
    "RNN": lambda **o: nn.RNN(1, 1, **o),
    "RNNCell": lambda **o: nn.RNNCell(1, 1, **o),
    "SyncBatchNorm": lambda **o: nn.SyncBatchNorm(2, **o),
    "Transformer": lambda **o: nn.Transformer(2, 1, 1, 1, 2, **o),
    "TransformerDecoderLayer": lambda **o: nn.TransformerDecoderLayer(2, 1, 2, **o),
    "TransformerEncoderLayer": lambda **o: nn.TransformerEncoderLayer(2, 1, 2, **o),
    "generate_square_subsequent_mask": lambda **o: nn.Transformer.generate_square_subsequent_mask(2, **o),
}

CALLS |= {
    name: lambda name=name, **o: getattr(fg, name)(2, **o) for name in dir(fg) if name.endswith("Tensor")
}


def functions():
    """All public functions, classes and methods, with their names."""
    for module in (fg, fg.fft, fg.nn, fg.nn.functional, fg.nn.init, fg.linalg, fg.special, fg.random):
        for name in dir(module):
            value = getattr(module, name)
            if not name.startswith("_") and callable(value) and not isinstance(value, ModuleType):
                yield name, value
    for name, value in vars(fg.Tensor).items():
        if not name.startswith("_") and callable(value):
            yield f"Tensor.{name}", value


def takes_device(function):
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return "device" in parameters


def test_the_table_has_all():
    taking = {name for name, value in functions() if takes_device(value)}
    apart = {"Tensor.cuda", "Module.cuda", "RNNBase", "RNNCellBase"}  # tried by themselves, or bases
    pinned = {"Tensor.is_pinned", "Tensor.pin_memory"}  # which memory there is none of
    assert taking - set(CALLS) - apart - pinned == {"set_default_device"}


@pytest.mark.parametrize("name", CALLS)
def test_another_device_is_refused(name):
    call = CALLS[name]
    for other in ("cuda", "cuda:7", "mps", 0, fg.device("cuda")):
        with pytest.raises(RuntimeError, match="no other device than the CPU"):
            call(device=other)
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        call(device="nonsense")
    with pytest.raises(TypeError, match="device"):
        call(device=[1])
    for same in ("cpu", "cpu:0", fg.device("cpu"), fg.device("cpu", 0)):
        call(device=same)
    call(device=None)


# What has its values from elsewhere, or no memory of its own.
NOT_ON_META = ("Generator", "from_dlpack", "sparse_coo_tensor", "Tensor.new")


@pytest.mark.parametrize("name", [n for n in CALLS if n not in NOT_ON_META and not n.endswith("Tensor")])
def test_all_that_is_made_on_meta_is_there(name):
    for place in ("meta", fg.device("meta")):
        made = CALLS[name](device=place)
        tensors = [made] if isinstance(made, fg.Tensor) else [*made.parameters(), *made.buffers()]
        assert tensors and all(t.is_meta for t in tensors)


def test_cuda():
    for call in (x.cuda, nn.Linear(1, 1).cuda):
        with pytest.raises(RuntimeError, match="no other device than the CPU"):
            call()


def test_flags_by_place():
    assert x.to("cpu", fg.float64, False, True).dtype == fg.float64
    assert x.to("cpu", fg.float32, False, True) is not x
    assert x.to("cpu", fg.float32, True) is x


NAMED = [
    "'cuda'",
    "'cuda:1'",
    "'cuda', 1",
    "'meta'",
    "'mps', 0",
    "'nonsense'",
    "'cuda:x'",
    "'cuda:1', 1",
    "-1",
    "None",
]


@pytest.mark.parametrize("words", NAMED)
def test_other_devices_can_be_named_as_in_torch(words):
    def found(T):
        try:
            named = eval(f"T.device({words})", {"T": T})
        except (RuntimeError, TypeError) as error:
            return type(error)
        again = pickle.loads(pickle.dumps(named))
        return repr(named), str(named), named.type, named.index, named == T.ones(1).device, again == named

    assert found(fg) == found(torch)


def test_a_device_that_is_not_looked_at_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(creation, "on_cpu", lambda value: None)
    assert finds(test_another_device_is_refused, "ones")
