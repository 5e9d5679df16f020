"""How many places a mask is true at differs from call to call: one path answers for all of these numbers.

Beside PyTorch, with gradients, values that ops refuse in rows that were not chosen, and questions of Python's
that may be answered by the number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import planted
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.tracer.ir import chosen_rows, rules_of_rows
from fusegrad.tracer.record.doors import Doors

ROWS, CALLS = 12, 14

# Of rows of 4 numbers, where the mask `m` is true; w: 4 numbers; b: one; square: 4 by 4; all need gradients.
PROGRAMS = {
    "mean": "x[m].mean() + (x[m] * w).sum(0).square().sum()",
    "flat": "T.log(x[(x > 0) & (x < 9)] + b).sum()",
    "columns": "T.log(x[m][:, 0] + b).mean() + (T.sqrt(x[m][:, :1]) * w).sum()",
    "quotients": "((1 / x[m][:, :1]).expand(-1, 4) @ square).square().mean() + (w / x[m][:, :1]).sum()",
    "layers": "F.softmax(F.layer_norm(x[m] @ square, (4,), w) @ square.T, 1)[:, 0].log().sum()",
    "classes": "F.cross_entropy(x[m] * w, labels[m]) + F.nll_loss(x[m], labels[m], reduction='sum')",
    "errors": "F.mse_loss(x[m] * w, x[m]) + F.smooth_l1_loss(x[m] @ square, x[m])",
    "products": "(x[m].T @ (x[m] * w)).square().sum() + x[m].amax(1).sum() + T.logsumexp(x[m] * w, 1).mean()",
    "gathered": "(x[m] * w).gather(1, labels[m][:, None]).sum() + T.cat([x[m], x[m] * w], 1).square().mean()",
    "looked_up": "square[labels[m]].square().sum() + (x[m] * square[labels[m]]).mean()",
    "flattened": "(x[m] * w).flatten().tanh().mean() + x[m].reshape(-1, 2).sum(1).square().mean()",
    "number": "(x[m] * w).square().sum() / max(len(x[m]), 1)",
    "shape": "(x[m] @ square).sum() / x[m].shape[0] if m.nonzero().size(0) > 1 else x[m].sum() * b",
    "two_dims": "(x.reshape(3, 4, 4)[m.reshape(3, 4)] * w).square().mean()",
}
WRITES = {
    "set": "y = x * w; y[m] = 1.5; loss = y[x.abs().sum(1) < 50].square().sum()",
    "of_others": "y = x * w; y[m] = (1 / x[m]) * w; loss = T.where(y.abs() < 50, y, 0.0).sum()",
    "added": "y = x * w; y[m] += b; y[m] *= x[m]; loss = T.where(y.abs() < 50, y, 0.0).square().sum()",
}


def code(statement: str, T: Any, leaves: list[Any], folder: Any) -> Callable[..., Any]:
    """The function, from a file of its own, whose source can be read."""
    path = folder / f"program{len([*folder.iterdir()])}.py"
    lines = "".join(f"        {line.strip()}\n" for line in statement.split(";"))
    path.write_text(
        f"def make(T, F, w, b, square):\n    def f(x, m, labels):\n{lines}        return loss\n    return f\n"
    )
    scope: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), scope)
    return scope["make"](T, T.nn.functional, *leaves)  # type: ignore[no-any-return]


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, of which those that the mask does not choose have zeros, infinities and negative numbers, and
    labels that are out of range.
    """
    numbers = np.random.default_rng(seed)
    mask = numbers.random(ROWS) < numbers.choice([0.2, 0.5, 0.9])
    mask[:2] = True
    x = np.abs(numbers.normal(size=(ROWS, 4))).astype("f4") + np.float32(0.1)
    x[~mask] = numbers.choice([0.0, -1.0, np.inf, 3.0], (int((~mask).sum()), 4))
    labels = np.where(mask, numbers.integers(0, 4, ROWS), 7)
    return x, mask, labels


def check(statement: str, folder: Any) -> Any:
    worlds = []
    for T, jitted in ((torch, False), (fg, True)):
        first = np.full(4, 0.5, "f4"), np.array(0.25, "f4"), np.eye(4, dtype="f4") + np.float32(0.1)
        leaves = [T.tensor(a).requires_grad_(True) for a in first]
        made = code(statement, T, leaves, folder)
        worlds.append((T, fg.jit(made) if jitted else made, leaves))
    for seed in range(CALLS):
        arrays = drawn(seed)
        found = []
        for T, f, leaves in worlds:
            x, m, labels = map(T.tensor, arrays)
            x.requires_grad_(True)
            for leaf in leaves:
                leaf.grad = None
            loss = f(x, m, labels)
            loss.backward()
            found.append(
                [t if t is None else t.detach().numpy() for t in (loss, x.grad, *[t.grad for t in leaves])]
            )
        for theirs, ours in zip(*found, strict=True):
            assert (theirs is None) == (ours is None)
            if theirs is not None:
                np.testing.assert_allclose(ours, theirs, rtol=3e-4, atol=1e-5, err_msg=f"{seed} {statement}")
    return worlds[1][1]


STATEMENTS = {name: f"loss = {said}" for name, said in PROGRAMS.items()} | WRITES


@pytest.mark.parametrize("name", STATEMENTS)
def test_one_path_for_all_counts(name: str, tmp_path: Any) -> None:
    jitted = check(STATEMENTS[name], tmp_path)
    assert jitted.stats.compiles == 2 and jitted.stats.compiled_calls == CALLS - 2


