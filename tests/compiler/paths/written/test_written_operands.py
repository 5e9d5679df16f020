"""Which operands and results of ops may be written before their backward, with what gradients: as PyTorch.

Each op's samples times each operand and result, eager and jitted; all of them by
`PYTHONPATH=tests:tests/helpers python tests/compiler/paths/written/test_written_operands.py 1`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from op_samples import SAMPLES, Sample
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.autograd.node import Node
from fusegrad.eager.core.op import Rule

# Ops that keep another thing than PyTorch's does, so that a write is an error where it is none there: l1_loss
# keeps its operands and not their difference, erfinv its result, others are made of other ops.
KEEPS_MORE = frozenset(
    "l1_loss erfinv special_ndtr complex_of standardize softmax product_of_others lstm_cell linalg_svdvals "
    "linalg_eigvals gather expand coo_product".split()
)
# Elements, which PyTorch writes in some order, and we not at all.
SHOWS_TWICE = ("unfold", "as_strided", "as_strided_from_gaps")
MOST = 4  # operands, or results, that are written in turn
REFUSED = "refused"


def results_of(made: Any) -> list[Any]:
    if isinstance(made, (tuple, list)):
        return [tensor for part in made for tensor in results_of(part)]
    return [made] if hasattr(made, "requires_grad") else []


def outcome(lib: Any, called: Callable[..., Any], sample: Sample, of_results: bool, place: int | None) -> Any:
    """The gradients where an operand or a result is written (None: nothing is), or `REFUSED`; None where
    there is nothing to write, or to derive.
    """
    leaves = [lib.tensor(array.copy()) for array in sample.inputs]
    for leaf in leaves:
        if leaf.is_floating_point() or leaf.is_complex():
            leaf.requires_grad_()
    operands = [leaf * 1 if leaf.requires_grad else leaf.clone() for leaf in leaves]
    results = results_of(called(*operands))
    derived = [result for result in results if result.requires_grad]
    written = results if of_results else operands
    if not derived or (place is not None and place >= len(written)):
        return None
    if place is not None:
        try:
            with lib.no_grad():
                target = written[place]
                target.fill_(1) if target.dtype == lib.bool else target.mul_(2)
        except RuntimeError:
            return None  # memory that shows its elements several times
    try:
        sum(((r * 2).abs() if r.is_complex() else r * 2).sum().double() for r in derived).backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error), error
        return REFUSED
    return [None if leaf.grad is None else np.array(leaf.grad.tolist()) for leaf in leaves]


def alike(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, str) or isinstance(theirs, str):
        return ours is theirs
    zeros = [b if a is None else a for a, b in zip(ours, theirs, strict=True) if (a is None) != (b is None)]
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    return not any(map(np.any, zeros)) and all(np.allclose(a, b, 1e-4, 1e-5, True) for a, b in pairs)


def differing(name: str, wrap: Callable[[Any], Any], calls: int) -> Iterator[tuple[Any, ...]]:
    """What is other than in PyTorch, of the samples of an op. A write that PyTorch refuses, for it keeps more
    than it needs, may be none that matters: gradients are then those of what was there before.
    """
    for sample in [s for s in SAMPLES[name] if s.gradients and not s.random][:3]:
        ours = wrap(lambda *given, s=sample: s.call(fg, *given))
        unwritten = outcome(fg, ours, sample, False, None)
        for of_results, place in [(r, p) for r in (False, True) for p in range(MOST)]:
            theirs = outcome(torch, lambda *given, s=sample: s.call(torch, *given), sample, of_results, place)
            if theirs is None or (of_results and name in SHOWS_TWICE):
                continue
            found: Any = None
            for _ in range(calls):
                found = outcome(fg, ours, sample, of_results, place)
            lets_pass = theirs is REFUSED and found is not REFUSED and alike(found, unwritten)
            keeps_more = found is REFUSED and name in KEEPS_MORE
            if found is None or not (lets_pass or keeps_more or alike(found, theirs)):
                yield name, [a.shape for a in sample.inputs], of_results, place, found, theirs


WAYS: dict[str, tuple[Callable[[Any], Any], int]] = {"eager": (lambda f: f, 1), "jit": (fg.jit, 3)}
OF_INDICES = ("sort", "topk", "max_dim", "min_dim", "kthvalue", "median_dim", "mode", "cummax", "cummin")


@pytest.mark.parametrize("name", sorted({*[*SAMPLES][::12], *OF_INDICES}))
def test_operands_and_results_of_eager_ops_are_written(name: str) -> None:
    assert not [*differing(name, *WAYS["eager"])]


@pytest.mark.parametrize("name", sorted({*[*SAMPLES][::60], *OF_INDICES[:4]}))
def test_operands_and_results_of_compiled_ops_are_written(name: str) -> None:
    assert not [*differing(name, *WAYS["jit"])]


def _keeps_all(self: Any, number: int) -> Any:
    return range(number)


_applied = Node.apply


def _does_not_look(self: Any, gradients: Any, edges: Any = None) -> Any:
    self.versions = ()
    return _applied(self, gradients, edges)


@pytest.mark.parametrize(
    ("owner", "name", "fault", "op"),
    [(Rule, "saved_outputs", _keeps_all, "sort"), (Node, "apply", _does_not_look, "exp")],
)
def test_planted_faults_are_found(
    owner: Any, name: str, fault: Any, op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, fault)
    assert finds(test_operands_and_results_of_eager_ops_are_written, op)
    assert op == "exp" or finds(test_operands_and_results_of_compiled_ops_are_written, op)


if __name__ == "__main__":
    step = int(sys.argv[1])
    wrong = [
        (way, *case)
        for way, given in WAYS.items()
        for op in [*SAMPLES][::step]
        for case in differing(op, *given)
    ]
    for case in wrong:
        print(*case)
    print(f"{len([*SAMPLES][::step])} ops, {len(wrong)} differ")
