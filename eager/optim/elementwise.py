"""Optimizers that treat every element alike, and how their steps are made quick.

A rule is written once, on one-dimensional arrays of real numbers. Large parameters are cut into
blocks that stay in the cache. Small ones are bundled: their state lies in common buffers, their
values and gradients are copied together, and one call of each ufunc serves all of them. The values
are the same either way.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from fusegrad.eager.autograd.views import count_writes
from fusegrad.eager.core.errors import failure, user_spot
from fusegrad.eager.core.interpreter import holders
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.shared import watching
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.optim.differentiable import step_group
from fusegrad.eager.optim.optimizer import Optimizer, ParameterGroup, scalar

BLOCK = 8192  # elements: a rule's arrays of this size fit the second-level cache
SMALL = 4096  # elements of the largest parameter that is bundled


class ElementwiseOptimizer(Optimizer):
    """Takes the steps; subclasses define what is kept and the rule.

    counted: whether the steps of each parameter are counted (`state["step"]`).
    advanced: the numbers kept for each parameter that `constants` changes, and nothing else.
    traced: whether `update` is ufuncs and writes of whole arrays, or where a mask is true, alone.
    bundled: whether parameters can share a call; not where numbers are kept for each.
    """

    counted = True
    advanced: tuple[str, ...] = ()
    traced = True
    bundled = True

    def slots(self, group: ParameterGroup) -> tuple[str, ...]:
        """The names of the arrays that are kept for each parameter."""
        return ()

    def initial(self, name: str, group: ParameterGroup) -> float:
        """What a kept array is filled with at first."""
        return 0.0

    def constants(self, group: ParameterGroup, step: float, kept: dict[str, Any], fresh: bool) -> Any:
        """What the rule needs besides arrays, computed once for a parameter (or a bundle, without `kept`)."""
        raise NotImplementedError

    def update(
        self,
        p: np.ndarray,
        g: np.ndarray,
        slots: Sequence[np.ndarray],
        constants: Any,
        a: np.ndarray,
        b: np.ndarray,
    ) -> None:
        """The rule: write new values into `p` and `slots`. `g` is only read; `a` and `b` are scratch."""
        raise NotImplementedError

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; gives what `closure` gives."""
        loss = self._evaluated(closure)
        if self._taken_over():
            return loss
        plans, spot = self.__dict__.setdefault("_plans", {}), user_spot()
        for number, group in enumerate(self.param_groups):
            if group.get("differentiable"):
                step_group(self, group)
                continue
            plan = plans.get(number)
            if plan is None or not plan.fits(self, group):
                plan = plans[number] = None  # which would hold the memory that the next one looks at
                plan = plans[number] = _Plan(self, group)
            plan.run(self, spot)
        return loss

    def started(self, parameter: Tensor, group: ParameterGroup, slots: Sequence[str]) -> bool:
        """Make the state of `parameter` where it is missing; whether it was."""
        if not slots and not self.counted:
            return False
        kept = self.state[parameter]
        fresh = False
        if self.counted and "step" not in kept:
            kept["step"] = scalar(0.0)
        for name in slots:
            if kept.get(name) is None:
                fresh = True
                array = np.empty(parameter.array.shape, parameter.array.dtype)
                _flat(array)[...] = self.initial(name, group)
                kept[name] = wrap(array)
            elif kept[name].array.shape != parameter.array.shape:
                raise failure(
                    RuntimeError,
                    f"the optimizer's state {name!r} has shape {list(kept[name].array.shape)}, its parameter "
                    f"{list(parameter.array.shape)}; give the new parameter to a new group",
                )
        return fresh


