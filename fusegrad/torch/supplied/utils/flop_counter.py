"""`torch.utils.flop_counter`: how many floating point operations products and convolutions do."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.op import evaluate
from fusegrad.eager.core.state import Interpreter, state
from fusegrad.eager.nn.hooks import register_module_forward_hook, register_module_forward_pre_hook
from fusegrad.eager.nn.module import Module

__all__ = ["FlopCounterMode"]


def _product(x: Any, y: Any, out: Any) -> tuple[str, int]:
    """As `aten.mm` counts; products with vectors, which have ops of their own there, are not counted."""
    if len(x) < 2 or len(y) < 2:
        return "", 0
    return "aten.mm" if len(y) == 2 else "aten.bmm", 2 * math.prod(out) * x[-1]


def _with_bias(x: Any, weight: Any, out: Any) -> tuple[str, int]:
    return "aten.addmm", 2 * math.prod(out) * x[-1]


def _convolution(x: Any, weight: Any, out: Any) -> tuple[str, int]:
    return "aten.convolution", 2 * x[0] * math.prod(out[2:]) * math.prod(weight)


def _transposed(x: Any, weight: Any, out: Any) -> tuple[str, int]:
    return "aten.convolution", 2 * x[0] * math.prod(x[2:]) * math.prod(weight)


def _of_weight(x: Any, gradient: Any, out: Any) -> tuple[str, int]:
    """The gradient of a convolution's weight, which PyTorch counts as if there were no groups."""
    return "aten.convolution_backward", 2 * math.prod(x[:2]) * math.prod(gradient[1:]) * math.prod(out[2:])


_COUNTED: dict[str, Callable[..., tuple[str, int]]] = {
    "matmul": _product, "linear": _with_bias, "convolution": _convolution, "convolution_bias": _convolution,
    "conv_transpose": _transposed, "conv_transpose_bias": _transposed, "conv_weight": _of_weight,
    "addmm": lambda bias, x, y, out: _with_bias(x, y, out),
}  # fmt: skip


class _Counting(Interpreter):
    """Evaluates ops, and counts what they do."""

    def __init__(self, counter: FlopCounterMode) -> None:
        self.counter = counter

    def bind(self, op: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        result = evaluate(op, args, params)
        count = _COUNTED.get(op.name)
        if count is not None:
            shapes = [arg.shape for arg in args]
            # Of a product with a bias the bias comes last, but for `addmm`.
            name, flops = count(*(shapes if op.name == "addmm" else shapes[:2]), result.shape)
            if op.name == "linear" and len(args) == 2:
                name = "aten.mm"
            for module in {"Global", *self.counter.within} if flops else ():
                self.counter.flop_counts[module][name] += flops
        return result


class FlopCounterMode:
    """Counts for a `with` what products and convolutions do, in all and by module.

    What backward does counts in all alone. Source: `torch.utils.flop_counter.FlopCounterMode`. Raises
    NotImplementedError for a `custom_mapping`, and in functions that are recorded.

    >>> import fusegrad as fg
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = fg.nn.Linear(3, 4)(fg.ones(2, 3))
    >>> counter.get_total_flops()
    48
    """

    def __init__(
        self, mods: Any = None, depth: int | None = 2, display: bool = True, custom_mapping: Any = None
    ) -> None:
        if custom_mapping:
            raise NotImplementedError(
                "FlopCounterMode counts by no rules of others: leave custom_mapping out"
            )
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.within: list[str] = []
        self._names: dict[int, str] = {}

    def get_total_flops(self) -> int:
        """All that was counted."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """What was counted, by module and op; all of it as `Global`."""
        return {module: dict(counts) for module, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """What was counted, as text: modules as deep as `depth`. Raises ImportError without `tabulate`."""
        import tabulate

        depth = depth or self.depth or len(self.flop_counts) + 1
        total = self.get_total_flops()
        rows = []
        for module in sorted(self.flop_counts, key=lambda name: (name != "Global", name)):
            level = module.count(".") + 1
            if level <= depth:
                counts = self.flop_counts[module]
                parts = {" " * level + module: sum(counts.values())}
                parts |= {f"{' ' * level} - {op}": count for op, count in counts.items()}
                rows += [[name, f"{n:,}", f"{n / max(total, 1):.2%}"] for name, n in parts.items()]
        heads = ["Module", "FLOP", "% Total"]
        return str(
            tabulate.tabulate(rows or [["Global", "0", "0%"]], heads, colalign=("left", "right", "right"))
        )

    def __enter__(self) -> FlopCounterMode:
        if state.interpreter is not None:
            raise NotImplementedError("FlopCounterMode counts outside of functions that are recorded")
        self.flop_counts.clear()
        self._names.clear()
        self._hooks = [
            register_module_forward_pre_hook(self._begins),
            register_module_forward_hook(self._ends, always_call=True),
        ]
        state.interpreter = _Counting(self)
        return self

    def __exit__(self, *error: Any) -> None:
        state.interpreter = None
        for hook in self._hooks:
            hook.remove()
        self.within.clear()
        if self.display:
            print(self.get_table(self.depth))

    def _begins(self, module: Module, args: Any) -> None:
        name = self._names.setdefault(id(module), type(module).__name__)
        for child, inner in module.named_children():
            self._names[id(inner)] = f"{name}.{child}"
        self.within.append(name)

    def _ends(self, module: Module, args: Any, output: Any) -> None:
        self.within.pop()
