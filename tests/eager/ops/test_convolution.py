"""Convolutions, pools and resizing beyond the table of samples: layers, edge cases, memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

F = fg.nn.functional
_random = np.random.default_rng(0)

# A layer, its arguments, the shape of its input.
LAYERS = [
    ("Conv1d", (3, 4, 3), {}, (2, 3, 9)),
    ("Conv1d", (3, 4, 3), {"padding": "same", "padding_mode": "reflect"}, (2, 3, 9)),
    ("Conv2d", (4, 6, (3, 2)), {"stride": 2, "padding": (1, 0), "groups": 2}, (2, 4, 9, 8)),
    ("Conv2d", (4, 6, 3), {"bias": False, "dilation": (1, 2)}, (4, 9, 8)),
    ("Conv2d", (4, 6, 3), {"padding_mode": "circular", "padding": 1}, (4, 9, 8)),
    ("Conv2d", (4, 6, 3), {"padding_mode": "replicate", "padding": "valid"}, (2, 4, 9, 8)),
    ("Conv3d", (2, 3, 2), {"stride": (1, 2, 1)}, (1, 2, 4, 5, 4)),
    ("ConvTranspose1d", (3, 4, 3), {"stride": 2, "output_padding": 1}, (2, 3, 5)),
    ("ConvTranspose2d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2, "bias": False}, (2, 4, 5, 4)),
    ("ConvTranspose3d", (2, 3, 2), {"dilation": 2}, (1, 2, 3, 4, 3)),
    ("MaxPool1d", (3,), {"stride": 2, "padding": 1}, (2, 3, 9)),
    ("MaxPool2d", ((3, 2),), {"ceil_mode": True}, (2, 3, 8, 7)),
    ("MaxPool3d", (2,), {"dilation": 2}, (2, 2, 5, 4, 6)),
    ("AvgPool1d", (3,), {"stride": 2, "padding": 1, "count_include_pad": False}, (2, 3, 9)),
    ("AvgPool2d", (2,), {"divisor_override": 3}, (2, 3, 8, 7)),
    ("AvgPool3d", ((2, 1, 2),), {"ceil_mode": True}, (2, 2, 5, 4, 5)),
    ("LPPool1d", (2, 3), {"stride": 2}, (2, 3, 9)),
    ("LPPool2d", (2, 2), {}, (2, 3, 8, 7)),
    ("LPPool3d", (3, 2), {}, (1, 2, 4, 4, 4)),
    ("AdaptiveAvgPool1d", (4,), {}, (2, 3, 9)),
    ("AdaptiveAvgPool2d", ((3, None),), {}, (2, 3, 8, 7)),
    ("AdaptiveAvgPool3d", (2,), {}, (2, 2, 5, 4, 3)),
    ("AdaptiveMaxPool1d", (4,), {}, (2, 3, 9)),
    ("AdaptiveMaxPool2d", ((3, None),), {}, (2, 3, 8, 7)),
    ("AdaptiveMaxPool3d", (2,), {}, (2, 2, 5, 4, 3)),
    ("Upsample", (), {"scale_factor": 2}, (2, 3, 4)),
    ("Upsample", ((5, 3),), {"mode": "bilinear", "align_corners": True}, (2, 3, 4, 4)),
    ("UpsamplingNearest2d", (7,), {}, (2, 3, 4, 4)),
    ("UpsamplingBilinear2d", (), {"scale_factor": (1.5, 2.0)}, (2, 3, 4, 4)),
    ("PixelShuffle", (2,), {}, (2, 8, 3, 2)),
    ("PixelUnshuffle", (2,), {}, (2, 2, 6, 4)),
    ("ChannelShuffle", (2,), {}, (2, 6, 3, 2)),
    ("Unfold", ((2, 3),), {"padding": 1}, (2, 3, 5, 4)),
    ("Fold", ((4, 5), 2), {"stride": (2, 3)}, (2, 12, 4)),
    ("ZeroPad1d", (2,), {}, (2, 3, 4)),
    ("ZeroPad2d", ((1, 2, 0, -1),), {}, (2, 3, 4, 4)),
    ("ZeroPad3d", (1,), {}, (1, 2, 3, 3, 3)),
    ("ConstantPad1d", ((1, 2), 3.5), {}, (2, 3, 4)),
    ("ConstantPad2d", (1, -1), {}, (2, 3, 4, 4)),
    ("ConstantPad3d", (1, 2.0), {}, (1, 2, 3, 3, 3)),
    ("ReflectionPad1d", (2,), {}, (2, 3, 4)),
    ("ReflectionPad2d", ((1, 2, 3, 0),), {}, (2, 3, 4, 4)),
    ("ReflectionPad3d", (1,), {}, (1, 2, 3, 3, 3)),
    ("ReplicationPad1d", (2,), {}, (2, 3, 4)),
    ("ReplicationPad2d", ((1, 2, 3, 0),), {}, (2, 3, 4, 4)),
    ("ReplicationPad3d", (1,), {}, (1, 2, 3, 3, 3)),
    ("CircularPad1d", (2,), {}, (2, 3, 4)),
    ("CircularPad2d", ((1, 2, 3, 0),), {}, (2, 3, 4, 4)),
    ("CircularPad3d", (1,), {}, (1, 2, 3, 3, 3)),
]  # fmt: skip


def close(ours, theirs):
    np.testing.assert_allclose(
        ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-10, atol=1e-12, strict=True
    )


@pytest.mark.parametrize(
    ("name", "arguments", "options", "size"), [pytest.param(*case, id=case[0]) for case in LAYERS]
)
def test_layers_are_torchs(name, arguments, options, size):
    ours, theirs = (getattr(library.nn, name)(*arguments, **options) for library in (fg, torch))
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours, theirs = ours.double(), theirs.double()
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    data = _random.normal(size=size)
    inputs = fg.tensor(data, requires_grad=True), torch.tensor(data, requires_grad=True)
    results = ours(inputs[0]), theirs(inputs[1])
    close(*results)
    weights = _random.normal(size=results[0].shape)
    for library, result in zip((fg, torch), results, strict=True):
        (result * library.tensor(weights)).sum().backward()
    close(inputs[0].grad, inputs[1].grad)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(a.grad, b.grad)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pooled_maxima_go_back(rank):
    data = _random.normal(size=(2, 3, *(7, 6, 5)[:rank]))
    found = []
    for library in (fg, torch):
        pool = getattr(library.nn, f"MaxPool{rank}d")(2, return_indices=True)
        unpool = getattr(library.nn, f"MaxUnpool{rank}d")(2)
        assert repr(unpool).startswith(f"MaxUnpool{rank}d(kernel_size=(2,")
        values, indices = pool(library.tensor(data))
        found.append([values, indices, unpool(values, indices, data.shape)])
    for a, b in zip(*found, strict=True):
        close(a, b)


def test_transposed_convolution_to_a_size():
    ours, theirs = (
        library.nn.ConvTranspose2d(2, 3, 3, stride=3, padding=1).double() for library in (fg, torch)
    )
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    x = _random.normal(size=(2, 2, 4, 4))
    close(ours(fg.tensor(x), (12, 10)), theirs(torch.tensor(x), (12, 10)))
    with pytest.raises(ValueError, match="10 to 12"):
        ours(fg.tensor(x), (13, 10))


def test_initial_values_are_torchs_distribution():
    fg.manual_seed(0)
    layer = fg.nn.Conv2d(16, 200, 3, groups=2)
    bound = 1 / np.sqrt(8 * 9)
    for parameter in layer.parameters():
        values = parameter.detach().numpy()
        assert np.abs(values).max() <= bound
        assert np.abs(values).max() > 0.95 * bound
        assert abs(values.mean()) < 0.1 * bound


def test_bad_layers():
    for arguments, options, words in (
        ((3, 4, 3), {"groups": 2}, "in_channels"),
        ((4, 3, 3), {"groups": 2}, "out_channels"),
        ((3, 4, 3), {"padding": "full"}, "full"),
        ((3, 4, 3), {"padding": "same", "stride": 2}, "strided"),
        ((3, 4, 3), {"padding_mode": "mirror"}, "mirror"),
    ):
        with pytest.raises(ValueError, match=words):
            fg.nn.Conv2d(*arguments, **options)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("biased", [False, True])
def test_where_no_channels_come_none_go(rank: int, biased: bool):
    found = []
    for lib in (fg, torch):
        x, weight = lib.ones(2, 0, *[6] * rank), lib.ones(3, 0, *[3] * rank)
        given = [t.requires_grad_() for t in (x, weight, lib.ones(3))[: 2 + biased]]
        y = getattr(lib.nn.functional, f"conv{rank}d")(*given, stride=2)
        y.sum().backward()
        alone = getattr(lib.nn.functional, f"conv{rank}d")(x[0], *given[1:])
        found.append((y.shape, alone.shape, [(t.grad.shape, t.grad.tolist()) for t in given]))
    assert found[0] == found[1]


def test_convolutions_of_time_batch_and_channels():
    random = np.random.default_rng(0)
    arrays = [random.normal(size=s) for s in ((9, 4, 5), (3, 5, 6), (6,))]
    found = []
    for lib in (fg, torch):
        given = [lib.tensor(a, requires_grad=True) for a in arrays]
        y = lib.conv_tbc(*given, 2)
        grads = lib.autograd.grad((y**2).sum(), given)
        found.append((y, *grads))
        wrong = (given[0][0], *given[1:]), (given[0], given[1][:, :4], given[2]), (*given[:2], given[2][:3])
        for refused in wrong:
            with pytest.raises(RuntimeError, match=r"must have 3 dims|is not == dim 1|must equal dim 2"):
                lib.conv_tbc(*refused)
    assert found[0][0].stride() == found[1][0].stride()
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy())


def test_messages_name_function_sizes_and_line():
    for call, words in (
        (
            lambda: F.conv2d(fg.ones(1, 3, 8, 8), fg.ones(4, 2, 3, 3)),
            ["conv2d", "[4, 2, 3, 3]", "2 channels"],
        ),
        (lambda: F.conv1d(fg.ones(1, 3, 2), fg.ones(4, 3, 3)), ["conv1d", "Kernel size", "[1, 3, 2]"]),
        (lambda: F.conv2d(fg.ones(1, 3, 8), fg.ones(4, 3, 3).double()), ["conv2d", "float32", "float64"]),
        (
            lambda: F.conv_transpose1d(fg.ones(1, 3, 8), fg.ones(3, 2, 3), output_padding=1),
            ["output padding"],
        ),
        (
            lambda: F.max_pool2d(fg.ones(1, 3, 8, 8), 3, padding=2),
            ["max_pool2d", "at most half of kernel size", "padding=2"],
        ),
        (lambda: F.avg_pool2d(fg.ones(3, 2, 2), 3), ["avg_pool2d", "too small", "[3, 2, 2]"]),
        (lambda: F.fold(fg.ones(1, 9, 4), 4, 2), ["fold", "divisible", "[1, 9, 4]"]),
        (lambda: F.pixel_shuffle(fg.ones(6, 2, 2), 2), ["pixel_shuffle", "[6, 2, 2]"]),
        (lambda: F.interpolate(fg.ones(1, 1, 0, 2), 3), ["interpolate", "greater than 0"]),
        (lambda: F.grid_sample(fg.ones(1, 1, 2, 2), fg.ones(2, 1, 1, 2)), ["grid_sample", "[2, 1, 1, 2]"]),
    ):
        with pytest.raises(RuntimeError) as error:
            call()
        text = str(error.value)
        assert all(word in text for word in [*words, "test_convolution.py:"]), text


def test_an_empty_batch_has_gradients():
    for call in (
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        lambda x, w, b: F.conv_transpose2d(x, w, b),
    ):
        x = fg.ones(0, 3, 4, 4, requires_grad=True)
        w, b = fg.ones(3, 3, 2, 2, requires_grad=True), fg.ones(3, requires_grad=True)
        call(x, w, b).sum().backward()
        assert x.grad.shape == (0, 3, 4, 4)
        assert w.grad.abs().sum() == 0 and b.grad.abs().sum() == 0


def test_strided_views_and_float16():
    data = _random.normal(size=(6, 5, 3, 2))
    w = _random.normal(size=(4, 3, 2, 2))
    close(
        F.conv2d(fg.tensor(data).permute(3, 2, 0, 1), fg.tensor(w)),
        torch.conv2d(torch.tensor(data).permute(3, 2, 0, 1), torch.tensor(w)),
    )
    half = F.conv2d(fg.tensor(data).permute(3, 2, 0, 1).half(), fg.tensor(w).half())
    assert half.dtype == fg.float16
    exact = F.conv2d(fg.tensor(data).permute(3, 2, 0, 1), fg.tensor(w))
    assert float((half.double() - exact).abs().max()) < 0.05
    assert F.avg_pool2d(fg.ones(1, 4, 4).half(), 2).dtype == fg.float16
    assert F.interpolate(fg.ones(1, 1, 4).half(), 7, mode="linear").dtype == fg.float16


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_integers(dtype):
    data = _random.integers(0, 100, (2, 3, 6, 6)).astype(dtype)
    ours, theirs = fg.tensor(data), torch.tensor(data)
    for a, b in zip(
        F.max_pool2d(ours, 3, padding=1, return_indices=True),
        torch.nn.functional.max_pool2d(theirs, 3, padding=1, return_indices=True),
        strict=True,
    ):
        assert (a.numpy() == b.numpy()).all() and a.numpy().dtype == b.numpy().dtype
    if dtype == "uint8":
        resized = torch.nn.functional.interpolate(theirs, scale_factor=1.7).numpy()
        assert (F.interpolate(ours, scale_factor=1.7).numpy() == resized).all()
    with pytest.raises(NotImplementedError, match=dtype):
        F.adaptive_avg_pool2d(ours, 2)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grids_beyond_the_image(mode, padding):
    image = np.arange(1.0, 17.0).reshape(1, 1, 4, 4)
    grid = np.array([[[[np.nan, 0], [np.inf, 0.2], [0.3, -np.inf], [5, -5], [-1, 1]]]])
    close(
        F.grid_sample(fg.tensor(image), fg.tensor(grid), mode, padding, False),
        torch.nn.functional.grid_sample(torch.tensor(image), torch.tensor(grid), mode, padding, False),
    )


@pytest.mark.parametrize("seed", range(20))
def test_random_windows(seed):
    """Whatever the windows, pools and convolutions are PyTorch's, or both refuse."""
    draw = np.random.default_rng(seed)
    rank = int(draw.integers(1, 4))
    size = tuple(draw.integers(2, 8, rank).tolist())

    def drawn(low, high):
        return tuple(draw.integers(low, high + 1, rank).tolist())

    window = {
        "kernel_size": drawn(1, 3),
        "stride": drawn(1, 3),
        "padding": drawn(0, 1),
        "ceil_mode": bool(seed % 2),
    }
    kernel, stride, padding, dilation = drawn(1, 3), drawn(1, 3), drawn(0, 2), drawn(1, 2)
    x, w = draw.normal(size=(2, 4, *size)), draw.normal(size=(6, 2, *kernel))
    for call in (
        lambda f, x, w: getattr(f, f"conv{rank}d")(x, w, None, stride, padding, dilation, 2),
        lambda f, x, w: getattr(f, f"conv_transpose{rank}d")(
            x[:, :3], w[:3], None, stride, padding, 0, 1, dilation
        ),
        lambda f, x, w: getattr(f, f"max_pool{rank}d")(x, dilation=dilation, **window),
        lambda f, x, w: getattr(f, f"avg_pool{rank}d")(x, count_include_pad=False, **window),
        lambda f, x, w: getattr(f, f"adaptive_max_pool{rank}d")(x, kernel),
        lambda f, x, w: getattr(f, f"adaptive_avg_pool{rank}d")(x, kernel),
    ):
        results = []
        for library in (fg, torch):
            tensors = [library.tensor(a).requires_grad_() for a in (x, w)]
            try:
                result = call(library.nn.functional, *tensors)
            except RuntimeError:
                results.append(None)
                continue
            weights = library.tensor(np.random.default_rng(1).normal(size=tuple(result.shape)))
            (result * weights).sum().backward()
            results.append([result, *(t.grad for t in tensors if t.grad is not None)])
        ours, theirs = results
        assert (ours is None) == (theirs is None)
        for a, b in zip(ours or (), theirs or (), strict=True):
            close(a, b)


