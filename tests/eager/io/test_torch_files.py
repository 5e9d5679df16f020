"""Files that `torch.save` writes, and ours that `torch.load` reads. Nothing in them is run."""

from __future__ import annotations

import collections
import contextlib
import io
import os
import pickle
import struct
import threading
import tracemalloc
import zipfile

import numpy as np
import pytest
from archives import repack
from oracle import torch

import fusegrad as fg
from fusegrad.eager.io import arrays
from fusegrad.eager.io.pickle_machine import Damaged

DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64",
    "complex128", "bfloat16", "uint16", "uint32", "uint64",
]  # fmt: skip
BOTH = [True, False]  # the zip form, and the older one


def written(value, zipped=True):
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=zipped)
    return buffer.getvalue()


def loaded(content, **options):
    return fg.load(io.BytesIO(content), **options)


def everything(lib):
    """What programs save, in the words of `lib`."""
    lib.manual_seed(0)
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.Linear(4, 2))
    model[2].weight = model[2].weight
    optimizer = lib.optim.Adam(model.parameters(), lr=0.1)
    model(lib.ones(5, 3)).sum().backward()
    optimizer.step()
    base = lib.arange(24.0).reshape(4, 6)
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "tied": [model[0].weight, model[0].weight],
        "views": (base, base.t(), base[1], base[::2, 1::2], lib.ones(1).expand(3)),
        "kinds": {name: lib.ones(2, 3).to(getattr(lib, name)) for name in DTYPES},
        "shapes": [lib.zeros(0, 3), lib.tensor(5), base.shape, lib.device("cpu"), lib.float16],
        "plain": [
            1,
            -(2**31),
            10**40,
            2.5,
            float("inf"),
            True,
            None,
            "ä\ud800",
            b"\x00\xff",
            1 - 2j,
            {1, "b"},
        ],
        "ordered": collections.OrderedDict([(1, "a"), ((2, "x"), [])]),
        "leaf": lib.ones(2, requires_grad=True),
    }


def plain(value):
    """A value without the library: tensors as arrays, with what they say of themselves."""
    if isinstance(value, (fg.Tensor, torch.Tensor)):
        known = value.detach()
        array = (known.float() if str(value.dtype) == "torch.bfloat16" else known).numpy()
        shape = tuple(value.shape), value.stride(), value.requires_grad
        return type(value).__name__, str(value.dtype), shape, array.tobytes()
    if isinstance(value, dict):
        return (
            type(value),
            [(plain(k), plain(v)) for k, v in value.items()],
            plain(vars(value)) if isinstance(value, collections.OrderedDict) else None,
        )
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return str(value) if type(value).__module__.startswith(("torch", "fusegrad")) else value


@pytest.mark.parametrize("zipped", BOTH)
def test_what_torch_saves_is_read(tmp_path, zipped):
    value = everything(torch)
    torch.save(value, tmp_path / "theirs", _use_new_zipfile_serialization=zipped)
    assert plain(fg.load(tmp_path / "theirs")) == plain(value)
    assert plain(loaded(written(value, zipped))) == plain(value)


@pytest.mark.parametrize("zipped", BOTH)
def test_what_we_save_is_read_by_torch(tmp_path, zipped):
    value = everything(fg)
    fg.save(value, tmp_path / "ours.pt", _use_new_zipfile_serialization=zipped)
    for mmap in {zipped, False}:
        theirs = torch.load(tmp_path / "ours.pt", weights_only=True, mmap=mmap)
        assert plain(theirs) == plain(value)
    assert plain(fg.load(tmp_path / "ours.pt")) == plain(value)
    buffer = io.BytesIO()
    fg.save(value, buffer)
    buffer.seek(0)
    assert plain(torch.load(buffer, weights_only=True)) == plain(value)
    assert not zipped or zipfile.ZipFile(tmp_path / "ours.pt").testzip() is None


ARRAYS = [
    *(np.arange(6).reshape(2, 3).astype(dtype) for dtype in "? i1 u1 i2 u4 i8 f2 f4 f8 c8 c16 >i4".split()),
    *(
        np.array(True),
        np.zeros((0, 3)),
        np.arange(6.0).reshape(2, 3).T,
        np.arange(9.0)[::-2],
    ),
]


