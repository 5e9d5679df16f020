"""Six deep networks with many kinds of layers, after their papers, with torch's names over either library.

The sizes are what a first try on a laptop has: small images, small batches. They were written down before
anything was measured, and are not changed after.

Sources: Huang et al. 2017 (DenseNet), He et al. 2016 (ResNet), Howard et al. 2019 (MobileNetV3), Tan and Le
2019 (EfficientNet), Ronneberger et al. 2015 (U-Net), Vaswani et al. 2017, Radford et al. 2019 (transformer).
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

CLASSES = 10


def networks(lib: Any) -> dict[str, Callable[[], tuple[Any, Any, Any]]]:
    """Per name what makes a network, its input and its targets with the library `lib`."""
    layers = _layers(lib)

    def images(net: Any, batch: int, side: int) -> tuple[Any, Any, Any]:
        x = lib.arange(batch * 3 * side * side).reshape(batch, 3, side, side)
        return net, (x * 37 % 101) / 50.0 - 1.0, lib.arange(batch) % CLASSES

    def pixels() -> tuple[Any, Any, Any]:
        net, x, _ = images(layers.u_net(16), 2, 64)
        return net, x, (lib.arange(2 * 64 * 64) % 7 == 0).to(lib.int64).reshape(2, 64, 64)

    def words() -> tuple[Any, Any, Any]:
        tokens = lib.arange(4 * 33).reshape(4, 33) * 7 % 100
        return layers.transformer(12, 64, 4, 100, 32), tokens[:, :-1], tokens[:, 1:]

    return {
        "DenseNet, 21 layers": lambda: images(layers.dense_net([3, 3, 3], 12), 16, 32),
        "DenseNet, 121 layers": lambda: images(layers.dense_net([6, 12, 24, 16], 32), 2, 32),
        "ResNet-50": lambda: images(layers.res_net([3, 4, 6, 3]), 2, 64),
        "MobileNetV3, small": lambda: images(layers.mobile_net(), 4, 64),
        "EfficientNet-B0": lambda: images(layers.efficient_net(), 2, 64),
        "U-Net": pixels,
        "transformer, 12 layers": words,
    }


def step_of(lib: Any, net: Any) -> Callable[[Any, Any], Any]:
    """A step of training with momentum, which gives the loss."""
    optimizer = lib.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step(x: Any, target: Any) -> Any:
        optimizer.zero_grad()
        logits = net(x)
        if logits.ndim == 3:  # words: the classes come last
            logits = logits.transpose(1, 2)
        loss = lib.nn.functional.cross_entropy(logits, target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def _layers(lib: Any) -> SimpleNamespace:
    nn, functional = lib.nn, lib.nn.functional
    Sequential, Conv2d, BatchNorm2d = nn.Sequential, nn.Conv2d, nn.BatchNorm2d

    class Dense(nn.Module):  # type: ignore[name-defined,misc]
        """Normalise, 1 x 1 to four times the growth, normalise, 3 x 3, and join to what came in."""

        def __init__(self, width: int, growth: int) -> None:
            super().__init__()
            self.squeeze = Sequential(BatchNorm2d(width), nn.ReLU(), Conv2d(width, 4 * growth, 1, bias=False))
            self.grow = Sequential(
                BatchNorm2d(4 * growth), nn.ReLU(), Conv2d(4 * growth, growth, 3, padding=1, bias=False)
            )

        def forward(self, x: Any) -> Any:
            return lib.cat([x, self.grow(self.squeeze(x))], 1)

    def dense_net(blocks: list[int], growth: int) -> Any:
        width = 2 * growth
        parts: list[Any] = [Conv2d(3, width, 3, padding=1, bias=False)]
        for number, count in enumerate(blocks):
            for _ in range(count):
                parts.append(Dense(width, growth))
                width += growth
            parts += [BatchNorm2d(width), nn.ReLU()]
            if number < len(blocks) - 1:
                parts += [Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
                width //= 2
        return Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))

    class Bottleneck(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self, width: int, inner: int, stride: int) -> None:
            super().__init__()
            out = 4 * inner
            self.body = Sequential(
                Conv2d(width, inner, 1, bias=False),
                BatchNorm2d(inner),
                nn.ReLU(inplace=True),
                Conv2d(inner, inner, 3, stride, 1, bias=False),
                BatchNorm2d(inner),
                nn.ReLU(inplace=True),
                Conv2d(inner, out, 1, bias=False),
                BatchNorm2d(out),
            )
            kept = stride == 1 and width == out
            self.shortcut = (
                nn.Identity()
                if kept
                else Sequential(Conv2d(width, out, 1, stride, bias=False), BatchNorm2d(out))
            )

        def forward(self, x: Any) -> Any:
            return functional.relu(self.body(x) + self.shortcut(x))

    def res_net(blocks: list[int]) -> Any:
        parts: list[Any] = [Conv2d(3, 64, 7, 2, 3, bias=False), BatchNorm2d(64), nn.ReLU(inplace=True)]
        parts.append(nn.MaxPool2d(3, 2, 1))
        width = 64
        for number, count in enumerate(blocks):
            inner = 64 << number
            for index in range(count):
                parts.append(Bottleneck(width, inner, 2 if number and not index else 1))
                width = 4 * inner
        return Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))

    class Excite(nn.Module):  # type: ignore[name-defined,misc]
        """Channels weighed by what their means say."""

        def __init__(self, width: int, inner: int, act: Any, gate: Any) -> None:
            super().__init__()
            self.weigh = Sequential(
                nn.AdaptiveAvgPool2d(1), Conv2d(width, inner, 1), act(), Conv2d(inner, width, 1), gate()
            )

        def forward(self, x: Any) -> Any:
            return x * self.weigh(x)

    class Inverted(nn.Module):  # type: ignore[name-defined,misc]
        """Wide in the middle: 1 x 1, depthwise, perhaps excited, 1 x 1."""

        def __init__(
            self, width: int, wide: int, out: int, kernel: int, stride: int, act: Any, excite: Any
        ) -> None:
            super().__init__()
            parts: list[Any] = []
            if wide != width:
                parts += [Conv2d(width, wide, 1, bias=False), BatchNorm2d(wide), act()]
            parts += [Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False)]
            parts += [BatchNorm2d(wide), act()]
            if excite is not None:
                parts.append(excite(wide, width))
            self.body = Sequential(*parts, Conv2d(wide, out, 1, bias=False), BatchNorm2d(out))
            self.joined = stride == 1 and width == out

        def forward(self, x: Any) -> Any:
            return x + self.body(x) if self.joined else self.body(x)

    def mobile_net() -> Any:
        rows = [  # kernel, wide, out, excited, act, stride: table 2 of the paper
            (3, 16, 16, True, nn.ReLU, 2),
            (3, 72, 24, False, nn.ReLU, 2),
            (3, 88, 24, False, nn.ReLU, 1),
            (5, 96, 40, True, nn.Hardswish, 2),
            (5, 240, 40, True, nn.Hardswish, 1),
            (5, 240, 40, True, nn.Hardswish, 1),
            (5, 120, 48, True, nn.Hardswish, 1),
            (5, 144, 48, True, nn.Hardswish, 1),
            (5, 288, 96, True, nn.Hardswish, 2),
            (5, 576, 96, True, nn.Hardswish, 1),
            (5, 576, 96, True, nn.Hardswish, 1),
        ]
        parts: list[Any] = [Conv2d(3, 16, 3, 2, 1, bias=False), BatchNorm2d(16), nn.Hardswish()]
        width = 16
        for kernel, wide, out, excited, act, stride in rows:
            gate = (lambda w, _: Excite(w, w // 4, nn.ReLU, nn.Hardsigmoid)) if excited else None
            parts.append(Inverted(width, wide, out, kernel, stride, act, gate))
            width = out
        parts += [Conv2d(width, 576, 1, bias=False), BatchNorm2d(576), nn.Hardswish()]
        head = [nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, CLASSES)]
        return Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *head)

    def efficient_net() -> Any:
        rows = [  # times, kernel, stride, out, count: table 1 of the paper
            (1, 3, 1, 16, 1),
            (6, 3, 2, 24, 2),
            (6, 5, 2, 40, 2),
            (6, 3, 2, 80, 3),
            (6, 5, 1, 112, 3),
            (6, 5, 2, 192, 4),
            (6, 3, 1, 320, 1),
        ]
        parts: list[Any] = [Conv2d(3, 32, 3, 2, 1, bias=False), BatchNorm2d(32), nn.SiLU()]
        width = 32
        for times, kernel, stride, out, count in rows:
            for index in range(count):
                gate = lambda wide, w: Excite(wide, max(1, w // 4), nn.SiLU, nn.Sigmoid)  # noqa: E731
                parts.append(
                    Inverted(width, times * width, out, kernel, 1 if index else stride, nn.SiLU, gate)
                )
                width = out
        parts += [Conv2d(width, 1280, 1, bias=False), BatchNorm2d(1280), nn.SiLU()]
        return Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, CLASSES))

    def twice(width: int, out: int) -> Any:
        first = [Conv2d(width, out, 3, padding=1), BatchNorm2d(out), nn.ReLU()]
        return Sequential(*first, Conv2d(out, out, 3, padding=1), BatchNorm2d(out), nn.ReLU())

    class UNet(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self, width: int) -> None:
            super().__init__()
            widths = [width << level for level in range(4)]
            self.down = nn.ModuleList([twice(w, o) for w, o in zip([3, *widths], widths, strict=False)])
            up = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
            self.up = nn.ModuleList([nn.ConvTranspose2d(w, o, 2, 2) for w, o in up])
            self.join = nn.ModuleList([twice(2 * o, o) for _, o in up])
            self.last = Conv2d(width, 2, 1)

        def forward(self, x: Any) -> Any:
            skipped = []
            for level, block in enumerate(self.down):
                x = block(functional.max_pool2d(x, 2) if level else x)
                skipped.append(x)
            for up, join, other in zip(self.up, self.join, skipped[-2::-1], strict=True):
                x = join(lib.cat([other, up(x)], 1))
            return self.last(x)

    class Block(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.feed = Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            batch, length, width = x.shape
            parts = self.qkv(self.norm_1(x)).reshape(batch, length, 3, self.heads, width // self.heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.feed(self.norm_2(x))

    class Transformer(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self, depth: int, width: int, heads: int, words: int, length: int) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = Sequential(*[Block(width, heads) for _ in range(depth)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.words(tokens) + self.places(lib.arange(tokens.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    return SimpleNamespace(
        dense_net=dense_net,
        res_net=res_net,
        mobile_net=mobile_net,
        efficient_net=efficient_net,
        u_net=UNet,
        transformer=Transformer,
    )
