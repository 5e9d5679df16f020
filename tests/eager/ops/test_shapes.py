"""Views and shapes against PyTorch, on contiguous and strided inputs; creation and random numbers."""

from __future__ import annotations

import copy
import cProfile
import pickle
import pstats
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from oracle import torch

import fusegrad as fg

FEW = settings(max_examples=150, deadline=None, derandomize=True)
ERRORS = (IndexError, ValueError, TypeError, RuntimeError)


@st.composite
def arrays(draw: Any) -> np.ndarray:
    """float64 arrays of up to four dimensions: strided, transposed, expanded and empty ones included."""
    shape = draw(st.lists(st.sampled_from((0, 1, 2, 2, 3, 4)), max_size=4))
    steps = [draw(st.sampled_from((1, 1, 1, 2))) for _ in shape]
    sizes = [n * s for n, s in zip(shape, steps, strict=True)]
    whole = np.arange(1.0, 1 + np.prod(sizes)).reshape(sizes)
    x = whole[(*(slice(None, None, s) for s in steps), ...)].transpose(
        draw(st.permutations(range(len(shape))))
    )
    if len(shape) < 4 and draw(st.integers(0, 4)) == 0:
        x = np.broadcast_to(x, (2, *x.shape))
    return x


def factors(draw: Any, size: int) -> list[int]:
    """A shape of `size` elements, one of them sometimes -1."""
    shape = []
    while size > 1 and draw(st.booleans()):
        n = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
        shape.append(n)
        size //= n
    shape.append(size)
    shape += [1] * draw(st.integers(0, 1))
    if draw(st.integers(0, 3)) == 0:
        shape[draw(st.integers(0, len(shape) - 1))] = -1
    return shape


@st.composite
def calls(draw: Any) -> tuple[np.ndarray, str, tuple[Any, ...]]:
    """An array, a method's name, and arguments for it; sometimes wrong ones."""
    x = draw(arrays())
    ndim = x.ndim
    dim = st.integers(-ndim, ndim - 1) if ndim and draw(st.integers(0, 9)) else st.integers(-2, 2)
    n = max(x.shape, default=1)
    name = draw(
        st.sampled_from(
            """reshape view view permute transpose movedim expand squeeze unsqueeze flatten unfold flip roll
            narrow
            select diagonal split chunk tensor_split unbind repeat tile rot90 tril unflatten diag_embed
            contiguous t repeat_interleave sum_to_size""".split()
        )
    )
    arguments: Any = {
        "reshape": lambda: (factors(draw, x.size),),
        "view": lambda: (factors(draw, x.size),),
        "permute": lambda: (draw(st.permutations(range(ndim))),),
        "transpose": lambda: (draw(dim), draw(dim)),
        "movedim": lambda: (draw(dim), draw(dim)),
        "expand": lambda: (
            [2] * draw(st.integers(0, 1)) + [draw(st.sampled_from((-1, m, m, 3))) for m in x.shape],
        ),
        "squeeze": lambda: draw(st.sampled_from([(), (draw(dim),)])),
        "unsqueeze": lambda: (draw(st.integers(-ndim - 1, ndim)),),
        "flatten": lambda: (draw(dim), draw(dim)),
        "unfold": lambda: (draw(dim), draw(st.integers(0, 3)), draw(st.integers(1, 3))),
        "flip": lambda: (draw(st.lists(dim, max_size=3)),),
        "roll": lambda: draw(
            st.sampled_from([(draw(st.integers(-5, 5)),), (draw(st.integers(-5, 5)), draw(dim))])
        ),
        "narrow": lambda: (draw(dim), draw(st.integers(-n, n)), draw(st.integers(0, n))),
        "select": lambda: (draw(dim), draw(st.integers(-n, n - 1)) if n else 0),
        "diagonal": lambda: (draw(st.integers(-3, 3)), draw(dim), draw(dim)),
        "split": lambda: (draw(st.integers(1, 3)), draw(dim)),
        "chunk": lambda: (draw(st.integers(1, 4)), draw(dim)),
        "tensor_split": lambda: (
            draw(st.integers(1, 4) | st.lists(st.integers(-3, 5), max_size=3).map(tuple)),
            draw(dim),
        ),
        "unbind": lambda: (draw(dim),),
        "repeat": lambda: ([draw(st.integers(0, 2)) for _ in range(ndim + draw(st.integers(0, 1)))],),
        "tile": lambda: ([draw(st.integers(0, 2)) for _ in range(draw(st.integers(1, 3)))],),
        "rot90": lambda: (draw(st.integers(-4, 4)), [draw(dim), draw(dim)]),
        "tril": lambda: (draw(st.integers(-3, 3)),),
        "unflatten": lambda: (0, factors(draw, x.shape[0] if ndim else 1)),
        "diag_embed": lambda: (draw(st.integers(-2, 2)),),
        "repeat_interleave": lambda: (draw(st.integers(0, 3)), draw(dim)),
        "sum_to_size": lambda: ([draw(st.sampled_from((1, m))) for m in x.shape[draw(st.integers(0, 4)) :]],),
    }.get(name, tuple)()
    return x, name, arguments


def parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def run(library: Any, x: np.ndarray, name: str, arguments: tuple[Any, ...]) -> Any:
    """The results and the gradient, or the kind of error."""
    leaf = library.from_numpy(x).requires_grad_()
    try:
        results = parts(getattr(leaf, name)(*arguments))
    except ERRORS as error:
        return next(k for k in ERRORS if isinstance(error, k))
    total = library.zeros((), dtype=library.float64)
    for k, part in enumerate(results):
        weights = np.random.default_rng(k).integers(1, 9, tuple(part.shape)).astype(float)
        total = total + (part * library.tensor(weights)).sum()
    if total.requires_grad:
        total.backward()
    gradient = np.zeros(x.shape) if leaf.grad is None else leaf.grad.numpy()
    shares = [np.may_share_memory(part.detach().numpy(), x) for part in results if part.numel()]
    return [part.detach().numpy() for part in results], gradient, shares


@FEW
@given(calls())
def test_views_give_pytorchs_elements_gradients_and_errors(call: tuple[np.ndarray, str, tuple[Any, ...]]):
    ours, theirs = run(fg, *call), run(torch, *call)
    if isinstance(theirs, type) or isinstance(ours, type):
        assert ours is theirs
        return
    for a, b in zip([*ours[0], ours[1]], [*theirs[0], theirs[1]], strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert ours[2] == theirs[2]  # what is a view there is one here


def test_a_view_as_another_dtype_reads_the_same_memory():
    x = fg.tensor([1.0, 2.0])
    bits = x.view(fg.int32)
    bits[0] = 0
    assert x.tolist() == [0.0, 2.0]
    assert x.view(fg.uint8).shape == (8,)
    with pytest.raises(RuntimeError, match="must be divisible by"):
        fg.zeros(3).view(fg.int64)


def test_resize_keeps_what_fits_and_refuses_leaves():
    x = fg.arange(4)
    assert x.resize_(2, 3).tolist() == [[0, 1, 2], [3, 0, 0]]
    assert x.resize_(2).tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="require grad"):
        fg.zeros(2).requires_grad_().resize_(3)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.unsqueeze_(1),
        lambda x: x.t_(),
        lambda x: x.transpose_(0, 1),
        lambda x: x.unsqueeze_(0).squeeze_(),
        lambda x: x.swapdims_(0, 1).swapaxes_(-1, 0),
        lambda x: x.fill_diagonal_(7.0),
        lambda x: x.tril_(),
    ],
)
@pytest.mark.parametrize("viewed", [False, True])
def test_in_place_changes_of_shape_are_torchs(change: Any, viewed: bool):
    found = []
    for library in (fg, torch):
        leaf = library.arange(12.0).reshape(3, 4).requires_grad_()
        base = leaf * 2
        x = base[1:] if viewed else base
        assert change(x) is x
        x.mul_(3)
        (base.sum() + (x * x).sum()).backward()
        found.append((x.detach().numpy(), base.detach().numpy(), leaf.grad.numpy()))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_tall_matrixs_diagonal_can_wrap():
    for wrap in (False, True):
        a, b = fg.zeros(7, 3).fill_diagonal_(1, wrap), torch.zeros(7, 3).fill_diagonal_(1, wrap)
        assert a.tolist() == b.tolist()
    assert fg.zeros(2, 2, 2).fill_diagonal_(1).tolist() == torch.zeros(2, 2, 2).fill_diagonal_(1).tolist()


def test_strided_views_stay_inside_their_memory():
    x = fg.arange(6)[2:]
    assert x.storage_offset() == 2
    assert x.as_strided((2,), (2,)).tolist() == [2, 4]
    assert x.as_strided((2,), (2,), 0).tolist() == [0, 2]
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        x.as_strided((4,), (2,))


