"""Programs put together at random that rebind globals and outer variables, and set attributes: as eager.

After each call the result, all such variables and what was set beside are compared. More of them:
`PYTHONPATH=tests/helpers python tests/compiler/random/test_random_variables.py COUNT SEED`.
"""

from __future__ import annotations

import linecache
import random
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import random_functions

import fusegrad as fg
from fusegrad.compiler.paths import endings
from fusegrad.tracer.observe import stores

CALLS = 11
LINES = [
    "n += 1", "m = m * 0.9 + 1", "kept = x.detach() * n", "a += 2", "t = t + x.detach() * 0.1",
    "b = loss.item()", "flag = not flag", "x = x * 2 if flag else x", "x = x * m", "x = x + n * 0.1",
    "m = 1.0 if n % 3 == 0 else m", "x = helper(x)", "x = around(x)", "name = f'{n} of {a}'",
    "name = 'even' if n % 2 == 0 else 'odd'", "x = x * 0.5 if name == 'even' else x", "seen.append(n)",
    "x = x * this.b", "x = x + this.a * 0.01", "x = x if kept is None else x + kept.mean()", "own.n = n",
    "x = x + own.n * 0.1", "own.t, n = t, n + own.n % 2", "n, a = a % 5, n", "for k in range(3): n += k",
    "m = b = float(n)", "pair = (n, x.sum().detach())", "x = x * pair[1] if pair else x",
    "loss = loss + (x * w).sum()", "loss = loss * t.mean()", "counts['n'] += n",
    "own.last = x; x = x * 0.5 + own.last; del own.last", "if n % 4 == 3: own.last = x",
    "x = x + own.last * 0.1 if hasattr(own, 'last') else x", "if hasattr(own, 'last'): del own.last",
    "own.d = loss.data", "kept = loss.data", "own.d = loss.detach()", "name = '%3d|%d' % (m, b)",
    "n = min(n, 7)", "m -= 0.25", "x = x + this.t", "kept = None if n > 5 else kept", "b = own.n * 0.5",
]  # fmt: skip
_NAMES = "nonlocal n, m, kept, name, pair; global a, b, t, flag"
_HELPERS = [
    "m = m + 0.5", "a += 1", "n = n + 1", "kept = y", "b = m", "y = y * m", "y = y + n * 0.1",
    "t = y.detach()", "y = y * b", "flag = a > 3",
]  # fmt: skip


def source(seed: int) -> str:
    draw = random.Random(seed)

    def body(lines: list[str], least: int, most: int) -> str:
        return "\n        ".join(draw.choice(lines) for _ in range(draw.randint(least, most)))

    own = [
        "a += 1",
        "b = b * 0.5 + 1",
        "t = y.detach() + t",
        "y = y * b",
        "y = y + a * 0.1",
        "flag = not flag",
    ]
    return f"""
def around(y):
    global a, b, t, flag
    for _ in range(1):
        {body(own, 1, 2)}
    return y * 0.9

def make():
    n, m, kept, name, pair = 0, 1.0, None, "even", ()
    def helper(y):
        {_NAMES}
        {body(_HELPERS, 1, 3)}
        return y * 1.1
    def step(x):
        {_NAMES}
        loss = (x * w).sum()
        {body(LINES, 3, 7)}
        return {draw.choice(["loss", "loss + (x * w).sum()"])}, n
    def see():
        return n, m, kept, name, pair, a, b, t, flag
    return step, see
"""


def outcome(seed: int, jitted: bool) -> list[Any]:
    """What calls of a program give, and leave."""
    text, name = source(seed), f"<random variables {seed}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    module = ModuleType(f"random_variables_{seed}")
    numbers = np.random.default_rng(seed)
    w = fg.tensor(numbers.normal(size=3), requires_grad=True)
    seen, counts, own = list[Any](), {"n": 0}, SimpleNamespace(n=1, t=None, d=None)
    given = {"w": w, "seen": seen, "counts": counts, "own": own, "this": module, "fg": fg}
    vars(module).update(given, a=1, b=1.5, t=fg.ones(3, dtype=fg.float64), flag=False)
    exec(compile(text, name, "exec", dont_inherit=True), vars(module))
    step, see = module.make()
    step, found = fg.jit(step) if jitted else step, list[Any]()
    for call in range(CALLS):
        w.grad = None
        if seed % 2 and call % 5 == 4:
            own.last = w.detach() * call
        loss, number = step(fg.tensor(numbers.normal(size=3)))
        if own.d is not None:
            own.d.add_(0.1)
        if loss.requires_grad:
            loss.backward()
        found.append(_plain([loss, number, *see(), w.grad, own.n, own.t, [*seen], dict(counts)]))
        found[-1] += _plain([own.d, getattr(own, "last", None), own.d is not None and own.d._version])
    if jitted:
        found.append(step.stats.compiled_calls)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, fg.Tensor):
        return value.detach().tolist()
    if isinstance(value, (list, tuple)):
        return [*map(_plain, value)]
    return value


def alike(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return bool(np.isclose(a, b, rtol=1e-6, atol=1e-9, equal_nan=True))
    if isinstance(a, list):
        return len(a) == len(b) and all(map(alike, a, b))
    return bool(a == b)


def check(seed: int) -> int:
    """Compare one program; how many of its calls compiled code has answered."""
    expected, (*found, compiled) = outcome(seed, False), outcome(seed, True)
    for call, (a, b) in enumerate(zip(expected, found, strict=True)):
        assert alike(a, b), f"{source(seed)}\ncall {call}:\n eager  {a}\n jitted {b}"
    return int(compiled)


def test_random_programs_rebind_as_eager_does() -> None:
    assert sum(map(check, range(12))) > 30


def _unset(observer: Any, owner: Any, name: str, site: Any) -> bool:
    """`stores.unset` of any attribute, without a question what was there."""
    observer.stores.forget(owner, name)
    delattr(owner, name)
    return True


FAULTS = {
    # What the run has rebound itself is taken for what was there before.
    "reads see what the run has rebound": (stores.Stores, "__contains__", lambda self, place: False),
    "variables are not rebound": (endings, "set_attribute", lambda owner, name, value: None),
    "`.data` is given as a copy": (endings, "_data", lambda tensor: tensor.detach().clone()),
    "attributes that were there are deleted": (stores, "unset", _unset),
}


# Programs that show it.
SEEDS = dict(zip(FAULTS, [range(6), range(6), (41, 77), (1, 43)], strict=True))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, planted = FAULTS[fault]
    monkeypatch.setattr(owner, name, planted)
    assert random_functions.differing(check, SEEDS[fault])


if __name__ == "__main__":
    random_functions.run(check)
