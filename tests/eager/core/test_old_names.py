"""PyTorch's old constructors and names, formatted numbers, and what programs ask when they start."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.core.state import in_modes, modes
from fusegrad.eager.ops.create.legacy import _NAMES

CONSTRUCTED = [
    "T.Tensor()",
    "T.Tensor(2, 3).shape",
    "T.Tensor([1, 2])",
    "T.Tensor([[1.5], [2]])",
    "T.Tensor(T.ones(2))",
    "T.Tensor(T.ones(2).double())",
    "T.Tensor((1, 2))",
    "T.Tensor(T.Size([2, 3])).shape",
    "T.Tensor(2.5)",
    "T.Tensor('a')",
    "T.Tensor(np.ones(2))",
    "T.Tensor(2, 3, device='cpu').shape",
    *[f"T.{name}([1, 0])" for name in _NAMES.values() if "Complex" not in name],
    *[f"T.{name}(2, 3).shape" for name in _NAMES.values() if "Complex" not in name],
    *[f"T.ones(1).to(T.{kind.name}).type()" for kind in _NAMES],
    "T.FloatTensor(T.ones(1).long())",
    "T.LongTensor(T.ones(1).long())",
    "T.LongTensor(3.5)",
    "T.ones(2).type(T.float64)",
    "T.ones(2).type(T.LongTensor)",
    "T.ones(2).type('torch.DoubleTensor')",
    "T.ones(2).type('nonsense')",
    "T.ones(2).data.type()",
    "T.ones(2).new(3).shape",
    "T.ones(2).new([3])",
    "T.ones(2).long().new([3])",
    "T.ones(2).new().shape",
    "T.typename(T.ones(1))",
    "T.typename(3)",
    "T.typename(T.nn.Linear)[-6:]",
    "isinstance(T.ones(1), T.FloatTensor)",
    "isinstance(T.ones(1).long(), T.FloatTensor)",
    "isinstance(1.0, T.FloatTensor)",
    "T.ones(4).split(split_size=[1, 3], dim=0)",
    "T.split(T.ones(4), split_size_or_sections=2)",
    "T.autograd.Variable(T.ones(2), requires_grad=True)",
    "str(T.get_default_device())",
    "T.set_default_device('cpu')",
    "[T.ones(1).is_xpu, T.ones(1).is_mps, T.ones(1).is_meta, T.ones(1).is_sparse, T.ones(1).is_quantized]",
    "T.cuda.is_available(), T.cuda.device_count(), T.cuda.manual_seed_all(0)",
    "T.version.cuda",
    "T.utils._pytree.tree_map(lambda x: x * 2, {'a': [1, (2, 3)]})",
    "T.utils._pytree.tree_map(lambda x, y: x * y, [1, 2], [3, 4])",
    "T.utils._pytree.tree_leaves({'a': [1, (2, 3)]})",
    "T.utils._pytree.tree_map_only(int, lambda x: x * 2, [1, 'a'])",
    "T.utils._pytree.tree_all(lambda x: x > 0, [1, 2])",
]


def outcome(T, call):
    try:
        result = eval(call, {"T": T, "np": np, "isinstance": isinstance})
    except Exception as error:
        return type(error).__name__
    if isinstance(result, tuple) and all(isinstance(r, T.Tensor) for r in result):
        result = list(result)
    listed = result if isinstance(result, list) else [result]
    return [(str(r.dtype), r.tolist(), r.requires_grad) if isinstance(r, T.Tensor) else r for r in listed]


@pytest.mark.parametrize("call", CONSTRUCTED)
def test_as_in_torch(call):
    with in_modes(modes()):  # one sets the default device
        assert outcome(fg, call) == outcome(torch, call)


def test_no_other_device():
    assert not fg.accelerator.is_available()
    with pytest.raises(RuntimeError, match="no other device"):
        fg.set_default_device("cuda")
    with pytest.raises(RuntimeError, match="no other device"):
        fg.Tensor(2, device="cuda")


def test_subclasses_are_constructed():
    class Named(fg.Tensor):
        pass

    assert type(Named(2, 3)) is Named and Named([1.0]).tolist() == [1.0]
    assert type(fg.nn.Parameter(fg.ones(2))) is fg.nn.Parameter


def test_attention_is_the_same_whatever_is_chosen():
    from fusegrad.nn.attention import SDPBackend, sdpa_kernel

    x = fg.rand(1, 2, 3, 4)
    attention = fg.nn.functional.scaled_dot_product_attention
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        assert fg.equal(attention(x, x, x), attention(x, x, x))
    with pytest.raises(TypeError), sdpa_kernel([]):
        pass


def test_numbers_are_formatted():
    def program(T):
        a = T.ones(2, requires_grad=True)
        values = [
            T.tensor(1.5),
            (a * 1.5).sum(),
            T.tensor(1.5, requires_grad=True),
            (a * 2)[0],
            a.view(-1)[1],
        ]
        values += [T.tensor(3), T.tensor(True)]
        return [f"{v:{spec}}" for v in values for spec in ("", ".2f", "+.3f", "8.1e", ">8")]

    assert program(fg) == program(torch)
    for T in (fg, torch):
        with pytest.raises(TypeError):
            f"{T.ones(2):.2f}"


# What is compared, and with which options.
COMPARED = [
    ("T.tensor([1.0, 2, 3]), T.tensor([1.0, 2.5, 3])", {}),
    ("T.tensor([1.0, 2, 3]), T.tensor([1.0, 2.5, 3])", {"rtol": 0.5, "atol": 0}),
    ("T.tensor([1.0]), T.tensor([1.0 + 1e-6])", {}),
    ("T.tensor([1, 2]), T.tensor([1, 3])", {}),
    ("T.tensor([2**62]), T.tensor([2**62 + 1])", {}),
    ("T.tensor([True]), T.tensor([False])", {}),
    ("1.0, 2.0", {}),
    ("1, 2", {}),
    ("1, 1.0", {}),
    ("1, 1.0", {"check_dtype": False}),
    ("None, None", {}),
    ("None, 1", {}),
    ("[1.0], [1.0, 2.0]", {}),
    ("{'a': 1}, {'b': 1}", {}),
    ("{'a': [T.ones(1)]}, {'a': [T.zeros(1)]}", {}),
    ("T.ones(2), T.ones(3)", {}),
    ("T.ones(2), T.ones(2).double()", {}),
    ("T.ones(2), T.ones(2).double()", {"check_dtype": False}),
    ("T.ones(1), 1.0", {}),
    ("T.tensor(1.0), T.tensor(2.0)", {}),
    ("T.tensor(float('nan')), T.tensor(float('nan'))", {}),
    ("T.tensor(float('nan')), T.tensor(float('nan'))", {"equal_nan": True}),
    ("T.tensor([float('inf')]), T.tensor([float('inf')])", {}),
    ("T.tensor([float('inf')]), T.tensor([1.0])", {}),
    ("T.ones(2, 3).T, T.ones(3, 2)", {"check_stride": True}),
    ("T.tensor([1j]), T.tensor([1j + 1e-9])", {}),
    ("T.ones(0), T.ones(0)", {}),
    ("'a', 'a'", {}),
    ("T.ones(1), T.zeros(1)", {"msg": "other"}),
    ("T.ones(1), T.ones(1)", {"rtol": 1}),
]


@pytest.mark.parametrize(("values", "options"), COMPARED)
def test_comparing(values, options):
    def program(T):
        try:
            T.testing.assert_close(*eval(values, {"T": T}), **options)
        except Exception as error:
            # The numbers are left out: ours are computed in double precision.
            lines = str(error).splitlines() if isinstance(error, AssertionError) else []
            return type(error).__name__, [line.split(": ")[0] for line in lines]
        return "close"

    assert program(fg) == program(torch)
