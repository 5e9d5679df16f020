"""The benchmark suite: every workload for fusegrad and its peers, side by side; also `fusegrad bench`.

python benchmarks/suite.py [--only NAME ...] [--quick] [--json FILE] [--against FILE]

Each workload runs in a process of its own, its contenders in turn, so that what disturbs one disturbs all.
All must agree with eager, or the row says so and the command fails. First calls are timed in a fresh
process for each contender, without caches.
"""

from __future__ import annotations

import fnmatch
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import harness
import one_pool
import report
from contenders import CONTENDERS, OURS, available, package_of
from limits import limit_of
from workloads import WORKLOADS
from workloads.base import Workload

from fusegrad.compiler.compare.terminal import progress
from fusegrad.tracer.export.files import check_target

CONTEND = Path(__file__).with_name("contend.py")
POOL = "one_pool"
SECONDS = 8.0  # for the samples of all contenders of a workload
COLD_RUNS = {"torch.compile": 1}  # first calls that count, where 3 would take too long
SLOW = ("chain_10000000", "perceptron_b512", "attention_b8", "conv_net", "tree_network")  # not quick


class TimeLimit(Exception):
    """A process took longer than it may."""


class Failed(Exception):
    """A process ended with an error; says its last line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite and give its exit code: 1 where contenders differ or fusegrad has no time."""
    try:
        return run(options_of(arguments))
    except (TimeLimit, Failed) as error:  # of the machine's limits or of the thread pools
        print(f"bench: error: {error}", file=sys.stderr)
        return 1


def run(options: Any) -> int:
    """All that was asked for: measured, printed, and written down."""
    earlier = json.loads(Path(options.against).read_text()) if options.against else None
    quiet = harness.Quiet()
    record: dict[str, Any] = {"benchmark": "suite", "quick": options.quick, "workloads": {}}
    with tempfile.TemporaryDirectory(prefix="fusegrad-bench-") as scratch:
        runner = Runner(options, Path(scratch))
        chosen = [workload for workload in WORKLOADS if workload.key in options.keys]
        if chosen:
            record["limits"] = runner.run("limits", repeat=options.repeat, seconds=1.0)
        with progress("benchmarks", len(chosen) + (POOL in options.keys)) as step:
            for workload in chosen:
                row = record["workloads"][workload.key] = runner.row(workload, record["limits"])
                print(report.line(row), flush=True)
                step()
            if POOL in options.keys:
                record["one_pool"] = runner.run(POOL, repeat=options.repeat, seconds=2.0)
                step()
    record["others"] = quiet.taken_by_others()
    record["geometric_mean"] = report.geometric_mean(row["ratio"] for row in record["workloads"].values())
    report.show(record, earlier)
    if "one_pool" in record:
        one_pool.show(record["one_pool"])
    harness.save(options.json, record)
    if options.json is not None:
        for path in report.save_plots({**record, "machine": harness.machine()}, Path(options.json)):
            print(f"wrote {path}")
    return 1 if report.problems(record) else 0


def options_of(arguments: Sequence[str] | None) -> Any:
    """The command line, checked; `keys` are the workloads to run."""
    parser = harness.parser("run the workloads for fusegrad and its peers, side by side")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these alone; `chain*` is a pattern")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, help="these alone")
    parser.add_argument("--against", metavar="FILE", help="compare with the JSON of an earlier run")
    parser.add_argument("--limit", type=float, default=300, metavar="S", help="seconds a process may take")
    parser.add_argument("--no-first-calls", action="store_true", help="time no first calls")
    parser.add_argument("--list", action="store_true", help="print the names of the workloads")
    options = harness.parsed(parser, arguments)
    keys = [*(workload.key for workload in WORKLOADS), POOL]
    if options.list:
        print("\n".join(keys))
        raise SystemExit(0)
    if options.only:
        matches = [fnmatch.filter(keys, pattern) for pattern in options.only]
        for pattern, found in zip(options.only, matches, strict=True):
            if not found:
                parser.error(f"no workload is called {pattern!r}; there are: {', '.join(keys)}")
        options.keys = {key for found in matches for key in found}
    else:
        options.keys = {key for key in keys if not (options.quick and key in SLOW)}
        if options.json is None and not options.quick:
            # What takes half an hour is not only printed.
            options.json = "bench.json"
            check_target(options.json, "benchmark")
    if options.against and not Path(options.against).is_file():
        parser.error(f"there is no file {options.against}")
    if options.contenders is None:
        # Its compiler takes minutes for the whole suite.
        options.contenders = [name for name in CONTENDERS if not (options.quick and name == "torch.compile")]
    if OURS not in options.contenders:
        parser.error("fusegrad is what the others are compared with: it cannot be left out")
    return options


