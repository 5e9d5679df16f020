"""Runs libraries with PyTorch, with fusegrad, and with their steps jitted; see the package."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from libraries import own_tests, page, runs, times, venvs

PAGE = venvs.REPOSITORY / "docs" / "libraries.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m libraries", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="libraries of libraries.toml; all if none")
    parser.add_argument("--make", action="store_true", help="install them, and do no more")
    parser.add_argument("--no-run", action="store_true", help="only read the results of earlier runs")
    parser.add_argument("--tests", action="store_true", help="run the libraries' own tests instead")
    parser.add_argument("--times", action="store_true", help="time the steps that replay, on a quiet machine")
    parser.add_argument("--most", type=int, default=own_tests.MOST, help="so many tests of a package")
    parser.add_argument("--seconds", type=int, default=own_tests.WHOLE, help="so long, for all, each way")
    parser.add_argument("--ways", nargs="+", default=runs.WAYS, choices=runs.WAYS)
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="the page; docs/libraries.md if all are run"
    )
    given = parser.parse_args()
    if given.tests:
        run_tests(given.names or [*own_tests.with_tests()], given.most, given.seconds)
        return
    names = given.names or list(venvs.LIBRARIES)
    if given.times:
        take_times(given.names or [name for name in names if name not in page.MANY])
        return
    if unknown := set(names) - set(venvs.LIBRARIES):
        parser.error(f"libraries.toml has no {', '.join(sorted(unknown))}")
    found = []
    for name in names:
        if given.make:
            venvs.make(name)
            print(name, venvs.version(name), flush=True)
            continue
        results = venvs.FOLDER / f"{name}.json"
        if not given.no_run:
            results.write_text(json.dumps(runs.run(name, tuple(given.ways))))
        told = list(runs.rows(name, json.loads(results.read_text())))
        print("\n".join(map(page.line, told)), flush=True)
        found += told
    if found:
        print(page.summary(found))
    place = given.markdown or (None if given.names or given.make else PAGE)
    if place is not None:
        versions = {name: venvs.version(name) for name in names}
        old = PAGE.read_text() if PAGE.exists() else ""
        place.write_text(page.markdown(found, versions, so_far("tests"), so_far("times"), old))


def run_tests(packages: list[str], most: int, seconds: int) -> None:
    """Run packages' own tests, and keep how they went for the page."""
    for package in packages:
        told = own_tests.run(package, most, seconds)
        (venvs.FOLDER / f"{package}.tests.json").write_text(json.dumps(told))
        print("\n".join([*own_tests.table({package: told})][2:]), flush=True)


def take_times(names: list[str]) -> None:
    """Time the steps of libraries, and keep what came of it for the page."""
    for name in names:
        told: dict[str, Any] = {}
        for case, taken in times.run(name):
            told[case] = taken
            print(*times.table({name: {case: taken}})[2:], flush=True)
        (venvs.FOLDER / f"{name}.times.json").write_text(json.dumps(told))
    print(times.summary({name: so_far("times")[name] for name in names}))


def so_far(kind: str) -> dict[str, Any]:
    """How tests of packages, or times of libraries, came out when they were run last."""
    ending = f".{kind}.json"
    files = sorted(venvs.FOLDER.glob(f"*{ending}"))
    return {file.name.removesuffix(ending): json.loads(file.read_text()) for file in files}


main()
