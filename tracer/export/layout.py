"""A layered layout (Sugiyama's): ranks by depth, few crossings, short and straight edges.

1. rank: a box stands below all that it reads; inputs that one place needs stand just above it.
2. long edges get a bend in every rank they pass, so that each edge joins neighbouring ranks.
3. order: each rank is sorted by the mean place of its neighbours, down and up, a few times;
   the order with the fewest crossings wins.
4. place: within its rank's order each box goes as near as it can to the mean of its neighbours.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

SWEEPS, GAP, BEND_GAP, RANK_GAP = 12, 26.0, 14.0, 46.0


class Box(NamedTuple):
    """What is placed: its size, and whether it should stand near its reader (inputs)."""

    key: str
    width: float
    height: float
    sinks: bool = False


@dataclass(frozen=True)
class Layout:
    """Centres of the boxes, points of the edges (in the order given), and the size of it all."""

    centres: dict[str, tuple[float, float]]
    paths: list[list[tuple[float, float]]]
    width: float
    height: float


def layout(boxes: Sequence[Box], edges: Sequence[tuple[str, str]]) -> Layout:
    """Place `boxes`, which come in an order that the edges follow."""
    sizes = {b.key: b for b in boxes}
    ranks = _ranks(boxes, edges)
    chains, links = _chains(ranks, edges)
    rank_of = {**ranks, **{bend: r for chain in chains for r, bend in chain.bends}}
    layers = _ordered(_layers(rank_of), links)
    widths = {key: sizes[key].width if key in sizes else 0.0 for key in rank_of}
    x = _placed(layers, links, widths)
    heights = [max((sizes[k].height for k in layer if k in sizes), default=0.0) for layer in layers]
    tops = [0.0]
    for height in heights:
        tops.append(tops[-1] + height + RANK_GAP)
    y = {k: tops[r] + heights[r] / 2 for k, r in rank_of.items()}
    left = min((x[k] - widths[k] / 2 for k in x), default=0.0)
    x = {k: v - left for k, v in x.items()}
    entries = _entries(chains, x, widths)
    paths = []
    for chain, entry in zip(chains, entries, strict=True):
        start = (x[chain.tail], y[chain.tail] + sizes[chain.tail].height / 2)
        end = (entry, y[chain.head] - sizes[chain.head].height / 2)
        paths.append(_simplified([start, *((x[b], y[b]) for _, b in chain.bends), end]))
    width = max((x[k] + widths[k] / 2 for k in x), default=0.0)
    return Layout({k: (x[k], y[k]) for k in sizes}, paths, width, max(tops[-1] - RANK_GAP, 0.0))


def _ranks(boxes: Sequence[Box], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    readers: dict[str, list[str]] = defaultdict(list)
    sources: dict[str, list[str]] = defaultdict(list)
    for tail, head in edges:
        readers[tail].append(head)
        sources[head].append(tail)
    ranks: dict[str, int] = {}
    for box in boxes:
        ranks[box.key] = 1 + max((ranks[t] for t in sources[box.key]), default=-1)
    for box in boxes:
        if box.sinks and readers[box.key]:
            ranks[box.key] = max(0, min(ranks[h] for h in readers[box.key]) - 1)
    return ranks


# Edges as chains of links between neighbouring ranks.


class Chain(NamedTuple):
    """An edge with its bends: (rank, key) for each rank in between."""

    tail: str
    head: str
    bends: list[tuple[int, str]]


def _chains(
    ranks: Mapping[str, int], edges: Sequence[tuple[str, str]]
) -> tuple[list[Chain], list[tuple[str, str]]]:
    """The chains, and their links. Edges from one box share their bends as far as they go."""
    chains, links = [], dict[tuple[str, str], None]()
    for tail, head in edges:
        bends = [(r, f"{tail}@{r}") for r in range(ranks[tail] + 1, ranks[head])]
        chains.append(Chain(tail, head, bends))
        stops = [tail, *(b for _, b in bends), head]
        links.update(dict.fromkeys(pairwise(stops)))
    return chains, list(links)


def _entries(chains: Sequence[Chain], x: Mapping[str, float], widths: Mapping[str, float]) -> list[float]:
    """Where along its head's upper side each edge arrives: side by side, in the order they come from."""
    arriving: dict[str, list[int]] = defaultdict(list)
    for i, chain in enumerate(chains):
        arriving[chain.head].append(i)
    entries = [0.0] * len(chains)
    for head, numbers in arriving.items():
        numbers.sort(key=lambda i: x[chains[i].bends[-1][1] if chains[i].bends else chains[i].tail])
        step = min(22.0, widths[head] / (len(numbers) + 1))
        for place, i in enumerate(numbers):
            entries[i] = x[head] + (place - (len(numbers) - 1) / 2) * step
    return entries


