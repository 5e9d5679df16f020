"""Views, and joining tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_samples.table import add, f, i

_ROWS = np.linspace(-2.0, 2.0, 6).reshape(2, 3)

add("reshape", lambda fg, x: fg.reshape(x, (4, -1)), f(3, 4))
add("reshape", lambda fg, x: x.t().reshape(-1), f(3, 4))
add("reshape", lambda fg, x: x.unsqueeze(1).squeeze().flatten(), f(3, 4))
add("permute", lambda fg, x: fg.permute(x, (2, 0, 1)), f(2, 3, 4))
add("permute", lambda fg, x: x.T + x.transpose(0, 1), f(2, 3))
add("permute", lambda fg, x: fg.movedim(x, 0, -1), f(2, 3, 4))
add("expand", lambda fg, x: x.expand(2, 3, 4), f(3, 1))
add("expand", lambda fg, x: x.repeat(2, 3) + x.tile((2, 3)), f(2, 2))
add("flip", lambda fg, x: fg.flip(x, (0, 1)), f(2, 3))
add("detach", lambda fg, x: x.detach(), f(2, 3), gradients=False)
add("contiguous", lambda fg, x: x.t().contiguous(), f(2, 3))
for _index in (
    0,
    -1,
    (1, 2),
    slice(1, 3),
    (slice(None), 1),
    (..., 0),
    (None, 1),
    (slice(None, None, 2), slice(1, -1)),
):
    add("getitem", lambda fg, x, index=_index: x[index], f(4, 5))
add("getitem", lambda fg, x: fg.stack(fg.chunk(x, 2, 1)) + fg.stack(x.split(2, dim=1)), f(3, 4))
add("getitem", lambda fg, x: fg.stack(x.unbind(1)), f(3, 4))
add("select_at", lambda fg, x: x[fg.tensor(2)] * x[:, fg.tensor(-1), None], f(4, 4))
add("select_at", lambda fg, x: x[..., fg.tensor(1), 1:] + x[fg.tensor(0), fg.tensor(2), 1], f(2, 3, 4))
add("getitem", lambda fg, x: fg.narrow(x, 1, 1, 2), f(3, 4))
add("embed", lambda fg, x: _inner_gradient(fg, x), f(4, 5), gradients=False)
add("cat", lambda fg, x, y: fg.cat([x, y], 1), f(2, 3), f(2, 1))
add("stack", lambda fg, x, y: fg.stack([x, y], -1), f(2, 3), f(2, 3))
add("stack", lambda fg, x, y: fg.stack((x, y, x), 1), _ROWS, _ROWS.astype(np.int64))
add("repeat", lambda fg, x: x.repeat(2, 1, 3) + x.tile(2, 1).sum(), _ROWS)
add("cat", lambda fg, x: fg.roll(x, 2) + fg.roll(x, (1, -1), (0, 1)), f(3, 4))
add("cat", lambda fg, x, y: fg.cat([x, y]), f(2, 3), i(1, 3))
add("reshape", lambda fg, x: x.t().contiguous().view(-1) + x.ravel().unflatten(0, (2, -1)).view(-1), f(2, 3))
add(
    "reshape",
    lambda fg, x: fg.atleast_3d(x) + fg.atleast_2d(x).unsqueeze(-1) + fg.atleast_1d(x).sum(),
    f(3, 2),
)
add("reshape", lambda fg, x: x.expand(2, 3).sum_to_size(3) + x.sum_to_size(1), f(3))
add("view_dtype", lambda fg, x: x.view(fg.uint8), f(2, 3), gradients=False)
add("view_dtype", lambda fg, x: x.view(fg.int16).sum(), i(2, 3), gradients=False)
add("permute", lambda fg, x: fg.adjoint(x) + x.swapdims(-1, -2) + x.mT, f(2, 3, 4))
add("flip", lambda fg, x: fg.rot90(x) + fg.rot90(x, -1) + fg.fliplr(fg.flipud(x)).t(), f(2, 3))
add("getitem", lambda fg, x: fg.cat(fg.tensor_split(x, 3), 0) + fg.cat(x.tensor_split((1, 3)), 0), f(5, 2))
add("getitem", lambda fg, x: fg.hsplit(x, 2)[1].sum() + fg.vsplit(x, [1, 2])[0], f(3, 4))
add("cat", lambda fg, x, y: fg.hstack([x, y]) + fg.column_stack([x, y]), f(2, 3), f(2, 1))
add("cat", lambda fg, x, y: fg.vstack([x, y]) + fg.dstack([x, y]).sum(), f(3), f(3))
add("cat", lambda fg, x, y: fg.block_diag(x, y), f(2, 3), f(2))
add("cat", lambda fg, x, y: fg.cartesian_prod(x, y), f(2), f(3))
add("expand", lambda fg, x, y: fg.kron(x, y), f(2, 3), f(3, 1, 2))
add(
    "expand",
    lambda fg, x: x.repeat_interleave(2, 0) + fg.meshgrid(x[0], x[1], indexing="xy")[0].sum(),
    f(2, 3),
)
add("take", lambda fg, x, n: fg.repeat_interleave(x, n, dim=0), f(3, 2), i(3, high=3))
add("take", lambda fg, x: fg.combinations(x, 2, with_replacement=True), f(3))
for _arguments in ((), (1,), (-1, 1, 2), (3, 0, -1)):
    add("diagonal", lambda fg, x, given=_arguments: fg.diagonal(x, *given), f(3, 4, 2))
add("diagonal", lambda fg, x: fg.trace(x) + fg.diag(x, 1).sum(), f(3, 4))
add("diagonal_scatter", lambda fg, x, y: fg.diagonal_scatter(x, y, 1), f(3, 4), f(3))
add("diagonal_scatter", lambda fg, x: fg.diag_embed(x, -1, 0, 2), f(2, 3))
add("diagonal_scatter", lambda fg, x: fg.diag(x, 1) + fg.diagflat(x, -1), f(3))
add("unfold", lambda fg, x: x.unfold(1, 3, 2), f(2, 7, 2))
add("unfold", lambda fg, x: x.unfold(-1, 2, 3) + x.t().unfold(0, 1, 2).sum(), f(2, 7))
add("as_strided", lambda fg, x: fg.as_strided(x, (2, 2), (1, 2)), f(3, 2))
add("as_strided_from_gaps", lambda fg, x: x.t().as_strided((2, 3), (2, 1), 1), f(3, 2))
add("as_strided_from_gaps", lambda fg, x: x.expand(2, 3).as_strided((3, 2), (1, 0)), f(3), second=False)
add("put", lambda fg, x, y: _scattered_by_strides(fg, x, y), f(3, 2), f(2), gradients=False)
for _pad, _mode in (
    ((2, 1), "reflect"),
    ((2, 1), "replicate"),
    ((2, 1, 1, 0), "circular"),
    ((-1, 2), "replicate"),
):
    _call = lambda fg, x, pad=_pad, mode=_mode: fg.nn.functional.pad(x, pad, mode=mode)  # noqa: E731
    add("take", _call, f(2, 3, 4))
add("where", lambda fg, x: fg.tril(x, -1) + fg.triu(x, 1), f(2, 3, 4))
# PyTorch's own backward of vander raises: it writes into what it kept.
add("pow", lambda fg, x: fg.vander(x) + fg.vander(x, 3, increasing=True), f(3, low=0.5), gradients=False)


def _scattered_by_strides(fg: Any, x: Any, y: Any) -> Any:
    """PyTorch's gradient of it goes to the elements that were replaced, not to the others."""
    return fg.as_strided_scatter(x, y, (2,), (2,), 1)


def _inner_gradient(fg: Any, x: Any) -> Any:
    """The gradient of a basic index, whose rule is the op `embed`."""
    x = x.detach().requires_grad_()
    return fg.autograd.grad((x[1:3, 2] ** 2).sum(), x)[0]
