"""Models in the style of well-known ones, and functions with branches and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fusegrad as fg
from fusegrad import nn
from fusegrad.nn import functional as F

Tensor = fg.Tensor


def images(make: Callable[[], nn.Module], size: int = 32, channels: int = 3) -> Callable[[], Any]:
    """A model of images."""
    return lambda: (make(), lambda batch: (fg.randn(batch, channels, size, size),))


def rows(make: Callable[[], Any], *shape: int) -> Callable[[], Any]:
    """A function of numbers, of so many for each example."""
    return lambda: (make(), lambda batch: (fg.randn(batch, *shape),))


def words(make: Callable[[], Any], length: int = 7) -> Callable[[], Any]:
    """A model of words of a vocabulary of 20."""
    return lambda: (make(), lambda batch: (fg.randint(0, 20, (batch, length)),))


def conv(given: int, made: int, size: int = 3, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    layer = nn.Conv2d(given, made, size, stride, size // 2, groups=groups, bias=False)
    return [layer, nn.BatchNorm2d(made)]


class Residual(nn.Module):
    """A ResNet's basic block."""

    def __init__(self, given: int, made: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*conv(given, made, 3, stride), nn.ReLU(), *conv(made, made))
        self.short = nn.Sequential(*conv(given, made, 1, stride)) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return fg.relu(self.body(x) + self.short(x))


class Excited(nn.Module):
    """MobileNetV3's inverted bottleneck, with squeeze and excitation."""

    def __init__(self, width: int, wide: int, act: type[nn.Module]) -> None:
        super().__init__()
        self.grow = nn.Sequential(*conv(width, wide, 1), act(), *conv(wide, wide, 5, groups=wide), act())
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, 4, 1), nn.ReLU(), nn.Conv2d(4, wide, 1), nn.Hardsigmoid()
        )
        self.shrink = nn.Sequential(*conv(wide, width, 1))

    def forward(self, x: Tensor) -> Tensor:
        h = self.grow(x)
        return x + self.shrink(h * self.gate(h))


class Dense(nn.Module):
    """A DenseNet's block."""

    def __init__(self, width: int, growth: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(width + i * growth), nn.ReLU(), *conv(width + i * growth, growth))
            for i in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = fg.cat([x, layer(x)], 1)
        return x


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(*conv(3, 8), nn.ReLU())
        self.down = nn.Sequential(nn.MaxPool2d(2), *conv(8, 16), nn.ReLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.last = nn.Sequential(*conv(16, 8), nn.ReLU(), nn.Conv2d(8, 2, 1))

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        return self.last(fg.cat([h, self.up(self.down(h))], 1))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, stride=8)
        self.token, self.places = nn.Parameter(fg.randn(1, 1, 16)), nn.Parameter(fg.randn(1, 17, 16))
        layer = nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True, norm_first=True)
        self.encoder, self.head = (
            nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
            nn.Linear(16, 5),
        )

    def forward(self, x: Tensor) -> Tensor:
        h = self.patches(x).flatten(2).transpose(1, 2)
        h = fg.cat([self.token.expand(x.shape[0], -1, -1), h], 1) + self.places
        return self.head(self.encoder(h)[:, 0])


class Mixed(nn.Module):
    """An MLP-Mixer's block."""

    def __init__(self, places: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.across = nn.Sequential(nn.Linear(places, 24), nn.GELU(), nn.Linear(24, places))
        self.within = nn.Sequential(nn.Linear(width, 24), nn.GELU(), nn.Linear(24, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.across(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.norms[1](x))


class ConvNeXt(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
        self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(fg.full((width,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.shrink(F.gelu(self.grow(h)))).permute(0, 3, 1, 2)


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 16), nn.Embedding(12, 16)
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(3))
        self.project, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 64), nn.GELU(approximate="tanh"), nn.Linear(64, 16))

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        x = self.words(ids) + self.places(fg.arange(length))
        parts = self.project(self.norms[0](x)).view(ids.shape[0], length, 3, 4, 4).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(h.transpose(1, 2).reshape(ids.shape[0], length, 16))
        x = x + self.mlp(self.norms[1](x))
        return self.norms[2](x) @ self.words.weight.T


class BERT(nn.Module):
    """With a mask of words that are padding."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 16, padding_idx=0)
        layer = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: Tensor) -> Tensor:
        return self.encoder(self.words(ids), src_key_padding_mask=ids == 0)[:, 0]


class Tagger(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.reader = kind(8, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(12, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return fg.log_softmax(self.head(self.reader(self.words(ids))[0]), -1)


class Routed(nn.Module):
    """A mixture of two experts, which the mean decides between."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(
            [nn.Linear(4, 3), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))]
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.experts[0](x) if x.mean() > 0 else self.experts[1](x)


