"""Networks put together at random: products of batches, what is between them, and loops over slices.

Every value is a cube of the same size, or becomes one, so that any operation can follow any other, and one
that mixes up entries, rows or columns fits as well as one that does not. What the generator finds becomes a
small test of its own. More:
`PYTHONPATH=tests/helpers python tests/compiler/random/test_random_networks.py COUNT SEED`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import random_functions

import fusegrad as fg
from fusegrad.compiler.placement import batch_tiling
from fusegrad.compiler.runtime import threads

SIZE = 4
MASK = fg.arange(SIZE) <= fg.arange(SIZE)[:, None]
PLACES = fg.tensor([3 * place // 2 % SIZE for place in range(SIZE)])  # some twice
Weights = tuple[fg.Tensor, fg.Tensor, fg.Tensor]  # two matrices and a row
Operation = Callable[[fg.Tensor, fg.Tensor, Weights], fg.Tensor]


def cube(x: fg.Tensor) -> fg.Tensor:
    """Any value in the usual size."""
    return x if x.shape == (SIZE,) * 3 else x + fg.zeros(SIZE, SIZE, SIZE, dtype=x.dtype)


def attention(q: fg.Tensor, k: fg.Tensor, v: fg.Tensor) -> fg.Tensor:
    return fg.where(MASK, q @ k.mT, -1e9).softmax(-1) @ v


def heads(x: fg.Tensor, y: fg.Tensor, weights: Weights) -> fg.Tensor:
    """Attention whose heads are parts of the columns."""
    w, u, b = weights
    split = [(z @ m).reshape(SIZE, SIZE, 2, SIZE // 2).transpose(1, 2) for z, m in ((x, w), (y, u), (x, u))]
    return attention(*split).transpose(1, 2).reshape(SIZE, SIZE, SIZE) + b


def recurrence(x: fg.Tensor, y: fg.Tensor, weights: Weights) -> fg.Tensor:
    w, u, b = weights
    state, states = y[0], []
    for row in x:
        state = fg.tanh(row @ w + state @ u + b)
        states.append(state)
    return fg.stack(states)


def gates(x: fg.Tensor, y: fg.Tensor, weights: Weights) -> fg.Tensor:
    """A recurrence with two gates, back to front and along the second dimension."""
    w, u, b = weights
    state = y[:, -1]
    for step in reversed(range(SIZE)):
        keep = (x[:, step] @ w + y[:, step] @ w + b).sigmoid()
        state = keep * state + (1 - keep) * (state @ u.T + b)
    return state[:, None] * x


def by_entries(x: fg.Tensor, y: fg.Tensor, weights: Weights) -> fg.Tensor:
    return fg.stack([x[i] @ y[-1 - i] + weights[2] for i in range(SIZE)], 1)


def summed(x: fg.Tensor, y: fg.Tensor, weights: Weights) -> fg.Tensor:
    w, u, b = weights
    return cube(sum((x[i] @ w + y[i] @ u + x[0] @ y[i] + b for i in range(SIZE)), x[1]))


def written(x: fg.Tensor, y: fg.Tensor, weights: Weights) -> fg.Tensor:
    z = x.clone()
    z[1:] = y[:-1] @ weights[0]
    z[:, :, 0] += weights[2]
    z[2] *= y[2]
    return z


def normal(x: fg.Tensor, dim: int | tuple[int, ...]) -> fg.Tensor:
    centred = x - x.mean(dim, keepdim=True)
    return centred / ((centred * centred).mean(dim, keepdim=True) + 0.1).sqrt()


OPERATIONS: dict[str, Operation] = {
    "product": lambda x, y, weights: x @ y,
    "turned left": lambda x, y, weights: x.mT @ y,
    "turned right": lambda x, y, weights: x @ y.mT,
    "both turned": lambda x, y, weights: x.mT @ y.mT,
    "one matrix": lambda x, y, weights: x @ weights[0],
    "one matrix, turned": lambda x, y, weights: x @ weights[1].T,
    "one matrix at the left": lambda x, y, weights: weights[1] @ x,
    "an entry as matrix": lambda x, y, weights: x @ y[1],
    "rows of all": lambda x, y, weights: (x.reshape(-1, SIZE) @ weights[0]).reshape(SIZE, SIZE, SIZE),
    "columns of all": lambda x, y, weights: cube(x.reshape(SIZE, -1) @ y.reshape(-1, SIZE) * 0.2),
    "along entries": lambda x, y, weights: (x.transpose(0, 1) @ y.transpose(0, 1)).transpose(0, 1),
    "einsum": lambda x, y, weights: fg.einsum("aij,bjk->bik", x, y) * 0.3,
    "linear": lambda x, y, weights: fg.relu(x @ weights[0] + weights[2]),
    "attention": lambda x, y, weights: attention(x, y, y),
    "self-attention": lambda x, y, weights: attention(x @ weights[0], x @ weights[1], x),
    "heads": heads,
    "recurrence": recurrence,
    "gates": gates,
    "by entries": by_entries,
    "summed": summed,
    "written": written,
    "softmax": lambda x, y, weights: x.softmax(-1),
    "softmax of columns": lambda x, y, weights: x.softmax(1),
    "softmax of entries": lambda x, y, weights: x.softmax(0),
    "normal rows": lambda x, y, weights: normal(x, -1),
    "normal entries": lambda x, y, weights: normal(x, (1, 2)),
    "normal batch": lambda x, y, weights: normal(x, 0),
    "tanh": lambda x, y, weights: fg.tanh(x + y),
    "gated": lambda x, y, weights: x * y.sigmoid(),
    "masked": lambda x, y, weights: fg.where(MASK, x, y),
    "compared": lambda x, y, weights: fg.where(x > y, x, 0.5 * y),
    "row added": lambda x, y, weights: x + weights[2],
    "column times": lambda x, y, weights: x * weights[2][:, None],
    "entry times": lambda x, y, weights: x * weights[2][:, None, None],
    "an entry for all": lambda x, y, weights: x + y[2],
    "rows summed": lambda x, y, weights: x - y.sum(1, keepdim=True),
    "entries summed": lambda x, y, weights: x * y.sum(0),
    "greatest": lambda x, y, weights: x - y.amax(-1, keepdim=True),
    "running": lambda x, y, weights: x.cumsum(1) * 0.5,
    "entries turned over": lambda x, y, weights: x.flip(0),
    "rows turned over": lambda x, y, weights: x.flip(1) + y,
    "entries moved": lambda x, y, weights: x.roll(1, 0),
    "rows moved": lambda x, y, weights: x.roll(1, 1),
    "entries and rows": lambda x, y, weights: x.transpose(0, 1),
    "entries and columns": lambda x, y, weights: x.transpose(0, 2),
    "round": lambda x, y, weights: x.permute(1, 2, 0),
    "picked entries": lambda x, y, weights: x[PLACES],
    "picked rows": lambda x, y, weights: x[:, PLACES],
    "joined entries": lambda x, y, weights: fg.cat([x[1:3], y[: SIZE - 2]]),
    "joined rows": lambda x, y, weights: fg.cat([x[:, :1], y[:, 1:]], 1),
    "joined columns": lambda x, y, weights: fg.cat([x[..., 2:], y[..., :2]], -1),
    "every other": lambda x, y, weights: fg.cat([x[::2], y[1::2]]),
}  # fmt: skip


def network(choices: random.Random) -> tuple[list[Any], Callable[..., Any]]:
    """Its text, and a function of two cubes and the weights to a loss and some of what was computed."""
    steps = [
        (choices.choice([*OPERATIONS]), choices.randrange(4), choices.randrange(6))
        for _ in range(choices.randint(2, 9))
    ]
    shown = choices.sample(range(len(steps)), min(len(steps), choices.randrange(3)))

    def function(x: fg.Tensor, y: fg.Tensor, *weights: fg.Tensor) -> Any:
        values = [x, y]
        for name, first, second in steps:
            a, b = values[-1 - first % len(values)], values[-1 - second % len(values)]
            values.append(cube(OPERATIONS[name](a, b, weights)))  # type: ignore[arg-type]
        loss = (values[-1] * values[len(values) // 2]).sum() * 0.1 + sum(
            (z * z).sum() for z in (x, y, *weights)
        )
        return loss, [values[2 + place] for place in shown]

    return [steps, shown], function


def check(seed: int) -> int:
    """Compare one network; how many batches of steps it had."""
    text, function = network(random.Random(seed))
    shapes = ((SIZE,) * 3, (SIZE,) * 3, (SIZE, SIZE), (SIZE, SIZE), (SIZE,))
    jitted = random_functions.check(function, shapes, text)
    return sum(len(segment.code.program.placed().batches) for segment in jitted.segments())


def divide_everything(patch: pytest.MonkeyPatch, cores: int) -> None:
    """So many cores, whatever the machine has, and nothing too little to be shared."""
    patch.setattr(threads, "cores", lambda: cores)
    patch.setattr(batch_tiling, "WORTH", 1)
    patch.setattr(batch_tiling, "WORTH_WORK", 1)
    patch.setattr(batch_tiling, "FEWEST_ROWS", 1)


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_random_networks_have_eagers_values_and_gradients(cores: int, monkeypatch: pytest.MonkeyPatch):
    divide_everything(monkeypatch, cores)
    divided = sum(check(seed) > 0 for seed in range(100 * cores, 100 * cores + 12))
    assert divided >= 4


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:

        def divided(seed: int) -> int:
            divide_everything(patch, (1, 2, 4)[seed % 3])
            return check(seed)

        random_functions.run(divided)
