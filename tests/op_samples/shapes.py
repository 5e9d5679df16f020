"""Views, and joining tensors."""

from __future__ import annotations

from typing import Any

from op_samples.table import add, f, i

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
add("getitem", lambda fg, x: fg.narrow(x, 1, 1, 2), f(3, 4))
add("embed", lambda fg, x: _inner_gradient(fg, x), f(4, 5), gradients=False)
add("cat", lambda fg, x, y: fg.cat([x, y], 1), f(2, 3), f(2, 1))
add("cat", lambda fg, x, y: fg.stack([x, y], -1), f(2, 3), f(2, 3))
add("cat", lambda fg, x: fg.roll(x, 2) + fg.roll(x, (1, -1), (0, 1)), f(3, 4))
add("cat", lambda fg, x, y: fg.cat([x, y]), f(2, 3), i(1, 3))


def _inner_gradient(fg: Any, x: Any) -> Any:
    """The gradient of a basic index, whose rule is the op `embed`."""
    x = x.detach().requires_grad_()
    return fg.autograd.grad((x[1:3, 2] ** 2).sum(), x)[0]