class _Plan:
    """How one group is stepped: which parameters are bundled, and which go alone."""

    def __init__(self, optimizer: ElementwiseOptimizer, group: ParameterGroup) -> None:
        self.group = group
        self.slots = optimizer.slots(group)
        self.parameters = list(group["params"])
        self.scratch: dict[np.dtype, tuple[np.ndarray, np.ndarray]] = {}
        alike: dict[Any, list[Tensor]] = defaultdict(list)
        if optimizer.bundled:
            kept = [optimizer.state.get(parameter, {}) for parameter in self.parameters]
            names = (*self.slots, "step") if optimizer.counted else self.slots
            free = _with_own_memory([k[name] for k in kept for name in names if k.get(name) is not None])
            for parameter in _apart(self.parameters):
                small = parameter.gradient is not None and parameter.array.size <= SMALL
                if small and self._can_move(optimizer, parameter, free):
                    alike[self._kind(optimizer, parameter)].append(parameter)
        chosen = {kind: members for kind, members in alike.items() if len(members) > 1}
        self.bundles = [_Bundle(optimizer, self, *entry) for entry in chosen.items()]
        together = {id(p) for members in chosen.values() for p in members}
        self.alone = [p for p in self.parameters if id(p) not in together]

    def _can_move(self, optimizer: ElementwiseOptimizer, parameter: Tensor, free: set[int]) -> bool:
        """Whether the state of a parameter may lie elsewhere: not if somebody else has its memory; it is of
        another dtype, as of a model which `float()` or `double()` made another one; or cannot be written.
        """
        kept = optimizer.state.get(parameter, {})
        states = [kept[name] for name in self.slots if kept.get(name) is not None]
        step = [kept["step"]] if optimizer.counted and "step" in kept else []
        if not free.issuperset(map(id, (*states, *step))):
            return False
        arrays = [tensor.array for tensor in states]
        return all(a.dtype == parameter.array.dtype and a.flags.writeable for a in arrays)

    def _kind(self, optimizer: ElementwiseOptimizer, parameter: Tensor) -> tuple[np.dtype, bool, float]:
        """What parameters of one bundle have in common: dtype, whether they are new, steps taken."""
        kept = optimizer.state.get(parameter, {})
        fresh = any(kept.get(name) is None for name in self.slots)
        count = kept["step"].array.item() if "step" in kept else 0.0
        return parameter.array.dtype, fresh, count

    def fits(self, optimizer: ElementwiseOptimizer, group: ParameterGroup) -> bool:
        """Whether the plan was made for this group as it is now."""
        parameters = group["params"]
        return (
            self.group is group
            and len(parameters) == len(self.parameters)
            and all(map(is_, parameters, self.parameters))
            and self.slots == optimizer.slots(group)
            and all(bundle.current(optimizer) for bundle in self.bundles)
        )

    def run(self, optimizer: ElementwiseOptimizer, spot: Any) -> None:
        """Step all parameters that have a gradient."""
        for bundle in self.bundles:
            if not bundle.run(optimizer, self, spot):
                for parameter, *_ in bundle.rows:
                    self.run_alone(optimizer, parameter, spot)
        for parameter in self.alone:
            self.run_alone(optimizer, parameter, spot)

    def run_alone(self, optimizer: ElementwiseOptimizer, parameter: Tensor, spot: Any) -> None:
        """Step one parameter, if it has a gradient."""
        if parameter.gradient is None:
            return
        array, gradient = parameter.array, _checked(parameter)
        fresh = optimizer.started(parameter, self.group, self.slots)
        kept = optimizer.state[parameter] if self.slots or optimizer.counted else {}
        step = 0.0
        if optimizer.counted:
            count_writes([kept["step"]], spot)
            count = kept["step"].array
            count += 1
            step = count.item()
        constants = optimizer.constants(self.group, step, kept, fresh)
        states = [kept[name] for name in self.slots]
        count_writes([parameter, *states, *[kept[name] for name in optimizer.advanced]], spot)
        arrays = [array, *(state.array for state in states)]
        flats = [_flat(a) for a in arrays]
        self.apply(optimizer, flats[0], _flat(gradient), flats[1:], constants)
        for original, flat in zip(arrays, flats, strict=True):
            if not original.flags.c_contiguous:
                original[...] = flat.view(original.dtype).reshape(original.shape)

    def apply(
        self,
        optimizer: ElementwiseOptimizer,
        p: np.ndarray,
        g: np.ndarray,
        slots: list[np.ndarray],
        constants: Any,
    ) -> None:
        """Run the rule, in blocks."""
        dtype = np.result_type(p, g, *slots)  # what is wider is rounded once, where it is written
        scratch = self.scratch.get(dtype)
        if scratch is None:
            scratch = self.scratch[dtype] = (np.empty(BLOCK, dtype), np.empty(BLOCK, dtype))
        a, b = scratch
        size = p.size
        if size <= BLOCK:
            optimizer.update(p, g, slots, constants, a[:size], b[:size])
            return
        for start in range(0, size, BLOCK):
            end = min(start + BLOCK, size)
            part, count = slice(start, end), end - start
            optimizer.update(p[part], g[part], [s[part] for s in slots], constants, a[:count], b[:count])


