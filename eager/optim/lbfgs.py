"""LBFGS: Newton-like steps from a short history of gradients, with a line search."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.autograd.views import count_write, tell_readers
from fusegrad.eager.core.errors import failure, user_spot
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.optim.optimizer import Optimizer, as_number, check_options


class LBFGS(Optimizer):
    """Limited-memory BFGS; `step` needs a closure that clears the gradients, computes the loss, calls
    backward and gives the loss. Source: `torch.optim.LBFGS`.

    line_search_fn: None for steps of length `lr`, or "strong_wolfe".

    >>> import fusegrad as fg
    >>> x = fg.tensor([4.0, -2.0], requires_grad=True)
    >>> optimizer = fg.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((x - 1) ** 4).sum()
    ...     loss.backward()
    ...     return loss
    >>> for _ in range(3):
    ...     loss = optimizer.step(closure)
    >>> bool(closure() < 1e-6)
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_options(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise failure(ValueError, "LBFGS doesn't support per-parameter options (parameter groups)")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Run up to `max_iter` iterations; gives the loss before them.

        Raises TypeError without a closure, since the loss is computed several times.
        """
        if closure is None:
            raise failure(TypeError, "LBFGS computes the loss several times: step() needs a closure")
        group = self.param_groups[0]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise failure(RuntimeError, "only 'strong_wolfe' is supported")
        if self._taken_over():
            return None
        first = self._evaluated(closure)
        kept = self.state[group["params"][0]]
        run = _Run(self, closure, kept, float(first))
        if np.abs(run.gradient).max(initial=0) > group["tolerance_grad"]:
            run.iterate()
            run.save()
        return first


class _Run:
    """One call of `step`: the history, the point reached and what was evaluated."""

    def __init__(
        self, optimizer: LBFGS, closure: Callable[[], Any], kept: dict[str, Any], loss: float
    ) -> None:
        self.optimizer, self.closure, self.kept, self.loss = optimizer, closure, kept, loss
        self.group = optimizer.param_groups[0]
        self.parameters: list[Tensor] = self.group["params"]
        self.gradient = self.flat_gradient()
        self.evaluations, self.spot = 1, user_spot()
        kept["func_evals"] = kept.get("func_evals", 0) + 1
        kept.setdefault("n_iter", 0)
        self.direction, self.previous = _array(kept.get("d")), _array(kept.get("prev_flat_grad"))
        self.length, self.diagonal = _array(kept.get("t")), _array(kept.get("H_diag"))
        self.changes = [_array(v) for v in kept.get("old_dirs") or ()]
        self.steps = [_array(v) for v in kept.get("old_stps") or ()]
        self.weights = [_array(v) for v in kept.get("ro") or ()]

    def save(self) -> None:
        """Keep the history for the next call."""
        self.kept.update(
            d=_tensor(self.direction),
            t=_tensor(self.length),
            old_dirs=[_tensor(v) for v in self.changes],
            old_stps=[_tensor(v) for v in self.steps],
            ro=[_tensor(v) for v in self.weights],
            H_diag=_tensor(self.diagonal),
            prev_flat_grad=_tensor(self.previous),
            prev_loss=self.loss_before,
        )

    def iterate(self) -> None:
        """Take steps until one of the limits is reached."""
        group, kept = self.group, self.kept
        lr, tolerance = as_number(group["lr"]), group["tolerance_change"]
        for iteration in range(1, group["max_iter"] + 1):
            kept["n_iter"] += 1
            self.turn()
            self.previous, self.loss_before = self.gradient.copy(), self.loss
            first = kept["n_iter"] == 1
            self.length = min(1.0, 1.0 / np.abs(self.gradient).sum()) * lr if first else lr
            slope = self.gradient.dot(self.direction)
            if slope > -tolerance:
                break
            last = iteration == group["max_iter"]
            evaluated = self.move(slope, last)
            self.evaluations += evaluated
            kept["func_evals"] += evaluated
            if (
                last
                or self.evaluations >= group["max_eval"]
                or np.abs(self.gradient).max() <= group["tolerance_grad"]
                or np.abs(self.direction * self.length).max() <= tolerance
                or abs(self.loss - self.loss_before) < tolerance
            ):
                break

    def turn(self) -> None:
        """Choose the next direction: the gradient times the approximate inverse Hessian."""
        if self.kept["n_iter"] == 1:
            self.direction, self.diagonal = -self.gradient, 1.0
            self.changes, self.steps, self.weights = [], [], []
            return
        change, step = self.gradient - self.previous, self.direction * self.length
        curvature = change.dot(step)
        if curvature > 1e-10:
            if len(self.changes) == self.group["history_size"]:
                for history in (self.changes, self.steps, self.weights):
                    history.pop(0)
            self.changes.append(change)
            self.steps.append(step)
            self.weights.append(1.0 / curvature)
            self.diagonal = curvature / change.dot(change)
        q = -self.gradient
        shares = []
        for change, step, weight in zip(
            self.changes[::-1], self.steps[::-1], self.weights[::-1], strict=True
        ):
            shares.append(step.dot(q) * weight)
            q -= shares[-1] * change
        q *= self.diagonal
        for change, step, weight, share in zip(
            self.changes, self.steps, self.weights, shares[::-1], strict=True
        ):
            q += (share - change.dot(q) * weight) * step
        self.direction = q

    def move(self, slope: Any, last: bool) -> int:
        """Go along the direction, with a line search if one was asked for; gives the evaluations."""
        if self.group["line_search_fn"] is None:
            self.add(self.length)
            if last:
                return 0
            self.loss = self.evaluate()
            self.gradient = self.flat_gradient()
            return 1
        origin = [p.array.copy() for p in self.parameters]
        start = _Point(0, self.loss, self.gradient.copy(), slope)
        search = _Search(lambda length: self.look(length, origin), start, np.abs(self.direction).max())
        found = search.run(self.length, self.group["max_eval"] - self.evaluations)
        self.length, self.loss, self.gradient = found.length, found.loss, found.gradient
        self.add(self.length)
        return search.evaluations

    def look(self, length: Any, origin: list[np.ndarray]) -> _Point:
        """Loss and gradient `length` along the direction; the parameters stay where they are."""
        self.add(length)
        loss, gradient = self.evaluate(), self.flat_gradient()
        for parameter, array in zip(self.parameters, origin, strict=True):
            tell_readers(parameter)
            parameter.array[...] = array
            count_write(parameter, self.spot)
        return _Point(length, loss, gradient, gradient.dot(self.direction))

    def evaluate(self) -> float:
        return float(self.optimizer._evaluated(self.closure))

    def add(self, length: Any) -> None:
        """Move the parameters `length` along the direction."""
        start = 0
        for parameter in self.parameters:
            array = parameter.array
            tell_readers(parameter)
            count = array.size * (2 if array.dtype.kind == "c" else 1)
            part = np.multiply(self.direction[start : start + count], length)
            array += part.view(array.dtype).reshape(array.shape)
            count_write(parameter, self.spot)
            start += count

    def flat_gradient(self) -> np.ndarray:
        """All gradients in one vector, complex ones as pairs."""
        flats = []
        for parameter in self.parameters:
            gradient = parameter.gradient
            array = (
                np.zeros(parameter.array.shape, parameter.array.dtype) if gradient is None else gradient.array
            )
            flat = array.reshape(-1)
            flats.append(flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat)
        return np.concatenate(flats)


def _tensor(value: Any) -> Any:
    return wrap(value) if isinstance(value, (np.ndarray, np.generic)) else value


def _array(value: Any) -> Any:
    # 0-d arrays become NumPy scalars, which mix with Python numbers as 0-d tensors do.
    return value.array[()] if isinstance(value, Tensor) else value


class _Point(NamedTuple):
    """A point on the line that is searched."""

    length: Any
    loss: float
    gradient: np.ndarray
    slope: Any


class _Search:
    """A line search for the strong Wolfe conditions; ported from PyTorch's, to the same points."""

    ENOUGH, FLAT, SMALL = 1e-4, 0.9, 1e-9  # decrease of the loss, of the slope; smallest bracket

    def __init__(self, look: Callable[[Any], _Point], start: _Point, norm: Any) -> None:
        self._look, self.start, self.norm = look, start, norm
        self.evaluations = 0

    def look(self, length: Any) -> _Point:
        self.evaluations += 1
        return self._look(length)

    def high(self, point: _Point) -> bool:
        """Whether the loss has not come down enough at `point`."""
        return point.loss > self.start.loss + self.ENOUGH * point.length * self.start.slope

    def flat(self, point: _Point) -> bool:
        """Whether the slope has come down enough at `point`."""
        return abs(point.slope) <= -self.FLAT * self.start.slope

    def run(self, length: Any, limit: int) -> _Point:
        """Find a point, starting at `length`, in at most `limit` rounds."""
        previous, new = self.start, self.look(length)
        for rounds in range(limit):
            if self.high(new) or (rounds > 1 and new.loss >= previous.loss):
                return self.zoom(previous, new, limit - rounds)
            if self.flat(new):
                return new
            if new.slope >= 0:
                return self.zoom(previous, new, limit - rounds)
            least = new.length + 0.01 * (new.length - previous.length)
            following = _interpolate(previous, new, least, new.length * 10)
            previous, new = new, self.look(following)
        return self.start if self.start.loss <= new.loss else new

    def zoom(self, first: _Point, second: _Point, limit: int) -> _Point:
        """Narrow the bracket between two points until one of them will do."""
        low, high = (first, second) if first.loss <= second.loss else (second, first)
        stuck = False
        for _ in range(limit):
            if abs(high.length - low.length) * self.norm < self.SMALL:
                break
            left, right = sorted((low, high), key=lambda point: point.length)
            length = _interpolate(left, right, left.length, right.length)
            margin = 0.1 * (right.length - left.length)
            close = min(right.length - length, length - left.length) < margin
            if close and (stuck or length >= right.length or length <= left.length):
                nearer_right = abs(length - right.length) < abs(length - left.length)
                length = right.length - margin if nearer_right else left.length + margin
                close = False
            stuck = close
            new = self.look(length)
            if self.high(new) or new.loss >= low.loss:
                low, high = (low, new) if low.loss <= new.loss else (new, low)
                continue
            if self.flat(new):
                return new
            if new.slope * (high.length - low.length) >= 0:
                high = low
            low = new
        return low


def _interpolate(one: _Point, two: _Point, least: Any, most: Any) -> Any:
    """Where the cubic through two points and their slopes is lowest, between `least` and `most`."""
    rise = one.slope + two.slope - 3 * (one.loss - two.loss) / (one.length - two.length)
    square = rise**2 - one.slope * two.slope
    if not square >= 0:
        return (least + most) / 2.0
    root = np.sqrt(square)
    left, right = (one, two) if one.length <= two.length else (two, one)
    share = (right.slope + root - rise) / (right.slope - left.slope + 2 * root)
    return min(max(right.length - (right.length - left.length) * share, least), most)
