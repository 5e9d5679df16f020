"""Writing ONNX nodes as arithmetic: a `Handle` is a typed value of the ONNX graph being built."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegrad.eager.core.sizes import Symbol, has_symbols
from fusegrad.tracer.export.files import ExportError
from fusegrad.tracer.export.open_sizes import OpenSizes
from fusegrad.tracer.ir.graph import Equation, source_text
from fusegrad.tracer.ir.parsing import expression_of

BOOL, INT32, INT64 = np.dtype(bool), np.dtype(np.int32), np.dtype(np.int64)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

# What onnxruntime computes on a CPU, by NumPy's dtype characters; float16 counts where it is run as
# float32. Ops that are not listed take every dtype.
_INTEGERS, _FLOATS = "Bbhil", "efd"
_SINGLE = "ef"
KERNELS: dict[str, str] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Mod", "Abs", "Sign"), _INTEGERS + _FLOATS),
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual"), _INTEGERS + _FLOATS),
    **dict.fromkeys(("Neg",), "bhil" + _FLOATS),
    **dict.fromkeys(("Max", "Min", "Where", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin"), "Bbil" + _FLOATS),
    **dict.fromkeys(("Pow", "MatMul", "ReduceSum", "ReduceProd"), "il" + _FLOATS),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"), _INTEGERS),
    **dict.fromkeys(
        ("Exp", "Log", "Sqrt", "Sin", "Cos", "Tanh", "Sigmoid", "Floor", "Ceil", "Round"), _FLOATS
    ),
    **dict.fromkeys(("IsNaN", "Reciprocal"), _FLOATS),
    **dict.fromkeys(("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Erf"), _SINGLE),
    **dict.fromkeys(("Conv", "ConvTranspose", "AveragePool", "Gelu", "Elu", "LeakyRelu", "Col2Im"), "f"),
    **dict.fromkeys(("Softmax", "LogSoftmax", "LayerNormalization", "Gemm"), "fd"),
    "ReduceMean": "ilfd",
    "MaxPool": "Bbfd",
    "IsInf": "fd",
    "TopK": "ilfd",
    "CumSum": "ilfd",
    "ScatterElements": _INTEGERS + "fd",
    "Relu": "bil" + _FLOATS,
    "Pad": "?Bbil" + _FLOATS,
}
_WIDER = {"?": "i", "B": "i", "b": "i", "h": "i", "i": "l", "e": "f"}
OPSET = 18  # onnxruntime 1.14 and later run it
SINCE = {"Gelu": 20, "Attention": 23}  # what later ones have
# The arithmetic of sizes.
_ARITHMETIC = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Mod: "Mod"}
ANSWERS = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "IsNaN", "IsInf"}


class Builder:
    """The nodes and initializers of one ONNX graph, in order.

    `at` says which equation the next nodes come from: it names them, gives them the user's line
    as their doc_string, and stands in errors.
    """

    def __init__(self, onnx: Any, sizes: OpenSizes | None = None, opset: int | None = None) -> None:
        """sizes: those that are told by the arguments when the file runs. opset: the version of the ops that
        the file may have; the least one that has them if None.
        """
        self.onnx, self.sizes = onnx, sizes
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._constants: dict[Any, Handle] = {}
        self._sizes: dict[str, Handle] = {}
        self.opset, self._may_grow = opset or OPSET, opset is None
        self._equation: Equation | None = None
        self._count = self._graphs = 0
        self._within = ""

    def at(self, equation: Equation) -> None:
        """The nodes that follow compute `equation`."""
        self._equation, self._count = equation, 0

    def node(
        self, kind: str, inputs: Sequence[Handle], dtype: np.dtype, place: int = 0, **attributes: Any
    ) -> Handle:
        """Append a node and give its output (of several, the one at `place`)."""
        if not self.has(kind):
            raise self.refuse(f"{kind} is there from opset {SINCE[kind]} on, and {self.opset} is asked for")
        self.opset = max(self.opset, SINCE.get(kind, OPSET))
        name = self._name(kind)
        outputs = [f"{name}/{i}" for i in range(place)] + [name]
        self._append(kind, [i.name for i in inputs], outputs, name, attributes)
        return Handle(self, name, dtype)

    def has(self, kind: str) -> bool:
        """Whether the file may have nodes of a kind."""
        return self._may_grow or SINCE.get(kind, OPSET) <= self.opset

    def _name(self, kind: str) -> str:
        equation = self._equation
        stem = equation.output.name if equation is not None and equation.outputs else "value"
        name = f"{self._within}{stem}/{kind}{self._count or ''}"
        self._count += 1
        return name

    def _append(self, kind: str, inputs: list[str], outputs: list[str], name: str, attributes: Any) -> None:
        made = self.onnx.helper.make_node(kind, inputs, outputs, name, **attributes)
        made.doc_string = source_text(self._equation.source) if self._equation is not None else ""
        self.nodes.append(made)

    def several(
        self, kind: str, inputs: Sequence[Handle | None], dtypes: Sequence[np.dtype], **attributes: Any
    ) -> list[Handle]:
        """Append a node with several outputs; an input that is None is left out."""
        name = self._name(kind)
        outputs = [f"{name}/{place}" for place in range(len(dtypes))]
        self._append(kind, ["" if i is None else i.name for i in inputs], outputs, name, attributes)
        return [Handle(self, output, dtype) for output, dtype in zip(outputs, dtypes, strict=True)]

    @contextlib.contextmanager
    def within(self) -> Iterator[list[Any]]:
        """Have the nodes of a graph within a node in a list of its own."""
        outside = self.nodes, self._sizes, self._within, self._equation, self._count
        self._graphs += 1
        self.nodes, self._sizes, self._within = [], dict(self._sizes), f"inner{self._graphs}."
        try:
            yield self.nodes
        finally:
            self.nodes, self._sizes, self._within, self._equation, self._count = outside

    def inner_name(self, name: str) -> str:
        """The name of a value in the graph that nodes are added to: it is there once in the whole file."""
        return self._within + name

    def constant(self, value: Any, dtype: np.dtype) -> Handle:
        """An initializer with `value`; equal ones are shared. A size that is open is computed, and so is a
        list with such sizes.
        """
        if isinstance(value, Symbol):
            return self._size(value).to(dtype).shaped("Reshape", [])
        if isinstance(value, (list, tuple)) and has_symbols(tuple(value)):
            parts = [self._size(n) if isinstance(n, Symbol) else self.constant([n], INT64) for n in value]
            return self.node("Concat", parts, INT64, axis=0).to(dtype)
        array = np.asarray(value).astype(dtype)
        key = (array.tobytes(), array.dtype.char, array.shape)
        if key not in self._constants:
            self._constants[key] = self.initializer(f"constant/{len(self._constants)}", array)
        return self._constants[key]

    def _size(self, size: Any) -> Handle:
        """An open size as a list of one number."""
        if size.code not in self._sizes:
            self._sizes[size.code] = self._computed(expression_of(size.code))
        return self._sizes[size.code]

    def _computed(self, code: ast.expr) -> Handle:
        """What an expression in open sizes comes to: integers, and float64 once it divides."""
        if isinstance(code, ast.Name):
            return self._told(code.id)
        if isinstance(code, ast.Constant):
            return self.constant([code.value], INT64)
        if isinstance(code, ast.UnaryOp):
            return self._computed(code.operand).node("Neg")
        assert isinstance(code, ast.BinOp), ast.dump(code)
        x, y = self._computed(code.left), self._computed(code.right)
        if isinstance(code.op, ast.Div):
            return x.to(FLOAT64) / y.to(FLOAT64)
        if isinstance(code.op, ast.FloorDiv):
            return (x - x.node("Mod", y)) / y
        return x.node(_ARITHMETIC[type(code.op)], y)

    def _told(self, name: str) -> Handle:
        """A size as an argument tells it."""
        assert self.sizes is not None
        value, axis = self.sizes.places[self.sizes.sizes.names.index(name)]
        return self.node("Shape", [Handle(self, value.name, value.dtype)], INT64, start=axis, end=axis + 1)

    def initializer(self, name: str, array: np.ndarray) -> Handle:
        """Data of the file under a name."""
        self.initializers.append(
            self.onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        )
        return Handle(self, name, array.dtype)

    def rename(self, handle: Handle, name: str) -> Handle:
        """`handle` under the name by which later equations know it."""
        fresh = "/" in handle.name and self.nodes and self.nodes[-1].output[0] == handle.name
        if not fresh:
            handle = self.node("Identity", [handle], handle.dtype)
        self.nodes[-1].output[0] = name
        return Handle(self, name, handle.dtype)

    def refuse(self, why: str) -> ExportError:
        """An error about the present equation: its op, why it cannot be written, the user's line."""
        equation = self._equation
        assert equation is not None
        where = f"\n  in {source_text(equation.source)}" if equation.source else ""
        return ExportError(f"export: the op {equation.op.name} cannot be written as ONNX: {why}{where}")


