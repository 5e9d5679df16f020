"""Sizes of a call, in LLVM IR: expressions in open sizes go in (`tracer/ir/symbolic_sizes.py`), and the lines
that compute them come out, as Python would.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, NamedTuple

from fusegrad.compiler.placement.kernel_arguments import number_bits
from fusegrad.eager.core.sizes import Symbol
from fusegrad.tracer.export.files import ExportError
from fusegrad.tracer.ir.parsing import expression_of

_ARITHMETIC = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_COMPARED = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge"}
_CHOSEN = {"min": "slt", "max": "sgt"}


class Bits(NamedTuple):
    """A number of a dtype, by its size as an expression, as the low bytes of an 8-byte place."""

    value: Symbol
    dtype: str


def bits(value: Any, dtype: str) -> Any:
    """The bits of a number, which may be an expression. Raises ExportError for dtypes that none is."""
    if not isinstance(value, Symbol):
        return number_bits(value, dtype)
    if dtype not in ("f32", "f64", "i32", "i64"):
        raise ExportError(f"export: an open size stands beside {dtype} tensors, which libraries cannot have")
    return Bits(value, dtype)


class SizeCode:
    """The lines that compute numbers at the head of a function, whose first parameters are the open sizes.

    names: those of the sizes in expressions. sizes: the parameters that they are. lines: so far.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.lines: list[str] = []
        self.sizes = [f"%s{i}" for i in range(len(names))]
        self._known: dict[Any, str] = dict(zip(names, self.sizes, strict=True))
        self._whole: list[str] = []  # divisors, as long as a condition is written

    def of(self, number: Any) -> str:
        """The operand that a number is."""
        if isinstance(number, int):
            return str(int(number))
        key = number if isinstance(number, Bits) else number.code
        if key not in self._known:
            self._known[key] = self._bits(number) if isinstance(number, Bits) else self._code(number.code)
        return self._known[key]

    def holds(self, conditions: Sequence[str]) -> str:
        """The truth of conditions, all of them; one that divides by nothing does not hold."""
        self._whole = []
        truths = [self._truth(expression_of(code)) for code in conditions]
        truths += [self._line(f"icmp ne i64 {divisor}, 0") for divisor in self._whole]
        found = "true"
        for truth in truths:
            found = self._line(f"and i1 {found}, {truth}")
        return found

    def _line(self, text: str) -> str:
        name = f"%z{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def _code(self, code: str) -> str:
        return self._whole_number(expression_of(code))

    def _truth(self, node: ast.expr) -> str:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._line(f"xor i1 {self._truth(node.operand)}, true")
        assert isinstance(node, ast.Compare) and len(node.ops) == 1, ast.dump(node)
        one, other = self._whole_number(node.left), self._whole_number(node.comparators[0])
        return self._line(f"icmp {_COMPARED[type(node.ops[0])]} i64 {one}, {other}")

    def _whole_number(self, node: ast.expr) -> str:
        text = ast.unparse(node)
        if text not in self._known:
            self._known[text] = self._computed(node)
        return self._known[text]

    def _computed(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return str(int(node.value))  # type: ignore[arg-type]
        if isinstance(node, ast.UnaryOp):
            assert isinstance(node.op, ast.USub), ast.dump(node)
            return self._line(f"sub i64 0, {self._whole_number(node.operand)}")
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name)
            found, *others = map(self._whole_number, node.args)
            for other in others:
                better = self._line(f"icmp {_CHOSEN[node.func.id]} i64 {found}, {other}")
                found = self._line(f"select i1 {better}, i64 {found}, i64 {other}")
            return found
        assert isinstance(node, ast.BinOp), ast.dump(node)
        one, other = self._whole_number(node.left), self._whole_number(node.right)
        if type(node.op) in _ARITHMETIC:
            return self._line(f"{_ARITHMETIC[type(node.op)]} i64 {one}, {other}")
        assert isinstance(node.op, (ast.FloorDiv, ast.Mod)), ast.dump(node)
        return self._divided(isinstance(node.op, ast.FloorDiv), one, other)

    def _divided(self, quotient: bool, one: str, other: str) -> str:
        """Towards minus infinity; a remainder has the divisor's sign."""
        self._whole.append(other)
        nothing = self._line(f"icmp eq i64 {other}, 0")
        divisor = self._line(f"select i1 {nothing}, i64 1, i64 {other}")
        rest = self._line(f"srem i64 {one}, {divisor}")
        uneven = self._line(f"icmp ne i64 {rest}, 0")
        signs = self._line(f"xor i64 {rest}, {divisor}")
        apart = self._line(f"icmp slt i64 {signs}, 0")
        below = self._line(f"and i1 {uneven}, {apart}")
        if not quotient:
            moved = self._line(f"add i64 {rest}, {divisor}")
            return self._line(f"select i1 {below}, i64 {moved}, i64 {rest}")
        whole = self._line(f"sdiv i64 {one}, {divisor}")
        return self._line(f"sub i64 {whole}, {self._line(f'zext i1 {below} to i64')}")

    def _bits(self, number: Bits) -> str:
        """A number, or a fraction of two, of a dtype."""
        node = expression_of(getattr(number.value, "code"))  # noqa: B009
        if number.dtype in ("i32", "i64"):
            return self._whole_number(node)
        real = self._real(node)
        if number.dtype == "f64":
            return self._line(f"bitcast double {real} to i64")
        narrow = self._line(f"fptrunc double {real} to float")
        low = self._line(f"bitcast float {narrow} to i32")
        return self._line(f"zext i32 {low} to i64")

    def _real(self, node: ast.expr) -> str:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return self._line(f"fdiv double {self._real(node.left)}, {self._real(node.right)}")
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.BinOp):
            return self._line(f"fneg double {self._real(node.operand)}")
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            return self._line(f"fadd double 0x0, {_real_text(node.value)}")
        return self._line(f"sitofp i64 {self._whole_number(node)} to double")


def _real_text(value: float) -> str:
    return f"0x{number_bits(value, 'f64') & (1 << 64) - 1:016X}"


def block_of(code: SizeCode, numbers: Sequence[Any], name: str, constant: str) -> list[str]:
    """The lines that make a block of numbers at `name`, of which some are expressions: a copy of `constant`,
    which has 0 there.
    """
    lines = [
        f"  {name} = alloca [{len(numbers)} x i64], align 16",
        f"  call void @llvm.memcpy.p0.p0.i64(ptr {name}, ptr {constant}, i64 {8 * len(numbers)}, i1 false)",
    ]
    for place, number in enumerate(numbers):
        if not isinstance(number, int):
            lines.append(f"  {name}.{place} = getelementptr i64, ptr {name}, i64 {place}")
            lines.append(f"  store i64 {code.of(number)}, ptr {name}.{place}")
    return lines