@pytest.mark.parametrize("number", range(len(ARRAYS)))
def test_arrays_of_numbers_go_both_ways(number):
    """Saved states of random numbers have some; PyTorch reads them where it is told to trust the file."""
    array = ARRAYS[number]
    for save, load in ((fg.save, fg.load), (torch.save, fg.load), (fg.save, torch.load)):
        file = io.BytesIO()
        save({"a": array, "b": array}, file)
        file.seek(0)
        found = load(file, weights_only=False) if load is torch.load else load(file)
        assert found["a"] is found["b"] and type(found["a"]) is np.ndarray
        assert found["a"].dtype == array.dtype.newbyteorder("=") and found["a"].shape == array.shape
        assert found["a"].tolist() == array.tolist()


@pytest.mark.parametrize(
    "state",
    [
        (1, (3,), "kind", False, bytes(16)),  # fewer numbers than bytes
        (1, (5,), "kind", False, bytes(16)),
        (1, (-4,), "kind", False, bytes(16)),
        (1, (4,), np.float32, False, bytes(16)),
        (1, (4,), "kind", False, [None] * 4),
        {"__class__": int},
    ],
)
def test_arrays_that_do_not_fit_are_errors(state):
    kind = arrays.Dtype("f4")
    if type(state) is tuple:
        state = tuple(kind if part == "kind" else part for part in state)
    with pytest.raises(Damaged):
        arrays.build_array(np.empty(0, np.int8), state)
    for code in ("O8", "V8", "f4,f4", "M8", "f99", 4, "i16"):
        with pytest.raises((Damaged, pickle.UnpicklingError)):
            arrays.Dtype(code)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_is_read(protocol):
    buffer = io.BytesIO()
    value = {"x": torch.arange(3), "b": b"bytes", "n": {1, 2}, "big": 10**300, "text": "a" * 300}
    value["array"] = bytearray(b"abc")
    torch.save(value, buffer, pickle_protocol=protocol)
    read = loaded(buffer.getvalue())
    assert read.pop("x").tolist() == value.pop("x").tolist() and read == value


@pytest.mark.parametrize("load", [fg.load, torch.load])
@pytest.mark.parametrize("save", [fg.save, torch.save])
def test_memory_is_shared_as_it_was(tmp_path, save, load):
    lib = fg if save is fg.save else torch
    base = lib.zeros(4, 6)
    parts = lib.arange(10.0)
    value = {"base": base, "row": base[1], "t": base.t(), "low": parts[:6], "high": parts[4:], "again": base}
    save(value, tmp_path / "f.pt")
    read = load(tmp_path / "f.pt")
    read["row"][2] = 5
    read["low"][5] = -1
    assert read["base"][1, 2] == 5 and read["t"][2, 1] == 5 and read["high"][1] == -1
    assert read["again"] is read["base"]


def test_writes_into_loaded_views_are_seen_by_autograd(tmp_path):
    base = fg.ones(3)
    fg.save([base, base[1:]], tmp_path / "f.pt")
    base, part = fg.load(tmp_path / "f.pt")
    weight = fg.ones(3, requires_grad=True)
    product = (weight * base).sum()
    part.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_no_more_of_a_memory_is_written_than_its_tensors_reach(tmp_path):
    fg.save(fg.zeros(1000, 1000)[3, :5], tmp_path / "f.pt")
    assert (tmp_path / "f.pt").stat().st_size < 3000
    backwards = fg.from_numpy(np.arange(5.0)[::-1])  # steps that PyTorch has not
    fg.save(backwards, tmp_path / "f.pt")
    assert fg.load(tmp_path / "f.pt").tolist() == torch.load(tmp_path / "f.pt").tolist() == backwards.tolist()


