"""Runs public scripts with PyTorch, with fusegrad, and with fusegrad compiled; see the package."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from public import page, runs

RESULTS = Path(__file__).resolve().parents[2] / "build" / "public.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m public", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the repositories lie, each as OWNER+NAME")
    parser.add_argument("-k", dest="only", default="", metavar="NAME", help="whose name has this in it")
    parser.add_argument("--ways", nargs="+", default=runs.WAYS, choices=runs.WAYS)
    parser.add_argument("--steps", type=int, default=runs.STEPS)
    parser.add_argument("--seconds", type=float, default=runs.SECONDS, help="the most for a script in a way")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the lines of JSON are added")
    parser.add_argument(
        "--close", action="store_true", help="run those again that earlier results have close to PyTorch"
    )
    parser.add_argument("--no-run", action="store_true", help="only read the results of earlier runs")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page")
    given = parser.parse_args()
    known = _read(given.results)
    for script in runs.scripts(given.folder.resolve(), given.only):
        if given.no_run:
            continue
        outcome = known.get((script.source, script.path))
        if not (given.close and outcome):
            outcome = _ran(script, given, outcome)
        if outcome.is_close():
            outcome = outcome.middle_of([_ran(script, given, outcome) for _ in range(runs.TIMES - 1)])
        elif given.close:
            continue
        known[script.source, script.path] = outcome
        with given.results.open("a") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
        print(page.line(outcome), flush=True)
    names = [(script.source, script.path) for script in runs.scripts(given.folder)]
    listed, left = [known[n] for n in names if n in known], ["/".join(n) for n in names if n not in known]
    print(page.summary(listed))
    if given.markdown:
        given.markdown.write_text(page.markdown(listed, left))


def _ran(script: runs.Script, given: argparse.Namespace, before: runs.Outcome | None = None) -> runs.Outcome:
    """How a script went in the ways that are wanted, and before in the others."""
    found = dict(before.found) if before else {}
    for way in given.ways:
        found[way] = script.run(way, given.steps, given.seconds)
    return runs.Outcome(script.source, script.path, found)


def _read(results: Path) -> dict[tuple[str, str], runs.Outcome]:
    """The last outcome of each script."""
    results.parent.mkdir(exist_ok=True)
    lines: Sequence[str] = results.read_text().splitlines() if results.exists() else ()
    outcomes = [runs.Outcome(**json.loads(line)) for line in lines]
    return {(o.source, o.path): o for o in outcomes}


main()
