"""Fetchers: from what a sampler gave to a batch, in the loader's process or in a worker's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class DatasetKind:
    """Whether samples are looked up by keys, or come one after the other. Source:
    `torch.utils.data.dataloader._DatasetKind`.
    """

    Map = 0
    Iterable = 1


@dataclass(frozen=True)
class Recipe:
    """What batches are made of, as a loader says it.

    kind: of `DatasetKind`. batched: whether the sampler gives lists of keys, and collate is given a list of
    samples.
    """

    kind: int
    dataset: Any
    batched: bool
    collate: Callable[[Any], Any]
    drop_last: bool

    def fetcher(self) -> Callable[[Any], Any]:
        """A function from what the sampler gave to a batch; StopIteration where an iterable dataset ends."""
        if self.kind == DatasetKind.Iterable:
            return StreamFetcher(self)
        return self._fetch

    def _fetch(self, keys: Any) -> Any:
        dataset = self.dataset
        if not self.batched:
            return self.collate(dataset[keys])
        if getattr(dataset, "__getitems__", None):
            return self.collate(dataset.__getitems__(keys))
        return self.collate([dataset[key] for key in keys])


class StreamFetcher:
    """Batches of one iteration of an iterable dataset; of the keys only their number counts."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.samples = iter(recipe.dataset)
        self.ended = False

    def __call__(self, keys: Any) -> Any:
        recipe = self.recipe
        if self.ended:
            raise StopIteration
        if not recipe.batched:
            return recipe.collate(next(self.samples))
        batch = []
        for _ in keys:
            try:
                batch.append(next(self.samples))
            except StopIteration:
                self.ended = True
                break
        if not batch or (recipe.drop_last and len(batch) < len(keys)):
            raise StopIteration
        return recipe.collate(batch)