def test_the_column_matrix_is_not_kept():
    """Nine times the input; made in parts, forward and backward."""
    x = fg.ones(16, 32, 32, 32, requires_grad=True)
    w = fg.ones(8, 32, 3, 3, requires_grad=True)
    image = x.detach().numpy().nbytes
    tracemalloc.start()
    y = F.conv2d(x, w, padding=1)
    kept, _ = tracemalloc.get_traced_memory()
    y.sum().backward()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 0.3 * image
    assert peak < 3 * image


NODES = [
    ("max_pool2d", {"kernel_size": 2}),
    ("avg_pool2d", {"kernel_size": 2}),
    ("unfold", {"kernel_size": 2}),
    ("adaptive_avg_pool2d", {"output_size": 2}),
    ("conv2d", {"weight": np.ones((2, 4, 3, 3), np.float32)}),
    *(
        ("interpolate", {"size": 3, "mode": mode})
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")
    ),
    ("interpolate", {"size": 3, "mode": "bilinear", "antialias": True}),
]


@pytest.mark.parametrize(("name", "options"), NODES)
def test_nodes_have_torchs_names(name, options):
    names = []
    for library in (fg, torch):
        given = {k: library.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        image = library.ones(1, 4, 6, 6, requires_grad=True)
        names.append(getattr(library.nn.functional, name)(image, **given).grad_fn.name())
    assert names[0] == names[1]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    "options", [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": 2}, {"groups": 2}]
)
def test_gradients_as_functions_are_torchs(rank, options):
    groups = options.get("groups", 1)

    def found(lib):
        x = lib.arange(2.0 * 4 * 6**rank).reshape(2, 4, *[6] * rank) / 100
        weight = lib.arange(4.0 * (4 // groups) * 3**rank).reshape(4, 4 // groups, *[3] * rank) / 100
        convolution = getattr(lib.nn.functional, f"conv{rank}d")
        ones = lib.ones_like(convolution(x, weight, **options))
        grad = lib.nn.grad
        return (
            getattr(grad, f"conv{rank}d_input")(x.shape, weight, ones, **options).numpy(),
            getattr(grad, f"conv{rank}d_weight")(x, weight.shape, ones, **options).numpy(),
        )

    for ours, theirs in zip(found(fg), found(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(5, 7), (19, 30)])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("align", [False, True])
def test_images_of_bytes(mode: str, size: tuple[int, int], antialias: bool, align: bool) -> None:
    """They are resized to bytes, which may be off by one for each of two roundings."""
    image = np.random.default_rng(0).integers(0, 256, (2, 3, 9, 11), np.uint8)
    ours, theirs = (
        m.nn.functional.interpolate(
            m.tensor(image.tolist(), dtype=m.uint8), size, mode=mode, align_corners=align, antialias=antialias
        )
        for m in (fg, torch)
    )
    assert ours.dtype is fg.uint8
    assert np.abs(np.array(ours.tolist()) - np.array(theirs.tolist())).max() <= 2
