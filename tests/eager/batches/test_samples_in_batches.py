"""Each sample of each op as a batch of three, beside the three one after the other: values, and gradients
asked for within the batch and outside. The rules of families are planted wrong, and the table finds it.

All samples: `PYTHONPATH=tests/helpers:tests python tests/eager/batches/test_samples_in_batches.py`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import op_samples
import pytest
from op_samples import Sample

import fusegrad as fg
from fusegrad.eager.core.ops import ops
from fusegrad.eager.ops.batches import rules

SIZE, EVERY = 3, 17
# What vmap refuses, as PyTorch does, or where a sample asks for what a batch has not.
REFUSED = (
    "requires_grad_",  # within the function
    "dynamic shape",  # positions that depend on values
    "inplace arithmetic",  # a batch written into what is one for all
    "randomness error mode",
    ".item() on a Tensor",
)


class Case(NamedTuple):
    """A sample as a batch: which of its inputs are one for each example."""

    op: str
    number: int
    sample: Sample
    batched: tuple[bool, ...]

    def arguments(self) -> list[fg.Tensor]:
        stacks = [fg.tensor(_examples(x)) for x in self.sample.inputs]
        return [s if many else s[0] for s, many in zip(stacks, self.batched, strict=True)]

    def dims(self) -> tuple[int | None, ...]:
        return tuple([0 if many else None for many in self.batched])

    def floats(self) -> tuple[int, ...]:
        return tuple([i for i, x in enumerate(self.sample.inputs) if x.dtype.kind == "f"])

    def results(self, *tensors: fg.Tensor) -> tuple[fg.Tensor, ...]:
        return tuple(_leaves(self.sample.call(fg, *tensors)))

    def loss(self, *tensors: fg.Tensor) -> fg.Tensor:
        found = [y for y in self.results(*tensors) if y.dtype.is_floating_point]
        return sum([(y * 0.7).sin().sum() for y in found], fg.tensor(0.0, dtype=fg.float64))

    def one_by_one(self, function: Any) -> list[fg.Tensor]:
        """What a function gives for each example, stacked."""
        rows = []
        for i in range(SIZE):
            pairs = zip(self.arguments(), self.batched, strict=True)
            rows.append(function(*[(a[i] if many else a).clone() for a, many in pairs]))
        return [fg.stack(column) for column in zip(*rows, strict=True)]


def _examples(x: np.ndarray) -> np.ndarray:
    """Three inputs like one: numbers a little smaller, the other way round."""
    if x.dtype.kind == "f":
        return np.stack([x, x * 0.97, np.flip(x) * 0.94])
    return np.stack([x, np.flip(x, 0) if x.ndim == 1 else x, x])


def _leaves(value: Any) -> list[fg.Tensor]:
    if isinstance(value, fg.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, (tuple, list)) else []


def cases(every: int = 1) -> Iterator[Case]:
    """All samples that are not random, with all inputs in batches, the first alone, and all but the first."""
    count = 0
    for op, samples in op_samples.SAMPLES.items():
        for number, sample in enumerate(samples):
            if sample.random or not sample.inputs:
                continue
            n = len(sample.inputs)
            for batched in {(True,) * n, (True,) + (False,) * (n - 1), (False,) + (True,) * (n - 1)}:
                count += 1
                if any(batched) and not count % every:
                    yield Case(op, number, sample, batched)


def differs(case: Case, gradients: bool) -> str:
    """What is other than one by one; "" where nothing is, or vmap refuses."""
    try:
        expected = case.one_by_one(case.results)
    except RuntimeError:
        return ""  # examples of several shapes
    try:
        _compare(fg.vmap(case.results, case.dims())(*case.arguments()), expected, "values")
        wanted = case.floats()
        if gradients and case.sample.gradients and wanted:
            slope = fg.func.grad(case.loss, wanted)
            expected = case.one_by_one(slope)
            _compare(fg.vmap(slope, case.dims())(*case.arguments()), expected, "gradients within")
            whole = fg.func.grad(lambda *a: fg.vmap(case.loss, case.dims())(*a).sum(), wanted)
            many = [case.batched[i] for i in wanted]
            summed = [e if m else e.sum(0) for e, m in zip(expected, many, strict=True)]
            _compare(whole(*case.arguments()), summed, "gradients outside")
    except Exception as error:
        if any(words in str(error) for words in REFUSED):
            return ""
        return f"{case.op} {case.number} {case.batched}: {type(error).__name__}: {error}"[:300]
    return ""


def _compare(found: Any, expected: list[fg.Tensor], what: str) -> None:
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), (
            f"{what}: {a.shape} {a.dtype}, not {b.shape} {b.dtype}"
        )
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-5, 1e-6, err_msg=what)


def wrong(every: int = 1, gradients: bool = True) -> tuple[list[str], set[str], int]:
    """What differs; the ops that were done one example after the other; how many cases there were."""
    found, slow, count = [], set(), 0
    for case in cases(every):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found.append(differs(case, gradients))
        texts = [str(w.message) for w in caught if "performance drop" in str(w.message)]
        slow |= {text.split("batching rule for ")[1].split(":")[0] for text in texts}
        count += 1
    return [f for f in found if f], slow, count


SLOW = {
    "as_strided",
    "coo_product",
    "embedding_bag_max",
    "histc",
    "histogram",
    "median",
    "nanmedian",
    "nonzero_static",
}


def test_batches_are_as_one_by_one() -> None:
    found, slow, count = wrong(EVERY)
    assert count > 90 and found == []
    assert slow <= SLOW


# A fault in the rule of each family, planted: the table finds it.

PLANTED = {
    "of_numbers": ("add", rules, "of_numbers", lambda call: call.done(call.operands)),
    "along_dimensions": ("cumsum", rules, "_next", lambda dims, rank: dims),
    "over_all": ("amax", rules, "over_all", lambda call: rules.by_examples(call) * 1.5),
    "with_leading": (
        "linalg_det",
        rules,
        "with_leading",
        lambda call: call.done([ops.flip(x, (0,)) for x in call.everything()]),
    ),
}


@pytest.mark.parametrize("family", PLANTED)
def test_planted_faults_of_families_are_found(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op, module, name, fault = PLANTED[family]
    monkeypatch.setattr(module, name, fault)
    assert any(differs(case, False) for case in cases() if case.op == op)


def _shuffled(call: rules.Call) -> Any:
    """The rule's own answer, with the examples in another order."""
    made = OWN[call.op.name](call)
    return ops.roll(made, 1, 0) if isinstance(made, fg.Tensor) else tuple([ops.roll(m, 1, 0) for m in made])


OWN = dict(rules.RULES)
WITHOUT_BATCHES = {op for op, rule in OWN.items() if rule is OWN["nonzero"]}


@pytest.mark.parametrize("op", sorted(set(OWN) - WITHOUT_BATCHES - {"select_at", "multinomial", "stack"}))
def test_planted_faults_of_rules_are_found(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rules.RULES, op, _shuffled)
    found = (
        differs(case, gradients)
        for gradients in (False, True)
        for case in cases()
        if case.op == OF.get(op, op)
    )
    assert any(found)


# Ops whose own samples ask for gradients within the function: the ops that they are part of.
OF = {
    "conv_weight": "convolution",
    "embed": "getitem",
    "pixel_put": "pixel_pick",
    "product_of_others": "prod",
}


if __name__ == "__main__":
    texts, by_examples, number = wrong()
    print(*texts, sep="\n")
    share = 1 - len(by_examples) / len(op_samples.SAMPLES)
    print(f"{number} cases, {len(texts)} wrong; {share:.1%} of ops have rules; not {sorted(by_examples)}")
    sys.exit(bool(texts))
