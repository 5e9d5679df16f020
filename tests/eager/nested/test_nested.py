"""Nested tensors beside PyTorch's with `layout=torch.jagged`: values, gradients, eager and jitted; errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad import nested

F = fg.nn.functional

# By a name: what is done, with a library and a nested tensor x [examples, ragged, 4], y of the same offsets,
# rows [examples, 1, 4] and w [4, 6].
OPS: dict[str, Callable[..., Any]] = {
    "tanh": lambda t, x, **_: x.tanh(),
    "functions": lambda t, x, **_: t.sigmoid(t.exp(x) * 0.3),
    "gelu": lambda t, x, **_: t.nn.functional.gelu(x),
    "silu, relu": lambda t, x, **_: t.nn.functional.silu(x) - t.nn.functional.relu(x),
    "clamp": lambda t, x, **_: x.clamp(-0.5, 0.7) ** 2,
    "two": lambda t, x, y, **_: x * y - x / (y.abs() + 1),
    "numbers": lambda t, x, **_: 2 - x * 3 + 1 / (x.abs() + 2),
    "last dimension": lambda t, x, w, **_: x + w[:, 0],
    "a row for each": lambda t, x, rows, **_: rows * x + rows,
    "dense first": lambda t, x, w, **_: w[:, 1] - x,
    "where": lambda t, x, y, **_: t.where(x > 0, x, y * 2),
    "masked_fill": lambda t, x, **_: x.masked_fill(x > 0.2, 0.0),
    "float64": lambda t, x, **_: x.to(t.float64) * 2,
    "linear": lambda t, x, w, **_: t.nn.functional.linear(x, w.t()),
    "matmul": lambda t, x, w, **_: x @ w,
    "matmul of each": lambda t, x, rows, w, **_: x @ (rows.transpose(1, 2) * w),
    "layer_norm": lambda t, x, w, **_: t.nn.functional.layer_norm(x, (4,), w[:, 0], w[:, 1]),
    "rms_norm": lambda t, x, **_: t.nn.functional.rms_norm(x, (4,)),
    "softmax": lambda t, x, **_: t.softmax(x, -1),
    "softmax over the ragged": lambda t, x, y, **_: t.softmax(x, 1) * y,
    "log_softmax": lambda t, x, y, **_: t.log_softmax(x, -1) * y,
    "sum": lambda t, x, **_: x.sum(),
    "mean": lambda t, x, **_: x.mean(),
    "sum over the ragged": lambda t, x, **_: x.sum(1),
    "sum, kept": lambda t, x, **_: x.sum(dim=1, keepdim=True) * 2,
    "sum of the last": lambda t, x, **_: x.sum(-1),
    "sum of the last, kept": lambda t, x, **_: x.sum(-1, keepdim=True) * x,
    "sum of all examples": lambda t, x, **_: x.sum((0, 1)),
    "mean over the ragged": lambda t, x, **_: x.mean(1),
    "mean of the last": lambda t, x, **_: x.mean(-1),
    "amax": lambda t, x, **_: x.amax(1),
    "amin": lambda t, x, **_: x.amin(1, keepdim=True),
    "max": lambda t, x, **_: x.max(1)[0] + x.max(1)[1],
    "min": lambda t, x, **_: x.min(1).values,
    "amax of the last": lambda t, x, **_: x.amax(-1),
    "argmax": lambda t, x, **_: x.argmax(1),
    "argmax of the last": lambda t, x, **_: x.argmax(-1),
    "prod": lambda t, x, **_: x.prod(1),
    "any, all": lambda t, x, **_: (x > 0).any(1) & (x > -1).all(1),
    "count": lambda t, x, **_: (x > 0).sum(1),
    "padded": lambda t, x, **_: x.to_padded_tensor(1.5),
    "padded to a size": lambda t, x, **_: t.nested.to_padded_tensor(x, 0.5, (4, 7, 4)),
    "unbind": lambda t, x, **_: [e * 2 for e in x.unbind()],
    "an example": lambda t, x, **_: x[1] * x[-1][:1],
    "all in a loop": lambda t, x, **_: [e.sum() for e in x],
    "cat": lambda t, x, y, **_: t.cat([x, y * 2], -1),
    "chunk": lambda t, x, **_: x.chunk(2, -1)[0] * x.chunk(2, -1)[1],
    "split": lambda t, x, **_: x.split(2, -1)[1],
    "select": lambda t, x, **_: x.select(-1, 2),
    "transpose": lambda t, x, **_: x.transpose(1, 2).sin().transpose(1, 2),
    "unsqueeze": lambda t, x, **_: x.unsqueeze(-1) * 2,
    "unsqueeze in front": lambda t, x, **_: x.unsqueeze(1) * 2,
    "heads": lambda t, x, **_: x.unflatten(-1, (2, 2)).transpose(1, 2) * 2,
    "heads and back": lambda t, x, **_: (
        x.unflatten(-1, (2, 2)).transpose(1, 2).transpose(1, 2).flatten(-2) * x
    ),
    "view": lambda t, x, **_: x.view(4, -1, 2, 2) * 2,
    "permute": lambda t, x, **_: x.unflatten(-1, (2, 2)).permute(0, 2, 1, 3) * 2,
    "like": lambda t, x, **_: t.zeros_like(x) + t.ones_like(x) * x,
    "detach": lambda t, x, **_: x.detach() * x.clone().contiguous(),
    "values": lambda t, x, **_: x.values() * 2,
    "from values": lambda t, x, **_: t.nested.nested_tensor_from_jagged(x.values() * 2, x.offsets()) + x,
    "from lengths": lambda t, x, **_: t.nested.nested_tensor_from_jagged(
        x.values(), lengths=x.offsets().diff()
    ),
    "attention": lambda t, x, y, **_: _attention(t, x, y, 2),
    "attention, one head": lambda t, x, y, **_: _attention(t, x, y, 1),
    "as nested": lambda t, x, w, **_: t.nested.as_nested_tensor([w[:2], w[1:2] * 2], layout=t.jagged) * 2,
    "narrow": lambda t, x, w, **_: t.nested.narrow(
        w, 1, t.tensor([0, 1, 2, 3]), t.tensor([3, 2, 1, 3]), layout=t.jagged
    ).unbind(),
    "masked_select": lambda t, x, w, **_: t.nested.masked_select(w, w > 0).unbind(),
}
LENGTHS = (2, 1, 5, 3)


def _attention(t: Any, x: Any, y: Any, heads: int) -> Any:
    q, k, v = (n.unflatten(-1, (heads, 4 // heads)).transpose(1, 2) for n in (x, y, x * y))
    return t.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)


def _given(t: Any, lengths: Any = LENGTHS, seed: int = 0) -> dict[str, Any]:
    draw = np.random.default_rng(seed)

    def made(*shape: int) -> Any:
        return t.tensor(draw.normal(size=shape).astype(np.float32))

    x = t.nested.nested_tensor([made(n, 4) for n in lengths], layout=t.jagged, requires_grad=True)
    y = t.nested.nested_tensor_from_jagged(made(sum(lengths), 4).requires_grad_(), x.offsets())
    return {
        "x": x,
        "y": y,
        "rows": made(len(lengths), 1, 4).requires_grad_(),
        "w": made(4, 6).requires_grad_(),
    }


def _parts(made: Any) -> list[Any]:
    if isinstance(made, (list, tuple)):
        return [part for each in made for part in _parts(each)]
    return [made.values(), made.offsets()] if made.is_nested else [made]


def _gradients(given: dict[str, Any]) -> list[Any]:
    leaves = [v.values() if v.is_nested else v for v in given.values()]
    return [leaf.grad for leaf in leaves]


def _same(own: Any, theirs: Any) -> None:
    assert (own is None) == (theirs is None)
    if theirs is not None:
        theirs = theirs.detach().numpy()
        assert own.detach().numpy().dtype == theirs.dtype
        np.testing.assert_allclose(own.detach().numpy(), theirs, rtol=2e-5, atol=2e-6)


def _leaves(t: Any, given: dict[str, Any]) -> dict[str, Any]:
    """PyTorch's values() are no leaves: gradients go to these."""
    made = {}
    offsets = given["x"].offsets()
    for name, value in given.items():
        made[name] = value.values().detach().requires_grad_() if value.is_nested else value
    most = int(offsets.diff().max())  # PyTorch takes the size of all for the longest, if nobody says it
    made_of = {
        n: t.nested.nested_tensor_from_jagged(made[n], offsets, max_seqlen=most) if v.is_nested else v
        for n, v in given.items()
    }
    return {"leaves": made, "given": made_of}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", OPS)