@dataclass(frozen=True, eq=False)
class Handle:
    """A value of the ONNX graph. Operators append nodes; numbers become initializers of its dtype."""

    builder: Builder
    name: str
    dtype: np.dtype

    def node(self, kind: str, *others: Any, **attributes: Any) -> Handle:
        """`kind` on this value and others of its dtype, computed wider where no kernel takes it so."""
        dtype = self.computed(kind)
        inputs = [self.like(self).to(dtype), *(self.like(o).to(dtype) for o in others)]
        if kind in ANSWERS:
            return self.builder.node(kind, inputs, BOOL, **attributes)
        return self.builder.node(kind, inputs, dtype, **attributes).to(self.dtype)

    def computed(self, kind: str) -> np.dtype:
        """The dtype that `kind` is computed in: this value's, or a wider one that has a kernel."""
        supported, dtype = KERNELS.get(kind), self.dtype
        while supported is not None and dtype.char not in supported:
            if dtype.char not in _WIDER:
                raise self.builder.refuse(
                    f"onnxruntime has no {kind} for {dtype.name}; convert to float32 before it, with .float()"
                )
            dtype = np.dtype(_WIDER[dtype.char])
        return dtype

    def shaped(self, kind: str, *numbers: Any, **attributes: Any) -> Handle:
        """A node whose further inputs are lists of integers (a shape, axes, starts)."""
        lists = [self.builder.constant(list(n), INT64) for n in numbers]
        dtype = self.computed(kind)
        return self.builder.node(kind, [self.to(dtype), *lists], dtype, **attributes).to(self.dtype)

    def to(self, dtype: np.dtype) -> Handle:
        """The value converted."""
        if dtype == self.dtype:
            return self
        code = self.builder.onnx.helper.np_dtype_to_tensor_dtype(dtype)
        return self.builder.node("Cast", [self], dtype, to=code)

    def like(self, other: Any) -> Handle:
        """`other` as a handle; a number gets this value's dtype."""
        return other if isinstance(other, Handle) else self.builder.constant(other, self.dtype)

    def where(self, yes: Any, no: Any) -> Handle:
        """`yes` where this value (a truth value) holds, else `no`; one of the two is a handle."""
        known = yes if isinstance(yes, Handle) else no
        dtype = known.computed("Where")
        inputs = [self, known.like(yes).to(dtype), known.like(no).to(dtype)]
        return self.builder.node("Where", inputs, dtype).to(known.dtype)

    def both(self, other: Handle) -> Handle:
        return self.builder.node("And", [self, other], BOOL)

    def differs(self, other: Handle) -> Handle:
        """Exclusive or of two truth values."""
        return self.builder.node("Xor", [self, other], BOOL)

    def negated(self) -> Handle:
        return self.builder.node("Not", [self], BOOL)

    def equals(self, other: Any) -> Handle:
        return self.node("Equal", other)

    def __add__(self, other: Any) -> Handle:
        return self.node("Add", other)

    def __sub__(self, other: Any) -> Handle:
        return self.node("Sub", other)

    def __mul__(self, other: Any) -> Handle:
        return self.node("Mul", other)

    def __truediv__(self, other: Any) -> Handle:
        return self.node("Div", other)

    def __rtruediv__(self, other: Any) -> Handle:
        return self.like(other).node("Div", self)

    def __lt__(self, other: Any) -> Handle:
        return self.node("Less", other)

    def __gt__(self, other: Any) -> Handle:
        return self.node("Greater", other)
