"""Statements of random programs, with the world that they read and change: see `test_random_worlds.py`."""

from __future__ import annotations

import collections
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import fusegrad as fg

F = fg.nn.functional
SIZE = 4
CALLS = 8
Pair = collections.namedtuple("Pair", "first second")


@dataclass
class Options:
    """An argument with numbers in it."""

    factor: float
    power: int
    flag: bool


class World:
    """What a program finds outside: tensors, numbers, models, an optimizer, a log."""

    def __init__(self, seed: int, jit: Callable[..., Any]) -> None:
        generator = np.random.default_rng(seed)
        self.log: list[Any] = []
        self.state = fg.tensor(generator.normal(size=SIZE).astype("f4"))
        self.weight = fg.tensor(generator.normal(size=SIZE).astype("f4"), requires_grad=True)
        self.number = 0.5
        self.count = 0
        self.table: dict[str, float] = {"scale": 2.0}
        self.layer = fg.nn.Linear(SIZE, SIZE)
        self.norm = fg.nn.BatchNorm1d(SIZE)
        with fg.no_grad():
            for parameter in self.layer.parameters():
                parameter.copy_(fg.tensor(generator.normal(size=tuple(parameter.shape)).astype("f4") * 0.3))
        kinds: Any = (fg.optim.SGD, fg.optim.Adam)
        self.optimizer = kinds[seed % 2](self.layer.parameters(), lr=0.05)
        self.scheduler = fg.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.parts = [self.state]
        self.queue = collections.deque([1.0, 2.0], maxlen=3)
        self.hook: Any = None
        self.inner = jit(lambda a, factor: (a * factor).sin() if a.sum() > 0.2137 else a - factor)

    def note(self, *what: Any) -> None:
        self.log.append(what)

    def toggle_hook(self) -> None:
        """Put a hook on the layer, or take it off."""
        add = self.layer.register_forward_hook
        self.hook = self.hook.remove() if self.hook else add(lambda module, inputs, out: out * 2)

    @property
    def doubled(self) -> float:
        return self.number * 2

    def tensors(self) -> list[fg.Tensor]:
        """What may have changed."""
        return [self.state, self.weight, *self.layer.parameters(), *self.norm.buffers()]


def rows(a: fg.Tensor) -> fg.Tensor:
    """A value as one row."""
    return a.detach().reshape(-1, SIZE).mean(0).float()


def seen_sum(a: fg.Tensor) -> float:
    """A number from a tensor that is the same in both, whatever the rounding."""
    return round(a.detach().double().sum().item(), 1) + 0.0


def write(a: fg.Tensor, amount: Any) -> fg.Tensor:
    """A copy of `a`, partly written over."""
    made = a * 1
    made[..., 1:3] = amount
    return made


def written_view(a: fg.Tensor) -> fg.Tensor:
    """A copy of `a`, written through a view of it."""
    made = a + 0
    view = made[..., :2]
    view.mul_(0.5)
    return made


def count_up(a: fg.Tensor) -> fg.Tensor:
    """A loop whose length depends on data."""
    steps = 0
    while a.abs().sum() < 20.0137 and steps < 3:
        a = a * 1.5 + 0.1
        steps += 1
    return a


def guarded(a: fg.Tensor, w: World) -> fg.Tensor:
    """An exception on data, caught."""
    try:
        if a.sum().item() > 1.037:  # a softmax sums to 1 within rounding
            raise ValueError("large")
        return a - 1
    except ValueError as error:
        w.note(str(error))
        return a * 0.5


def cleaned(a: fg.Tensor, w: World) -> fg.Tensor:
    """An exception on data that is caught further out, past a `finally` and a grad mode."""
    try:
        with fg.no_grad():
            try:
                scaled = a * 3
                if scaled.max() > 2.0137:
                    raise KeyError("high")
                return scaled
            finally:
                w.count += 1
    except KeyError:
        return a.clamp(max=1) + w.count


