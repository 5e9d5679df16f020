"""Loop distribution: rolled loops go in; what need not be computed round by round leaves them.

A round multiplies what it is handed, and rows of what the loop reads. The latter is one product for all
rounds, in front of the loop. A sum of products that rounds add up is one product behind the loop, of what is
joined along the dimension that is summed over; and so is what leaves the loop in rows and no round reads:

    y = x[t] @ w + h @ u                    y0 = x @ w;  y = y0[t] + h @ u
    sum = sum + h.T @ g             is      the rows of h and g are kept;  sum = cat(h).T @ cat(g)
    out[t] = g @ v                          the rows of g are kept;  out = cat(g) @ v

In the loop that goes back, what the rounds of the loop itself do follows from rows: of what each was handed.
So its products leave, too, and what these are computed from; the rest stays, where it is part of kernels.

Source: loop distribution with scalar expansion, and invariant code motion (Allen and Kennedy, Optimizing
Compilers for Modern Architectures, 2001, sections 5.3 and 6.2).
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from fusegrad.compiler.fuse.iteration_domain import is_creation
from fusegrad.eager.core.abstract import interpreted
from fusegrad.eager.core.families import Elementwise, View
from fusegrad.eager.core.op import REGISTRY, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.batches.rules import Call, rule_of
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.differentiate import Builder
from fusegrad.tracer.ir.graph import Equation, Graph, Value, ancestors, identifier
from fusegrad.tracer.ir.rolled import MOST_KEPT, ROLLED, Body, loop

# Shorter numbers are rounded after each product, longer ones are whole.
_SINGLE_OR_DOUBLE = "fdFD"
# What a value of a round follows from: what all rounds read alone; rows, too; what the round was handed.
_SAME, _ROW, _HANDED = range(3)
_ADD, _MATMUL, _PERMUTE, _CLONE = (REGISTRY[name] for name in ("add", "matmul", "permute", "clone"))
# What is computed of the rows of all rounds as of those of each.
_FAMILIES, _OTHERS = (
    frozenset({"elementwise", "reduction", "contraction", "view"}),
    frozenset({"cat", "embed"}),
)


def distributed(graph: Graph) -> Graph:
    """The graph with its loops distributed where that pays."""
    if not any(map(_may_be, graph.equations)):
        return graph
    graph = passes.dead_code(graph)
    names = graph.names()
    equations: list[Equation] = []
    for equation in graph.equations:
        equations += _Distribution(equation, names).equations() if _may_be(equation) else [equation]
    if len(equations) == len(graph.equations) and all(map(operator.is_, equations, graph.equations)):
        return graph
    graph = Graph(graph.inputs, tuple(equations), graph.outputs)
    return passes.dead_code(passes.common_subexpressions(graph))


def _may_be(equation: Equation) -> bool:
    """Whether it is a loop that is not compiled yet, of tensors whose sizes are known, without checks."""
    if equation.op is not ROLLED or equation.params["body"].is_compiled:
        return False
    if equation.params["body"].graph.guards():
        return False
    return not any(has_symbols(v.shape) for v in (*equation.values(), *equation.outputs))


class _Distribution:
    """One loop, and what leaves it.

    all_rounds: what stands for values of a round outside of the loop, the same for all or one row for each.
    left: the values that no round computes any more. kept: those that leave in rows besides what did so.
    """

    def __init__(self, equation: Equation, names: set[str]) -> None:
        self.loop, self.names = equation, names
        params = equation.params
        self.rounds, self.carried, self.rows = params["rounds"], params["carried"], params["rows"]
        self.graph = graph = passes.optimise(params["body"].graph)
        self.made = {v: e for e in graph.equations for v in e.outputs}
        self.users = graph.users()
        self.returned = Counter(graph.outputs)
        self.kinds = _kinds(graph, self.carried, self.rows)
        self.names_within = {v.name for v in (*graph.inputs, *self.made)}
        self.builder = Builder(names, "spread")
        self._before: dict[Value, set[Value]] = {}
        self.all_rounds: dict[Value, Tensor] = {}
        self.left = {v for v in graph.inputs[: self.carried] if self.kinds[v] == _SAME}
        self.kept: dict[Value, Value] = {}
        self.bytes = 0

    def equations(self) -> list[Equation]:
        """What is computed in front of the loop, the loop, and what is computed behind it."""
        interpreted(self.builder, self._lift)
        self._take_out_products()
        self._take_out_what_stays_the_same()
        in_front, self.builder.equations = self.builder.equations, []
        behind = _Behind(self)
        interpreted(self.builder, behind.find)
        if not (self.left or behind.results):
            return [self.loop]
        rest = behind.loop()
        return [*in_front, *([rest] if rest.outputs else []), *behind.equations()]

    def _lift(self) -> None:
        """Put down, of all that does not follow from what rounds are handed, what it is in all of them."""
        for value, outer in zip(self.graph.inputs, self.loop.inputs, strict=True):
            if self.kinds[value] != _HANDED:
                self.all_rounds[value] = self.builder.tensor(outer)
        for equation in self.graph.equations:
            kind = self.kinds[equation.outputs[0]] if equation.outputs else _HANDED
            if kind != _HANDED and all(v in self.all_rounds for v in equation.values()):
                self.builder.source = equation.source
                made = self.over_all_rounds(equation)
                if made is not None:
                    self.all_rounds[equation.output] = made
        self.builder.source = None

    def over_all_rounds(self, equation: Equation) -> Tensor | None:
        """What the equation gives in all rounds, of operands that are known for all."""
        args = [self.all_rounds[v] if isinstance(v, Value) else v for v in equation.inputs]
        are_rows = [isinstance(v, Value) and self.kinds[v] == _ROW for v in equation.inputs]
        if any(are_rows):
            return lifted(equation, args, are_rows, self.rounds)
        single: Tensor | None = None
        if len(equation.outputs) == 1:
            single = bind(equation.op, tuple(args), dict(equation.params))
        return single

    def _take_out_products(self) -> None:
        """Products of rows with what is the same for all, and what the rows are computed from."""
        for equation in self.graph.equations:
            if equation.op is not _MATMUL or equation.output not in self.all_rounds:
                continue
            kinds = sorted(self.kinds[v] for v in equation.values())
            if kinds == [_SAME, _ROW]:
                self._take_out(equation.output)
        for equation in self.graph.equations:
            if self._hands_on_less(equation):
                self.left.add(equation.output)

    def _take_out(self, value: Value) -> None:
        """Have no round compute a value, nor what it follows from, if there is memory for their rows."""
        more = self.before(value) - self.left
        if self.affords(more):
            self.bytes += self._bytes(more)
            self.left |= more

    def before(self, value: Value) -> set[Value]:
        """The value and all that it follows from, of what rounds compute and is not the same for all."""
        if value not in self._before:
            found = ancestors(self.graph.equations, [value])
            self._before[value] = {v for v in found if v in self.made and self.kinds[v] == _ROW}
        return self._before[value]

    def affords(self, values: Iterable[Value]) -> bool:
        """Whether there is memory for rows of these as well."""
        return self.bytes + self._bytes(values) <= MOST_KEPT

    def _bytes(self, values: Iterable[Value]) -> int:
        stored = [v for v in values if v not in self.made or not isinstance(self.made[v].op, View)]
        return int(self.rounds * sum(map(size, stored)))

    def _hands_on_less(self, equation: Equation) -> bool:
        """Whether an equation reads rows that have left, which nothing else reads, and gives no more."""
        if not isinstance(equation.op, Elementwise) or equation.output not in self.all_rounds:
            return False
        rows = {v for v in equation.values() if self.kinds[v] == _ROW}
        if not rows or not all(v in self.left and self.is_read_once(v) for v in rows):
            return False
        return size(equation.output) <= sum(map(size, rows))

    def _take_out_what_stays_the_same(self) -> None:
        """What is more to do than a part of a kernel, and gives the same in all rounds."""
        for equation in self.graph.equations:
            if isinstance(equation.op, (Elementwise, View)) or is_creation(equation):
                continue
            if equation.outputs and all(
                v in self.all_rounds and self.kinds[v] == _SAME for v in equation.outputs
            ):
                self.left.add(equation.output)

    def is_read_once(self, value: Value) -> bool:
        """Whether one equation reads a value, and the loop does not give it."""
        return len(self.users.get(value, ())) == 1 and not self.returned[value]

    def fresh(self, value: Value, rows: bool) -> Value:
        """A value of the graph that the loop stands in, for one of a round or for its rows."""
        name = identifier(f"{value.name}_{'rows' if rows else 'rest'}", self.names)
        self.names.add(name)
        return Value(name, TensorType((self.rounds, *value.shape), value.dtype) if rows else value.type)


class _Behind:
    """What is computed behind a loop, and the loop that is left.

    results: what stands for outputs of the loop. handed: what rounds still hand on: its place, its value, and
    what has it after the last one. more: sums without what has left them. leaving: what leaves in rows.
    """

    def __init__(self, distribution: _Distribution) -> None:
        self.of = distribution
        self.results: list[tuple[Tensor, Value]] = []
        self.handed: list[tuple[int, Value, Value]] = []
        self.leaving: list[tuple[Value, Value]] = []
        self.more: list[Equation] = []

    def find(self) -> None:
        """Find what leaves the loop behind it."""
        of = self.of
        graph, outputs = of.graph, of.loop.outputs
        later = []
        for value, output in zip(graph.outputs[of.carried :], outputs[of.carried :], strict=True):
            if of.kinds[value] == _ROW and value in of.all_rounds and of.affords(of.before(value)):
                self.results.append((of.all_rounds[value], output))
            elif self._product(value) is not None:
                later.append((value, output))
            else:
                self._leaves(value, output)
        for place, (given, made) in enumerate(zip(graph.inputs[: of.carried], graph.outputs, strict=False)):
            if of.kinds[given] == _SAME:
                self.results.append((of.all_rounds[given], outputs[place]))
            elif not self._sum(place):
                self.handed.append((place, made, outputs[place]))
        for value, output in later:
            made = self._product_of_rows(value)
            if made is None:
                self._leaves(value, output)
            else:
                self.results.append((made, output))

    def _leaves(self, value: Value, output: Value) -> None:
        self.leaving.append((value, output))
        self.of.kept.setdefault(value, output)

    # Sums.

    def _sum(self, place: int) -> bool:
        """Whether products leave the sum that is handed on at a place."""
        of = self.of
        start, total = of.graph.inputs[place], of.graph.outputs[place]
        terms = self._terms(start, total)
        found = {}
        for term in terms:
            is_once = terms.count(term) == 1 and of.is_read_once(term)
            product = self._sum_over_rounds(term) if is_once else None
            if product is not None:
                found[term] = product
        if not found:
            return False
        rest = [t for t in terms if t not in found and t is not start]
        before = of.loop.inputs[place]
        if rest:
            now = start
            for number, term in enumerate(rest):
                value = Value(identifier(f"{total.name}_rest{number}", of.names_within), total.type)
                self.more.append(Equation(_ADD, (now, term), {}, (value,), of.made[total].source))
                now = value
            before = of.fresh(total, rows=False)
            self.handed.append((place, now, before))
        result = of.builder.tensor(before)
        for product in found.values():
            result = result + product
        self.results.append((result, of.loop.outputs[place]))
        return True

    def _terms(self, start: Value, total: Value) -> list[Value]:
        """What a round adds to `start`, and that itself; nothing if it does something else with it."""
        of = self.of
        is_read = of.users.get(total) or of.returned[total] != 1 or not of.is_read_once(start)
        if is_read or total.dtype.char not in _SINGLE_OR_DOUBLE:
            return []
        terms, open_ = [], [total]
        while open_:
            value = open_.pop()
            made = of.made.get(value)
            if made is None or made.op is not _ADD or not _are(made.inputs, total.type):
                terms.append(value)
            elif value is total or of.is_read_once(value):
                open_ += reversed(made.inputs)
            else:
                terms.append(value)
        return terms if terms.count(start) == 1 else []

    def _sum_over_rounds(self, term: Value) -> Tensor | None:
        """The sum of what a term is in all rounds, if that is a product, or a product's view or multiple."""
        of = self.of
        made = of.made.get(term)
        if made is None or of.kinds[term] == _SAME or of.returned[term]:
            return None
        if not all(isinstance(e.op, View) or e.op in (_ADD, _MATMUL) for e in of.users[term]):
            return None  # it is computed in the rounds anyway
        if isinstance(made.op, View):
            inner = self._sum_over_rounds(made.inputs[0])
            return None if inner is None else bind(made.op, (inner,), dict(made.params))
        if made.op is not _MATMUL or not _are_matrices(*made.inputs):
            return None
        left, right = made.inputs
        for place, factor in enumerate(made.inputs):
            if self._is_same(factor):
                inner = self._sum_over_rounds(left if place else right)
                operands = (inner, of.all_rounds[factor]) if place else (of.all_rounds[factor], inner)
                return None if inner is None else bind(_MATMUL, operands, {})
        if not self._keeps((left, right), 2 * size(term)):
            return None
        rows, turned = self._rows(right), self._turned_rows(left)
        return None if rows is None or turned is None else sum_of_products(turned, rows)

    # Products that leave in rows.

    def _product_of_rows(self, value: Value) -> Tensor | None:
        """What leaves in rows, if it is a product of what may be kept and of what is the same for all."""
        found = self._product(value)
        if found is None:
            return None
        product, views = found
        are_rows = [not self._is_same(v) for v in product.inputs]
        rows = [v for v, is_row in zip(product.inputs, are_rows, strict=True) if is_row]
        if len(rows) == 2 or not self._keeps(rows, 4 * size(value)):
            return None
        known = self.of.all_rounds
        operands = [self._rows(v) if v in rows else known[v] for v in product.inputs]
        made = lifted(product, operands, are_rows, self.of.rounds)
        for view in views:
            made = None if made is None else lifted(view, (made,), (True,), self.of.rounds)
        return made

    def _product(self, value: Value) -> tuple[Equation, list[Equation]] | None:
        """The product that a value is, which no round reads, and the views through which it is seen."""
        of, views = self.of, []
        if of.users.get(value) or of.returned[value] != 1:
            return None
        made = of.made.get(value)
        while made is not None and isinstance(made.op, View) and of.is_read_once(made.inputs[0]):
            views.append(made)
            made = of.made.get(made.inputs[0])
        return (made, views[::-1]) if made is not None and made.op is _MATMUL else None

    # Rows.

    def _keeps(self, values: Collection[Value], bytes_: int) -> bool:
        """Whether rows of values can be had for so many bytes more in each round, and there is memory."""
        of = self.of
        new = {base for v in values if (base := self._base(v)) not in of.kept and not self._is_known(base)}
        return sum(map(size, new)) <= bytes_ and of.affords(new)

    def _base(self, value: Value) -> Value:
        """What a value is a view of."""
        of = self.of
        while not self._is_known(value) and value in of.made and isinstance(of.made[value].op, View):
            value = of.made[value].inputs[0]
        return value

    def _is_known(self, value: Value) -> bool:
        of = self.of
        is_row = of.kinds[value] == _ROW and value in of.all_rounds
        return is_row and (value not in of.made or of.affords(of.before(value) - of.left))

    def _is_same(self, value: Value) -> bool:
        return self.of.kinds[value] == _SAME and value in self.of.all_rounds

    def _rows(self, value: Value) -> Tensor | None:
        """The rows of a value, which leave the loop if they have to."""
        of = self.of
        if self._is_known(value):
            return of.all_rounds[value]
        if of.kinds[value] == _SAME:
            return None
        if value not in of.kept and value in of.made and isinstance(of.made[value].op, View):
            view = of.made[value]
            rows = self._rows(view.inputs[0])
            return None if rows is None else lifted(view, (rows,), (True,), of.rounds)
        if value not in of.kept:
            of.bytes += of.rounds * size(value)
            of.kept[value] = of.fresh(value, rows=True)
            self.leaving.append((value, of.kept[value]))
        rows_: Tensor = of.builder.tensor(of.kept[value])
        return rows_

    def _turned_rows(self, value: Value) -> Tensor | None:
        """The rows of a value, its matrices turned: of one that was turned in the round, as they were."""
        made = self.of.made.get(value)
        if made is not None and made.op is _PERMUTE:
            return self._rows(made.inputs[0])
        rows = self._rows(value)
        return None if rows is None else transposed(rows)

    # What comes of it.

    def loop(self) -> Equation:
        """The loop without what has left it."""
        of = self.of
        given = [*[v for _, v, _ in self.handed], *[v for v, _ in self.leaving]]
        rounds = [e for e in of.graph.equations if of.left.isdisjoint(e.outputs)] + self.more
        read = ancestors(rounds, given)
        inputs, row_inputs = of.graph.inputs, of.carried + of.rows
        extra = [v for v in (*inputs[: of.carried], *of.made) if v in read and v in of.left]
        rows, others = ([v for v in extra if of.kinds[v] == kind] for kind in (_ROW, _SAME))
        taken = [inputs[i] for i, _, _ in self.handed]
        taken += [*inputs[of.carried : row_inputs], *rows, *inputs[row_inputs:], *others]
        outer = of.loop.inputs
        operands = [outer[i] for i, _, _ in self.handed]
        operands += [*outer[of.carried : row_inputs], *[of.builder.value(of.all_rounds[v]) for v in rows]]
        operands += [*outer[row_inputs:], *[of.builder.value(of.all_rounds[v]) for v in others]]
        used = tuple([e for e in rounds if not read.isdisjoint(e.outputs)])
        body = Body(Graph(tuple(taken), used, tuple(given)))
        outputs = [*[o for _, _, o in self.handed], *[o for _, o in self.leaving]]
        params = loop(body, of.rounds, len(self.handed), of.rows + len(rows), of.loop.params["backwards"])
        return Equation(ROLLED, tuple(operands), params, tuple(outputs), of.loop.source)

    def equations(self) -> list[Equation]:
        """What is computed behind the loop; what stands for its outputs has their names."""
        builder = self.of.builder
        equations = list(builder.equations)
        for tensor, output in self.results:
            equations.append(Equation(_CLONE, (builder.value(tensor),), {}, (output,), self.of.loop.source))
        return equations