def test_ops_are_those_of_torch(name: str, jitted: bool) -> None:
    op = OPS[name]
    function = fg.jit(lambda given: op(fg, **given)) if jitted else lambda given: op(fg, **given)
    for turn, lengths in enumerate([LENGTHS, LENGTHS, (4, 2, 3, 1)] if jitted else [LENGTHS]):
        outcomes = []
        for t in (fg, torch):
            split = _leaves(t, _given(t, lengths, turn))
            made = function(split["given"]) if t is fg else op(t, **split["given"])
            parts = _parts(made)
            derived = [p for p in parts if p.requires_grad]
            try:
                if derived:
                    sum((p * p).sum() for p in derived).backward()
            except (AttributeError, NotImplementedError, RuntimeError, ValueError):
                assert t is torch  # which derives few of them; see the next test
                outcomes.append((parts, []))
            else:
                outcomes.append((parts, [leaf.grad for leaf in split["leaves"].values()]))
        (own, own_gradients), (theirs, gradients) = outcomes
        assert len(own) == len(theirs)
        for one, other in zip(own, theirs, strict=True):
            _same(one, other)
        # PyTorch 2.13 derives its softmax over the ragged dimension as one over another.
        for one, other in zip(
            own_gradients, gradients if name != "softmax over the ragged" else [], strict=False
        ):
            _same(one, other)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in OPS if name != "detach"])
