"""Steps for Python numbers that are others at each call: symbols go in, lines that compute them come out.

    symbol0 = place.find()                        self.step
    if not (type(symbol0) is int): return MISSED
    symbol1 = symbol0 / 20
    symbol2 = symbol1 < 1                         `if self.step / 20 < 1:` was true when it was recorded
    if not (symbol2 is True): return MISSED
    kept0 = array(leaf1 * symbol1, float32)

They are Python's own functions, called as they are called in the function itself. Where one raises, or gives
a number of another class, the call is not answered.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from fusegrad.compiler.call_plan.expressions import Call, Constant, Expression, Name, same
from fusegrad.compiler.call_plan.steps import Ask, Assign, Attempt, Step, Unless
from fusegrad.tracer.observe.hosts import Host
from fusegrad.tracer.observe.symbols import ANYTHING, Computed, Given, Outcome, Scalar, Symbol
from fusegrad.tracer.observe.world.ahead import Asks
from fusegrad.tracer.record.scalars import bound_of

RAISES = "a Python number is gone, or cannot be computed"
ANOTHER_CLASS = "a Python number is of another class"
OTHER_ITEM = "what an iterator gives is of another kind"
TOO_LARGE = "a Python number is too large for the dtype that it is computed with in"


class NumberSteps:
    """Makes steps. names: the variables of symbols, which it adds to."""

    def __init__(self, names: dict[Symbol, str]) -> None:
        self.names = names

    def of(
        self, hosts: Iterable[Host], places: Mapping[int, str], derived: bool
    ) -> tuple[list[Step], list[Ask]]:
        """The steps for numbers, and those that ask the other hosts. places: the variables, by the ids of
        hosts, for what goes into a program. derived: whether a backward may read that later.
        """
        steps: list[Step] = []
        asks: list[Ask] = []
        for host in hosts:
            if isinstance(host, Outcome):
                steps += self._comes_out(host)
            elif isinstance(host, Scalar):
                steps += self._scalar(host, places[id(host)])
            elif isinstance(host, Asks):
                steps += self._asks(host)
            else:
                steps += self.find(*host.takes)
                taken = tuple(map(self.name, host.takes))
                asks.append(Ask(places[id(host)], host, host.lent and derived, taken))
        return steps, asks

    def _comes_out(self, host: Outcome) -> Iterator[Step]:
        yield from self.find(host.symbol)
        if host.expected is ANYTHING:
            return
        found, expected = self.name(host.symbol), host.expected
        is_bool = type(expected) is bool
        yield Unless(same(found, Constant(expected)) if is_bool else Call(host.matches, (found,)), host)

    def _asks(self, host: Asks) -> Iterator[Step]:
        yield from self.find(host.symbol)
        if host.fits is not None:
            yield Unless(Call(host.fits, (self.name(host.symbol),)), OTHER_ITEM)

    def _scalar(self, host: Scalar, kept: str) -> Iterator[Step]:
        yield from self.find(host.symbol)
        found, bound = self.name(host.symbol), Constant(bound_of(host.dtype))
        yield Unless(Call(operator.lt, (Call(abs, (found,)), bound)), TOO_LARGE)
        yield Assign(kept, Call(np.array, (found, Constant(host.dtype))))

    def name(self, symbol: Symbol) -> Name:
        """The variable of a symbol that was found."""
        return Name(self.names[symbol])

    def find(self, *symbols: Symbol) -> Iterator[Step]:
        """The steps that give symbols their variables, as far as they have none."""
        pending = [*reversed(symbols)]
        while pending:
            symbol = pending[-1]
            missing = [x for x in _operands(symbol) if isinstance(x, Symbol) and x not in self.names]
            if symbol in self.names or not missing:
                pending.pop()
                if symbol not in self.names:
                    yield from self._made(symbol)
            else:
                pending += reversed(missing)

    def _made(self, symbol: Symbol) -> Iterator[Step]:
        if isinstance(symbol, Given) and isinstance(symbol.place, int):
            self.names[symbol] = f"leaf{symbol.place}"  # whose class is asked for with the arguments
            return
        name = self.names[symbol] = f"symbol{len(self.names)}"
        if isinstance(symbol, Given):
            assert not isinstance(symbol.place, int)
            yield Attempt(name, Call(symbol.place.find), RAISES)
        else:
            assert isinstance(symbol, Computed)
            operands = tuple(self._operand(x) for x in symbol.operands)
            if symbol.late:  # which never fails
                yield Assign(name, Call(symbol.function, operands))
                return
            yield Attempt(name, Call(symbol.function, operands), RAISES)
            if symbol.has_one_kind:
                return
        yield Unless(same(Call(type, (Name(name),)), Constant(symbol.kind)), ANOTHER_CLASS)

    def _operand(self, operand: object) -> Expression:
        return self.name(operand) if isinstance(operand, Symbol) else Constant(operand)


def _operands(symbol: Symbol) -> Iterable[object]:
    return symbol.operands if isinstance(symbol, Computed) else ()
