"""Values of other libraries as data, and files: what `save` replaces, and damaged metadata."""

from __future__ import annotations

import json
import os
import stat
import threading
import warnings
from importlib.machinery import SourceFileLoader

import numpy as np
import pytest
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.nn import saved_state

DATA = {
    "numpy": lambda: np.array([[1.0, 2.0]], np.float32),
    "numpy, read-only": lambda: np.broadcast_to(np.float32(1.5), (1, 2)),
    "torch": lambda: torch.tensor([[1.0, 2.0]]),
    "torch, with gradient": lambda: torch.tensor([[1.0, 2.0]], requires_grad=True),
    "torch, strided": lambda: torch.ones(2, 2)[:, ::2].T,
    "fusegrad": lambda: fg.tensor([[1.0, 2.0]]),
}


def listed(value):
    return value.detach().tolist() if hasattr(value, "detach") else value.tolist()


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("name", [name for name in DATA if "numpy" not in name])
def test_state_of_other_libraries_is_loaded(name, assign):
    layer, value = fg.nn.Linear(2, 1, bias=False), DATA[name]()
    layer.load_state_dict({"weight": value}, assign=assign)
    assert layer.weight.tolist() == listed(value)
    assert isinstance(layer.weight, fg.nn.Parameter)
    if not assign:
        before = listed(value)
        with fg.no_grad():
            layer.weight.zero_()
        assert listed(value) == before


@pytest.mark.parametrize("name", DATA)
def test_tensors_are_made_of_it(name):
    value = DATA[name]()
    made = fg.tensor(value)
    assert made.tolist() == listed(value) and made.dtype == fg.float32 and not made.requires_grad
    assert fg.tensor(value, dtype=fg.float64).dtype == fg.float64
    assert fg.as_tensor(value).tolist() == listed(value)
    made.zero_()
    assert value.sum() > 0


def test_what_cannot_become_a_tensor_is_named():
    with pytest.raises(RuntimeError, match=r"weight: torch.Tensor cannot become a tensor"):
        fg.nn.Linear(1, 1, bias=False).load_state_dict({"weight": torch.ones(1, 1, dtype=torch.bfloat16)})


@pytest.mark.parametrize(
    "value", [np.ones((2, 2)), np.float32(1), [[1.0, 1.0]], 1.0, None, "a", memoryview(b"a")]
)
def test_what_is_no_tensor_is_refused_as_a_state(value):
    texts = []
    for lib in (fg, torch):
        with pytest.raises(RuntimeError) as error:
            lib.nn.Linear(2, 2, bias=False).load_state_dict({"weight": value})
        texts.append(str(error.value).splitlines()[:2])
    assert texts[0] == texts[1]


def test_other_tensors_are_named_as_what_they_are():
    for call in (lambda: fg.mul(fg.ones(2), torch.ones(2)), lambda: fg.maximum(fg.ones(2), torch.ones(2))):
        with pytest.raises(TypeError, match=r"got torch\.Tensor; fg\.from_dlpack\(\)"):
            call()
    with pytest.raises(TypeError, match=r"got torch\.Tensor"):
        fg.from_numpy(torch.ones(2))


# Files.


def test_links_stay_links(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "real.safetensors", tmp_path / "link.safetensors"
    fg.save({"a": fg.ones(1)}, target)
    os.chmod(target, 0o600)
    link.symlink_to(target)
    fg.save({"a": fg.zeros(2)}, link)
    assert link.is_symlink() and fg.load(target)["a"].tolist() == [0, 0]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["link.safetensors", "there"]
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "new")
    fg.save(fg.ones(1), dangling)
    assert dangling.is_symlink() and fg.load(tmp_path / "new").tolist() == [1]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
@pytest.mark.parametrize("write", ["save", "export"])
def test_pipes_stay_pipes(tmp_path, write):
    pipe, got = tmp_path / "pipe.py", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    if write == "save":
        fg.save({"a": fg.ones(3)}, pipe)
    else:
        fg.export(lambda x: x * 2, fg.ones(3), path=str(pipe))
    reader.join(10)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    if write == "save":
        (tmp_path / "file").write_bytes(got[0])
        assert fg.load(tmp_path / "file")["a"].tolist() == [1, 1, 1]
    else:
        assert b"mul" in got[0]