def test_gradients_are_differences(name: str) -> None:
    offsets = _given(fg)["x"].offsets()
    given = {n: v.values() if v.is_nested else v for n, v in _given(fg).items()}

    def function(x: Any, y: Any, rows: Any, w: Any) -> Any:
        x, y = (nested.nested_tensor_from_jagged(v, offsets) for v in (x, y))
        parts = _parts(OPS[name](fg, x=x, y=y, rows=rows, w=w))
        parts = [part for part in parts if part.requires_grad]
        return sum((p * p).sum() for p in parts) if parts else (rows * 0).sum()

    assert fg.autograd.gradcheck(function, [v.detach().double().requires_grad_() for v in given.values()])


ERRORS: dict[str, tuple[Callable[..., Any], str]] = {
    "other offsets": (lambda x: x + _given(fg, LENGTHS[::-1])["x"], "nested_tensor_from_jagged"),
    "a tensor as long": (lambda x: x + fg.ones(4, 5, 4), "size 1 in the ragged dimension"),
    "other examples": (lambda x: x + fg.ones(3, 1, 4), "other examples"),
    "over the examples": (lambda x: x.sum(0), "to_padded_tensor"),
    "softmax of the examples": (lambda x: fg.softmax(x, 0), "batch dimension"),
    "cat of examples": (lambda x: fg.cat([x, x]), "dim=0"),
    "chunks of the ragged": (lambda x: x.chunk(2, 1), "ragged dimension 1"),
    "sorted": (lambda x: x.sort(1), "to_padded_tensor"),
    "a loss": (lambda x: fg.nn.functional.mse_loss(x, x), "values()"),
    "a list": (lambda x: x.tolist(), "to_padded_tensor"),
    "NumPy": (lambda x: x.numpy(), "to_padded_tensor"),
    "bool": (bool, "any() or .all()"),
    "a size": (lambda x: range(x.shape[1]), "offsets().diff()"),
    "normalized over the ragged": (lambda x: F.layer_norm(x.transpose(1, 2), (4,)), "transpose"),
    "in place": (lambda x: x.transpose_(1, 2), "to_padded_tensor"),
    "no layout": (lambda x: nested.nested_tensor([fg.ones(2)]), "layout=torch.jagged"),
    "two ragged": (lambda x: nested.nested_tensor([fg.ones(1, 2), fg.ones(2, 1)], layout=fg.jagged), "pad"),
    "offsets that end": (lambda x: nested.nested_tensor_from_jagged(fg.ones(3), fg.tensor([0, 2])), "0 to 3"),
    "small room": (lambda x: x.to_padded_tensor(0.0, (4, 2, 4)), "no room"),
    "no such example": (lambda x: x[4], "out of bounds"),
    "masks": (
        lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=fg.ones(5, 5)), "is_causal"
    ),
    "attention of a tensor": (
        lambda x: F.scaled_dot_product_attention(x, fg.ones(4, 2, 4), x), "nested"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_to_do(case: str) -> None:
    function, words = ERRORS[case]
    with pytest.raises((RuntimeError, NotImplementedError, TypeError, IndexError)) as raised:
        function(_given(fg)["x"])
    assert words in str(raised.value)


def test_layers_take_them() -> None:
    fg.manual_seed(0)
    nn = fg.nn
    words = nested.nested_tensor([fg.tensor([1, 2]), fg.tensor([3, 4, 5])], layout=fg.jagged)
    net = nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU(), nn.Dropout(0.0))
    made = net(words)
    for own, example in zip(made, words, strict=True):
        assert fg.allclose(own, net(example), atol=1e-6)
    made.sum(1).sum().backward()
    assert all(p.grad is not None for p in net.parameters())


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_that_of_each_example(causal: bool) -> None:
    fg.manual_seed(0)
    lengths = (3, 0, 7, 1)
    offsets = fg.tensor([0, *np.cumsum(lengths)])
    parts = [fg.randn(11, 2, 4, requires_grad=True) for _ in range(3)]
    q, k, v = (nested.nested_tensor_from_jagged(p, offsets).transpose(1, 2) for p in parts)
    attention = F.scaled_dot_product_attention
    made = attention(q, k, v, is_causal=causal)
    each = [attention(*own, is_causal=causal) for own in zip(q, k, v, strict=True)]
    for own, expected in zip(made, each, strict=True):
        assert fg.allclose(own, expected, atol=1e-6)
    given = fg.autograd.grad(made.values().pow(2).sum(), parts, retain_graph=True)
    expected = fg.autograd.grad(sum(e.pow(2).sum() for e in each), parts)
    assert all(fg.allclose(a, b, atol=1e-5) for a, b in zip(given, expected, strict=True))