class Clipped(nn.Module):
    """Norms that are too large are cut, and errors are told."""

    def forward(self, x: Tensor) -> tuple[Tensor, float]:
        if x.isnan().any():
            raise ValueError("not a number")
        norm = x.norm()
        if norm > 4:
            return x * (4 / norm), 1.0
        return x, 0.0


class Unrolled(nn.Module):
    """A recurrent net by hand, over forty places."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(3, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        h, seen, rows = fg.zeros(x.shape[0], 5), [], x.transpose(0, 1)
        for place in range(x.shape[1]):
            h = self.cell(rows[place], h)
            seen.append(self.head(h))
        return fg.stack(seen, 1)


def newton(x: Tensor) -> Tensor:
    """Square roots, to a thousandth."""
    goal = x * x + 1
    y = goal
    while (y * y - goal).abs().max() > 1e-3:
        y = (y + goal / y) / 2
    return y


def settled(x: Tensor) -> tuple[Tensor, Tensor]:
    """Halved until it is small, and how often."""
    count = fg.zeros((), dtype=fg.int64)
    while x.abs().sum() > 0.5:
        x = x / 2 if x.sum() > 0 else x / 4
        count = count + 1
    return x, count


def relaxed(x: Tensor) -> Tensor:
    """Neighbours are averaged thirty times."""
    for _ in range(30):
        x = (x.roll(1, 1) + x + x.roll(-1, 1)) / 3
    return x


def nested(x: Tensor) -> Tensor:
    if x.sum() > 0:
        if x.max() > 1:
            return x * 2
        y = x + 1
    else:
        y = x - 1
    return y * 3 if y.min() > 0 else y


def scored(x: Tensor) -> Tensor:
    """By numbers that Python had."""
    total = x.sum().item()
    return x / 2 if total > 1 else x * 3


def nerf(x: Tensor) -> Tensor:
    """Densities along a ray, as they let light through."""
    through = fg.cumprod(1 - fg.sigmoid(x), 1)
    return (through * fg.sigmoid(x)).sum(1)


def moved(x: Tensor) -> Tensor:
    """Pictures, turned a little."""
    theta = fg.tensor([[[0.9, -0.2, 0.1], [0.2, 0.9, 0.0]]]).expand(x.shape[0], 2, 3)
    return F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False)


def positions(x: Tensor) -> Tensor:
    return x.argsort(1)[:, :2] + x.topk(2, 1)[1]


def pooled(x: Tensor) -> Tensor:
    return F.adaptive_avg_pool2d(x, (3, 5)).flatten(1)


def stem(x: int = 3) -> list[nn.Module]:
    return [*conv(x, 8, 3, 2), nn.ReLU()]


def head(width: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 5)]


def scalar(function: Callable[..., Any], *shape: int) -> Callable[[], Any]:
    return rows(lambda: function, *shape)


Seq = nn.Sequential
MODELS: dict[str, Callable[[], Any]] = {
    "ResNet": images(lambda: Seq(*stem(), Residual(8, 8, 1), Residual(8, 16, 2), *head(16))),
    "ResNeXt": images(lambda: Seq(*stem(), *conv(8, 16, 3, 1, 4), nn.ReLU(), *head(16))),
    "VGG": images(lambda: Seq(*conv(3, 8), nn.ReLU(), nn.MaxPool2d(2), *conv(8, 8), nn.ReLU(), *head(8))),
    "AlexNet": images(lambda: Seq(nn.Conv2d(3, 8, 5), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2), *head(8))),
    "LeNet": images(
        lambda: Seq(nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(864, 9)), 28, 1
    ),
    "MobileNetV3": images(lambda: Seq(*stem(), Excited(8, 16, nn.Hardswish), *head(8))),
    "EfficientNet": images(lambda: Seq(*stem(), Excited(8, 16, nn.SiLU), nn.Dropout(0.2), *head(8))),
    "DenseNet": images(lambda: Seq(*stem(), Dense(8, 4, 3), *head(20))),
    "ShuffleNet": images(lambda: Seq(*stem(), *conv(8, 8, 1, 1, 2), nn.ChannelShuffle(2), *head(8))),
    "U-Net": images(UNet),
    "DCGAN": rows(
        lambda: Seq(
            nn.Unflatten(1, (6, 1, 1)),
            nn.ConvTranspose2d(6, 8, 4),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 3, 4, 2, 1),
            nn.Tanh(),
        ),
        6,
    ),
    "super resolution": images(
        lambda: Seq(
            nn.Conv2d(1, 8, 3, padding=1), nn.PReLU(), nn.Conv2d(8, 4, 3, padding=1), nn.PixelShuffle(2)
        ),
        8,
        1,
    ),
    "style transfer": images(
        lambda: Seq(
            nn.ReflectionPad2d(2),
            nn.Conv2d(3, 8, 5),
            nn.InstanceNorm2d(8, affine=True),
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(8, 3, 3, padding=1),
        ),
        12,
    ),
    "ViT": images(ViT),
    "MLP-Mixer": rows(lambda: Seq(Mixed(6, 8), Mixed(6, 8)), 6, 8),
    "ConvNeXt": images(lambda: Seq(nn.Conv2d(3, 8, 4, 4), ConvNeXt(8), ConvNeXt(8), *head(8))),
    "GPT": words(GPT),
    "BERT": words(BERT),
    "LSTM tagger": words(lambda: Tagger(nn.LSTM)),
    "GRU tagger": words(lambda: Tagger(nn.GRU)),
    "RNN tagger": words(lambda: Tagger(nn.RNN)),
    "attention": lambda: (
        nn.MultiheadAttention(8, 2, batch_first=True),
        lambda n: (fg.randn(n, 5, 8),) * 1 + (fg.randn(n, 4, 8), fg.randn(n, 4, 8)),
    ),
    "attention with biases": lambda: (
        nn.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True),
        lambda n: (fg.randn(n, 5, 8), fg.randn(n, 4, 8), fg.randn(n, 4, 8)),
    ),
    "Transformer": lambda: (
        nn.Transformer(8, 2, 1, 1, 16, batch_first=True),
        lambda n: (fg.randn(n, 5, 8), fg.randn(n, 4, 8)),
    ),
    "autoencoder": rows(lambda: Seq(nn.Linear(6, 3), nn.ELU(), nn.Linear(3, 6), nn.Sigmoid()), 6),
    "batch norm": rows(
        lambda: Seq(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.LeakyReLU(0.1), nn.Linear(4, 2)), 6
    ),
    "temporal convolution": rows(
        lambda: Seq(nn.Conv1d(4, 6, 3, dilation=2, padding=2), nn.GELU(), nn.AdaptiveMaxPool1d(1)), 4, 12
    ),
    "group norm": rows(lambda: Seq(nn.Conv1d(4, 6, 3), nn.GroupNorm(3, 6), nn.Mish(), nn.Flatten()), 4, 12),
    "bilinear": lambda: (nn.Bilinear(3, 4, 5), lambda n: (fg.randn(n, 3), fg.randn(n, 4))),
    "embedding bag": words(lambda: Seq(nn.EmbeddingBag(20, 6), nn.Linear(6, 2))),
    "cosine": lambda: (lambda x, y: F.cosine_similarity(x, y), lambda n: (fg.randn(n, 3), fg.randn(n, 3))),
    "distances": lambda: (lambda x, y: fg.cdist(x, y), lambda n: (fg.randn(n, 3), fg.randn(6, 3))),
    "einsum": rows(lambda: lambda x: fg.einsum("bij,bkj->bik", x, x), 4, 3),
    "triangles": rows(lambda: lambda x: fg.tril(x) @ fg.triu(x), 4, 4),
    "losses": rows(lambda: lambda x: F.smooth_l1_loss(x, x.flip(1), reduction="none"), 5),
    "unfolded": images(lambda: nn.Unfold(3, padding=1), 8),
    "folded": rows(lambda: nn.Fold((6, 6), 3, stride=3), 18, 4),
    "norms": rows(lambda: nn.RMSNorm(6), 3, 6),
    "rays": scalar(nerf, 9),
    "moved": images(lambda: moved, 8),
    "positions": scalar(positions, 6),
    "uneven pools": images(lambda: pooled, 8),
    "routed": rows(Routed, 4),
    "clipped": rows(Clipped, 3),
    "nested branches": scalar(nested, 3),
    "scored": scalar(scored, 3),
    "newton": scalar(newton, 3),
    "settled": scalar(settled, 3),
    "relaxed": scalar(relaxed, 8),
    "unrolled": rows(Unrolled, 40, 3),
}
