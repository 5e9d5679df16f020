"""Decoders that write their keys and values at the next place of a cache: one path for all places."""

from __future__ import annotations

import collections
from typing import Any

import pytest

import fusegrad as fg

WIDTH, HEADS, PLACES = 32, 4, 80


class Output(collections.OrderedDict[str, Any]):
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        super().__setattr__(name, value)


class Cache:
    """Of one layer, as libraries have it: where it is written next is known to a tensor."""

    def __init__(self, by_tensor: bool) -> None:
        self.keys, self.values = (fg.zeros(1, HEADS, PLACES, WIDTH // HEADS) for _ in range(2))
        self.seen, self.by_tensor = fg.zeros(1, dtype=fg.int64), by_tensor

    def update(self, key: Any, value: Any, place: int) -> Any:
        if self.by_tensor:
            at = fg.arange(key.shape[2]) + self.seen
            self.seen.add_(key.shape[2])
            self.keys.index_copy_(2, at, key)
            self.values.index_copy_(2, at, value)
        else:
            self.keys[:, :, place : place + 1] = key
            self.values[:, :, place] = value[:, :, 0]
        return self.keys, self.values


class Decoder(fg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = fg.nn.Embedding(PLACES, WIDTH), fg.nn.Embedding(PLACES, WIDTH)
        self.mixed, self.norm = fg.nn.Linear(WIDTH, 3 * WIDTH), fg.nn.LayerNorm(WIDTH)

    def forward(self, word: Any, cache: Cache, place: int) -> Output:
        if hasattr(word, "jax"):
            raise TypeError("of another library")
        where = fg.arange(PLACES)
        x = self.words(word) + self.places.weight[place]
        given = self.mixed(self.norm(x)).view(1, 1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        keys, values = cache.update(given[1], given[2], place)
        seen = fg.nn.functional.scaled_dot_product_attention(given[0], keys, values, where <= place)
        found = Output()
        found.logits = (x + seen.reshape(1, 1, WIDTH)) @ self.places.weight.T * 0.5
        found.cache = cache
        return found


def _decoded(sampled: bool, by_tensor: bool, jitted: bool) -> tuple[list[int], Any]:
    fg.manual_seed(3)
    model, cache = Decoder().eval(), Cache(by_tensor)
    forward = fg.jit(model.forward) if jitted else model.forward
    word, words = fg.tensor([[1]]), []
    with fg.no_grad():
        for place in range(PLACES):
            logits = forward(word, cache, place).logits[:, -1]
            scores = fg.softmax(logits, -1)
            word = fg.multinomial(scores, 1) if sampled else logits.argmax(-1, keepdim=True)
            words.append(int(word))
    return words, forward


@pytest.mark.parametrize("by_tensor", [False, True])
@pytest.mark.parametrize("sampled", [False, True])
def test_decoders_have_one_path_for_all_places(sampled: bool, by_tensor: bool) -> None:
    words, forward = _decoded(sampled, by_tensor, jitted=True)
    assert words == _decoded(sampled, by_tensor, jitted=False)[0] and len({*words}) > 2
    stats = forward.stats
    assert stats.compiles <= 3 and stats.compiled_calls >= PLACES - 3, forward.explain()
    leaves = [leaf for leaf in forward.segments() if leaf.commit is not None]
    assert leaves and leaves[-1].commit.rest == [], forward.explain()