def test_cycles_and_large_alignments(tmp_path):
    looped = [fg.ones(2)]
    looped.append({"self": looped})
    fg.save(looped, tmp_path / "f.pt")
    for load in (fg.load, torch.load):
        read = load(tmp_path / "f.pt")
        assert read[1]["self"] is read and read[0].tolist() == [1.0, 1.0]
    with zipfile.ZipFile(tmp_path / "f.pt") as archive:
        content = (tmp_path / "f.pt").read_bytes()
        for member in archive.infolist():
            name, extra = struct.unpack("<HH", content[member.header_offset + 26 : member.header_offset + 30])
            assert (member.header_offset + 30 + name + extra) % 64 == 0
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="too deeply"):
        fg.save(deep, tmp_path / "f.pt")
    assert len(fg.load(tmp_path / "f.pt")) == 2


def test_tensors_with_attributes_and_buffers():
    tagged = torch.ones(2)
    tagged.tag = "first"
    buffer = torch.nn.Buffer(torch.zeros(1))
    read = loaded(written([tagged, buffer]))
    assert read[0].tag == "first" and read[1].tolist() == [0.0] and read[1].persistent is True


class Unsaved:
    pass


@pytest.mark.parametrize("value", [lambda: 1, (n for n in ()), type("Local", (), {})(), threading.Lock()])
@pytest.mark.parametrize("save", [fg.save, torch.save])
def test_what_cannot_be_pickled_leaves_the_old_file(tmp_path, value, save):
    fg.save({"x": fg.ones(2)}, tmp_path / "f")
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        save({"a": [1, value]}, tmp_path / "f" if save is fg.save else io.BytesIO())
    assert fg.load(tmp_path / "f")["x"].tolist() == [1.0, 1.0] and os.listdir(tmp_path) == ["f"]


def test_other_devices_and_options(tmp_path):
    content = written({"x": torch.ones(1)}).replace(b"cpu", b"gpu")
    with pytest.raises(RuntimeError, match="damaged"):
        loaded(content)  # the sum of the bytes is another
    here = repack(written({"x": torch.ones(1)}), {"data.pkl": lambda b: swapped(b, "cpu", "cuda:0")})
    with pytest.raises(RuntimeError, match=r"Attempting to deserialize object on a CUDA device.*'cuda:0'"):
        loaded(here)
    for location in ("cpu", fg.device("cpu"), {"cuda:0": "cpu"}, lambda storage, place: storage):
        assert loaded(here, map_location=location)["x"].tolist() == [1.0]
    with pytest.raises(RuntimeError, match="no other device than the CPU"):
        loaded(here, map_location={"cuda:0": "cuda:1"})
    with pytest.raises(RuntimeError, match=r"Attempting.*'cuda:0'"):
        loaded(here, map_location={"cuda:1": "cpu"})
    assert loaded(written([1]), weights_only=False) == [1]
    for load in (fg.load, torch.load):
        with pytest.raises(ValueError, match="must be a file path"):
            load(io.BytesIO(written([1])), mmap=True)


def swapped(described, old, new):
    """A pickle with another text in it."""
    form = lambda text: b"X" + struct.pack("<I", len(text)) + text.encode()  # noqa: E731
    assert form(old) in described
    return described.replace(form(old), form(new))


class Runs:
    """What runs a command where it is unpickled."""

    def __init__(self, function, *arguments):
        self.reduced = function, arguments

    def __reduce__(self):
        return self.reduced


