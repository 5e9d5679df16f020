"""Random programs over trees, batched: values, gradients, effects and exceptions are those of one by one.

More of them: `PYTHONPATH=tests/helpers python tests/eager/batching/test_random_structures.py COUNT SEED`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from structured import programs as structures

from fusegrad.compiler.batching import batch_program, cells, likeness
from fusegrad.compiler.fastpath import straight
from fusegrad.eager.batching import backward, columns, groups, kinds, side_by_side, table
from fusegrad.eager.batching.batcher import Batcher
from fusegrad.eager.batching.touched import Touched
from fusegrad.eager.core.state import state

pytest.importorskip("greenlet")
SAMPLE = [*range(1000, 1018), *range(3001, 3021, 2), *range(4003, 4023, 4)]


def compile_soon(seed: int) -> None:
    """Of every second program, have what pays for long ones alone begin at once."""
    cells.COMPILING, straight.WORTH_WRITING = (0, 1) if seed % 8 > 3 else LATER


LATER = cells.COMPILING, straight.WORTH_WRITING


@pytest.fixture(autouse=True)
def compiled_soon_or_late(request: pytest.FixtureRequest) -> Iterator[None]:
    compile_soon(request.node.callspec.params.get("seed", 0))
    yield
    compile_soon(0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", SAMPLE)
def test_a_batched_program_does_what_it_does_one_by_one(seed: int) -> None:
    found = structures.difference(seed)
    assert not found, f"{structures.program(seed)}\n{found}"


def _unordered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands are found before the calls are put in order."""
    gathered = columns.Columns.__init__

    def made(self: Any, table: Any, calls: Any, values: Any) -> None:
        gathered(self, table, calls, values)
        self.calls = calls[::-1]

    monkeypatch.setattr(columns.Columns, "__init__", made)


def _weights_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls with different weights are taken for ones with the same."""
    gathered = columns.Columns.__init__

    def made(self: Any, *args: Any) -> None:
        gathered(self, *args)
        firsts = [tensor for tensor, _ in self.examples()]
        self.batched = [many and not first.is_leaf for many, first in zip(self.batched, firsts, strict=True)]

    monkeypatch.setattr(columns.Columns, "__init__", made)
    monkeypatch.setattr(groups, "parted", lambda table, calls, values: [(calls, values)])


def _numbers_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python numbers are no part of a kind."""
    monkeypatch.setattr(kinds, "repr", lambda value: "", raising=False)


def _modes_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The grad mode is no part of a kind."""
    of = kinds.Kinds.of
    monkeypatch.setattr(
        kinds.Kinds, "of", lambda self, op, args, params, mode, types: of(self, op, args, params, True, types)
    )


def _state_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """An example goes on in the modes of another."""
    monkeypatch.setattr(side_by_side, "_put", lambda values: None)


def _views_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views without values are left alone by writes."""
    monkeypatch.setattr(Batcher, "_realize_all", lambda self, chosen: None)


def _first_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is raised first is raised, though an earlier example would have raised before."""
    step = side_by_side._step

    def failing(batcher: Batcher, example: Any) -> Any:
        failed = step(batcher, example)
        if failed is not None:
            raise failed.error
        return None

    monkeypatch.setattr(side_by_side, "_step", failing)


def _all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backward goes through all rows, whichever gradients come to."""
    monkeypatch.setattr(backward._Reached, "rows", lambda self: None)


def _rows_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for the gradient of a row gets that of its tensor, not what groups send."""
    monkeypatch.setattr(backward.Group, "arrived", lambda self, slots: slots)


def _too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that nobody holds, but that others read, are left out."""
    monkeypatch.setattr(table.Table, "_wanted", lambda self, held, uses: held)


def _uses_uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are left out as soon as one of those that take what they give is."""
    wanted = table.Table._wanted
    monkeypatch.setattr(
        table.Table, "_wanted", lambda self, held, uses: wanted(self, held, (uses > 0).astype(int))
    )


def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a list alone has that somebody else has as well is taken for forgotten."""
    monkeypatch.setattr(table, "_UNHELD", table._UNHELD + 1)


def _writes_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples may write what others read."""
    for name in ("read", "write"):
        monkeypatch.setattr(Touched, name, lambda self, array, example: None)


def _reads_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of jitted functions wait whatever these would read now."""
    monkeypatch.setattr(cells.Cell, "holds", lambda self: True)
    monkeypatch.setattr(cells.Cell, "is_unchanged", lambda self, leaves: True)


def _all_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any kind of calls of a jitted function stands for any other that gives the same types."""
    monkeypatch.setattr(likeness.Work, "stands_for", lambda self, other: True)


def _positions_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether positions are in range before the calls that take them wait."""
    monkeypatch.setattr(cells.Cell, "admits", lambda self, leaves: True)


def _operands_turned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code takes its operands in another order than it was made for."""
    replay = batch_program._Replay
    monkeypatch.setattr(
        batch_program, "_Replay", lambda stretch, takes, *rest: replay(stretch, takes[::-1], *rest)
    )


def _one_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was compiled of calls that take a tensor twice answers those that take two."""
    known = property(lambda self: self._by_size, lambda self, given: setattr(self, "_by_size", _BySize()))
    monkeypatch.setattr(batch_program.BatchProgram, "_known", known, raising=False)


class _BySize(dict[Any, Any]):
    def get(self, key: Any, otherwise: Any = None) -> Any:
        return super().get(key[0] if isinstance(key, tuple) else key, otherwise)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key[0] if isinstance(key, tuple) else key, value)


def _sent_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients are added to what was sent before, whether others have come since or not."""

    def on_its_way(self: Any, target: Any, output: int) -> Any:
        self._follow()
        return self.sent.get(output)

    monkeypatch.setattr(backward._Reached, "on_its_way", on_its_way)


FAULTS: dict[Callable[[pytest.MonkeyPatch], None], range] = {
    _unordered: range(1000, 1010),
    _weights_mixed: range(1000, 1010),
    _numbers_mixed: range(1000, 1010),
    _modes_mixed: range(1015, 1020),
    _state_shared: range(1000, 1040),
    _views_forgotten: range(1000, 1040),
    _first_to_fail: range(1419, 1420),
    _all_rows: range(1089, 1090),
    _rows_unseen: range(1052, 1055),
    _too_early: range(1000, 1010),
    _uses_uncounted: range(1000, 1100),
    _forgotten: range(1000, 1010),
    _writes_unseen: range(1000, 1200, 5),
    _reads_unasked: range(3001, 3201, 2),
    _all_alike: range(3001, 3201, 2),
    _positions_unasked: range(3001, 3401, 2),
    _operands_turned: range(3001, 3201, 2),
    _sent_twice: range(1000, 1100),
    _one_for_two: range(4747, 4748),
}


def _is_found(seed: int) -> bool:
    try:
        return bool(structures.difference(seed))
    except Exception:  # a fault may also come to light as an error of the scheduler
        return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__.strip("_"))
def test_planted_faults_are_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds.kinds.clear()
    before = dict(vars(state))
    fault(monkeypatch)
    try:
        assert any(map(_is_found, FAULTS[fault]))
    finally:
        kinds.kinds.clear()
        vars(state).clear()
        vars(state).update(before)


if __name__ == "__main__":
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    different = []
    for seed in range(first, first + int(sys.argv[1])):
        compile_soon(seed)
        if structures.difference(seed):
            different.append(seed)
    print(f"{len(different)} of {sys.argv[1]} differ: {different[:20]}")
    sys.exit(bool(different))