class _Bundle:
    """Small parameters of one dtype that are stepped together.

    rows: for each parameter what must still hold, and its places in the buffers.
    """

    def __init__(
        self,
        optimizer: ElementwiseOptimizer,
        plan: _Plan,
        kind: tuple[np.dtype, bool, float],
        parameters: list[Tensor],
    ) -> None:
        dtype, self.fresh, _ = kind
        total = sum(p.array.size for p in parameters)
        p, g = np.empty(total, dtype), np.empty(total, dtype)
        slots = [np.empty(total, dtype) for _ in plan.slots]
        self.p, self.g, self.slots = _flat(p), _flat(g), [_flat(s) for s in slots]
        self.steps = np.empty(len(parameters), scalar(0.0).array.dtype)
        self.rows: list[tuple[Any, ...]] = []
        start = 0
        for i, parameter in enumerate(parameters):
            array, part = parameter.array, slice(start, start + parameter.array.size)
            start = part.stop
            optimizer.started(parameter, plan.group, plan.slots)
            kept = optimizer.state[parameter] if plan.slots or optimizer.counted else {}
            moved = [(name, s[part].reshape(array.shape)) for name, s in zip(plan.slots, slots, strict=True)]
            if optimizer.counted:
                moved.append(("step", self.steps[i : i + 1].reshape(())))
            for name, view in moved:
                view[...] = kept[name].array
                kept[name].array = view
            views = [b[part].reshape(array.shape) for b in (p, g)]
            self.rows.append((parameter, array, kept, moved, *views))
        watching.moved()

    def current(self, optimizer: ElementwiseOptimizer) -> bool:
        """Whether parameters and state still are the arrays that the bundle was made for."""
        known = optimizer.state
        for parameter, array, kept, moved, _, _ in self.rows:
            if parameter.array is not array or (moved and known.get(parameter) is not kept):
                return False
            for name, view in moved:
                tensor = kept.get(name)
                if tensor is None or tensor.array is not view:
                    return False
        return True

    def run(self, optimizer: ElementwiseOptimizer, plan: _Plan, spot: Any) -> bool:
        """Step all parameters together; False, with nothing done, if they must go alone this time."""
        for parameter, array, _, _, values, gradients in self.rows:
            if parameter.gradient is None:
                return False
            np.copyto(gradients, _checked(parameter))
            np.copyto(values, array)
        step = 0.0
        if optimizer.counted:
            counts = self.steps.tolist()
            step = counts[0] + 1
            if counts.count(counts[0]) != len(counts):
                return False
        for parameter, _, kept, moved, _, _ in self.rows:
            count_writes([parameter, *[kept[name] for name, _ in moved]], spot)
        if optimizer.counted:
            self.steps += 1
        constants = optimizer.constants(plan.group, step, {}, self.fresh)
        self.fresh = False
        plan.apply(optimizer, self.p, self.g, self.slots, constants)
        for _, array, _, _, values, _ in self.rows:
            np.copyto(array, values)
        return True


