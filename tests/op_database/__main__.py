"""Prints which of PyTorch's samples fail, and why; see the package."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from op_database.drive import Outcome, entries, run_entry
from op_database.table import markdown


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m op_database", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names, or a prefix that ends in a dot")
    parser.add_argument("--all", action="store_true", help="print every failing sample, not three an op")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table of all ops")
    arguments = parser.parse_args()
    outcomes = []
    for entry in entries(arguments.only):
        start = time.perf_counter()
        outcome = run_entry(entry)
        outcomes.append(outcome)
        show(outcome, time.perf_counter() - start, None if arguments.all else 3)
    samples, failed = sum(o.samples for o in outcomes), sum(len(o.failures) for o in outcomes)
    ops = len({o.op for o in outcomes})
    share = 100 * (samples - failed) / max(samples, 1)
    print(f"{ops} ops, {len(outcomes)} entries, {samples} samples: {failed} fail, {share:.2f} % pass")
    if arguments.markdown:
        arguments.markdown.write_text(markdown(outcomes))


def show(outcome: Outcome, seconds: float, most: int | None) -> None:
    """One line for an entry, and its failures."""
    if outcome.failures or seconds > 5:
        print(f"{outcome.name}: {len(outcome.failures)} of {outcome.samples} fail ({seconds:.1f} s)")
        for failure in outcome.failures[:most]:
            print("   ", failure)


if __name__ == "__main__":
    main()