HOSTILE = {
    "system": lambda path: Runs(os.system, f"touch {path}"),
    "eval": lambda path: Runs(eval, f"open({str(path)!r}, 'w')"),
    "exec": lambda path: Runs(exec, f"open({str(path)!r}, 'w')"),
    "getattr": lambda path: Runs(getattr, len, "__self__"),
    "open": lambda path: Runs(open, str(path), "w"),
    "import": lambda path: Runs(__import__, "antigravity"),
    "module": lambda path: torch.nn.Linear(1, 1),
    "object": lambda path: Unsaved(),
    "array": lambda path: np.array([Unsaved()], object),
    "structure": lambda path: np.zeros(2, "i4,f4"),
    "generator": lambda path: collections.deque([1]),
    "sparse": lambda path: torch.eye(2).to_sparse_csr(),
    "partial": lambda path: __import__("functools").partial(os.system, f"touch {path}"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("form", ["zip", "old", "pickle", "safetensors"])
def test_nothing_in_a_file_is_run(tmp_path, name, form):
    touched = tmp_path / "touched"
    value = {"x": torch.ones(1), "bad": HOSTILE[name](touched)}
    if form in ("zip", "old"):
        content = written(value, form == "zip")
    else:
        try:
            content = pickle.dumps(value)
        except RuntimeError:  # a sparse tensor, which torch alone writes
            return
    (tmp_path / f"f.{form}").write_bytes(content)
    with pytest.raises(pickle.UnpicklingError) as caught:
        fg.load(tmp_path / f"f.{form}")
    assert any(
        word in str(caught.value) for word in ("was not an allowed global", "is blocked", "cannot be loaded")
    )
    assert not touched.exists()


def instructions(*parts):
    """An archive whose pickle consists of these."""
    return repack(written([torch.ones(4)]), {"data.pkl": lambda _: b"\x80\x02" + b"".join(parts) + b"."})


def tensor_of(offset, size, stride, count=4, requires_grad=True):
    """An archive with a tensor that says where in a memory of four numbers it lies."""
    kind = torch.FloatStorage

    class Pickler(pickle._Pickler):
        def persistent_id(self, value):
            return ("storage", kind, "0", "cpu", count) if value == "memory" else None

    out = io.BytesIO()
    arguments = ("memory", offset, size, stride, requires_grad, collections.OrderedDict())
    Pickler(out, 2).dump([Runs(torch._utils._rebuild_tensor_v2, *arguments)])
    return repack(written([torch.ones(4)]), {"data.pkl": lambda _: out.getvalue()})


MARKED, NAME = b"(" * 200_000, b"ccollections\nOrderedDict\n"
DAMAGED = {
    "a memo of billions": lambda: instructions(b"]r\xff\xff\xff\x7f", b"j\x00\x00\x00\x00"),
    "a text of billions": lambda: instructions(b"X\xff\xff\xff\xff"),
    "bytes of exbibytes": lambda: instructions(b"\x8e" + b"\xff" * 8),
    "an integer of gigabytes": lambda: instructions(b"\x8b\xff\xff\xff\x7f"),
    "a name without end": lambda: instructions(b"c" + b"a" * 5000),
    "marks alone": lambda: instructions(MARKED, b"t"),
    "a key of tuples": lambda: instructions(b"})" + b"\x85" * 200_000 + b"K\x01s"),
    "a list as a key": lambda: instructions(b"}]K\x01s"),
    "an odd dict": lambda: instructions(b"}(K\x01u"),
    "items of a list": lambda: instructions(b"](K\x01K\x02u"),
    "appended to a dict": lambda: instructions(b"}K\x01a"),
    "calls a number": lambda: instructions(b"K\x01)R"),
    "calls with a list": lambda: instructions(NAME, b"]R"),
    "state of a list": lambda: instructions(b"]}b"),
    "hides a method": lambda: instructions(NAME, b")R}X\x05\x00\x00\x00itemsK\x01sb"),
    "an empty stack": lambda: instructions(b"0"),
    "nothing": lambda: instructions(),
    "an extension": lambda: instructions(b"\x82\x01"),
    "a big bytearray": lambda: instructions(b"c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R"),
    "a memory of another name": lambda: instructions(b"(X\x01\x00\x00\x00ytQ"),
    "not utf-8": lambda: instructions(b"X\x02\x00\x00\x00\xff\xff"),
    "beyond its memory": lambda: tensor_of(0, (5,), (1,)),
    "an offset beyond": lambda: tensor_of(4, (1,), (1,)),
    "steps beyond": lambda: tensor_of(0, (2, 2), (3, 1)),
    "negative steps": lambda: tensor_of(3, (4,), (-1,)),
    "a negative size": lambda: tensor_of(0, (-1,), (1,)),
    "an offset before": lambda: tensor_of(-1, (1,), (1,)),
    "a huge size": lambda: tensor_of(0, (2**62, 2**62), (1, 1)),
    "a huge size of nothing": lambda: tensor_of(0, (2**62, 2**62), (0, 0)),
    "many dimensions": lambda: tensor_of(0, (1,) * 500, (1,) * 500),
    "no shape": lambda: tensor_of(0, None, None),
    "steps of fewer": lambda: tensor_of(0, (2, 2), (1,)),
    "a size that is no number": lambda: tensor_of(0, (1.5,), (1,)),
    "a gradient of integers": lambda: tensor_of(0, (1,), (1,), requires_grad="yes"),
    "a huge memory": lambda: tensor_of(0, (1,), (1,), count=2**60),
    "a smaller memory": lambda: tensor_of(0, (1,), (1,), count=3),
    "compressed": lambda: repack(written([torch.ones(4)]), compression=zipfile.ZIP_DEFLATED),
    "two of one name": lambda: with_two(),
    "two roots": lambda: repack(written([1]), extra=[("other/data.pkl", b"\x80\x02N.")]),
    "no data.pkl": lambda: repack(written([1]), extra=()).replace(b"data.pkl", b"data.pkx"),
    "another order": lambda: repack(written([1]), {"byteorder": lambda _: b"mixed"}),
    "no memory": lambda: repack(written([torch.ones(1)])).replace(b"data/0", b"data/7"),
    "an empty zip": lambda: b"PK\x05\x06" + b"\x00" * 18,
    "a beginning": lambda: b"PK",
}  # fmt: skip


def with_two():
    with pytest.warns(UserWarning, match="Duplicate name"):
        return repack(written([1]), extra=[("archive/version", b"3")])


@pytest.mark.parametrize("name", DAMAGED)
def test_hostile_files_are_errors_and_take_no_memory(name):
    content = DAMAGED[name]()
    tracemalloc.start()
    try:
        with pytest.raises(RuntimeError, match="is damaged, or no file that"):
            loaded(content)
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


def test_members_that_overlap_are_not_more_than_the_file():
    """Many members at one place would be many times the file."""
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as archive:
        archive.writestr("archive/data/0", bytes(16384))
        first = archive.infolist()[0]
        for i in range(1, 50):
            copy = zipfile.ZipInfo(f"archive/data/{i}")
            copy.header_offset, copy.CRC = first.header_offset, first.CRC
            copy.file_size = copy.compress_size = first.file_size
            archive.filelist.append(copy)
            archive.NameToInfo[copy.filename] = copy
        archive._didModify = True
    with pytest.raises(RuntimeError, match="larger than it is"):
        loaded(many.getvalue())


def test_names_lead_nowhere_else(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(np.ones(4, np.float32).tobytes())
    for key in ("../../secret", str(secret), "../version"):
        with pytest.raises(RuntimeError, match="is damaged"):
            loaded(repack(written([torch.ones(4)]), {"data.pkl": lambda b, key=key: swapped(b, "0", key)}))


@pytest.mark.parametrize("zipped", BOTH)
def test_damage_is_an_error_or_the_values(zipped):
    """Bits flipped, bytes cut off: the documented errors. In a zip also never another tensor, by its sums."""
    value = {
        "a": torch.arange(40),
        "b": [torch.nn.Parameter(torch.ones(3)), "text", 2.5, None, torch.float32],
    }
    content = written(value, zipped)
    expected = plain(value)
    random = np.random.default_rng(0)
    errors = 0
    for trial in range(1500):
        damaged = bytearray(content)
        if trial % 3 == 0:
            del damaged[random.integers(len(damaged)) :]
        else:
            for _ in range(random.integers(1, 4)):
                damaged[random.integers(len(damaged))] ^= 1 << random.integers(8)
        try:
            read = loaded(bytes(damaged))
        except (RuntimeError, pickle.UnpicklingError):
            errors += 1
        else:
            assert not zipped or plain(read) == expected
    assert errors > 300


@pytest.mark.parametrize("seed", range(4))
def test_damaged_instructions_are_errors(seed):
    """As above, with sums that fit: what the pickle says is changed."""
    content = written({"a": torch.arange(6), "b": [torch.nn.Parameter(torch.ones(3)), "text", {"x": (1, 2)}]})
    random = np.random.default_rng(seed)
    for _ in range(300):

        def change(described):
            described = bytearray(described)
            for _ in range(random.integers(1, 5)):
                described[random.integers(len(described))] = random.integers(256)
            return bytes(described)

        with contextlib.suppress(RuntimeError, pickle.UnpicklingError):
            loaded(repack(content, {"data.pkl": change}))
