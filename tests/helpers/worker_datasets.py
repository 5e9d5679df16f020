"""Datasets for loaders' workers: in a module of their own, which processes that are spawned can import."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import fusegrad as fg
from fusegrad.utils.data import Dataset, IterableDataset, get_worker_info


class Squares(Dataset):
    """Dicts of an index and its square."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": fg.tensor([float(index)]), "square": np.int32(index**2), "name": f"{index}"}


class Failing(Squares):
    """What happens at index 5 is said by a name."""

    def __init__(self, how: str) -> None:
        super().__init__(12)
        self.how = how

    def __getitem__(self, index: int) -> Any:
        return getattr(self, self.how)() if index == 5 else index

    def value_error(self) -> None:
        raise ValueError("five is bad")

    def key_error(self) -> None:
        raise KeyError("five")

    def two_arguments(self) -> None:
        raise UnicodeDecodeError("utf-8", b"five", 0, 1, "bad")

    def local_class(self) -> None:
        class LocalError(ValueError):
            pass

        raise LocalError("five is local")

    def stop_iteration(self) -> None:
        raise StopIteration

    def on_a_graph(self) -> Any:
        return fg.ones(2, requires_grad=True) * 2

    def exit(self) -> None:
        os._exit(7)

    def system_exit(self) -> None:
        raise SystemExit(7)

    def kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def sleep(self) -> None:
        time.sleep(60)


class Draws(Squares):
    """Random numbers of each kind, and the worker's seed."""

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        return fg.rand(2), random.random(), np.random.rand(2), info.seed if info else -1


class Stream(IterableDataset):
    """0, 1, ...: each worker has its part. pace: what it waits for each, times its number."""

    def __init__(self, size: int, pace: float = 0.0, unequal: bool = False) -> None:
        self.size, self.pace, self.unequal = size, pace, unequal

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        number, count = (info.id, info.num_workers) if info else (0, 1)
        if self.unequal and count > 1:
            return iter(range(self.size) if number == 0 else [])
        return self._part(number, count)

    def _part(self, number: int, count: int) -> Iterator[int]:
        for i in range(number, self.size, count):
            time.sleep(self.pace * number)
            yield i


class Process(Squares):
    """The number of the process that made it."""

    def __getitem__(self, index: int) -> int:
        return os.getpid()


class Large(Squares):
    """More than a pipe holds."""

    def __getitem__(self, index: int) -> Any:
        return fg.full((500_000,), float(index)), np.arange(0), fg.ones(3, 4).T * index


def take_half(number: int) -> None:
    info = get_worker_info()
    assert info is not None and info.id == number
    info.dataset.offset = 100 * (number + 1)


def fail_at_start(number: int) -> None:
    raise ValueError(f"worker {number} cannot start")


class Shifted(Squares):
    """Indices, and what `take_half` added."""

    offset = 0

    def __getitem__(self, index: int) -> int:
        return index + self.offset


def first_and_last(batch: list[Any]) -> tuple[Any, Any]:
    return batch[0], batch[-1]