SEEN_OTHERWISE = {
    "real parts": lambda x, m: m.complex(x, x + 1).real,
    "imaginary parts of a part": lambda x, m: m.complex(x, x + 1)[3:].imag,
    "pairs": lambda x, m: m.view_as_real(m.complex(x, x + 1))[2:],
    "half as wide": lambda x, m: x.view(m.int16)[3:],
    "twice as wide": lambda x, m: x[4:].view(m.float64),
    "bytes of a part": lambda x, m: x[3:].view(m.uint8)[::2],
}


@pytest.mark.parametrize("name", SEEN_OTHERWISE)
def test_strided_views_of_memory_seen_as_another_dtype(name: str):
    found = []
    for m in (fg, torch):
        x = m.arange(12.0)
        seen = SEEN_OTHERWISE[name](x, m)
        part = seen.as_strided((2,), (3,))
        at = [(t.storage_offset(), t.stride()) for t in (seen, part)]
        whole = part.as_strided((4,), (1,), 0).tolist()
        part.zero_()
        found.append((at, whole, seen.tolist(), x.tolist()))
    assert found[0] == found[1]


def test_backward_nodes_have_pytorchs_names():
    for call in (
        lambda x: x.squeeze(),
        lambda x: x.squeeze(0),
        lambda x: x.squeeze((0, 1)),
        lambda x: x.unsqueeze(1),
        lambda x: x.transpose(0, 1),
        lambda x: x.t(),
        lambda x: x.permute(1, 0),
        lambda x: x.T,
        lambda x: x.view(-1),
        lambda x: x.expand(2, 1, 3),
        lambda x: x[0],
        lambda x: x[:, 1:],
        lambda x: x[None],
        lambda x: x[:, [0]],
        lambda x: x.diagonal(),
        lambda x: x.unfold(1, 2, 1),
        lambda x: x.as_strided((2,), (1,)),
        lambda x: x.take(x.argmax()),
        lambda x: x.index_select(1, x.argmax()),
        lambda x: x.flip(0),
        lambda x: x.repeat(2, 2),
    ):
        names = [call(lib.ones(1, 3).requires_grad_()).grad_fn.name() for lib in (fg, torch)]
        assert names[0] == names[1]
    assert fg.stack([fg.ones(1, requires_grad=True)]).grad_fn.name() == "StackBackward0"


# Random numbers.


def test_a_generators_state_can_be_copied_kept_and_put_back():
    g = fg.Generator().manual_seed(3)
    fg.rand(5, generator=g)
    state, twin = g.get_state(), g.clone_state()
    drawn = fg.randn(4, generator=g)
    assert (fg.randn(4, generator=twin) == drawn).all()
    for other in (
        fg.Generator().set_state(state),
        pickle.loads(pickle.dumps(fg.Generator().set_state(state))),
    ):
        assert (fg.randn(4, generator=copy.deepcopy(other)) == drawn).all()
    assert g.initial_seed() == 3 and g.device.type == "cpu"
    with pytest.raises(TypeError, match="ByteTensor"):
        g.set_state(fg.zeros(2))


def test_fork_rng_leaves_the_default_generator_as_it_was():
    fg.manual_seed(1)
    with fg.random.fork_rng():
        fg.manual_seed(7)
        fg.rand(3)
    first = fg.rand(2)
    assert (first == (fg.manual_seed(1), fg.rand(2))[1]).all()


@pytest.mark.parametrize(
    ("draw", "mean", "deviation"),
    [
        (lambda x: x.uniform_(-1, 3), 1.0, 4 / 12**0.5),
        (lambda x: x.normal_(2, 3), 2.0, 3.0),
        (lambda x: x.exponential_(2), 0.5, 0.5),
        (lambda x: x.geometric_(0.25), 4.0, 12**0.5),
        (lambda x: x.log_normal_(0, 0.5), np.exp(0.125), np.sqrt((np.exp(0.25) - 1) * np.exp(0.25))),
        (lambda x: x.bernoulli_(0.2), 0.2, 0.4),
        (lambda x: x.random_(3, 7), 4.5, 1.25**0.5),
        (lambda x: x.cauchy_(1, 2).atan() * 0 + x.le(1), 0.5, 0.5),
        (lambda x: fg.poisson(x + 3), 3.0, 3**0.5),
        (lambda x: fg.binomial(x + 10, x + 0.3), 3.0, 2.1**0.5),
        (lambda x: x.copy_(fg.multinomial(fg.tensor([1.0, 3.0]), 20000, True)), 0.75, 0.1875**0.5),
    ],
)
def test_distributions_have_their_moments(draw: Any, mean: float, deviation: float):
    fg.manual_seed(0)
    x = draw(fg.zeros(20000, dtype=fg.float64)).numpy()
    assert abs(x.mean() - mean) < 5 * deviation / 20000**0.5
    assert abs(x.std() - deviation) < 0.1 * deviation


