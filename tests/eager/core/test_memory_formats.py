"""Orders of elements in memory: those that are asked for, and what `is_contiguous` says of strides."""

from __future__ import annotations

import pickle

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.ops.pointwise import elementwise

FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
CALLS = {
    "to": lambda x, m: x.to(memory_format=m),
    "to, with others": lambda x, m: x.to("cpu", dtype=x.dtype, non_blocking=True, copy=True, memory_format=m),
    "contiguous": lambda x, m: x.contiguous(memory_format=m),
    "clone": lambda x, m: x.clone(memory_format=m),
    "float": lambda x, m: x.float(memory_format=m),
    "double": lambda x, m: x.double(memory_format=m),
    "cpu": lambda x, m: x.cpu(memory_format=m),
}


@pytest.mark.parametrize("name", FORMATS)
def test_they_are_taken(name):
    shape = (2, 3, 4, 5, 6) if name.endswith("3d") else (2, 3, 4, 5)
    for label, call in CALLS.items():
        if label == "contiguous" and name == "preserve_format":
            continue  # PyTorch refuses it
        mine, other = (call(lib.ones(shape), getattr(lib, name)) for lib in (fg, torch))
        assert tuple(mine.shape) == tuple(other.shape) and mine.tolist() == other.tolist()
        assert str(mine.dtype) == str(other.dtype)
    assert repr(getattr(fg, name)) == repr(getattr(torch, name))
    assert pickle.loads(pickle.dumps(getattr(fg, name))) is getattr(fg, name)
    assert fg.zeros_like(fg.ones(shape), memory_format=getattr(fg, name)).shape == shape
    (fg.nn.Conv3d if name.endswith("3d") else fg.nn.Conv2d)(3, 2, 1).to(memory_format=getattr(fg, name))


def channels_last(T, *shape):
    n = len(shape)
    x = T.arange(float(fg.Size(shape).numel())).reshape(shape)
    return x.permute(0, *range(2, n), 1).contiguous().permute(0, n - 1, *range(1, n - 1))


ORDERED = {
    **CALLS,
    "to, in another dtype": lambda x, m: x.to(x.double().dtype, memory_format=m),
    "type": lambda x, m: x.type(x.double().dtype, memory_format=m),
    "resize_": lambda x, m: x.clone().resize_(2, 2, 3, 2, memory_format=m),
    "resize_, as it is": lambda x, m: x.clone().resize_(2, 3, 2, 2),
    "requires a gradient": lambda x, m: (x.requires_grad_() * 2).clone(memory_format=m).relu().detach(),
}
NUMBERED = ("full_like", "randint_like")
MADE = {
    name: lambda T, x, m, name=name: getattr(T, name)(x, *[7] * (name in NUMBERED), memory_format=m)
    for name in "empty_like zeros_like ones_like full_like rand_like randn_like randint_like".split()
} | {
    "empty": lambda T, x, m: T.empty(tuple(x.shape), memory_format=m),
    "a module": lambda T, x, m: T.nn.Conv2d(3, 2, 3).to(memory_format=m).weight.detach(),
}
FILLED = ("zeros_like", "ones_like", "full_like")
LIES = {
    "rows": lambda T: T.arange(120.0).reshape(2, 3, 4, 5),
    "channels last": lambda T: channels_last(T, 2, 3, 4, 5),
    "across": lambda T: T.arange(120.0).reshape(5, 4, 3, 2).permute(3, 2, 1, 0),
}


@pytest.mark.parametrize("lies", LIES)
@pytest.mark.parametrize("name", [*ORDERED, *MADE])
def test_elements_lie_as_it_was_asked_for(name, lies):
    def found(T, jit=lambda f: f):
        seen = []
        for form in (T.contiguous_format, T.channels_last):
            call = ORDERED.get(name) or (lambda x, m: MADE[name](T, x, m))
            function = jit(lambda x, form=form, call=call: call(x, form))
            for _ in range(3 if T is fg else 1):
                y = function(LIES[lies](T))
            known = name in ORDERED or name in FILLED
            seen.append((tuple(y.shape), y.stride(), y.tolist() if known else None))
        return seen

    assert found(fg) == found(fg, fg.jit) == found(torch)


def test_layers_keep_channels_last():
    def found(T):
        x = channels_last(T, 2, 3, 8, 8)
        layers = [T.nn.Conv2d(3, 4, 3), T.nn.BatchNorm2d(4), T.nn.ReLU(), T.nn.MaxPool2d(2)]
        layers = T.nn.Sequential(*layers).to(memory_format=T.channels_last)
        return [layers(x).stride(), layers[0](x.contiguous()).stride(), layers[0].weight.stride()]

    assert found(fg) == found(torch)


def test_a_format_of_another_rank_is_refused():
    for call in ("contiguous", "clone", "to"):
        with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
            getattr(fg.ones(2, 3, 4), call)(memory_format=fg.channels_last)
    with pytest.raises(RuntimeError, match="preserve memory format is unsupported"):
        fg.ones(2, 3).contiguous(memory_format=fg.preserve_format)


def test_a_planted_fault_is_found(monkeypatch):
    monkeypatch.setattr(elementwise, "_channels_last", elementwise._contiguous)
    for name in ("clone", "contiguous", "to", "double", "cpu"):
        with pytest.raises(AssertionError):
            test_elements_lie_as_it_was_asked_for(name, "rows")


def test_is_contiguous_goes_by_strides():
    for lib in (fg, torch):
        x = lib.ones(2, 3, 4, 5)
        last = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        found = [
            [
                t.is_contiguous(memory_format=getattr(lib, name))
                for name in ("contiguous_format", "channels_last")
            ]
            for t in (x, last, lib.ones(2), lib.ones(2, 1, 4, 5))
        ]
        assert found == [[True, False], [False, True], [True, False], [True, True]]


def test_to_takes_no_other_keywords():
    assert fg.ones(1).to(other=fg.ones(1, dtype=fg.int64)).dtype is fg.int64
    with pytest.raises(TypeError):
        fg.ones(1).to(dtpye=fg.int64)


def test_where_without_values_gives_places():
    for lib in (fg, torch):
        places = lib.where(lib.tensor([[True, False], [True, True]]))
        assert [p.tolist() for p in places] == [[0, 1, 1], [0, 0, 1]]
