"""How files are read and written that a program has opened, and files that are mapped, or of others."""

from __future__ import annotations

import gzip
import io
import mmap
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import repack
from oracle import torch

import fusegrad as fg
from fusegrad.torch.supplied import serialization

VALUE = {
    "a": np.arange(6, dtype="f4").reshape(2, 3),
    "b": np.array([1 - 2j, 3j]),
    "c": np.array([True, False]),
}


def of(lib: Any) -> Any:
    return {name: lib.tensor(array) for name, array in VALUE.items()}


def is_value(found: Any) -> bool:
    return all(np.array_equal(found[name].numpy(), array) for name, array in VALUE.items())


class Listening:
    """A file with few methods, which says which were called."""

    def __init__(self, content: bytes, *names: str) -> None:
        self.file, self.called = io.BytesIO(content), set()
        for name in names:
            setattr(self, name, self.telling(name))

    def telling(self, name: str) -> Any:
        def call(*given: Any) -> Any:
            self.called.add(name)
            return getattr(self.file, name)(*given)

        return call


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("trusting", [True, False])
def test_what_methods_a_file_has(zipped: bool, trusting: bool) -> None:
    file = io.BytesIO()
    fg.save(of(fg), file, _use_new_zipfile_serialization=zipped)
    for more in ((), ("readinto",)):
        given = Listening(file.getvalue(), "read", "readline", "seek", "tell", *more)
        assert is_value(fg.load(given, weights_only=not trusting))  # type: ignore[arg-type]
        assert more == () or "readinto" in given.called
    written = Listening(b"", "write", "flush")
    fg.save(of(fg), written, _use_new_zipfile_serialization=zipped)  # type: ignore[arg-type]
    assert is_value(torch.load(io.BytesIO(written.file.getvalue())))
    for lib in (fg, torch):
        lacking = Listening(file.getvalue(), "read", "readline")
        with pytest.raises(AttributeError, match="file that is seekable"):
            lib.load(lacking)
        for wrong, error in ((3, AttributeError), (type("F", (), {"write": "w"})(), TypeError)):
            with pytest.raises(error, match="write"):
                lib.save(1, wrong)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_from_where_a_file_stands(tmp_path: Path, zipped: bool, packed: bool) -> None:
    """Behind other content, and, in the older form, before more of it."""
    path = tmp_path / "f"
    opened: Any = gzip.open if packed else open
    for lib, other in ((fg, torch), (torch, fg)):
        with opened(path, "wb") as file:
            pickle.dump(41, file)
            lib.save(of(lib), file, _use_new_zipfile_serialization=zipped)
            if not zipped:
                pickle.dump(43, file)
                lib.save(of(lib)["a"], file, _use_new_zipfile_serialization=False)
        for reader in (lib, other):
            for only in (True, False):
                with opened(path, "rb") as file:
                    assert pickle.load(file) == 41
                    assert is_value(reader.load(file, weights_only=only))
                    if not zipped:
                        assert pickle.load(file) == 43
                        assert reader.load(file, weights_only=only).shape == (2, 3)


def swapped(array: np.ndarray) -> bytes:
    """The bytes of an array of a machine that has them in the other order."""
    return array.astype(array.dtype.newbyteorder()).tobytes()


def test_the_other_order_of_bytes() -> None:
    names = "int8 int16 int32 int64 float16 float32 float64 complex64 complex128 bool".split()
    for name in names:
        array = np.arange(5).astype(name)
        file = io.BytesIO()
        torch.save(torch.tensor(array), file)
        changes = {"data/0": lambda _, a=array: swapped(a), "byteorder": lambda _: b"big"}
        content = repack(file.getvalue(), changes)
        assert (
            fg.load(io.BytesIO(content)).tolist()
            == torch.load(io.BytesIO(content)).tolist()
            == array.tolist()
        )
        without = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(without, "w") as new:
            for member in old.infolist():
                if not member.filename.endswith("byteorder"):
                    new.writestr(member.filename, old.read(member))
        serialization.set_default_load_endianness(serialization.LoadEndianness.BIG)
        try:
            assert fg.load(io.BytesIO(without.getvalue())).tolist() == array.tolist()
        finally:
            serialization.set_default_load_endianness(None)


def test_mapped_files(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for save, lib in ((fg.save, fg), (torch.save, torch)):
        save(of(lib), path)
        for only in (True, False):
            loaded = fg.load(path, mmap=True, weights_only=only)
            assert is_value(loaded)
            loaded["a"][0, 0] = 7  # in memory alone
            assert is_value(fg.load(path, mmap=True)) and is_value(fg.load(path))
        with serialization.set_default_mmap_options(mmap.MAP_SHARED):
            fg.load(path, mmap=True)["a"][0, 0] = 7
        assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
        assert (
            fg.load(path, mmap=True)["a"][0, 0].item() == 7 == torch.load(path, mmap=True)["a"][0, 0].item()
        )
        save(of(lib), path, _use_new_zipfile_serialization=False)
        for reader in (fg, torch):
            with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
                reader.load(path, mmap=True)


def test_files_without_sums_and_without_values() -> None:
    for kind, lib in ((serialization, fg), (torch.serialization, torch)):
        kind.set_crc32_options(False)
        try:
            file = io.BytesIO()
            lib.save(of(lib), file)
        finally:
            kind.set_crc32_options(True)
        assert is_value(fg.load(io.BytesIO(file.getvalue())))
        if lib is fg:
            assert is_value(torch.load(io.BytesIO(file.getvalue())))
        file = io.BytesIO()
        with kind.skip_data():
            lib.save(of(lib), file)
        found = fg.load(io.BytesIO(file.getvalue()))
        assert found["a"].shape == (2, 3) and not found["a"].any()


def test_storages_go_both_ways() -> None:
    for save, load, lib in ((fg.save, fg.load, fg), (torch.save, fg.load, torch), (fg.save, torch.load, fg)):
        base = lib.arange(6.0)
        file = io.BytesIO()
        save([base[2:], base.storage()], file)
        file.seek(0)
        part, whole = load(file)
        whole_values = [whole[i] for i in range(6)]
        assert part.tolist() == [2.0, 3.0, 4.0, 5.0] and whole_values == [float(i) for i in range(6)]
        assert part.data_ptr() == whole.data_ptr() + 8