def test_packed_and_back() -> None:
    fg.manual_seed(0)
    x = _given(fg)["x"]
    lstm = fg.nn.LSTM(4, 3, batch_first=True, bidirectional=True)
    made, _ = lstm(nested.to_packed_sequence(x))
    found = nested.nested_tensor_from_packed(made, x)
    assert (found + found).shape == (4, x.shape[1], 6)
    for own, example in zip(found, x, strict=True):
        assert fg.allclose(own, lstm(example.unsqueeze(0))[0][0], atol=1e-6)
    alone = nested.nested_tensor_from_packed(made)
    assert fg.equal(alone.values(), found.values()) and fg.equal(alone.offsets(), x.offsets())


def test_examples_of_no_elements() -> None:
    x = nested.nested_tensor_from_jagged(fg.ones(3, 2), fg.tensor([0, 0, 3, 3]))
    assert fg.softmax(x, 1).sum(1).tolist() == [[0, 0], [1, 1], [0, 0]]
    assert x.sum(1).tolist() == [[0, 0], [3, 3], [0, 0]]
    assert x.to_padded_tensor(7.0)[0].tolist() == [[7, 7]] * 3
    assert [e.shape[0] for e in x] == [0, 3, 0]


def test_calls_with_other_lengths_replay() -> None:
    """Where nobody asks how long the longest is, lengths are values as any others."""
    w = fg.randn(4, 3, requires_grad=True)

    @fg.jit
    def step(x: Any) -> Any:
        weights = fg.softmax(x @ w, 1)
        loss = (weights * (x @ w)).sum(1).pow(2).sum() + x.mean(1).sum()
        loss.backward()
        return loss

    def plain(values: Any, lengths: Any) -> Any:
        return sum(
            ((e @ w).softmax(0) * (e @ w)).sum(0).pow(2).sum() + e.mean(0).sum()
            for e in values.split(lengths)
        )

    for lengths in ([2, 1, 5, 3], [1, 4, 2, 4], [3, 3, 3, 2], [5, 1, 1, 4], [2, 2, 2, 5]):
        values = fg.randn(11, 4)
        w.grad = None
        made = step(nested.nested_tensor_from_jagged(values, fg.tensor([0, *np.cumsum(lengths)])))
        expected = plain(values, lengths)
        assert fg.allclose(made, expected, rtol=1e-4)
        (gradient,) = fg.autograd.grad(expected, w)
        assert w.grad is not None and fg.allclose(w.grad, gradient, rtol=1e-3, atol=1e-5)
    assert step.stats.compiled_calls >= 3