def refused(a: fg.Tensor, w: World) -> fg.Tensor:
    """An exception on data that leaves the program, after an effect."""
    w.note("tried")
    if a.min() < -2.7137:
        raise ArithmeticError(f"call {w.count}")
    return a * 1.1


def kept(a: fg.Tensor, w: World) -> fg.Tensor:
    """State that is replaced by a computed tensor."""
    w.state = rows(a * 0.5)
    return a + w.state


def accumulated(a: fg.Tensor, w: World) -> fg.Tensor:
    """State that is written in place."""
    w.state.add_(rows(a).clamp(-1, 1))
    return a * w.state


def counted(a: fg.Tensor, w: World) -> fg.Tensor:
    """A counter outside, used in arithmetic."""
    w.count += 1
    return a + w.count * 0.01


def stepped(a: fg.Tensor, w: World) -> fg.Tensor:
    """A backward and an update inside."""
    loss = ((rows(a) * w.weight) ** 2).mean()
    w.weight.grad = None
    loss.backward()
    with fg.no_grad():
        w.weight -= 0.1 * w.weight.grad.clamp(-1, 1)
    return a + loss.detach()


def optimized(a: fg.Tensor, w: World) -> fg.Tensor:
    """A step of the optimizer inside."""
    w.optimizer.zero_grad()
    loss = (w.layer(rows(a).clamp(-2, 2)) ** 2).mean()
    loss.backward()
    fg.nn.utils.clip_grad_norm_(w.layer.parameters(), 0.5)
    w.optimizer.step()
    if w.count % 2:
        w.scheduler.step()
    return a + loss.detach()


def derived(a: fg.Tensor, w: World) -> fg.Tensor:
    """A gradient that is asked for inside."""
    if not a.requires_grad:
        a = a.detach().requires_grad_()
    (slope,) = fg.autograd.grad((a * a * w.number).sum().sin(), a, create_graph=w.count % 2 == 0)
    return a + slope.clamp(-1, 1)


def transformed(a: fg.Tensor, w: World) -> fg.Tensor:
    """A transform of a function that reads the world, inside."""
    scale = w.number

    def energy(t: fg.Tensor, other: fg.Tensor) -> fg.Tensor:
        moved = t * scale + w.table["scale"]
        return (moved.sin() * other).sum() if moved.sum() > 0.3137 else (moved * moved).mean()

    value, slope = fg.value_and_grad(energy)(a, rows(a).to(a.dtype))
    return a * 0.5 + slope.clamp(-1, 1) + value.clamp(-1, 1)


def labelled(a: fg.Tensor, w: World) -> fg.Tensor:
    """A loss that checks its labels, and a write that must not happen if they are wrong."""
    labels = fg.tensor([w.count % (SIZE + 2)])
    loss = F.cross_entropy((rows(a) * w.state.detach())[None], labels)
    w.state.detach().mul_(0.5)
    return a + loss.detach().clamp(-1, 1)


def convolved(a: fg.Tensor, w: World) -> fg.Tensor:
    """A convolution over rows, with a kernel made of the world's."""
    made = F.conv1d(a.reshape(-1, 1, SIZE), w.layer.weight.to(a.dtype)[:2, None, :3], padding=1)
    return made.mean(1).reshape(a.shape) * 0.5


def hooked(a: fg.Tensor, w: World) -> fg.Tensor:
    """A hook on a value inside."""
    made = a * 1.0
    if made.requires_grad:
        made.register_hook(lambda g: g * 2)
    return made


def gathered(a: fg.Tensor, w: World) -> fg.Tensor:
    """Python containers, made, filled and read inside."""
    found: dict[str, list[fg.Tensor]] = {"low": [], "high": []}
    for index, part in enumerate(a.unbind(-1)):
        found["high" if index % 2 else "low"].append(part * (index + 1))
    first, *others = found["low"] + [p * 1 for p in found["high"]]
    return fg.stack([first, *reversed(others)], -1)