def test_a_draw_needs_only_seed_and_counter():
    g = fg.Generator().manual_seed(5)
    fg.rand(6, generator=g)  # two blocks of four words
    later = fg.rand(4, generator=g)
    words = np.random.Philox(key=5, counter=2).random_raw(4)
    expected = (words >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)
    np.testing.assert_array_equal(later.numpy(), expected)


def test_random_functions_refuse_what_pytorch_refuses():
    for call in (
        lambda: fg.randint(5, 5, (2,)),
        lambda: fg.randint(0, 300, (2,), dtype=fg.uint8),
        lambda: fg.rand(2, dtype=fg.int64),
        lambda: fg.bernoulli(fg.tensor([1.5])),
        lambda: fg.zeros(2).exponential_(0),
        lambda: fg.zeros(2, dtype=fg.int64).normal_(),
        lambda: fg.multinomial(fg.tensor([1.0, 0.0]), 3),
        lambda: fg.randperm(-1),
    ):
        with pytest.raises(RuntimeError):
            call()


KINDS = "bool uint8 int32 int64 float16 float32 float64 complex64".split()


@pytest.mark.parametrize("given", KINDS)
@pytest.mark.parametrize("empty", KINDS)
def test_the_dtype_of_an_empty_part_of_a_cat_counts(given: str, empty: str) -> None:
    def joined(lib):
        parts = [lib.ones(3, dtype=getattr(lib, given)), lib.tensor([], dtype=getattr(lib, empty))]
        return [str(lib.cat(p).dtype) for p in (parts, parts[::-1], parts[1:])]

    assert joined(fg) == joined(torch)


def test_ravel_is_contiguous_and_flatten_of_one_dimension_is_itself() -> None:
    for lib in (fg, torch):
        assert lib.ones(10)[::2].ravel().stride() == (1,)
        assert lib.ones(2, 3).t().ravel().is_contiguous()
        x = lib.ones(2, 3)
        assert x.flatten(1, 1) is x
        assert x.ravel().data_ptr() == x.data_ptr()


@pytest.mark.parametrize("join", ["cat", "stack"])
def test_gradients_of_what_is_joined_look_at_each_piece_a_bounded_number_of_times(join: str) -> None:
    def calls(number: int) -> int:
        pieces = [fg.ones(2, requires_grad=True) for _ in range(number)]
        total = getattr(fg, join)(pieces).sum()
        profile = cProfile.Profile()
        profile.runcall(total.backward)
        return sum(count for _, count, *_ in pstats.Stats(profile).stats.values())

    calls(4)
    assert calls(800) < 5 * calls(200)


def test_views_as_a_dtype_have_no_gradient():
    """As PyTorch's, also where the dtype is that which the tensor has."""
    for lib in (fg, torch):
        x = lib.ones(2, 4, requires_grad=True)
        for dtype in (lib.float32, lib.float16, lib.complex64, lib.int32):
            view = x.view(dtype)
            assert not view.requires_grad and view.data_ptr() == x.data_ptr()


def test_tensors_are_resized_to_the_format_of_others():
    for shape, name in (((2, 3, 4, 5), "channels_last"), ((2, 3, 4, 5, 6), "channels_last_3d")):
        found = []
        for lib in (fg, torch):
            other = lib.zeros(shape).contiguous(memory_format=getattr(lib, name))
            flats = [lib.zeros(other.numel()) for _ in range(2)]
            flats[0].resize_as_(other, memory_format=lib.preserve_format)
            flats[1].resize_as_(other)
            found.append([(tuple(flat.shape), flat.stride()) for flat in flats])
        assert found[0] == found[1]


def test_lists_that_hold_themselves_are_no_tensors():
    looped = [0]
    looped.append(looped)
    for lib in (fg, torch):
        for value in (looped, [[1, 2], looped]):
            with pytest.raises(TypeError, match="self-referential lists are incompatible"):
                lib.tensor(value)