class Runner:
    """Runs tasks of `contend.py`, each in a process of its own with caches of its own."""

    def __init__(self, options: Any, scratch: Path) -> None:
        self.options, self.scratch = options, scratch

    def row(self, workload: Workload, limits: dict[str, Any]) -> dict[str, Any]:
        """Everything about one workload."""
        names = [name for name in self.options.contenders if available(workload, name)]
        found: dict[str, dict[str, Any]] = {name: {} for name in names}
        if not self.options.no_first_calls:
            for name in names:
                found[name] = self.first_calls(workload, name)
        running = [name for name in names if "status" not in found[name]]
        for name, figures in self.steady(workload, running).items():
            found[name] |= figures
        row: dict[str, Any] = {
            "title": workload.title,
            "target": workload.target,
            "bytes": workload.bytes,
            "flops": workload.flops,
            "contenders": found,
            "limit": limit_of(workload, limits),
        }
        row["ratio"], row["best_peer"] = report.ratio_of(row), report.best_peer(row)
        ours = report.seconds_of(row, OURS)
        row["limit"]["fraction"] = row["limit"]["seconds"] / ours if ours else None
        return row

    def first_calls(self, workload: Workload, name: str) -> dict[str, Any]:
        """The first calls of one contender; the run with the median first call counts."""
        turns = 1 if self.options.quick else COLD_RUNS.get(name, 3)
        runs = []
        for turn in range(turns):
            cache = f"{workload.key}-{name}-{turn}"
            try:
                runs.append(self.run("first", cache, key=workload.key, name=name, package=package_of(name)))
            except (TimeLimit, Failed) as error:
                return status_of(error)
        middle = statistics.median_low(run["first"] for run in runs)
        return {"first_call": next(run for run in runs if run["first"] == middle)}

    def steady(self, workload: Workload, names: list[str]) -> dict[str, dict[str, Any]]:
        """The steady times of all contenders in one process."""
        # Where torch.compile's first call has left its code: compiling again would take as long.
        cache = f"{workload.key}-torch.compile-0"
        options = {"repeat": self.options.repeat, "seconds": 1.0 if self.options.quick else SECONDS}
        try:
            return self.run("steady", cache, key=workload.key, names=names, **options)
        except (TimeLimit, Failed) as error:
            return {name: status_of(error) for name in names}

    def run(self, task: str, cache: str = "caches", **options: Any) -> dict[str, Any]:
        """The figures of a task. Raises TimeLimit, or Failed."""
        target = self.scratch / "figures.json"
        caches = str(self.scratch / cache)
        environment = harness.environment(
            TORCHINDUCTOR_CACHE_DIR=caches, NUMBA_CACHE_DIR=caches, XDG_CACHE_HOME=caches
        )
        command = [sys.executable, str(CONTEND), json.dumps({"task": task, **options}), str(target)]
        # torch.compile starts workers: a session of their own lets all of them be stopped.
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            _, errors = process.communicate(timeout=self.options.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise TimeLimit(f"stopped at the limit of {self.options.limit:g} s") from None
        if process.returncode:
            lines = errors.decode(errors="replace").strip().splitlines()
            raise Failed(lines[-1][:200] if lines else f"exit code {process.returncode}")
        return json.loads(target.read_text())


def status_of(error: Exception) -> dict[str, Any]:
    """What a row says of a contender whose process did not give figures."""
    status = "time limit" if isinstance(error, TimeLimit) else "failed"
    return {"status": status, "note": str(error)}


if __name__ == "__main__":
    raise SystemExit(main())