def queued(a: fg.Tensor, w: World) -> fg.Tensor:
    """A queue outside that is filled, and read."""
    w.queue.append(w.queue[0] * 0.5)
    return a * sum(w.queue) * 0.3


def in_mode(a: fg.Tensor, mode: bool) -> fg.Tensor:
    with fg.set_grad_enabled(mode):
        made = a * 2
        with fg.enable_grad():
            made = made + a
    return made


Statement = Callable[[fg.Tensor, fg.Tensor, World, Options], fg.Tensor]

STATEMENTS: list[Statement] = [
    lambda a, b, w, o: a + b,
    lambda a, b, w, o: a * b,
    lambda a, b, w, o: (a * 0.3).tanh(),
    lambda a, b, w, o: a.sigmoid() - b,
    lambda a, b, w, o: a / (b.abs() + 1),
    lambda a, b, w, o: fg.where(a > b, a, b * 2),
    lambda a, b, w, o: a.softmax(-1),
    lambda a, b, w, o: a - a.mean(),
    lambda a, b, w, o: a.sum() * b * 0.2,
    lambda a, b, w, o: w.layer(a.float()),
    lambda a, b, w, o: a.reshape(*a.shape[:-1], 2, 2).transpose(-1, -2).reshape(a.shape) + b,
    lambda a, b, w, o: fg.cat([a[..., :2], b[..., 2:]], -1),
    lambda a, b, w, o: a * w.weight,
    lambda a, b, w, o: a + w.state,
    lambda a, b, w, o: a * w.number,
    lambda a, b, w, o: a * w.table["scale"],
    lambda a, b, w, o: a * w.table.get("offset", 1.0),
    lambda a, b, w, o: a + sum(p.mean() for p in w.parts),
    # Not `a.sum() > b.sum()`: sums that ought to be equal differ by rounding, and not in both alike.
    lambda a, b, w, o: a if a.sum() > b.sum() + 0.0137 else b * 0.7,
    lambda a, b, w, o: a * float(b.max()) * 0.1,
    lambda a, b, w, o: a + int(b.sum().clamp(-2, 2) * 1.37),
    lambda a, b, w, o: a.detach() + b,
    lambda a, b, w, o: write(a, 0.25),
    lambda a, b, w, o: write(a, b[..., :2]),
    lambda a, b, w, o: written_view(a),
    lambda a, b, w, o: count_up(a),
    lambda a, b, w, o: guarded(a, w),
    lambda a, b, w, o: cleaned(a, w),
    lambda a, b, w, o: refused(a, w),
    lambda a, b, w, o: kept(a, w),
    lambda a, b, w, o: accumulated(a, w),
    lambda a, b, w, o: counted(a, w),
    lambda a, b, w, o: stepped(a, w),
    lambda a, b, w, o: optimized(a, w),
    lambda a, b, w, o: derived(a, w),
    lambda a, b, w, o: transformed(a, w),
    lambda a, b, w, o: labelled(a, w),
    lambda a, b, w, o: convolved(a, w),
    lambda a, b, w, o: hooked(a, w),
    lambda a, b, w, o: gathered(a, w),
    lambda a, b, w, o: queued(a, w),
    lambda a, b, w, o: in_mode(a, o.flag),
    lambda a, b, w, o: (w.note("saw", seen_sum(a)), a)[1],
    lambda a, b, w, o: (w.note("text", a.shape, str(a.dtype)), b + a)[1],
    lambda a, b, w, o: (w.log.append(a), a * 2)[1],
    lambda a, b, w, o: a + fg.rand(SIZE),
    lambda a, b, w, o: a + fg.randn_like(a) * 0.1,
    lambda a, b, w, o: F.dropout(a, 0.5, w.count % 2 == 0) + b,
    lambda a, b, w, o: a.add_(1) if not a.requires_grad else a + 1,
    lambda a, b, w, o: a * fg.tensor(w.number),
    lambda a, b, w, o: fg.stack([a, b]).amax(0),
    lambda a, b, w, o: (a * b).sum(-1, keepdim=True) * 0.1 + a,
    lambda a, b, w, o: a.clone().exp().clamp(max=5),
    lambda a, b, w, o: w.inner(a, 0.7) + w.inner(b, w.number),
    lambda a, b, w, o: a * o.factor + o.power,
    lambda a, b, w, o: a.clamp(-2, 2) ** o.power,
    lambda a, b, w, o: a.neg() if o.flag else a.abs() * w.doubled,
    lambda a, b, w, o: a.double() * 1.1,
    lambda a, b, w, o: a.float() + b.to(a.dtype),
    lambda a, b, w, o: a * a.shape[0] / (a.numel() + len(w.parts)),
    lambda a, b, w, o: (
        w.norm(a.float().reshape(-1, SIZE).repeat(2, 1))[: a.numel() // SIZE].reshape(a.shape) + 0
    ),
    lambda a, b, w, o: (a.reshape(-1, SIZE) @ w.layer.weight.to(a.dtype)).reshape(a.shape) * 0.5,
    lambda a, b, w, o: a[..., [3, 1, 0, 2]] - b.flip(-1),
    lambda a, b, w, o: a.expand(2, *a.shape).mean(0) + fg.arange(SIZE) * 0.1,
    lambda a, b, w, o: a.masked_fill(b > 0.3137, o.factor),
]

WRITING = {"accumulated", "labelled", "stepped", "optimized", "norm", "add_"}

CHANGES: list[Callable[[World], Any]] = [
    lambda w: None,
    lambda w: setattr(w, "number", w.number + 0.25),
    lambda w: setattr(w, "number", 1),
    lambda w: w.table.update(scale=-0.0),
    lambda w: w.table.update(offset=0.5),
    lambda w: w.table.pop("offset", None),
    lambda w: w.parts.append(w.weight.detach()) if len(w.parts) < 3 else w.parts.clear(),
    lambda w: setattr(w, "state", w.state * 0.5 + 0.1),
    lambda w: setattr(w, "state", w.state.clone().requires_grad_()),
    lambda w: w.state.detach_().mul_(0.5),
    lambda w: w.layer.weight.data.mul_(0.9),
    lambda w: setattr(w, "count", 0),
    lambda w: w.norm.train(not w.norm.training),
    lambda w: w.layer.requires_grad_(not w.layer.weight.requires_grad),
    lambda w: w.toggle_hook(),
    lambda w: w.optimizer.param_groups[0].update(lr=0.01),
    lambda w: w.weight.requires_grad_(not w.weight.requires_grad),
    lambda w: w.queue.appendleft(3.0),
]

RETURNS: list[Callable[[list[fg.Tensor], Options], Any]] = [
    lambda v, o: v[-1] + v[len(v) // 2] * 0.5,
    lambda v, o: v[-1],
    lambda v, o: (v[-1], v[len(v) // 2]),
    lambda v, o: {"last": v[-1] * 2, "view": v[-1][..., :2], "options": o.power},
    lambda v, o: Pair(v[-1].sum(), [v[-1].detach(), v[0]]),
    lambda v, o: [v[-1].T if v[-1].ndim == 2 else v[-1][None], None, v[-1] * 1, v[-1].mean().item() > 0.0137],
]

# What the user does with the results before deriving them.
AFTER: list[Callable[[list[fg.Tensor], fg.Tensor, World], Any]] = [
    lambda results, x, w: None,
    lambda results, x, w: None,
    lambda results, x, w: results[0].detach().mul_(0.5),
    lambda results, x, w: x.detach().add_(0.25),
    # Not a write through .data: what eager's backward then reads is an accident, which no error tells.
    lambda results, x, w: w.log.append(w.weight.data.sum().item()),
    lambda results, x, w: w.weight.detach().add_(0.1),
]


def tensors_in(value: Any) -> list[fg.Tensor]:
    """The tensors of a result."""
    if isinstance(value, fg.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [t for item in items for t in tensors_in(item)]
