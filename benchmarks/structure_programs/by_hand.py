"""The same programs as a person batches them: which rows go together is found in Python, at each step, as
structures are others in each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structure_programs.one_by_one import Program, edge_cell, judge, tree_cell


class Rows:
    """States, each at a row of one tensor, to which others are added."""

    def __init__(self, library: Any, h: Any, c: Any) -> None:
        self.library, self.h, self.c = library, h, c

    def add(self, h: Any, c: Any) -> range:
        """Put states behind the others; at which rows they are."""
        begin = len(self.h)
        self.h, self.c = self.library.cat([self.h, h]), self.library.cat([self.c, c])
        return range(begin, len(self.h))

    def of(self, rows: Sequence[int]) -> tuple[Any, Any]:
        """Some of them."""
        index = self.library.tensor(rows)
        return self.h.index_select(0, index), self.c.index_select(0, index)


def trees(library: Any, width: int, program: Program) -> Callable[[list[Any]], Any]:
    """By the height of nodes."""
    w, cell = program.weights, tree_cell(library, program.weights)

    def total(examples: list[Any]) -> Any:
        leaves: list[int] = []
        levels: list[list[tuple[Any, Any]]] = []

        def put(node: Any) -> tuple[int, int]:
            """Its height, and its place among those of one height."""
            if isinstance(node, int):
                leaves.append(node)
                return 0, len(leaves) - 1
            left, right = put(node[0]), put(node[1])
            height = max(left[0], right[0]) + 1
            while len(levels) < height:
                levels.append([])
            levels[height - 1].append((left, right))
            return height, len(levels[height - 1]) - 1

        roots = [put(example) for example in examples]
        h = library.nn.functional.embedding(library.tensor(leaves), w["table"])
        rows = Rows(library, h, library.zeros(len(leaves), width))
        begins = [0]
        for level in levels:
            begins.append(len(rows.h))
            sides = [[begins[node[side][0]] + node[side][1] for node in level] for side in (0, 1)]
            rows.add(*cell(*rows.of(sides[0]), *rows.of(sides[1])))
        return (rows.of([begins[height] + place for height, place in roots])[0] * w["out"]).sum()

    return total


def lattices(library: Any, width: int, program: Program) -> Callable[[list[Any]], Any]:
    """By the place at which words end."""
    w, cell = program.weights, edge_cell(library, program.weights)

    def total(examples: list[Any]) -> Any:
        at: list[list[int]] = [[0] for _ in examples]  # by example and place: the row of its state
        rows = Rows(library, library.zeros(1, width), library.zeros(1, width))
        for place in range(max(map(len, examples))):
            here = [i for i, example in enumerate(examples) if place < len(example)]
            begins, words, ends = [], [], []
            for number, i in enumerate(here):
                for begin, word in examples[i][place]:
                    begins.append(at[i][begin])
                    words.append(word)
                    ends.append(number)
            index, size = library.tensor(ends), library.zeros(len(here), width)
            behind = cell(*rows.of(begins), library.tensor(words))
            for i, row in zip(here, rows.add(*(size.index_add(0, index, b) for b in behind)), strict=True):
                at[i].append(row)
        return (rows.of([places[-1] for places in at])[0] * w["out"]).sum()

    return total


def parser(library: Any, width: int, program: Program) -> Callable[[list[Any]], Any]:
    """All sentences take a step at a time."""
    w, cell, judged = program.weights, tree_cell(library, program.weights), judge(library, program.weights)

    def total(examples: list[Any]) -> Any:
        stacks: list[list[int]] = [[] for _ in examples]
        places, loss = [0] * len(examples), library.zeros(())
        rows = Rows(library, library.zeros(0, width), library.zeros(0, width))
        while True:
            left = [places[i] < len(example) for i, example in enumerate(examples)]
            asked = [i for i, more in enumerate(left) if more and len(stacks[i]) > 1]
            reducing = [i for i, more in enumerate(left) if not more and len(stacks[i]) > 1]
            shifting = [i for i, more in enumerate(left) if more and len(stacks[i]) < 2]
            if asked:
                top, below = (rows.of([stacks[i][-k] for i in asked])[0] for k in (1, 2))
                words = library.tensor([examples[i][places[i]] for i in asked])
                logarithms = judged(top, below, words)
                choices = logarithms.argmax(1)
                loss = loss - logarithms.gather(1, choices[:, None]).sum()
                for i, choice in zip(asked, choices.tolist(), strict=True):
                    (reducing if choice else shifting).append(i)
            if not reducing and not shifting:
                return (rows.of([stack[0] for stack in stacks])[0] * w["out"]).sum() + loss
            if reducing:
                right, below = ([stacks[i].pop() for i in reducing] for _ in range(2))
                made = rows.add(*cell(*rows.of(below), *rows.of(right)))
                for i, row in zip(reducing, made, strict=True):
                    stacks[i].append(row)
            if shifting:
                words = library.tensor([examples[i][places[i]] for i in shifting])
                h = library.nn.functional.embedding(words, w["table"])
                for i, row in zip(shifting, rows.add(h, library.zeros(len(shifting), width)), strict=True):
                    stacks[i].append(row)
                    places[i] += 1

    return total


BY_HAND = {"trees": trees, "cells": trees, "lattices": lattices, "parser": parser}
