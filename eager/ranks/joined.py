"""Rounds that ranks do together although some are through earlier: before each, all tell if they go on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.state import tell
from fusegrad.eager.ranks import exchanges
from fusegrad.eager.ranks.channel import Channel


class Round(NamedTuple):
    """Who does the round, and whether buffers are given and gradients averaged in it."""

    active: list[int]
    gives: bool
    averages: bool


class Rounds:
    """The rounds of a loop whose length is not the same on all ranks.

    by_all: means are those of all ranks, also of those that are through. strict: nobody may be through early.
    """

    def __init__(self, channel: Channel, seconds: float, by_all: bool, strict: bool) -> None:
        self.channel, self.seconds, self.by_all, self.strict = channel, seconds, by_all, strict
        self.last_active = [0]

    def begin(self, gives: bool, averages: bool) -> list[int]:
        """Another round, in which this rank gives, or averages: who does it."""
        return self._told(True, gives, averages).active

    def end(self) -> Round | None:
        """The next round of others, of a rank that is through; None when all are."""
        found = self._told(False, False, False)
        return found if found.active else None

    def _told(self, goes_on: bool, gives: bool, averages: bool) -> Round:
        tell("asks which ranks go on")
        mine = np.array([goes_on, gives, averages], np.uint8)
        all_of_them = np.empty((self.channel.size, 3), np.uint8)
        steps = exchanges.all_gather_on(self.channel.first, mine, all_of_them)
        self.channel.exchange("which ranks go on", steps, self.seconds).wait()
        active = [rank for rank, row in enumerate(all_of_them) if row[0]]
        if active:
            self.last_active = active
        if self.strict and 0 < len(active) < self.channel.size:
            through = sorted(set(range(self.channel.size)) - set(active))
            raise failure(
                RuntimeError,
                f"Detected at least one rank that exhausted inputs: {', '.join(map(str, through))}. Throwing "
                "across all ranks.",
            )
        return Round(active, bool(all_of_them[:, 1].any()), bool(all_of_them[:, 2].any()))
