"""`save` and `load`: safetensors files that other readers understand, whole or not at all."""

from __future__ import annotations

import io
import math
import os
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from oracle import torch

import fusegrad as fg

DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64",
    "complex128",
]  # fmt: skip


def same(a, b):
    """Whether two structures are equal, to the bit and the type."""
    if isinstance(a, fg.Tensor):
        return (
            isinstance(b, fg.Tensor)
            and a.dtype is b.dtype
            and a.shape == b.shape
            and a.detach().numpy().tobytes() == b.detach().numpy().tobytes()
        )
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and math.isnan(a):
        return isinstance(b, float) and math.isnan(b)
    return type(a) is type(b) and a == b


def tensors():
    arrays = st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    )
    return arrays.map(fg.tensor)


plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.complex_numbers(allow_nan=False),
    st.sampled_from([fg.float32, fg.bool, fg.complex128]),
)  # fmt: skip
keys = st.one_of(st.text(max_size=4), st.integers(), st.booleans(), st.none())
structures = st.recursive(
    st.one_of(tensors(), plain),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("saved")


@given(structures)
@example({"z": fg.tensor(False), "": fg.tensor(False), "a": fg.tensor(1.0)})
@settings(max_examples=150, deadline=None)
def test_any_structure_comes_back(folder, value):
    fg.save(value, folder / "any.safetensors")
    assert same(value, fg.load(folder / "any.safetensors"))
    assert os.listdir(folder) == ["any.safetensors"]


@given(structures)
@settings(max_examples=150, deadline=None)
def test_any_structure_comes_back_from_torch_files(folder, value):
    inside = folder / "zip"
    inside.mkdir(exist_ok=True)
    fg.save(value, inside / "any.pt")
    assert same(value, fg.load(inside / "any.pt"))
    assert os.listdir(inside) == ["any.pt"]
    inside.joinpath("any.pt").unlink()
    inside.rmdir()


def test_torch_reads_and_writes_the_same_files(tmp_path):
    torch_files = pytest.importorskip("safetensors.torch")
    ours = fg.nn.Sequential(fg.nn.Linear(3, 4), fg.nn.Tanh(), fg.nn.Linear(4, 2))
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    fg.save({"half": fg.tensor([1.5, -2]).bfloat16()}, tmp_path / "ours.safetensors")
    assert torch_files.load_file(tmp_path / "ours.safetensors")["half"].dtype is torch.bfloat16
    fg.save(ours.state_dict(), tmp_path / "ours.safetensors")
    theirs.load_state_dict(torch_files.load_file(tmp_path / "ours.safetensors"))
    x = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
    assert np.allclose(
        ours(fg.tensor(x)).detach().numpy(), theirs(torch.tensor(x)).detach().numpy(), atol=1e-6
    )
    state = {k: v * 2 for k, v in theirs.state_dict().items()}
    state |= {k: torch.ones(2, 2, dtype=getattr(torch, k)) * 3 for k in DTYPES if k != "complex128"}
    state["half"] = torch.tensor([1.5, -2.0, 3e38, float("nan")]).to(torch.bfloat16)
    torch_files.save_file(state, tmp_path / "theirs")
    loaded = fg.load(tmp_path / "theirs", map_location="cpu")
    assert set(loaded) == set(state)
    for key, value in state.items():
        assert str(loaded[key].dtype) == str(value.dtype)
        assert_same = np.testing.assert_array_equal
        if value.dtype is torch.bfloat16:
            assert_same(loaded[key].float().numpy(), value.float().numpy())
        else:
            assert_same(loaded[key].numpy(), value.numpy())
    loaded["0.weight"].zero_()  # memory of its own, that can be written


def test_training_resumes(tmp_path):
    def start():
        fg.manual_seed(0)
        model = fg.nn.Sequential(fg.nn.Linear(3, 4), fg.nn.Tanh(), fg.nn.Linear(4, 1))
        optimizer = fg.optim.AdamW(model.parameters(), lr=0.1, amsgrad=True)
        return model, optimizer, fg.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    def train(model, optimizer, schedule, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            (model(fg.ones(2, 3)) ** 2).sum().backward()
            optimizer.step()
            schedule.step()

    parts = start()
    train(*parts, 3)
    names = ("model", "optimizer", "schedule")
    fg.save({n: p.state_dict() for n, p in zip(names, parts, strict=True)}, tmp_path / "all.pt")
    train(*parts, 3)
    again = start()
    loaded = fg.load(tmp_path / "all.pt")
    for name, part in zip(names, again, strict=True):
        part.load_state_dict(loaded[name])
    train(*again, 3)
    assert all(fg.equal(a, b) for a, b in zip(parts[0].parameters(), again[0].parameters(), strict=True))


def test_memory_of_every_kind(tmp_path):
    base = fg.arange(24.0).reshape(4, 6)
    tied = fg.nn.Parameter(fg.ones(3))
    value = {"t": base.t(), "step": base[::2, 1::2], "row": base[1], "a": tied, "b": tied}
    value["wide"] = fg.ones(1).expand(3)
    fg.save(value, tmp_path / "f.safetensors")
    loaded = fg.load(tmp_path / "f.safetensors")
    assert all(fg.equal(loaded[k], v) for k, v in value.items())
    assert not any(v.requires_grad for v in loaded.values())
    fg.save(base, tmp_path / "f.safetensors")
    assert fg.equal(fg.load(str(tmp_path / "f.safetensors")), base)
    same_names = {"a": {"b": fg.zeros(1)}, "a.b": fg.ones(1), "__metadata__": fg.tensor(2)}
    fg.save(same_names, tmp_path / "f.safetensors")
    assert same(fg.load(tmp_path / "f.safetensors"), same_names)


def test_a_header_whose_length_looks_like_a_pickle(tmp_path):
    """The first bytes are the header's length: 640 begins as a pickle of protocol 2, 19280 as a zip."""
    seen = set()
    for count in (*range(300, 700), *range(19000, 19400)):
        fg.save({"x": [fg.ones(1), "a" * count]}, tmp_path / "f.safetensors")
        seen.add((tmp_path / "f.safetensors").read_bytes()[:2])
        assert fg.load(tmp_path / "f.safetensors")["x"][1] == "a" * count
    assert {b"PK", b"\x80\x02"} <= seen


class Unsaved:
    pass


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, Unsaved()]}, r"obj\['a'\]\[1\].*Unsaved"),
        ({"a": fg.ones(1), "f": len}, r"obj\['f'\].*builtin_function_or_method"),
        ({(1, 2): fg.ones(1)}, "dict key of type tuple"),
        ({"m": fg.nn.Linear(1, 1)}, r"obj\['m'\].*save its state_dict"),
        (fg.nn.Linear(1, 1), "save its state_dict"),
        ({1, 2}, "of type set"),
        (b"bytes", "of type bytes"),
    ],
)
def test_what_cannot_be_saved_is_named_and_leaves_the_old_file(tmp_path, value, message):
    fg.save({"x": fg.ones(2)}, tmp_path / "f.safetensors")
    with pytest.raises(TypeError, match=message):
        fg.save(value, tmp_path / "f.safetensors")
    assert fg.load(tmp_path / "f.safetensors")["x"].tolist() == [1.0, 1.0] and os.listdir(tmp_path) == [
        "f.safetensors"
    ]


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    fg.save({"x": fg.ones(2)}, tmp_path / "f.safetensors")

    def fails(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="disk full"):
        fg.save({"x": fg.zeros(2)}, tmp_path / "f.safetensors")
    assert fg.load(tmp_path / "f.safetensors")["x"].tolist() == [1.0, 1.0] and os.listdir(tmp_path) == [
        "f.safetensors"
    ]


