"""`copy.deepcopy` of tensors, beside PyTorch: how copies lie, and which of them share memory."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: x,
    "turned": lambda x: x.t(),
    "columns": lambda x: x[:, 1:3],
    "a row": lambda x: x[1],
    "every second": lambda x: x[:, ::2],
    "an element": lambda x: x[1, 2],
    "expanded": lambda x: x[:, :1].expand(3, 5),
    "flat": lambda x: x.view(-1),
    "nothing": lambda x: x[:0],
    "other numbers": lambda x: x.view(x.int().dtype),
    "channels last": lambda x: x.reshape(1, 3, 2, 2).permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2),
}


def described(x: Any) -> Any:
    return x.tolist(), tuple(x.stride()), x.storage_offset(), x.untyped_storage().nbytes(), str(x.dtype)


def outcome(t: Any, layout: str) -> Any:
    """How a copy lies, alone and beside that of what it is a part of, and what writes into either change."""
    whole = t.arange(12, dtype=t.float32).reshape(3, 4)
    part = LAYOUTS[layout](whole)
    alone = copy.deepcopy(part)
    both = copy.deepcopy({"whole": whole, "part": part, "again": [part]})
    seen = [described(alone), described(both["part"]), both["again"][0] is both["part"]]
    both["whole"].add_(100)
    seen.append(described(both["part"]))
    if part.stride() and 0 not in part.stride():
        both["part"].mul_(2)
    return [*seen, described(both["whole"]), described(whole), described(part), described(alone)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_lie_and_share_memory_as_in_pytorch(layout: str) -> None:
    assert outcome(fg, layout) == outcome(torch, layout)


def test_copies_of_modules_keep_what_their_buffers_share() -> None:
    def run(t: Any) -> Any:
        class Kept(t.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("table", t.zeros(4))
                self.first = self.table[:2]

        copied = copy.deepcopy(Kept())
        copied.table.add_(1)
        copied.first.mul_(5)
        return copied.table.tolist(), copied.first.tolist()

    assert run(fg) == run(torch) == ([5.0, 5.0, 1.0, 1.0], [5.0, 5.0])


def test_jitted_functions_see_what_copies_share() -> None:
    whole = fg.zeros(4)
    copied, part = copy.deepcopy([whole, whole[:2]])
    step = fg.jit(lambda x: x.add_(1))
    for _ in range(4):
        step(copied)
    assert part.tolist() == [4.0, 4.0]
    read = fg.jit(lambda x: x * 2)
    for n in range(4):
        copied.fill_(n)
        assert read(part).tolist() == [2.0 * n] * 2
