"""Captures between processes: they are found and hold, or are recorded anew, whatever has changed meanwhile.

A process is stood in for by a module that is executed anew (`tests/helpers/kept_runs.py`); a few are real
ones.

    PYTHONPATH=tests/helpers python tests/compiler/artefacts/test_captures.py     # all mutations
"""

from __future__ import annotations

import dataclasses
import os
import random
import re
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kept import runs as kept_runs
from kept.family import Family
from kept.mutations import FAMILIES
from kept.programs import OTHERS, PROGRAM

import fusegrad as fg
from fusegrad import cli
from fusegrad.compiler import learning
from fusegrad.compiler.artefacts import capture_data, captures, effects, folder, reads, world
from fusegrad.compiler.artefacts.form import Artefact
from fusegrad.compiler.artefacts.memories import Memories
from fusegrad.compiler.base import background
from fusegrad.tracer.capture.captured import Capture, Left, Output
from fusegrad.tracer.ir.graph import print_graph
from fusegrad.tracer.ir.text import parse_graph
from fusegrad.tracer.observe.hosts import Host
from fusegrad.tracer.observe.reads import Read

KEPT = [family for family in FAMILIES if family.kind != "not kept"]


def emptied(cache: Path) -> None:
    for entry in cache.glob(f"{folder._ENTRIES}*"):
        entry.unlink()


def found(module: Any) -> int:
    return sum(entry.recalled for entry in kept_runs.entries(module))


def stale(family: Family, folder: Path, step: int = 1, least: int = 0) -> Iterator[str]:
    """The mutations of a family after which an earlier process's run answered that was no longer right. step:
    only so many things further on is where a program is changed to.
    """
    sources = family.sources()
    right = [kept_runs.eager(source, folder) for source in sources]
    kept = 0
    for first, source in enumerate(sources):
        emptied(folder / "cache")
        assert kept_runs.alike(kept_runs.run(source, folder).answers, right[first])
        again = kept_runs.run(source, folder)
        kept += bool(found(again))
        assert kept_runs.alike(again.answers, right[first])
        for second in range(first + 1, first + len(sources), step):
            other = second % len(sources)
            if not kept_runs.alike(kept_runs.run(sources[other], folder).answers, right[other]):
                yield f"{family.kind}, {family.name}: {family.things[first]} -> {family.things[other]}"
    assert kept >= least, f"{kept} of {len(sources)} programs were found again"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("family", KEPT, ids=lambda family: f"{family.kind}-{family.name}")
def test_what_has_changed_is_recorded_anew(family: Family, tmp_path: Path) -> None:
    assert not [*stale(family, tmp_path, step=3, least=1)]


@pytest.mark.parametrize(
    "family", [f for f in FAMILIES if f.kind == "not kept"], ids=lambda family: family.name
)
def test_what_is_not_kept_is_told(family: Family, tmp_path: Path) -> None:
    for source in family.sources() * 2:
        module = kept_runs.run(source, tmp_path)
        assert not found(module) and family.name in str(module.f.explain())


# Holes: whatever is left out of what is said, a mutation shows it.

Plant = Callable[[pytest.MonkeyPatch], None]


class _Anything(list):  # type: ignore[type-arg]
    """A list that no other differs from."""

    def __eq__(self, other: object) -> bool:
        return True


def _blind_to(*kinds: str) -> Plant:
    """What reads of these kinds have found is not compared."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        whole = reads.told

        def told(read: Read, world: world.World) -> list[Any]:
            said = whole(read, world)
            return _Anything(said) if type(read).__name__ in kinds else said

        monkeypatch.setattr(reads, "told", told)

    return plant


def _nothing_of(*kinds: str) -> Plant:
    """Of objects of these kinds nothing is said but the kind."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        whole = world.World._fact

        def fact(self: world.World, value: Any, number: int) -> Any:
            said = whole(self, value, number)
            return ["known", *said[1:3]] if said[0] == "known" else said[:1] if said[0] in kinds else said

        monkeypatch.setattr(world.World, "_fact", fact)

    return plant