def _kinds(graph: Graph, carried: int, rows: int) -> dict[Value, int]:
    """What each value of a round follows from."""
    unchanged = [now is new for now, new in zip(graph.inputs[:carried], graph.outputs, strict=False)]
    given = [_SAME if same else _HANDED for same in unchanged] + [_ROW] * rows
    given += [_SAME] * (len(graph.inputs) - len(given))
    kinds = dict(zip(graph.inputs, given, strict=True))
    for equation in graph.equations:
        stays = equation.op is ROLLED or equation.op.family == "random"
        kind = _HANDED if stays else max((kinds[v] for v in equation.values()), default=_SAME)
        kinds.update(dict.fromkeys(equation.outputs, kind))
    return kinds


def lifted(equation: Equation, args: Sequence[Any], are_rows: Sequence[bool], rounds: int) -> Tensor | None:
    """What the equation gives in all rounds, one behind the other: what it is for a batch of them (`vmap`);
    None where no rule says it.

    args: its operands, of which those in `are_rows` have a first dimension for the rounds.
    """
    op = equation.op
    if (op.family not in _FAMILIES and op.name not in _OTHERS) or not any(are_rows):
        return None
    call = Call(op, [*args], [*are_rows], dict(equation.params), rounds)
    rule = rule_of(call)
    made: Tensor | None = None if rule is None else rule(call)
    return made


def sum_of_products(left_transposed: Tensor, right: Tensor) -> Tensor:
    """The sum of the products of so many matrices: [n, k, l] and [n, k, m] give [l, m]."""
    left, right = (ops.flatten(t, 0, 1) for t in (left_transposed, right))
    return ops.permute(left, (1, 0)) @ right


def transposed(rows: Tensor) -> Tensor:
    """The rows with their matrices transposed."""
    return ops.permute(rows, (0, 2, 1))


def size(value: Value) -> int:
    """In bytes."""
    return math.prod(value.shape) * value.dtype.itemsize


def _are(operands: Iterable[Any], type_: TensorType) -> bool:
    return all(isinstance(v, Value) and v.type == type_ for v in operands)


def _are_matrices(*operands: Any) -> bool:
    return all(isinstance(v, Value) and len(v.shape) == 2 for v in operands)