def test_devices_stay_devices():
    if os.path.exists("/dev/null"):
        fg.save({"a": fg.ones(1)}, "/dev/null")
        assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_directories_are_refused(tmp_path):
    with pytest.raises(OSError):
        fg.save({"a": fg.ones(1)}, tmp_path)
    assert os.listdir(tmp_path) == []


DAMAGED = [
    "nonsense",
    "3}",
    json.dumps({"tensor": "missing"}),
    json.dumps({"unknown": 3}),
    json.dumps({"dict": 3}),
    json.dumps({"dict": [[1]]}),
    json.dumps({"dict": [[[1], 2]]}),
    json.dumps({"list": None}),
    json.dumps({"tensor": "a", "list": []}),
    json.dumps({}),
    json.dumps({"tensor": ["a"]}),
    json.dumps({"dtype": "nonsense"}),
    json.dumps({"complex": [1, 2, 3]}),
    "[" * 100000,
    '{"list": [' * 5000 + "]}" * 5000,
]


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
@pytest.mark.parametrize("key", ["fusegrad", "fusegrad_complex"])
def test_damaged_metadata_is_said(tmp_path, key, text):
    from safetensors.numpy import save_file

    path = tmp_path / "x.safetensors"
    save_file({"a": np.ones(3, np.float32)}, path, {key: text})
    try:
        fg.load(path)
    except RuntimeError as error:
        assert "is damaged" in str(error) and "x.safetensors" in str(error)
    else:
        assert key == "fusegrad_complex" and json.loads(text) == {}


@pytest.mark.parametrize("name", ["a\nraise SystemExit.py", "b\r'''\"\"\".py", "c\x0cd.py", "e\udc80.py"])
def test_names_of_files_are_comments_in_exported_python(tmp_path, name):
    source = tmp_path / name
    source.write_text("def scaled(x):\n    return x * 2 + 1\n")
    scaled = SourceFileLoader("scaling", str(source)).load_module().scaled
    path = tmp_path / "out.py"
    fg.export(scaled, fg.ones(3), path=str(path))
    made: dict = {"__name__": "made"}
    exec(compile(path.read_text(), "out.py", "exec"), made)
    assert made["run"](fg.ones(3)).tolist() == [3, 3, 3]


def test_data_of_others_that_is_lost_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(saved_state.ops, "tensor_of_data", lambda value: fg.zeros(value.shape))
    assert finds(test_state_of_other_libraries_is_loaded, "torch, with gradient", False)


def test_a_file_put_in_the_place_of_a_link_is_found(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os.path, "realpath", os.path.abspath)
    assert finds(test_links_stay_links, tmp_path)


def test_a_buffer_that_is_not_writable_is_told_of():
    with pytest.warns(UserWarning, match="The given buffer is not writable"):
        x = fg.frombuffer(b"abcd", dtype=fg.uint8)
    with pytest.raises(RuntimeError):
        x[0] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fg.frombuffer(bytearray(b"abcd"), dtype=fg.uint8).tolist() == [97, 98, 99, 100]


def field(length: int) -> np.ndarray:
    """A field of records: its elements do not follow one another by their own size."""
    records = np.zeros(length, [("flag", "i1"), ("value", "f4")])
    records["value"] = np.arange(length)
    return records["value"]


@pytest.mark.parametrize("make", ["from_numpy", "as_tensor", "asarray"])
def test_arrays_between_whose_elements_other_data_lie_are_refused(make):
    """Native code counts in elements: it would read, and write, other memory."""
    with pytest.raises(ValueError) as expected:
        getattr(torch, make)(field(40))
    function = fg.jit(lambda array: getattr(fg, make)(array) * 2 + 1)
    for _ in range(3):
        function(np.arange(40, dtype="f4"))
    for call in (getattr(fg, make), function):
        with pytest.raises(ValueError, match=str(expected.value)):
            call(field(40))
    assert fg.tensor(field(4)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0)[::-1],
        np.arange(24.0).reshape(4, 6)[::2, ::-3],
        np.ndarray(12, "f4", bytes(range(49)), 1),
        np.ones(4, "c8").real,
    ],
    ids=["backwards", "steps", "unaligned", "parts"],
)
def test_other_layouts_are_read_as_they_lie(array):
    function, tensor = fg.jit(lambda x: (x * 2 + 1, x.max())), fg.from_numpy(array)
    for _ in range(3):
        result, largest = function(tensor)
        np.testing.assert_array_equal(result.numpy(), array * 2 + 1)
        assert largest.item() == array.max()