def _simplified(path: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without bends on a straight way down."""
    kept = path[:1]
    for i, (x, y) in enumerate(path[1:-1], 1):
        if abs(x - kept[-1][0]) > 0.5 or abs(x - path[i + 1][0]) > 0.5:
            kept.append((x, y))
    return [*kept, path[-1]]


def _layers(rank_of: Mapping[str, int]) -> list[list[str]]:
    layers: list[list[str]] = [[] for _ in range(1 + max(rank_of.values(), default=-1))]
    for key, rank in rank_of.items():
        layers[rank].append(key)
    return layers


# The order within the ranks.


def _neighbours(links: Iterable[tuple[str, str]]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    above: dict[str, list[str]] = defaultdict(list)
    below: dict[str, list[str]] = defaultdict(list)
    for tail, head in links:
        below[tail].append(head)
        above[head].append(tail)
    return above, below


def _ordered(layers: list[list[str]], links: list[tuple[str, str]]) -> list[list[str]]:
    above, below = _neighbours(links)
    best, fewest = [list(layer) for layer in layers], crossings(layers, links)
    for sweep in range(_sweeps(links)):
        if not fewest:
            break
        down = sweep % 2 == 0
        near = above if down else below
        numbers = range(1, len(layers)) if down else range(len(layers) - 2, -1, -1)
        for i in numbers:
            fixed = {k: p for p, k in enumerate(layers[i - 1 if down else i + 1])}
            places = {k: p for p, k in enumerate(layers[i])}
            layers[i] = sorted(layers[i], key=lambda k: _mean([fixed[n] for n in near[k]], places[k]))
        count = crossings(layers, links)
        if count < fewest:
            best, fewest = [list(layer) for layer in layers], count
    return best


def _sweeps(links: Sequence[tuple[str, str]]) -> int:
    """Fewer for graphs that are too large to be read as a whole anyway."""
    return SWEEPS if len(links) < 20_000 else 6


def _mean(numbers: Sequence[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def crossings(layers: list[list[str]], links: Iterable[tuple[str, str]]) -> int:
    """How many pairs of links cross, counted as inversions rank by rank."""
    place = {k: (r, p) for r, layer in enumerate(layers) for p, k in enumerate(layer)}
    by_rank: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for tail, head in links:
        by_rank[place[tail][0]].append((place[tail][1], place[head][1]))
    total = 0
    for pairs in by_rank.values():
        seen: list[int] = []
        for _, end in sorted(pairs):
            total += len(seen) - bisect_left(seen, end + 1)
            insort(seen, end)
    return total


# The places within the order.


def _placed(
    layers: list[list[str]], links: list[tuple[str, str]], widths: Mapping[str, float]
) -> dict[str, float]:
    above, below = _neighbours(links)
    x: dict[str, float] = {}
    for layer in layers:
        x.update(_settled(layer, dict.fromkeys(layer, 0.0), widths))
    sweeps = _sweeps(links)
    for sweep in range(sweeps):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            near = above if down else below
            if sweep >= sweeps - 4:  # at the end both sides count
                wanted = {k: _mean([x[n] for n in (*above[k], *below[k])], x[k]) for k in layer}
            else:
                wanted = {k: _mean([x[n] for n in near[k]], x[k]) for k in layer}
            x.update(_settled(layer, wanted, widths))
    return x


def _settled(layer: list[str], wanted: Mapping[str, float], widths: Mapping[str, float]) -> dict[str, float]:
    """The places nearest to `wanted` that keep the order and the gaps (least squares).

    With each box's offset from the first taken off, keeping apart means not decreasing: pool
    neighbours that would decrease into one block at their mean.
    """
    offsets = [0.0]
    for left, right in pairwise(layer):
        gap = GAP if widths[left] and widths[right] else BEND_GAP
        offsets.append(offsets[-1] + (widths[left] + widths[right]) / 2 + gap)
    blocks: list[tuple[float, float, int]] = []  # sum of wanted places times weight, weight, how many boxes
    for key, offset in zip(layer, offsets, strict=False):
        weight = 1.0 if widths[key] else 4.0  # bends pull harder: long edges become straight
        block = ((wanted[key] - offset) * weight, weight, 1)
        while blocks and blocks[-1][0] / blocks[-1][1] >= block[0] / block[1]:
            last = blocks.pop()
            block = (last[0] + block[0], last[1] + block[1], last[2] + block[2])
        blocks.append(block)
    levels = [total / weight for total, weight, count in blocks for _ in range(count)]
    return {key: level + offset for key, level, offset in zip(layer, levels, offsets, strict=False)}
