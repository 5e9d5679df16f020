"""The command line: which programs, which contenders, and what is made of the figures."""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import harness  # benchmarks/harness.py

from families import catalogue, plots, report, revisions
from families.contenders import CONTENDERS, EAGER, OURS
from families.declare import Program
from families.runner import Settings, Team, Worker

CONTEND = Path(__file__).resolve().parents[1] / "contend.py"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for and give the exit code: 1 where fusegrad fails or differs."""
    options = options_of(arguments)
    if options.freeze:
        print(f"{catalogue.freeze()} programs were added to {catalogue.LIST}")
        return 0
    chosen = chosen_by(options)
    if options.list:
        print("\n".join(program.name for program in chosen))
        return 0
    quiet, started = harness.Quiet(), time.monotonic()
    record: dict[str, Any] = {"benchmark": "families", "seed": options.seed, "contenders": options.contenders}
    settings = Settings(options.seconds, options.bound, options.rounds, options.check)
    with tempfile.TemporaryDirectory(prefix="fusegrad-families-") as scratch:
        if not options.check and options.tree is None:
            record["limits"] = machine_limits(Path(scratch))
        record["programs"] = rows_of(chosen, options, settings, Path(scratch), record.get("limits"))
    record |= {"others": quiet.taken_by_others(), "seconds": time.monotonic() - started}
    shown(record, options)
    harness.save(options.json, record)
    return 1 if ours_fails(record["programs"]) else 0


def options_of(arguments: Sequence[str] | None) -> Any:
    """The command line, checked."""
    parser = argparse.ArgumentParser(description="run the families of programs for fusegrad and its peers")
    parser.add_argument("--family", nargs="+", metavar="NAME", help="these families alone")
    parser.add_argument(
        "--only", nargs="+", metavar="PATTERN", help="programs whose names match, as `*/softmax/*`"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="so many programs, spread over the list")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="the drawn programs of another seed alone"
    )
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument(
        "--seconds", type=float, default=0.45, metavar="S", help="of samples, each contender and program"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="in which the contenders take turns"
    )
    parser.add_argument("--bound", type=float, default=60.0, metavar="S", help="that first calls may take")
    parser.add_argument("--check", action="store_true", help="agreement alone: time nothing")
    parser.add_argument(
        "--tree", type=Path, metavar="PATH", help="fusegrad alone: this checkout beside that one"
    )
    parser.add_argument(
        "--against", type=Path, metavar="FILE", help="fusegrad's times beside an earlier run's"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="draw each family there")
    parser.add_argument("--list", action="store_true", help="print the names of the programs")
    parser.add_argument("--freeze", action="store_true", help="append new programs to the frozen list")
    options = parser.parse_args(arguments)
    families = {program.family for program in catalogue.declared().values()}
    for family in options.family or ():
        if family not in families:
            parser.error(f"no family is called {family!r}; there are: {', '.join(sorted(families))}")
    if options.tree is not None and not (options.tree / "pyproject.toml").is_file():
        parser.error(f"{options.tree} is no checkout")
    if options.against is not None and not options.against.is_file():
        parser.error(f"there is no file {options.against}")
    needed = {"jax": "jax", "torch": "torch", "torch.compile": "torch"}
    missing = [
        name for name in options.contenders if name in needed and not importlib.util.find_spec(needed[name])
    ]
    options.contenders = [name for name in options.contenders if name not in missing]
    if missing:
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)
    return options


def chosen_by(options: Any) -> list[Program]:
    """The programs that are asked for, in the order of the list."""
    found = list(catalogue.declared().values()) if options.seed == 0 else catalogue.drawn(options.seed)
    if options.family:
        found = [program for program in found if program.family in options.family]
    if options.only:
        found = [p for p in found if any(fnmatch.fnmatch(p.name, pattern) for pattern in options.only)]
    if options.sample is not None and 0 < options.sample < len(found):
        found = [found[place * len(found) // options.sample] for place in range(options.sample)]
    return found


def rows_of(
    chosen: list[Program], options: Any, settings: Settings, scratch: Path, limits: Any
) -> dict[str, dict[str, Any]]:
    """The figures of all programs, family by family; what there is, if the user stops it."""
    rows: dict[str, dict[str, Any]] = {}
    drawn_places = {program.name: place for place, program in enumerate(catalogue.drawn(options.seed))}
    try:
        for family in dict.fromkeys(program.family for program in chosen):
            team = Team(workers_of(options, scratch), Worker(reference_of(), scratch), settings)
            try:
                for program in (member for member in chosen if member.family == family):
                    every = catalogue.COMPILED_EVERY
                    compiled = program.name in catalogue.compiled_by_torch()
                    if options.seed:
                        compiled = drawn_places[program.name] % every == 0
                    row = rows[program.name] = team.row(program, compiled)
                    row["limit"] = report.limit_of(row, limits)
                    print(
                        revisions.line(program.name, row) if options.tree else report.line(program.name, row),
                        flush=True,
                    )
            finally:
                team.stop()
    except KeyboardInterrupt:
        print("stopped; this is what there is", file=sys.stderr)
    return rows


def workers_of(options: Any, scratch: Path) -> dict[str, Worker]:
    """The processes that take part, by label: contenders, or two checkouts' fusegrad."""
    if options.tree is not None:
        old, new = Worker(OURS, scratch, options.tree.resolve()), Worker(OURS, scratch)
        return {revisions.OLD: old, revisions.NEW: new}
    return {name: Worker(name, scratch) for name in options.contenders}


def reference_of() -> str:
    """Whose eager, in float64, all must agree with."""
    return "torch" if importlib.util.find_spec("torch") else EAGER


def machine_limits(scratch: Path) -> Any:
    """What the machine can do at most, as the suite measures it."""
    target = scratch / "limits.json"
    task = json.dumps({"task": "limits", "repeat": None, "seconds": 1.0})
    done = subprocess.run([sys.executable, str(CONTEND), task, str(target)], capture_output=True, text=True)
    if done.returncode:
        print(f"the machine's limits are unknown: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(target.read_text())


def shown(record: dict[str, Any], options: Any) -> None:
    """Print what was found, and draw it."""
    rows = record["programs"]
    if options.tree is not None:
        revisions.show(rows, record["others"])
        return
    title = "the frozen list" if options.seed == 0 else f"drawn from seed {options.seed}, apart from the list"
    report.show(rows, title, record["others"])
    record |= {"families": report.by_family(rows), "overall": report.overall(rows)}
    print(f"\n{len(rows)} programs took {record['seconds'] / 60:.1f} minutes")
    if options.against is not None:
        revisions.show_against(rows, json.loads(options.against.read_text())["programs"])
    if options.plots is not None:
        for path in plots.save_plots(rows, options.plots):
            print(f"wrote {path}")


def ours_fails(rows: dict[str, dict[str, Any]]) -> bool:
    """Whether fusegrad, in any of its labels, is not right anywhere."""
    labels = (OURS, EAGER, revisions.OLD, revisions.NEW)
    found = (row["contenders"].get(label) for row in rows.values() for label in labels)
    return any(figures is not None and figures["status"] != "ok" for figures in found)
