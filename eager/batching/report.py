"""What `explain()` says: the batches, their sizes, and why a call joined none."""

from __future__ import annotations

from collections import Counter

from fusegrad.eager.batching.costs import Costs


class Report:
    """Counts what was done as one, and what was not, and why. costs: what that has cost."""

    def __init__(self) -> None:
        self._batches: dict[str, Counter[int]] = {}
        self._alone: Counter[tuple[str, str]] = Counter()
        self._stops: Counter[str] = Counter()
        self._notes: list[str] = []
        self.costs = Costs()

    def batch(self, name: str, size: int) -> None:
        """So many calls were done as one."""
        self._batches.setdefault(name, Counter())[size] += 1

    def alone(self, name: str, why: str, count: int = 1) -> None:
        """Calls were done by themselves."""
        self._alone[name, why] += count

    def stop(self, why: str) -> None:
        """All that waited was done, since somebody asked."""
        self._stops[why] += 1

    def note(self, text: str) -> None:
        """Something holds for all of it."""
        self._notes.append(text)

    @property
    def batches(self) -> dict[str, list[int]]:
        """By the op: the sizes of its batches, largest first."""
        return {name: sorted(sizes.elements(), reverse=True) for name, sizes in self._batches.items()}

    @property
    def calls(self) -> int:
        """How many calls there were."""
        return self.joined + sum(self._alone.values())

    @property
    def joined(self) -> int:
        """How many of them were done with others."""
        return sum(size * n for sizes in self._batches.values() for size, n in sizes.items())

    def text(self) -> str:
        """All of it in words."""
        count = sum(n for sizes in self._batches.values() for n in sizes.values())
        lines = [f"{self.joined} of {self.calls} calls were done in {count} batches", *self._notes]
        for name, sizes in sorted(self._batches.items(), key=lambda item: -sum(item[1].elements())):
            told = ", ".join(f"{n} of {size}" for size, n in sorted(sizes.items(), reverse=True)[:8])
            more = f", and {len(sizes) - 8} other sizes" if len(sizes) > 8 else ""
            lines.append(f"  {name}: {told}{more}")
        if self._alone:
            lines.append("by themselves:")
            lines += [f"  {name}, {n} times: {why}" for (name, why), n in self._alone.most_common(20)]
        if self._stops:
            lines.append("what waited was done because:")
            lines += [f"  {why}, {n} times" for why, n in self._stops.most_common(10)]
        return "\n".join(lines)
