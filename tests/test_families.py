"""The families of programs: the list is as it was frozen, and what runs them tells right from wrong."""

from __future__ import annotations

import doctest
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusegrad as fg

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
# They are scripts, not a package.
sys.path.append(str(BENCHMARKS))
agreement, catalogue, contenders, declare, facade, grammar, report, revisions = (
    importlib.import_module(f"families.{name}")
    for name in (
        *("agreement", "catalogue", "contenders", "declare", "facade", "grammar", "report", "revisions"),
    )
)

# One small program of each family; `run.py --check` runs them all.
SAMPLE = [
    "attention/written_out/2/2/8/8/float32",
    "convolution/block/16/8/16/float32",
    "drawn/seed0/001",
    "dynamics/newton_kepler/1000/float64",
    "einsum/two/ij,jk->ik/33x16/16x8/float32",
    "elementwise/row_and_column/16x16/float32",
    "indexing/segment_means/33/5/8/float32",
    "linalg/cholesky/1/3/float64",
    "losses/cross_entropy/8/3/float32",
    "models/perceptron/16/32/float32",
    "ordering/topk/3/16/float32",
    "pairwise/gravity/5/float64",
    "pointwise/horner/1000/1000/float64",
    "products/batched/100/8/8/8/float32",
    "recurrence/elman/5/2/4/float32",
    "reduction/logsumexp/last/1000x2/float32",
    "scans/cox/500/float64",
    "second/gradient_penalty/16/16/float32",
    "short_axes/quaternions/100/float32",
    "spectra/rotary/2000/float64",
    "tiny/rosenbrock/10/float32",
]


def named(name: str) -> Any:
    """A program by its name, or by the beginning of it."""
    return next(program for key, program in catalogue.declared().items() if key.startswith(name))


# The list.


def test_nothing_in_the_list_was_changed_or_taken_out() -> None:
    assert catalogue.changes() == []


def test_the_list_is_whole() -> None:
    names = list(catalogue.frozen())
    assert names and len(names) >= 250
    assert set(catalogue.declared()) == set(names), "new programs: benchmarks/families/run.py --freeze"
    assert sum(name.startswith("drawn/") for name in names) >= len(names) // 10


def test_a_change_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    name = SAMPLE[-1]
    monkeypatch.setattr(catalogue, "frozen", lambda: {name: "0" * 16, "tiny/gone/float32": "0" * 16})
    assert catalogue.changes() == [f"{name} was changed", "tiny/gone/float32 was taken out"]


def test_the_content_is_the_source_and_the_parameters() -> None:
    one, other = named("linalg/cholesky/1/3/float64"), named("linalg/cholesky/1/33/float64")
    assert one.content() != other.content()
    assert one.content() == one.content()
    sources = declare.sources_of(named("reduction/max/last").builder)
    assert any(source.startswith("def place_of") for source in sources), "helpers count"
    assert not any("@programs" in source for source in sources), "tables of parameters do not: they may grow"


def test_programs_are_drawn_by_seed_and_number() -> None:
    assert grammar.text_of(0, 3) == grammar.text_of(0, 3)
    assert grammar.text_of(0, 3) != grammar.text_of(1, 3)
    assert len({grammar.text_of(0, number)[0] for number in range(20)}) == 20


# What is timed is the library's own.


@pytest.mark.parametrize("library", ["fusegrad", "torch"])
def test_the_facade_hands_out_the_librarys_own_functions(library: str) -> None:
    module: Any = pytest.importorskip(library)
    ops = facade.names_of(library)
    assert ops.sin is module.sin and ops.softmax is module.softmax
    assert ops.conv2d is module.nn.functional.conv2d and ops.cholesky is module.linalg.cholesky


def test_the_facades_have_the_same_names() -> None:
    pytest.importorskip("jax")
    assert set(vars(facade.names_of("jax"))) == set(vars(facade.names_of("fusegrad")))


# Programs run and agree.


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SAMPLE)
def test_compiled_agrees_with_eager(name: str) -> None:
    program = named(name)

    def results(contender: str, dtype: str | None = None) -> list[Any]:
        made = contenders.contender(program, contender, dtype)
        return [contenders.found_by(made) for _ in range(agreement.COMPARED)]

    expected = results("eager", "float64")
    for contender in ("eager", "fusegrad"):
        found = agreement.verdict(program, expected, results(contender))
        assert found["status"] == "ok", (contender, found)


def test_a_wrong_result_differs() -> None:
    program = named(SAMPLE[-1])
    right, wrong = [np.ones(3), np.arange(3.0)], [np.ones(3), np.arange(3.0) + 0.01]
    assert agreement.verdict(program, [right], [right] * 4)["status"] == "ok"
    found = agreement.verdict(program, [right], [right, right, wrong, right])
    assert found["status"] == "DIFFERS" and found["differing_calls"] == [2]
    assert agreement.difference([np.array([np.nan, 1.0])], [np.array([np.nan, 1.0])]) == 0
    assert agreement.difference([np.array([np.nan, 1.0])], [np.array([2.0, 1.0])]) == float("inf")
    assert agreement.difference(right, right[:1]) == float("inf")


def test_the_functions_are_replayed() -> None:
    made = contenders.contender(named(SAMPLE[-1]), "fusegrad")
    for _ in range(4):
        made.call()
    assert made.jitted.stats.compiled_calls == 3
    assert isinstance(made.call()[0], fg.Tensor)


# From the command line, and the report.


def test_doctests() -> None:
    for module in (agreement, declare, report):
        assert doctest.testmod(module).failed == 0


def test_from_the_command_line(tmp_path: Path) -> None:
    target = tmp_path / "families.json"
    options = [
        "--only",
        "tiny/dot/3/*",
        "--contenders",
        "fusegrad",
        "eager",
        "--seconds",
        "0.05",
        "--rounds",
        "1",
    ]
    command = [sys.executable, str(BENCHMARKS / "families" / "run.py"), *options, "--json", str(target)]
    done = subprocess.run([*command, "--tree", str(BENCHMARKS.parent)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "old over new, 1 programs" in done.stdout
    (row,) = json.loads(target.read_text())["programs"].values()
    for label in (revisions.OLD, revisions.NEW):
        figures = row["contenders"][label]
        assert figures["status"] == "ok" and figures["timing"]["median"] > 0 and figures["calibration"] > 0
        assert figures["way"] == "replay" and figures["kernels"] >= 1


def test_the_report_counts_the_best_peer() -> None:
    def figures(seconds: float, status: str = "ok") -> dict[str, Any]:
        return {"status": status, "timing": {"median": seconds}, "calibration": 1.0, "first": 1.0}

    row = {
        "family": "tiny",
        "contenders": {"fusegrad": figures(1.0), "torch": figures(4.0), "jax": figures(2.0)},
    }
    wrong = {**row, "contenders": {**row["contenders"], "fusegrad": figures(0.1, "DIFFERS")}}
    assert report.ratio_of(row) == 2 and report.best_peer(row) == "jax"
    assert report.ratio_of(wrong) is None
    found = report.summary({"one": row, "two": wrong})
    assert found["programs"] == 2 and found["without"] == 1 and found["mean"] == 2
