"""Convolutions as networks have them with pools and norms; attention."""

from __future__ import annotations

from typing import Any

from families.declare import programs


@programs(
    "convolution",
    "batch inputs outputs size side stride",
    *("8 3 16 16 3 1 float32", "16 16 32 28 3 1 float32", "4 64 64 14 3 1 float32", "8 32 64 14 1 1 float32"),
    *("8 3 32 32 5 1 float32", "8 16 32 33 3 2 float32", "4 3 16 64 7 2 float32", "4 8 8 16 3 1 float64"),
)
def plain(
    ops: Any, draw: Any, batch: int, inputs: int, outputs: int, size: int, side: int, stride: int
) -> Any:
    """conv2d, bias, relu."""
    convolve, relu = ops.conv2d, ops.relu

    def loss(x, kernel, bias):
        return relu(convolve(x, kernel, bias, stride=stride, padding=side // 2)).mean()

    weights = [draw.kernel(outputs, inputs, side, side), draw.normal(outputs)]
    return loss, [draw.normal(batch, inputs, size, size), *weights]


@programs("convolution", "batch channels size", "8 16 16 float32", "4 64 28 float32")
def depthwise(ops: Any, draw: Any, batch: int, channels: int, size: int) -> Any:
    """A depthwise kernel and a pointwise one, as mobile networks have them."""
    convolve, silu = ops.conv2d, ops.silu

    def loss(x, deep, point):
        return (convolve(silu(convolve(x, deep, padding=1, groups=channels)), point) ** 2).mean()

    kernels = [draw.kernel(channels, 1, 3, 3), draw.kernel(channels, channels, 1, 1)]
    return loss, [draw.normal(batch, channels, size, size), *kernels]


@programs(
    "convolution",
    "batch length width dilation",
    "8 100 16 1 float32",
    "4 1000 32 4 float32",
    "8 256 8 2 float64",
)
def causal(ops: Any, draw: Any, batch: int, length: int, width: int, dilation: int) -> Any:
    """A dilated convolution over time, that sees only the past."""
    convolve, pad, tanh, sigmoid = ops.conv1d, ops.pad, ops.tanh, ops.sigmoid

    def loss(x, kernel, gate):
        past = pad(x, (2 * dilation, 0))
        return (
            tanh(convolve(past, kernel, dilation=dilation)) * sigmoid(convolve(past, gate, dilation=dilation))
        ).mean()

    return loss, [
        draw.normal(batch, width, length),
        draw.kernel(width, width, 3),
        draw.kernel(width, width, 3),
    ]


@programs("convolution", "batch channels size", "16 8 16 float32", "16 32 28 float32")
def block(ops: Any, draw: Any, batch: int, channels: int, size: int) -> Any:
    """Convolution, batch norm, relu, max pool."""
    convolve, norm, relu, pool = ops.conv2d, ops.batch_norm, ops.relu, ops.max_pool2d

    def loss(x, kernel, gain, shift):
        y = norm(convolve(x, kernel, padding=1), None, None, gain, shift, training=True)
        return (pool(relu(y), 2) ** 2).mean()

    norms = [draw.positive(channels), draw.normal(channels)]
    return loss, [draw.normal(batch, channels, size, size), draw.kernel(channels, channels, 3, 3), *norms]


@programs("convolution", "batch channels size", "8 16 14 float32", "4 64 14 float32")
def residual(ops: Any, draw: Any, batch: int, channels: int, size: int) -> Any:
    """Two convolutions with group norms around a skip."""
    convolve, norm, relu = ops.conv2d, ops.group_norm, ops.relu

    def loss(x, one, two, gain, shift):
        y = relu(norm(convolve(x, one, padding=1), 4, gain, shift))
        return (relu(x + norm(convolve(y, two, padding=1), 4, gain, shift)) ** 2).mean()

    kernels = [draw.kernel(channels, channels, 3, 3) for _ in range(2)]
    return loss, [
        draw.normal(batch, channels, size, size),
        *kernels,
        draw.positive(channels),
        draw.normal(channels),
    ]


@programs("convolution", "batch channels size", "8 8 7 float32", "8 32 14 float32")
def transposed(ops: Any, draw: Any, batch: int, channels: int, size: int) -> Any:
    """A decoder's step: a convolution that doubles the image."""
    convolve, relu = ops.conv_transpose2d, ops.relu

    def loss(x, kernel, bias):
        return (relu(convolve(x, kernel, bias, stride=2, padding=1)) ** 2).mean()

    kernel = draw.kernel(channels, channels // 2, 4, 4)
    return loss, [draw.normal(batch, channels, size, size), kernel, draw.normal(channels // 2)]


@programs(
    "convolution",
    "kind batch channels size",
    "max 8 16 33 float32",
    "average 16 32 28 float32",
    "max 4 8 64 float64",
)
def pools(ops: Any, draw: Any, kind: str, batch: int, channels: int, size: int) -> Any:
    """Windows of 2, and of 3 that overlap."""
    pool = ops.max_pool2d if kind == "max" else ops.avg_pool2d

    def loss(x):
        return (pool(x, 2) ** 2).mean() + (pool(x, 3, stride=2) ** 2).mean()

    return loss, [draw.normal(batch, channels, size, size)]


@programs("convolution", "batch size", "8 28 float32", "64 28 float32")
def lenet(ops: Any, draw: Any, batch: int, size: int) -> Any:
    """The classifier of digits: two convolutions, two pools, two layers."""
    convolve, relu, pool, entropy = ops.conv2d, ops.relu, ops.max_pool2d, ops.cross_entropy

    def loss(x, labels, k1, b1, k2, b2, w1, c1, w2, c2):
        y = pool(relu(convolve(x, k1, b1, padding=2)), 2)
        y = pool(relu(convolve(y, k2, b2)), 2).reshape(batch, -1)
        return entropy(relu(y @ w1 + c1) @ w2 + c2, labels)

    kernels = [draw.kernel(6, 1, 5, 5), draw.normal(6), draw.kernel(16, 6, 5, 5), draw.normal(16)]
    images = [draw.normal(batch, 1, size, size), draw.integers(10, batch)]
    return loss, [*images, *kernels, *draw.layers(400, 84, 10)]


@programs(
    "attention",
    "batch heads length width",
    "2 2 8 8 float32",
    "4 4 64 16 float32",
    "2 8 256 32 float32",
    "2 2 33 16 float64",
)
def written_out(ops: Any, draw: Any, batch: int, heads: int, length: int, width: int) -> Any:
    """Softmax attention as papers write it, with a causal mask."""
    softmax, transpose, where, tril, ones = ops.softmax, ops.transpose, ops.where, ops.tril, ops.ones

    def loss(q, k, v):
        scores = q @ transpose(k, -1, -2) / width**0.5
        scores = where(tril(ones((length, length))) > 0, scores, -1e9)
        return ((softmax(scores, dim=-1) @ v) ** 2).mean()

    return loss, [draw.normal(batch, heads, length, width) for _ in range(3)]


@programs("attention", "batch heads length width", "4 4 33 16 float32", "2 8 256 32 float32")
def library_call(ops: Any, draw: Any, batch: int, heads: int, length: int, width: int) -> Any:
    """The library's own attention."""
    attention = ops.scaled_dot_product_attention

    def loss(q, k, v):
        return (attention(q, k, v, is_causal=True) ** 2).mean()

    return loss, [draw.normal(batch, heads, length, width) for _ in range(3)]


@programs(
    "attention", "batch length width heads", "2 16 32 2 float32", "4 64 64 4 float32", "8 128 128 4 float32"
)
def encoder_layer(ops: Any, draw: Any, batch: int, length: int, width: int, heads: int) -> Any:
    """A transformer's layer: norms, attention, a perceptron, two skips."""
    attention, norm, gelu, transpose = (
        ops.scaled_dot_product_attention,
        ops.layer_norm,
        ops.gelu,
        ops.transpose,
    )

    def loss(x, wq, wk, wv, wo, gain, shift, w1, b1, w2, b2):
        y = norm(x, (width,), gain, shift)
        split = [transpose((y @ w).reshape(batch, length, heads, -1), 1, 2) for w in (wq, wk, wv)]
        x = x + transpose(attention(*split), 1, 2).reshape(batch, length, width) @ wo
        return ((x + gelu(norm(x, (width,), gain, shift) @ w1 + b1) @ w2 + b2) ** 2).mean()

    projections = [draw.normal(width, width, scale=width**-0.5) for _ in range(4)]
    norms = [draw.positive(width), draw.normal(width)]
    return loss, [
        draw.normal(batch, length, width),
        *projections,
        *norms,
        *draw.layers(width, 4 * width, width),
    ]


@programs("attention", "batch length width", "4 16 16 float32", "16 100 64 float32")
def additive(ops: Any, draw: Any, batch: int, length: int, width: int) -> Any:
    """Pooling by learned weights."""
    softmax, tanh = ops.softmax, ops.tanh

    def loss(x, w, v):
        weights = softmax(tanh(x @ w) @ v, dim=1)
        return (((weights[:, :, None] * x).sum(1)) ** 2).mean()

    return loss, [draw.normal(batch, length, width), draw.normal(width, width, scale=0.1), draw.normal(width)]