def test_files_that_cannot_be_read(tmp_path):
    torch_files = pytest.importorskip("safetensors.torch")
    path = tmp_path / "f.safetensors"
    with pytest.raises(FileNotFoundError):
        fg.load(path)
    fg.save({"x": fg.arange(1000)}, path)
    whole = path.read_bytes()
    for damaged in (
        whole[:-8],
        whole[:20],
        b"",
        b"hello world, this is text",
        whole[:8] + b"\xff" + whole[9:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(RuntimeError, match="damaged, or neither a safetensors file"):
            fg.load(path)
    torch_files.save_file({"fine": torch.ones(1), "wide": torch.ones(1).to(torch.float8_e5m2)}, path)
    with pytest.raises(TypeError, match=r"'wide'.*F8_E5M2"):
        fg.load(path)


def test_the_library_is_asked_for(tmp_path, monkeypatch):
    fg.save({}, tmp_path / "f.safetensors")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for call in (
        lambda: fg.save({}, tmp_path / "f.safetensors"),
        lambda: fg.load(tmp_path / "f.safetensors"),
    ):
        with pytest.raises(ImportError, match=r"pip install fusegrad\[safetensors\]"):
            call()
    fg.save({"x": fg.ones(1)}, tmp_path / "f.pt")
    assert fg.load(tmp_path / "f.pt")["x"].tolist() == [1.0]


def test_open_files_are_written_and_read(tmp_path):
    """From where they stand, as PyTorch does it."""
    state = {"weight": fg.arange(3.0), "epoch": 2, "rates": [0.5, (1, None)]}
    buffer = io.BytesIO()
    fg.save(state, buffer)
    buffer.seek(0)
    loaded = fg.load(buffer)
    assert loaded["weight"].tolist() == [0.0, 1.0, 2.0] and loaded["rates"] == state["rates"]
    with open(tmp_path / "state", "w+b") as file:
        file.write(b"before")
        fg.save(fg.ones(2), file)
        file.seek(6)
        assert fg.load(file).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="damaged"):
        fg.load(io.BytesIO(b"no such file"))