@pytest.mark.parametrize("fault", ["gradients", "sums"])
def test_rows_that_leak_are_found(fault: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "gradients":
        monkeypatch.setattr(rules_of_rows, "_widened", lambda x, ndim, rows: x)
    else:
        monkeypatch.setattr(rules_of_rows, "_only", lambda rows, fill=0: rows.tensor)
    found = [name for name, said in STATEMENTS.items() if planted.finds(check, said, tmp_path)]
    assert len(found) >= 2, found


# What Python may ask of chosen rows, `r`. Their answer is one bit: two runs may have the same.
QUESTIONS = """
r.shape[0] | tuple(r.shape) | r.size(0) | [*r.size()] | r.numel() | fg.numel(r) | r.nelement() | len(r)
r.nbytes
r.T.contiguous().stride() | len(list(r))
 len(r.unbind(0)) | len(r.split(1)) | len(r.chunk(3)) | sum(1 for _ in r)
len(r) + 1 | [1] * len(r) | range(len(r)) | fg.zeros(len(r), 2).sum().item() | r.shape == (5, 4)
r.view(r.shape[0], 2, 2).shape | {len(r): 1} | r.shape[:1] | r.shape + (1,) | fg.ones(*r.shape).sum().item()
len(r) // 2 | len(r) > 4 | float(len(r)) | [7, 8, 9, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12][len(r)] | "a" * len(r)
x[: len(r)].sum().item() | x[len(r) - 1].sum().item() | r.expand(r.shape).sum().item() | len(r) in (3, 5)
r.size() == x.size() | x.shape[0] - r.shape[0] | type(len(r)).__name__ | len(r) ** 2 | r.shape.index(4)
[n * 2 for n in r.shape] | list(zip(r.shape, "ab"))
fg.tensor([len(r)]).sum().item() | (x * len(r)).sum().item()
np.prod(r.shape) | [*range(len(r), 14)] | not len(r) - 5 | (r + r[:, :1]).size(0) | r[..., 0].shape
r.T.shape[1] | r[:, 0].shape[0] | r.sum(1).shape[0] | len(r.tolist()) | r.numpy().shape[0] | len(repr(r))
str(r.shape) | r.clone().untyped_storage().nbytes() | r.clone().storage().size()
fg.equal(r, fg.ones(5, 4))
fg.is_same_size(r, fg.ones(5, 4)) | r[-1].storage_offset() | min(r.shape[0], 3) | len(list(zip(r, r)))
[i for i, _ in enumerate(r)] | len([*map(fg.sum, r)]) | fg.broadcast_shapes(r.shape, (1, 4))
getattr(r, "shape")[0]
np.shape(r) | np.asarray(r).size | max(r.shape) | len((r > 0).nonzero()) | len(fg.unique(r > 0))
fg.vmap(lambda a: a.sum() * len(r))(fg.ones(2, 3)).shape
fg.empty_like(r).shape | fg.tensor(r.shape).tolist()
len([*reversed(r)]) | r.unsqueeze(0).shape | fg.nn.functional.pad(r, (0, 0, 0, 2)).shape | r.is_contiguous()
"""
ASKED = [said.strip() for line in QUESTIONS.split("\n") for said in line.split(" | ") if said]


def asked(question: str, folder: Any) -> None:
    path = folder / f"question{len([*folder.iterdir()])}.py"
    path.write_text(
        "import numpy as np\nimport fusegrad as fg\ndef f(x, m):\n    r = x[m]\n"
        f"    return sum(map(ord, str({question}))) % 2, (r * 2).sum()\n"
    )
    scope: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), scope)
    jitted, x = fg.jit(scope["f"]), fg.ones(ROWS, 4)
    for count in (3, 5, 4, 7, 9, 2, 5, 3, 8, 12):
        m = fg.arange(ROWS) < count
        assert repr(jitted(x, m)[0]) == repr(scope["f"](x, m)[0]), f"{question}, {count}"


def test_who_asks_for_a_size_is_answered(tmp_path: Any) -> None:
    for question in ASKED:
        asked(question, tmp_path)


def test_a_question_that_nobody_hears_is_found(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Doors, "asked_shape", lambda self, tensor: None)
    assert sum(planted.finds(asked, question, tmp_path) for question in ASKED[:8]) >= 6


def _masks() -> Iterator[Any]:
    numbers = np.random.default_rng(0)
    while True:
        yield fg.from_numpy(numbers.random(64) < numbers.random())


def test_no_path_for_none_and_one_but_their_own() -> None:
    """A thousand masks: paths are bounded."""
    w = fg.ones(4, requires_grad=True)
    optimizer = fg.optim.SGD([w], lr=1e-3)

    @fg.jit
    def step(x: Any, m: Any) -> Any:
        optimizer.zero_grad()
        loss = (x[m] * w).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    x, masks = fg.ones(64, 4), _masks()
    for _ in range(1000):
        step(x, next(masks))
    assert step.stats.compiles <= 4 and step.stats.compiled_calls >= 995
    assert chosen_rows.FEWEST == 2


def test_large_products_of_few_rows_are_not_made_of_all() -> None:
    w = fg.ones(64, 4096)

    @fg.jit
    def step(x: Any, m: Any) -> Any:
        return (x[m] @ w).square().mean()

    x = fg.ones(1024, 64)
    for count in (10, 20, 30, 40):
        step(x, fg.arange(1024) < count)
    assert step.stats.compiles == 4  # one for each
    for count in (900, 1000, 1010, 1020):
        step(x, fg.arange(1024) < count)
    assert step.stats.compiles < 8