def _checked(parameter: Tensor) -> np.ndarray:
    """The gradient's array, which must have the parameter's shape."""
    gradient: np.ndarray = parameter.gradient.array  # type: ignore[union-attr]
    if gradient.shape != parameter.array.shape:
        raise failure(
            RuntimeError,
            f"the gradient has shape {list(gradient.shape)}, its parameter {list(parameter.array.shape)}",
        )
    return gradient


def _flat(array: np.ndarray) -> np.ndarray:
    """The elements in one dimension, complex ones as pairs; `array`'s own memory where it is contiguous."""
    flat = array.reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _with_own_memory(states: list[Tensor]) -> set[int]:
    """The ids of those whose memory nothing has but `states`: views of others would be left behind."""
    arrays = [state.array for state in states]
    based = Counter([id(array.base) for array in arrays])
    bases = [*{id(array.base): array.base for array in arrays if array.base is not None}.values()]
    known = {id(base) for base, n in zip(bases, holders(bases), strict=True) if n == based[id(base)]}
    free = known & {id(base) for base in bases if isinstance(base, np.ndarray) and base.base is None}
    counted = zip(states, holders(arrays), strict=True)
    return {id(s) for s, n in counted if n == 1 and (s.array.base is None or id(s.array.base) in free)}


def _apart(parameters: list[Tensor]) -> list[Tensor]:
    """The parameters that share no memory with another one: the others must be written in turn."""
    bounds = [byte_bounds(p.array) if p.array.size else (0, 0) for p in parameters]
    order = sorted(range(len(parameters)), key=bounds.__getitem__)
    shared: set[int] = set()
    reach, holder = -1, -1
    for i in order:
        low, high = bounds[i]
        if low < reach:
            shared |= {i, holder}
        if high > reach:
            reach, holder = high, i
    return [p for i, p in enumerate(parameters) if i not in shared]


def unless_zero(number: float) -> float | None:
    """A number of a rule that is left out where it is 0: None.

    A rule that looks at the number itself is recorded for that number alone, and schedules change them.
    """
    return number or None


def direction(
    p: np.ndarray, g: np.ndarray, decay: float | None, maximize: bool, a: np.ndarray, b: np.ndarray
) -> np.ndarray:
    """The gradient with weight decay, negated to `maximize`: `g` itself, or made in `b` (`a` is scratch)."""
    if maximize:
        g = np.negative(g, out=b)
    if decay is not None:
        np.multiply(p, decay, out=a)
        g = np.add(g, a, out=b)
    return g


def average(mean: np.ndarray, value: np.ndarray, weight: float, a: np.ndarray) -> None:
    """Move a running `mean` towards `value` by the share `weight`."""
    np.subtract(value, mean, out=a)
    a *= weight
    mean += a


def average_gradient(mean: np.ndarray, g: np.ndarray, weight: float, a: np.ndarray) -> None:
    """The same of gradients, which PyTorch's rules ask to be of the dtype of the mean."""
    if mean.dtype != g.dtype:
        raise failure(
            RuntimeError,
            f"the optimizer keeps a mean of {mean.dtype}, and the gradient is {g.dtype} now: the parameter "
            "got another dtype after its first step; make a new optimizer for it, or convert the state",
        )
    average(mean, g, weight, a)


def shares(beta: Any) -> tuple[Any, Any]:
    """What a running mean keeps of itself, and what it takes of what is new."""
    return beta, 1 - beta


def average_square(square: np.ndarray, g: np.ndarray, shares: tuple[Any, Any], a: np.ndarray) -> None:
    """`square = beta * square + (1 - beta) * g * g`, of the `shares` of beta."""
    square *= shares[0]
    np.multiply(g, g, out=a)
    a *= shares[1]
    square += a
