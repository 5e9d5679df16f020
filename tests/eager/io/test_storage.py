"""The memory of tensors, as `untyped_storage()` shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

VIEWS = {
    "itself": lambda x: x,
    "row": lambda x: x[1],
    "transposed": lambda x: x.t(),
    "strided": lambda x: x[::2, 1:],
    "expanded": lambda x: x[:1].expand(3, 4),
    "empty": lambda x: x[3:],
    "of a view": lambda x: x.view(-1)[2:][1:],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_views_lie_in_one_storage(name: str, dtype: str) -> None:
    ours, theirs = (t.arange(12).reshape(3, 4).to(getattr(t, dtype)) for t in (fg, torch))
    for base in (ours, theirs):
        view = VIEWS[name](base)
        assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
        assert view.clone().untyped_storage().data_ptr() != base.untyped_storage().data_ptr()
    ours, theirs = VIEWS[name](ours), VIEWS[name](theirs)
    assert ours.untyped_storage().nbytes() == theirs.untyped_storage().nbytes()
    assert ours.untyped_storage().tolist() == theirs.untyped_storage().tolist()
    assert ours.storage().tolist() == theirs.storage().tolist()
    assert len(ours.storage()) == len(theirs.storage())
    assert ours.storage().dtype == ours.dtype


def test_a_storage_shows_later_writes() -> None:
    x = fg.zeros(3)
    storage = x.storage()
    x[1] = 5
    assert storage.tolist() == [0, 5, 0]
    assert storage[1] == 5


def test_memory_of_a_numpy_array() -> None:
    array = np.arange(4.0)
    assert fg.from_numpy(array[2:]).untyped_storage().data_ptr() == array.__array_interface__["data"][0]


def test_a_storage_seen_while_ops_wait() -> None:
    @fg.jit
    def look(x: fg.Tensor) -> list[float]:
        y = x + 1
        seen = y.storage()
        y.mul_(2)
        return seen.tolist()

    for _ in range(3):
        assert look(fg.ones(3)) == [4.0, 4.0, 4.0]


def test_a_part_of_a_storage_is_one_as_in_torch() -> None:
    def found(t: Any) -> Any:
        x = t.arange(6, dtype=t.float32).reshape(2, 3).t()
        part = x.untyped_storage()[4:12]
        seen = t.asarray(part, dtype=t.uint8).view(dtype=t.float32)
        x.fill_(7.0)
        seen.add_(1.0)
        return type(part).__name__, part.nbytes(), seen.tolist(), x.tolist(), part.untyped().tolist()

    assert found(fg) == found(torch)


def test_files_are_storages_as_in_torch(tmp_path: Path) -> None:
    def found(t: Any) -> Any:
        path = tmp_path / "bytes"
        path.write_bytes(bytes(range(8)))
        read = t.UntypedStorage.from_file(str(path), False, 6)
        shared = t.UntypedStorage.from_file(str(path), True, 8)
        t.asarray(read, dtype=t.uint8).fill_(9)
        before = path.read_bytes()
        t.asarray(shared, dtype=t.uint8)[1:3].fill_(5)
        return read.tolist(), before, path.read_bytes()

    assert found(fg) == found(torch)
    with pytest.raises(RuntimeError, match="8 bytes, and 9"):
        fg.UntypedStorage.from_file(str(tmp_path / "bytes"), nbytes=9)
