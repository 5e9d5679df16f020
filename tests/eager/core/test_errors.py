"""Bad input: the message names the op, the shapes or dtypes, and the user's file and line."""

from __future__ import annotations

import subprocess
import sys

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.autograd.node import forward_text

F = fg.nn.functional
CASES = [
    (lambda: fg.ones(3) + fg.ones(4), RuntimeError, ["add", "[3]", "[4]"]),
    (lambda: fg.ones(2, 3) @ fg.ones(4, 5), RuntimeError, ["matmul", "[2, 3]", "[4, 5]"]),
    (lambda: fg.ones(2, 3) @ fg.ones(3, 5).double(), RuntimeError, ["matmul", "float32", "float64"]),
    (lambda: fg.ones(2, 3).reshape(4, 2), RuntimeError, ["reshape", "[2, 3]", "[4, 2]"]),
    (lambda: fg.ones(2, 3).view(7), RuntimeError, ["reshape", "[7]"]),
    (lambda: fg.arange(3).mean(), RuntimeError, ["mean", "int64"]),
    (lambda: fg.ones(3).sum(2), IndexError, ["sum", "Dimension out of range"]),
    (lambda: fg.cat([fg.ones(2, 3), fg.ones(2, 4)]), RuntimeError, ["cat", "[2, 3]", "[2, 4]"]),
    (lambda: fg.stack([fg.ones(2), fg.ones(3)]), RuntimeError, ["stack", "[2]", "[3]"]),
    (lambda: fg.ones(3).expand(4), RuntimeError, ["expand", "[3]", "[4]"]),
    (lambda: fg.ones(3)[5], IndexError, ["5", "size 3"]),
    (lambda: fg.ones(3)[[0, 7]], IndexError, ["7", "size 3"]),
    (lambda: ~fg.ones(3), RuntimeError, ["bitwise_not", "float32"]),
    (lambda: fg.arange(3) // 0, RuntimeError, ["floor_divide", "zero"]),
    (lambda: F.cross_entropy(fg.ones(2, 3), fg.tensor([0, 3])), IndexError, ["nll_loss", "Target 3"]),
    (
        lambda: F.cross_entropy(fg.ones(2, 3), fg.tensor([0, 1, 2])),
        ValueError,
        ["cross_entropy", "[2]", "[3]"],
    ),
    (lambda: F.layer_norm(fg.ones(2, 3), (4,)), RuntimeError, ["layer_norm", "[4]", "[2, 3]"]),
    (lambda: fg.einsum("ij,jk", fg.ones(2, 3)), RuntimeError, ["einsum"]),
    (lambda: fg.ones(2, 3).item(), RuntimeError, ["item", "[2, 3]"]),
    (lambda: bool(fg.ones(2)), RuntimeError, ["ambiguous", "[2]"]),
    (lambda: fg.ones(2, requires_grad=True).numpy(), RuntimeError, ["numpy", "detach"]),
    (lambda: fg.tensor([[1, 2], [3]]), ValueError, ["tensor"]),
    (lambda: fg.tensor("a"), TypeError, ["tensor"]),
    (lambda: fg.zeros(-1), RuntimeError, ["-1"]),
    (lambda: fg.arange(3, requires_grad=True), RuntimeError, ["floating point", "int64"]),
    (lambda: fg.gather(fg.ones(2, 2), 1, fg.tensor([[5]])), RuntimeError, ["gather", "5"]),
    (lambda: fg.amax(fg.ones(0), 0), IndexError, ["amax", "[0]"]),
    (lambda: fg.nn.Linear(3, 2)(fg.ones(4, 5)), RuntimeError, ["matmul", "[4, 5]"]),
    (lambda: fg.softmax(fg.arange(3), 0), RuntimeError, ["softmax", "int64"]),
    (lambda: fg.optim.SGD([fg.ones(1)], lr=-1), ValueError, ["learning rate"]),
]


@pytest.mark.parametrize(("call", "kind", "words"), CASES)
def test_message(call, kind, words):
    with pytest.raises(kind) as error:
        call()
    text = str(error.value)
    assert all(word in text for word in words), text
    assert "test_errors.py:" in text, text


def test_operators_with_strangers():
    with pytest.raises(TypeError):
        fg.ones(1) + "a"
    assert (fg.ones(1) == None) is False  # noqa: E711
    assert (fg.ones(1) != "a") is True


def test_import_is_light():
    code = (
        "import sys, fusegrad; print([m for m in ('numba', 'llvmlite', 'scipy', 'torch') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_numpy_warnings():
    code = (
        "import fusegrad as fg\nx = fg.zeros(3)\nprint(1 / x, fg.log(x), fg.exp(x + 1000), x / x)\n"
        "x + 1e300\n"
        "fg.ones(3).to(fg.int64) // 1; (x / x).to(fg.int64)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_both_lines_of_a_write_after_saving():
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    z = y * y  # kept here
    y.add_(1)  # written here
    with pytest.raises(RuntimeError) as error:
        z.sum().backward()  # noticed here
    text = str(error.value)
    assert all(f"  # {what} here" in text for what in ("kept", "written", "noticed")), text
    assert text.count("test_errors.py:") == 3
    e = x.exp()
    s = e.sum()
    e[0] = 3.0  # written by index
    with pytest.raises(RuntimeError, match=r"s = e\.sum|e = x\.exp(?s:.*)") as error:
        (s + e.sum()).backward()
    assert "# written by index" in str(error.value)


def test_lines_are_those_of_the_users_own_functions():
    class Block(fg.nn.Module):
        def forward(self, x):
            return fg.nn.functional.softplus(x) * x  # inside the module

    x = fg.tensor([1.0], requires_grad=True)
    y = Block()(x)
    assert "inside the module" in forward_text(y.grad_fn)
    assert "y.sum()" in forward_text(y.sum().grad_fn)
    for node, _ in y.grad_fn.next_functions:
        assert node.name().endswith("AccumulateGrad") or "inside the module" in forward_text(node)


def test_an_error_in_a_rule_shows_the_forward_line():
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    y = x * fg.tensor([1.0, 2.0])  # forward
    with pytest.raises(RuntimeError, match=r"Mismatch in shape"):
        y.backward(fg.ones(3))
    y.grad_fn.inputs[1].array = fg.ones(3).array  # so that the rule fails
    with pytest.raises(RuntimeError, match=r"in the backward of .*test_errors.py:\d+: y = .*# forward"):
        y.sum().backward()


IN_TORCHS_WORDS = {
    "expand": (
        lambda t: t.ones(2, 3).expand(4, 3),
        r"expanded size of the tensor \(4\) must match the existing size \(2\)",
    ),
    "expand, last": (
        lambda t: t.ones(2, 3).expand(1, 1),
        r"\(1\) must match the existing size \(3\) at non-singleton dim",
    ),
    "expand to fewer": (
        lambda t: t.ones(2, 3).expand(3),
        r"number of sizes provided \(1\) must be greater or equal",
    ),
    "expand, leading": (
        lambda t: t.ones(2).expand(-1, 2),
        r"\(-1\) isn't allowed in a leading, non-existing dimension 0",
    ),
    "view": (lambda t: t.ones(0).view(-1, 0), "because the unspecified dimension size -1 can be any value"),
    "movedim": (
        lambda t: t.ones(2, 3).movedim((1, 0), (0,)),
        "movedim: Invalid source or destination dims",
    ),
    "flip": (lambda t: t.ones(2).flip(), "missing 1 required positional arguments"),
    "fliplr": (lambda t: t.ones(2).fliplr(), "Input must be >= 2-d."),
    "flipud": (lambda t: t.tensor(1).flipud(), "Input must be >= 1-d."),
    "unfold": (lambda t: t.ones(7).unfold(0, -1, 1), "size is -1 but must be >= 0"),
    "tensor_split": (
        lambda t: t.tensor(1).tensor_split(2),
        "expected at least a 1-dimensional tensor, but got a tensor with 0",
    ),
    "index of a number": (lambda t: t.tensor(1)[0], "invalid index of a 0-dim tensor"),
    "unravel_index": (lambda t: t.unravel_index(t.tensor(0.5), (2, 2)), "to be integer dtype"),
    "addcdiv": (
        lambda t: t.addcdiv(*[t.ones(1, dtype=t.int32)] * 3),
        "Integer division with addcdiv is no longer supported",
    ),
}
IN_TORCHS_WORDS |= {
    "keys of another rank": (
        lambda t: t.nn.MultiheadAttention(4, 2)(t.ones(2, 2, 4), t.ones(2, 4), t.ones(2, 2, 4)),
        "expected `key` and `value` to be 3-D but found 2-D and 3-D tensors respectively",
    ),
    "a mask of another rank": (
        lambda t: t.nn.MultiheadAttention(4, 2)(*[t.ones(2, 2, 4)] * 3, attn_mask=t.ones(2)),
        "expected `attn_mask` to be `None`, 2-D or 3-D but found 1-D tensor instead",
    ),
    "an empty batch": (
        lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(0, 0), []),
        "Cannot pack empty tensors",
    ),
    "no sequences": (
        lambda t: t.nn.utils.rnn.pad_sequence(5),
        "Expected iterable for input sequences, but got arg of type",
    ),
    "shapes of floats": (lambda t: t.broadcast_shapes(1.5), "Input shapes should be of type ints"),
    "places of a split": (
        lambda t: t.tensor_split(t.ones(3), t.tensor(1.5)),
        "to have dtype of long, but got Float",
    ),
    "pairs that lie apart": (
        lambda t: t.view_as_complex(t.ones(2, 3).t()),
        "Tensor must have a last dimension with stride 1",
    ),
    "empty channels of a pool": (
        lambda t: t.nn.functional.fractional_max_pool2d(t.ones(1, 0, 50, 32), 3, (2, 2)),
        "Expected input to have non-zero size for non-batch dimensions",
    ),
    "kernel of a pool": (
        lambda t: t.nn.functional.fractional_max_pool2d(t.ones(1, 2, 9, 9), (1,), (2, 2)),
        "kernel_size must either be a single Int or",
    ),
    "samples of a pool": (
        lambda t: t.nn.functional.fractional_max_pool2d(
            t.ones(1, 2, 9, 9), 2, (2, 2), _random_samples=t.ones(0, 2, 2)
        ),
        "Expect _random_samples",
    ),
    "view of another dtype": (
        lambda t: t.zeros(4, 3, dtype=t.uint8).view(t.float32),
        r"self.size\(-1\) must be divisible by 4",
    ),
    "view of another dtype, beside": (
        lambda t: t.zeros(4, 5, dtype=t.uint8)[:, 1:].view(t.int32),
        r"self.storage_offset\(\) must be divisible by 4",
    ),
    "view of another dtype, skewed": (
        lambda t: t.zeros(64, dtype=t.uint8).as_strided((4, 4), (1, 1)).view(t.int32),
        r"self.stride\(0\) must be divisible by 4",
    ),
    "kernel too large": (
        lambda t: t.nn.functional.conv2d(t.ones(1, 1, 4, 4), t.ones(1, 1, 3, 3), dilation=3, padding=1),
        r"Calculated padded input size per channel: \(6 x 6\). Kernel size: \(7 x 7\). Kernel size can't be",
    ),
    "stride of a convolution": (
        lambda t: t.nn.functional.conv1d(t.ones(1, 1, 4), t.ones(1, 1, 2), stride=0),
        "non-positive stride is not supported",
    ),
    "dimensions of a convolution": (
        lambda t: t.nn.functional.conv2d(t.ones(1, 10, 1, 28, 28), t.ones(6, 1, 5, 5)),
        r"Expected 3D \(unbatched\) or 4D \(batched\) input to conv2d, but got input of size: \[1, 10, 1, 28",
    ),
    "stride of a pool": (
        lambda t: t.nn.functional.max_pool1d(t.ones(1, 1, 4), 2, stride=0),
        "stride should not be zero|stride must be greater than zero",
    ),
}


@pytest.mark.parametrize("name", IN_TORCHS_WORDS)
def test_errors_are_in_torchs_words(name):
    call, words = IN_TORCHS_WORDS[name]
    kinds = []
    for lib in (torch, fg):
        with pytest.raises(Exception, match=words) as caught:
            call(lib)
        kinds.append(caught.type)
    assert issubclass(kinds[1], kinds[0]), kinds