def _cells_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody sees that two functions have one cell."""
    whole = world.World.first_of_cells
    monkeypatch.setattr(world.World, "first_of_cells", lambda *of: whole(*of)[:0])


def _not_asked(name: str) -> Plant:
    return lambda monkeypatch: monkeypatch.setattr(captures, name, lambda *_: "")


def _both(*plants: Plant) -> Plant:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        for each in plants:
            each(monkeypatch)

    return plant


# By the families that show it.
HOLES: dict[str, Plant] = {
    "GlobalRead-number": _blind_to("GlobalRead"),
    "CellRead-number": _blind_to("CellRead"),
    "FunctionRead-default": _blind_to("FunctionRead"),
    "FunctionRead-keyword": _blind_to("FunctionRead"),
    "AttributeRead-number": _blind_to("AttributeRead"),
    "AttributeRead-parameter": _blind_to("AttributeRead", "GlobalRead"),
    "ClassAttributeRead-method": _nothing_of("function"),
    "ItemRead-list": _blind_to("ItemRead"),
    "ItemRead-dict": _blind_to("ItemRead"),
    "LengthRead-list": _blind_to("LengthRead"),
    "ContentsRead-list": _blind_to("ContentsRead"),
    "ContentsRead-dict": _blind_to("ContentsRead"),
    "TypeRead-class": _both(
        _blind_to("TypeRead", "ClassAttributeRead"), _nothing_of("instance", "class", "function")
    ),
    "ParametersRead-groups": _both(_blind_to("ParametersRead", "StateRead"), _nothing_of("tensor")),
    "function-source": _nothing_of("function"),
    "function-own source": _nothing_of("function"),
    "class-bases": _nothing_of("class"),
    "instance-of what": _both(_nothing_of("instance", "class"), _blind_to("AttributeRead")),
    "tensor-gradients": _nothing_of("tensor"),
    "tuple-items": _nothing_of("tuple"),
    "property-source": _nothing_of("function"),
    "DType-which": _nothing_of("dtype"),
    "attributes-of whose cell": _cells_apart,
    "tensor-whose array": lambda monkeypatch: monkeypatch.setattr(Memories, "told", lambda *of: []),
    "key-grad mode": _not_asked("plain"),
    "key-methods of tensors": _not_asked("_methods_of_tensors"),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("hole", HOLES)
def test_a_planted_hole_is_found(hole: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (family,) = (family for family in FAMILIES if f"{family.kind}-{family.name}" == hole)
    HOLES[hole](monkeypatch)
    assert next(stale(family, tmp_path), None)


# Nothing is forgotten: what a capture can hold is listed, with how it is told of or why it is not.


def _below(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def _unlisted(there: Iterable[Any], listed: Iterable[Any]) -> set[Any]:
    return {*there} - {*listed}


def test_each_kind_of_read_is_listed() -> None:
    ours = (kind for kind in _below(Read) if kind.__module__.startswith("fusegrad."))
    assert not _unlisted(ours, reads.KINDS)


def test_each_kind_of_host_is_listed() -> None:
    ours = (kind for kind in _below(Host) if kind.__module__.startswith("fusegrad."))
    assert not _unlisted(ours, effects.HOSTS)


def test_what_a_run_leaves_is_listed() -> None:
    assert not _unlisted((field.name for field in dataclasses.fields(Left)), effects.LEFT)


def test_each_kind_that_is_kept_has_mutations() -> None:
    tables: list[dict[Any, Any]] = [reads.KINDS, effects.HOSTS]
    kept = [kind.__name__ for table in tables for kind, how in table.items() if not isinstance(how, str)]
    kept += ["computed", *reads.GETTERS, *(name for name, why in effects.LEFT.items() if not why)]
    elsewhere = ["Numbers", "GetterRead", "writes", "times", "made", "gradients", "numbers"]
    assert not _unlisted(kept, [*(family.kind for family in FAMILIES), *elsewhere])


def test_each_kind_has_twenty_mutations() -> None:
    counts = Counter[str]()
    for family in KEPT:
        counts[family.kind] += len(family.things) * (len(family.things) - 1)
    assert not {kind: count for kind, count in counts.items() if count < 20}


def test_each_part_of_a_capture_is_listed(tmp_path: Path) -> None:
    module = kept_runs.run("w = fg.ones(3)\n@jit\ndef f(x): return x * w\ncalls = [(fg.ones(3),)]", tmp_path)
    (entry,) = kept_runs.entries(module)
    (artefact,) = (
        folder.find(p.name.removeprefix(folder._ENTRIES)) for p in _of_captures(tmp_path / "cache")
    )
    assert artefact is not None and not entry.not_kept
    (data,) = artefact.facts["captures"]
    fields = [field.name for field in dataclasses.fields(Capture)]
    assert not _unlisted(fields, [*data, *capture_data.UNTOLD, *capture_data.EMPTY])


def test_each_kind_of_output_is_listed() -> None:
    assert {*re.findall(r'"(\w+)":', Output.__doc__ or "")} == {*capture_data.ITEMS}


def _of_captures(cache: Path) -> list[Path]:
    return [p for p in cache.glob(f"{folder._ENTRIES}*") if b'"kind":"captures"' in p.read_bytes()]


# Memory.


@pytest.mark.parametrize("seed", range(5))
def test_tensors_whose_bytes_overlap_are_told_of_together(seed: int) -> None:
    draw = random.Random(seed)
    bases = [fg.zeros(60), fg.zeros(7, 9), fg.zeros(40, dtype=fg.float64)]
    known, met = Memories(), list[fg.Tensor]()
    for number in range(200):
        base = draw.choice(bases)
        begin, end = sorted(draw.choices(range(base.shape[0] + 1), k=2))
        tensor = base[begin : min(end, begin + 4) : draw.choice([1, 2])]
        told = known.told(tensor, number)
        others = [t for t in met if t.array.size and tensor.array.size]
        shared = [t for t in others if np.may_share_memory(t.array, tensor.array)]
        assert bool(told) == bool(shared)
        assert all(np.may_share_memory(met[of].array.base, tensor.array.base) for of, *_ in told)
        met.append(tensor)


# What is found is whole, or it is not found.


def test_nothing_is_recorded_where_runs_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = kept_runs.eager(PROGRAM, tmp_path)
    cold = kept_runs.run(PROGRAM, tmp_path)
    kept_runs.forbid_tracing(monkeypatch)
    warm = kept_runs.run(PROGRAM, tmp_path)
    assert kept_runs.alike(cold.answers, right) and kept_runs.alike(warm.answers, right)
    assert (warm.f.stats.compiled_calls, warm.f.stats.eager_calls, found(warm)) == (2, 0, 2)
    assert "2 runs that earlier processes have recorded" in str(warm.f.explain())


@pytest.mark.parametrize("program", OTHERS)
def test_programs_whose_first_calls_replay(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = kept_runs.eager(OTHERS[program], tmp_path)
    cold = kept_runs.run(OTHERS[program], tmp_path)
    assert [entry.not_kept for entry in kept_runs.entries(cold)] == [""]
    kept_runs.forbid_tracing(monkeypatch)
    warm = kept_runs.run(OTHERS[program], tmp_path)
    assert kept_runs.alike(warm.answers, right) and not warm.f.stats.eager_calls


def test_nothing_is_recorded_while_a_run_is_compiled_beside_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = kept_runs.eager(PROGRAM, tmp_path)
    kept_runs.run(PROGRAM, tmp_path)
    kept_runs.forbid_tracing(monkeypatch)
    monkeypatch.setattr(background, "takes_long", lambda ops: True)
    monkeypatch.setattr(learning, "_wait", lambda *_: False)
    warm = kept_runs.run(PROGRAM, tmp_path)
    assert kept_runs.alike(warm.answers, right) and warm.f.stats.eager_calls


def test_graphs_come_back_from_their_text(tmp_path: Path) -> None:
    """What `graph_text` takes for sayable is, for all that the families compute."""
    told = []
    for family in KEPT:
        kept_runs.run(family.sources()[0], tmp_path)
    for entry in _of_captures(tmp_path / "cache"):
        artefact = folder.find(entry.name.removeprefix(folder._ENTRIES))
        assert artefact is not None
        told += [data["graph"] for data in artefact.facts["captures"]]
    assert len(told) > 30 and [print_graph(parse_graph(text), sources=False) for text in told] == told


def test_why_a_run_was_recorded_is_told(tmp_path: Path) -> None:
    kept_runs.run(PROGRAM, tmp_path)
    other = kept_runs.run(PROGRAM.replace('"scale": 2.0', '"scale": 3.0'), tmp_path)
    assert "item ['scale'] of a dict is another one, now 3.0" in str(other.f.explain())
    third = kept_runs.run(PROGRAM.replace("x * k", "x / k"), tmp_path)
    assert "`helper` is of another kind, or has other code" in str(third.f.explain()).replace(
        " helper ", " `helper` "
    )


def test_a_kept_run_can_be_looked_at(tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept_runs.run(OTHERS["a loop"], tmp_path)
    (entry,) = _of_captures(cache)
    cli.main(["inspect", str(entry)])
    told = capsys.readouterr().out
    assert "kind     captures" in told and "def graph(x: f32[300000])" in told and "rolled(" in told


def test_several_runs_are_kept_and_found(tmp_path: Path) -> None:
    programs = [PROGRAM.replace("2.0", f"{number}.5") for number in range(4)]
    for program in programs:
        kept_runs.run(program, tmp_path)
    assert [found(kept_runs.run(program, tmp_path)) for program in programs] == [2] * 4


@pytest.mark.parametrize("how", ["cut", "nothing", "bits", "facts", "other kind", "other list"])
def test_damaged_entries_are_misses(how: str, tmp_path: Path, cache: Path) -> None:
    right = kept_runs.eager(PROGRAM, tmp_path)
    kept_runs.run(PROGRAM, tmp_path)
    for entry in _of_captures(cache):
        data, key = entry.read_bytes(), entry.name.removeprefix(folder._ENTRIES)
        known = folder.find(key)
        assert known is not None
        if how in ("cut", "nothing", "bits"):
            entry.write_bytes({"cut": data[:-9], "nothing": b"", "bits": data[:99] + b"?" + data[100:]}[how])
            continue
        (*_, last) = known.facts["captures"]
        others: Any = {"facts": [{**last, "facts": 3}, {**last, "reads": [["?"]]}, {}, last["reads"]]}
        facts = {"captures": others.get(how, 3 if how == "other list" else known.facts["captures"])}
        folder.keep([key], Artefact("?" if how == "other kind" else captures.KIND, facts, known.parts))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        again = kept_runs.run(PROGRAM, tmp_path)
    assert kept_runs.alike(again.answers, right) and not found(again)
    assert len(told) == (how in ("cut", "nothing", "bits"))


_REAL = """
import re, sys
import fusegrad as fg
from fusegrad import nn
from fusegrad.compiler import jit as door
jit = fg.jit
fg.manual_seed(0)
{program}
if sys.argv[1:]:
    door.capture = None  # whoever recorded a run would fail
print([re.sub("grad_fn=<.*?>", "", repr(f(*call))) for call in calls], f.stats.compiled_calls)
"""


def test_real_processes(tmp_path: Path) -> None:
    """From another folder, and with another order of sets."""
    said = []
    for number, arguments in enumerate(([], ["warm"])):
        path = tmp_path / f"folder{number}" / "program.py"
        path.parent.mkdir()
        path.write_text(_REAL.replace("{program}", PROGRAM))
        environment = {**os.environ, "PYTHONHASHSEED": str(number)}
        run = subprocess.run(
            [sys.executable, str(path), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not run.returncode, run.stderr
        said.append(run.stdout.rsplit(None, 1))
    assert said[0][0] == said[1][0] and [count for _, count in said] == ["0", "2"]


if __name__ == "__main__":
    import tempfile

    total = 0
    for each in KEPT:
        with tempfile.TemporaryDirectory() as place:
            os.environ[folder.SETTING] = str(Path(place) / "cache")
            total += len(each.things) * (len(each.things) - 1)
            print(each.kind, each.name, *stale(each, Path(place)))
    print(f"{total} mutations")
