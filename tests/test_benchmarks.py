"""The benchmarks run, their contenders agree, and the suite notices where they do not."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from exporting import can_link

from fusegrad.eager.ranks.launch import can_launch

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks"
# They are scripts, not a package.
sys.path.append(str(BENCHMARKS))
contend, contenders, limits, report, suite_module, workloads = map(
    importlib.import_module, ("contend", "contenders", "limits", "report", "suite", "workloads")
)
base = importlib.import_module("workloads.base")


def run(*command: str, expect: int = 0) -> str:
    """What a Python program prints; one thread of BLAS, since other tests run beside it."""
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *command], env=alone, capture_output=True, text=True)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_structures_beside_torch_run(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    run(str(BENCHMARKS / "structures.py"), "--quick", "--json", str(tmp_path / "figures.json"))
    found = json.loads((tmp_path / "figures.json").read_text())
    ours = {"one by one", "torch one by one"}
    by_hand = {*ours, "torch by hand"}
    assert {f["program"]: f["ratios"].keys() for f in found} == {
        "trees": by_hand, "cells": by_hand, "lattices": by_hand, "parser": by_hand, "chains": ours
    }  # fmt: skip


def test_structures_alone_tell_their_peak() -> None:
    assert int(run(str(BENCHMARKS / "structures.py"), "--alone", "cells", "32", "batched", "1")) > 1 << 24


def test_loops_beside_jax_run(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    run(str(BENCHMARKS / "loops.py"), "--quick", "--json", str(tmp_path / "figures.json"))
    (found,) = json.loads((tmp_path / "figures.json").read_text())["programs"].values()
    assert found.keys() == {"fusegrad", "jax"}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "name",
    [
        "digits_loss",
        "eager_ops",
        "first_calls",
        "guards",
        "import_time",
        "memory",
        "one_pool",
        "small_tensors",
    ],
)
def test_benchmarks_run(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch" if name == "eager_ops" else "sklearn")
    run(str(BENCHMARKS / f"{name}.py"), "--quick", "--json", str(tmp_path / "figures.json"))
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["benchmark"] == name
    assert figures["machine"]["cores"] >= 1


@pytest.mark.one_in(2)
def test_warm_up_of_deep_networks_runs(tmp_path: Path) -> None:
    """Losses of all contenders are compared there."""
    pytest.importorskip("torch")
    options = ["--only", "transformer", "--steps", "6", "--json", str(tmp_path / "figures.json")]
    run(str(BENCHMARKS / "warm_up"), *options)
    (found,) = json.loads((tmp_path / "figures.json").read_text()).values()
    assert found["eager"].keys() == found["jit"].keys() and found["jit"]["kernels"] > 0


@pytest.mark.one_in(2)
def test_libraries_beside_the_process_run(tmp_path: Path) -> None:
    """Results of both are compared there, bit by bit."""
    if not can_link():
        pytest.skip("nothing links libraries here")
    run(str(BENCHMARKS / "shipped"), "--quick", "--json", str(tmp_path / "figures.json"))
    found = json.loads((tmp_path / "figures.json").read_text())
    assert {"digits", "lstm", "step"} < found.keys()


def test_exchanges_beside_gloo_run(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if not can_launch():
        pytest.skip("needs MPI: pip install 'fusegrad[mpi]'")
    run(str(BENCHMARKS / "distributed.py"), "reduce", "--quick", "--json", str(tmp_path / "figures.json"))
    found = json.loads((tmp_path / "figures.json").read_text())
    assert len(found) == 4 and all(times.keys() == {"fusegrad", "gloo"} for times in found.values())


# The whole suite, as a user runs it.


def test_the_suite_from_the_command_line(tmp_path: Path) -> None:
    target = tmp_path / "suite.json"
    out = run(
        *("-m", "fusegrad", "bench", "--quick", "--json", str(target)),
        *("--only", "rosenbrock", "chain_10?0", "--contenders", "fusegrad", "eager", "numba"),
    )
    for text in (
        "rosenbrock, n = 10",
        "chain, 1,000",
        "replay",
        "first call",
        "until steady",
        "LLVM",
        "a quick run",
        "other programs took",
    ):
        assert text in out
    record = json.loads(target.read_text())
    assert list(record["workloads"]) == ["rosenbrock", "chain_1000"]
    assert set(record["limits"]["bandwidth"]) and set(record["limits"]["peak"]) == {"float32", "float64"}
    for row in record["workloads"].values():
        assert row["ratio"] is None, "none of the ratio's peers took part"
        assert row["limit"]["kind"] in ("memory", "flops", "call")
        assert set(row["contenders"]) == {"fusegrad", "eager", "numba"}
        for figures in row["contenders"].values():
            assert figures["status"] == "ok"
            assert 0 < figures["timing"]["median"] < figures["first_call"]["ready"] + 1
            assert figures["first_call"]["first"] == figures["first_call"]["calls"][0]
        ours = row["contenders"]["fusegrad"]["first_call"]
        assert ours["ops"] > 0 and 0 < ours["llvm"] < 1
        assert "ops" not in row["contenders"]["eager"]["first_call"]
    plots = {"suite.png", "suite_first_call.png"} if importlib.util.find_spec("matplotlib") else set()
    assert {path.name for path in tmp_path.iterdir()} == {"suite.json", *plots}


def test_wrong_usage_is_said() -> None:
    suite = str(BENCHMARKS / "suite.py")
    assert "no workload is called 'nothing'" in run(suite, "--only", "nothing", expect=2)
    assert "cannot be left out" in run(suite, "--contenders", "torch", expect=2)
    assert "there is no file" in run(suite, "--against", "no_such.json", expect=2)
    names = run(suite, "--list").split()
    assert len(names) == len(set(names)) == 23


# Every workload is the same program for every library.


LONG = {*suite_module.SLOW, "chain_1000000", "cross_entropy_2048x1000", "rnn_64", "black_scholes"}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "workload", [w for w in workloads.WORKLOADS if w.key not in LONG], ids=lambda w: w.key
)
def test_all_versions_agree(workload: Any) -> None:
    names = [name for name in contenders.CONTENDERS if contenders.available(workload, name)]
    names = [name for name in names if name != "torch.compile"]
    reference = contenders.contender(workload, "eager")
    expected = [contenders.as_arrays(reference.call()) for _ in range(contend.COMPARED)]
    found, made = contend.agreement(workload, names, expected)
    assert {name: figures["status"] for name, figures in found.items()} == dict.fromkeys(names, "ok")
    assert set(contenders.way_of(made["fusegrad"]).split(" + ")) <= {"replay", "deferred", "eager"}


# Where something is wrong.


@pytest.fixture
def suite(monkeypatch: Any) -> Any:
    """The suite with a workload `small`; its tasks run in this process."""

    class Small(base.Gradients):
        key, title, target = "small", "a small one", 2
        wanted = (0,)
        bytes, flops = 40, 30

        def arrays(self, draw: Any) -> list[Any]:
            return [base.normal(draw, 5)]

        def fusegrad(self, fg: Any) -> Any:
            return lambda x: (x * x).sum()

        torch = fusegrad

        def numba(self, numba: Any, x: Any) -> Any:
            return lambda: [(x * x).sum(), 2 * x]

    small = Small()
    monkeypatch.setattr(suite_module, "WORKLOADS", [small])
    monkeypatch.setitem(workloads.BY_KEY, "small", small)
    machine = {"bandwidth": {"1000": 1e10}, "peak": {"float32": 1e11, "float64": 5e10}, "call": 1e-6}
    monkeypatch.setattr(limits, "measured", lambda **options: machine)

    def here(runner: Any, task: str, cache: str = "", **options: Any) -> Any:
        return json.loads(json.dumps(contend.TASKS[task](**options)))

    monkeypatch.setattr(suite_module.Runner, "run", here)
    return suite_module


def test_a_whole_run_keeps_its_figures(suite: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert suite.options_of([]).json == "bench.json"
    assert suite.options_of(["--json", "mine.json"]).json == "mine.json"
    assert suite.options_of(["--quick"]).json is None and suite.options_of(["--only", "small"]).json is None


def small_run(suite: Any, *options: str, names: tuple[str, ...] = ("fusegrad", "numba")) -> int:
    return suite.main(
        ["--only", "small", "--repeat", "1", "--no-first-calls", "--contenders", *names, *options]
    )


def test_a_wrong_value_fails(suite: Any, monkeypatch: Any, capsys: Any, tmp_path: Path) -> None:
    assert small_run(suite) == 0
    assert "DIFFERS" not in capsys.readouterr().out
    monkeypatch.setattr(
        type(suite.WORKLOADS[0]), "numba", lambda self, numba, x: lambda: [(x * x).sum(), 2.01 * x]
    )
    assert small_run(suite, "--json", str(tmp_path / "figures.json")) == 1
    out = capsys.readouterr().out
    assert "a small one: numba DIFFERS from eager by 0.005" in " ".join(out.split())
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["workloads"]["small"]["contenders"]["numba"]["status"] == "DIFFERS"


def test_a_value_that_turns_wrong_later_fails(suite: Any, monkeypatch: Any, capsys: Any) -> None:
    def numba(self: Any, numba: Any, x: Any) -> Any:
        calls = iter(range(10**9))
        return lambda: [(x * x).sum(), (2 if next(calls) < 100 else 3) * x]

    monkeypatch.setattr(type(suite.WORKLOADS[0]), "numba", numba)
    assert small_run(suite) == 1
    assert "DIFFERS" in capsys.readouterr().out


def test_a_missing_gradient_fails(suite: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(type(suite.WORKLOADS[0]), "numba", lambda self, numba, x: lambda: [(x * x).sum()])
    assert small_run(suite) == 1


def test_a_peer_that_fails_is_told_and_we_must_not(suite: Any, monkeypatch: Any, capsys: Any) -> None:
    def fails(self: Any, *given: Any) -> Any:
        raise ValueError("not today")

    monkeypatch.setattr(type(suite.WORKLOADS[0]), "numba", fails)
    assert small_run(suite) == 0
    assert "a small one: numba: ValueError: not today" in capsys.readouterr().out
    gone = {"fusegrad": lambda workload: fails(workload)}
    monkeypatch.setattr(contenders, "BUILDERS", contenders.BUILDERS | gone)
    assert small_run(suite) == 1
    assert "fusegrad has no time: ValueError: not today" in capsys.readouterr().out


def test_what_is_not_installed_has_no_column(suite: Any, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(contenders, "installed", lambda package: package == "fusegrad")
    assert small_run(suite, names=("fusegrad", "torch", "jax", "numba")) == 0
    out = capsys.readouterr().out
    assert "fusegrad" in out
    assert "numba" not in out
    assert "torch " not in out.replace("torch, torch.compile", "")


def test_against_an_earlier_run(suite: Any, capsys: Any, tmp_path: Path) -> None:
    target = tmp_path / "earlier.json"
    assert small_run(suite, "--json", str(target)) == 0
    earlier = json.loads(target.read_text())
    earlier["workloads"]["small"]["contenders"]["fusegrad"]["timing"]["median"] = 3600.0
    target.write_text(json.dumps(earlier))
    capsys.readouterr()
    assert small_run(suite, "--against", str(target)) == 0
    table = capsys.readouterr().out.split("against an earlier run")[1]
    assert "3,600 s" in table
    assert "times as fast as before" in table


def test_a_process_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    options = suite_module.options_of(["--limit", "0.05", "--only", "rosenbrock"])
    found = suite_module.Runner(options, tmp_path).first_calls(workloads.BY_KEY["rosenbrock"], "fusegrad")
    assert found == {"status": "time limit", "note": "stopped at the limit of 0.05 s"}
    row = {"title": "rosenbrock", "contenders": {"fusegrad": found}}
    assert report.problems({"workloads": {"rosenbrock": row}})


# The figures.


def test_ratio_and_limit() -> None:
    def timed(seconds: float, status: str = "ok") -> dict[str, Any]:
        return {"status": status, "timing": {"median": seconds}}

    row = {
        "contenders": {"fusegrad": timed(1.0), "torch": timed(3.0), "jax": timed(2.0), "numba": timed(0.1)}
    }
    assert (report.best_peer(row), report.ratio_of(row)) == ("jax", 2.0)
    row["contenders"]["jax"] = timed(0.5, "DIFFERS")
    assert (report.best_peer(row), report.ratio_of(row)) == ("torch", 3.0)
    machine = {"bandwidth": {"100": 1e12, "100000": 1e6}, "peak": {"float32": 1e11}, "call": 1e-6}
    found = limits.limit_of(workloads.BY_KEY["chain_1000"], machine)
    assert (found["kind"], found["seconds"]) == ("memory", 16_000 / 1e6)
