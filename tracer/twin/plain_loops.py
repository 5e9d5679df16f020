"""Plain loops: a `for` statement goes in; what its rounds hand on comes out, or why it is not plain.

Their bodies are assignments, and branches of them. Nothing in them catches or defines. A round may use its
number to find or write a row, `x[t]` or `x[:, n - 1 - t]`, to compute, `x * (dt * t)`, and to branch,
`if t < 3`, and to leave the loop, return or raise. It may append what it leaves to a list that nobody else
has by then. What it calls, and how it branches on anything but its number, is for the run to say (see
`rolling.py`).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from fusegrad.tracer.twin import induction
from fusegrad.tracer.twin.expressions import parts_for_names
from fusegrad.tracer.twin.induction import NumberPart, NumberUse, Row, Test
from fusegrad.tracer.twin.scopes import Scope, names_stored

_EXPRESSIONS = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Subscript, ast.Slice, ast.Tuple, ast.List,
    ast.Attribute, ast.Call, ast.keyword, ast.Compare, ast.BoolOp, ast.IfExp, ast.expr_context,
    ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip


# Of a loop whose rounds may test data, which of what they hand on is counted up, and which some of them
# change, and whether somebody asks for the number of the last one; and which targets must be no numbers.
Tested = tuple[tuple[int, ...], tuple[int, ...], bool, tuple[int, ...]]
# Of a loop: for each of its targets the line where rounds use it otherwise than is followed, or 0; which of
# what rounds hand on they only count up; and if they may test data, what is told of that.
Summary = tuple[tuple[int, ...], tuple[int, ...], Tested | None]
# In the place of a target: a variable that is counted up.
COUNTED = -1


class NotPlain(Exception):
    """Why a loop is not plain, and the line of that."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason, self.line = reason, line


@dataclass
class PlainLoop:
    """What a plain loop does.

    targets: the variables that get each round's item. carried: those that a round takes over from the one
    before. rows, written: by the subscript, which finds a row, or is given one. tests: by the comparison,
    what asks for the counter. numbers: the operators that compute with it; mixed: where a variable is read
    that may hold what was computed so. appends: the statements that append to lists, and to which. used: the
    targets that are used otherwise, and the line of that. is_tested: whether rounds branch; number_is_used:
    whether somebody asks for their number, but to find rows and to compute. counters: the variables that they
    hand on and do nothing with but count them up, and compare them; counts: these comparisons, with by how
    much both sides differ more after each round. changing: those that some rounds change by what they were.
    parts: the subscripts that rounds write by, though not by their number, and the variables that they write.
    recurring: see `recurrences`. over: of rounds that may test data, the variables that nobody asks for then.
    kept: where branches of such rounds give variables what follows from the number of the round.
    """

    targets: list[str]
    carried: list[str] = field(default_factory=list)
    rows: dict[ast.Subscript, Row] = field(default_factory=dict)
    written: dict[ast.Subscript, Row] = field(default_factory=dict)
    tests: dict[ast.Compare, Test] = field(default_factory=dict)
    numbers: dict[ast.BinOp, NumberUse] = field(default_factory=dict)
    mixed: list[ast.Name] = field(default_factory=list)
    appends: dict[ast.Expr, str] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    is_tested: bool = False
    number_is_used: bool = False
    counters: list[str] = field(default_factory=list)
    counts: dict[ast.Compare, Test] = field(default_factory=dict)
    changing: Collection[str] = ()
    parts: dict[ast.expr, str] = field(default_factory=dict)
    recurring: dict[str, tuple[ast.stmt, NumberPart]] = field(default_factory=dict)
    over: list[str] = field(default_factory=list)
    kept: list[ast.Name] = field(default_factory=list)

    def place_of(self, counter: str) -> int:
        """Which target a counter is, by its place; which number that recurs, from -2 down."""
        is_target = counter in self.targets
        return self.targets.index(counter) if is_target else COUNTED - 1 - self.carried.index(counter)

    def summary(self) -> Summary:
        """What is told of the loop when it runs."""
        used = tuple([self.used.get(target, 0) for target in self.targets])
        counters = () if self.counts else tuple(map(self.carried.index, self.counters))
        return used, counters, self.tested()

    def tested(self) -> Tested | None:
        """What is told of a loop whose rounds may test data; None for another one."""
        if not self.is_tested:
            return None
        counters, changing = (
            tuple(map(self.carried.index, names)) for names in (self.counters, sorted(self.changing))
        )
        no_numbers = tuple([i for i, name in enumerate(self.targets) if name in self.not_followed()])
        return counters, changing, self.number_is_used, no_numbers

    def not_followed(self) -> set[str]:
        """The targets that rounds find rows to write by, or divide, if they are numbers."""
        found = {row.counter for row in self.written.values()}
        found |= {test.counter for test in self.tests.values() if test.modulus is not None}
        return {*self.targets} if self.mixed else found

    def follows(self) -> set[ast.AST]:
        """The expressions that follow from the number of the round."""
        return {*self.rows, *self.written, *self.tests, *self.numbers, *self.mixed, *self.counts, *self.kept}


def plain_loop(loop: ast.For, scope: Scope) -> PlainLoop:
    """What a plain loop does, of the function of this scope. Raises NotPlain for another one."""
    if loop.orelse:
        raise NotPlain("it has an `else`", loop.orelse[0].lineno)
    targets = [n.id for n in _parts(loop.target) if isinstance(n, ast.Name)]
    if len({*targets}) < len(_parts(loop.target)):
        raise NotPlain("it assigns its items to more than variables", loop.target.lineno)
    for branch in ast.walk(loop):
        if isinstance(branch, (ast.If, ast.IfExp)):
            branch.test = induction.with_comparison(branch.test, targets)
    stored = (n for statement in loop.body for n in ast.walk(statement) if isinstance(n, ast.Name))
    assigned = {n.id for n in stored if isinstance(n.ctx, ast.Store)}
    recurring = induction.recurrences(loop, targets, assigned)
    reading = _read(loop, targets, scope, assigned, recurring)
    for name in (*targets, *reading.assigned):
        if not scope.is_own(name):
            raise NotPlain(f"a function within may see its variable `{name}`", loop.lineno)
    found = reading.found
    # Who asks for the number of the round that it leaves in knows it, where that is not followed.
    known = found.not_followed() & {t for t in targets if reading.read_once[t]}
    found.is_tested = not known and any(_is_asked(n, found.tests) for n in ast.walk(loop))
    if not found.is_tested:
        for node in found.kept:
            found.used.setdefault(node.id, node.lineno)
    if found.is_tested and found.recurring:
        reading = _read(loop, targets, scope, assigned, {})
        found, reading.found.is_tested = reading.found, True
    # What not every round assigns, up to where it may leave, may be that of one that is left out; and so may
    # be all, where the last round may be.
    certain = reading.certain & reading.certain_when_left if reading.may_leave else reading.certain
    sure = () if found.is_tested else certain
    later = (n for n in reading.assigned if n not in sure and scope.is_used_elsewhere(n, loop))
    found.carried = [n for n in reading.read if n in reading.assigned and n not in targets]
    found.carried += [n for n in later if n not in (*found.carried, *targets)]
    for name in found.carried:
        if name not in reading.bound and not scope.has_value(name):
            raise NotPlain(f"its rounds do not all give `{name}` a value", loop.lineno)
    if found.is_tested:
        mine = [n for n in reading.assigned if n not in (*found.carried, *targets)]
        found.over = [n for n in mine if not scope.is_used_elsewhere(n, loop)]
    for target in targets:
        if target in reading.assigned or (reading.read_once[target] and not found.is_tested):
            found.used.setdefault(target, loop.lineno)
    asked = any(reading.read_once[t] or scope.is_used_elsewhere(t, loop) for t in targets)
    found.number_is_used = asked or bool(found.tests)
    found.changing = induction.changed_by_some(loop) & {*found.carried}
    for name in found.carried:
        counts = induction.counts_of(loop, name, reading.assigned)
        if name not in found.changing and counts is not None and (found.is_tested or not counts):
            found.counters.append(name)
            found.counts.update(counts)
    return found


def _read(
    loop: ast.For,
    targets: list[str],
    scope: Scope,
    assigned: Collection[str],
    recurring: dict[str, tuple[ast.stmt, NumberPart]],
) -> _Reading:
    """The names that a round reads and assigns. recurring: what is, if it meets nothing but operators."""
    while True:
        reading = _Reading(PlainLoop(targets, recurring=recurring), scope.is_collected, assigned)
        for statement in loop.body:
            reading.follow(statement)
        otherwise = reading.used_otherwise | (reading.found.used.keys() & recurring.keys())
        if not otherwise:
            reading.writes_parts(scope.is_own)
            return reading
        recurring = {name: known for name, known in recurring.items() if name not in otherwise}


def _parts(target: ast.expr) -> list[ast.expr]:
    """What a target is put together of: `i`, `x` and `y` of `i, (x, y)`."""
    if isinstance(target, ast.Tuple):
        return [part for element in target.elts for part in _parts(element)]
    return [target]


def _is_asked(node: ast.AST, tests: Collection[ast.AST]) -> bool:
    """Whether a branch, or a condition, asks for more than the number of the round."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            return test not in tests and not isinstance(test, ast.BoolOp)
        case ast.BoolOp(values=values):
            return not all(value in tests for value in values)
    return False


class _Reading:
    """The names that the statements of a round assign, and those that they read before.

    assigned: those that it may assign; certain: those that it has assigned by now, whatever it branched on;
    bound: those that have a value by now; numbers: those that follow from the number of the round by now.
    has_left: whether the loop is left by now; may_leave: whether it may have been; certain_when_left: those
    that it has assigned wherever it leaves. read_once: how often the number of the round is read where the
    loop is over then.
    """

    def __init__(
        self, found: PlainLoop, is_collected: Callable[[str], bool], assigns: Collection[str]
    ) -> None:
        self.found, self._is_collected, self._assigned = found, is_collected, {*assigns}
        self.read: dict[str, None] = {}
        self.assigned: dict[str, None] = {}
        self.certain: set[str] = set()
        self.bound: set[str] = set()
        self.numbers: dict[str, NumberPart] = {}
        self.has_left = self.may_leave = False
        self.certain_when_left: set[str] = {*assigns}
        self.read_once = Counter[str]()
        self.used_otherwise: set[str] = set()  # of what is recurring
        self._branched = 0  # in so many branches
        self._steps = {statement: name for name, (statement, _) in found.recurring.items()}

    def follow(self, statement: ast.stmt) -> None:
        """Note the names of the next statement."""
        if statement in self._steps:
            self._goes_on(self._steps[statement])
            return
        match statement:
            case ast.Pass():
                pass
            case ast.Break():
                self.has_left = self.may_leave = True
                self.certain_when_left &= self.certain
            case ast.Return() | ast.Raise():
                self._reads_once(statement)
                self.has_left = self.may_leave = True
            case ast.Assert(test=test, msg=message):
                self._reads(test)
                if message is not None:
                    self._reads_once(message)
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value], keywords=[]
                )
            ) if self._is_collected(name) and not isinstance(value, ast.Starred):
                self.found.appends[statement] = name
                self._reads(value)
            case ast.Expr(value=value):
                self._reads(value)
            case ast.Assign(targets=[ast.Name(id=name) as variable], value=value) if (
                part := self._number_part(value)
            ) is not None and not self._keeps(part):
                self._reads_number(value)
                self._assigns(variable)
                self.numbers[name] = part
            case ast.Assign(targets=targets, value=value):
                for given in parts_for_names(statement) or [value]:
                    self._reads_kept(given)
                for target in targets:
                    self._assigns(target)
            case ast.AugAssign(target=ast.Name(id=name) as target, value=value):
                self._note(name, target, True)
                self._reads(value)
                self._assigns(target)
            case ast.AugAssign(target=ast.Subscript() | ast.Attribute() as target, value=value):
                self._assigns(target)
                self._reads(value)
            case ast.If(test=test, body=body, orelse=orelse):
                self._reads(test)
                self._branches(body, orelse)
            case ast.For(orelse=[]) as loop if not any(isinstance(n, _LEAVING) for n in ast.walk(loop)):
                self._goes_over(loop)
            case _:
                words = _WORDS.get(type(statement), "a statement of another kind")
                raise NotPlain(f"its rounds have {words}", statement.lineno)

    def _goes_on(self, name: str) -> None:
        """A recurring number gets its next value."""
        _, part = self.found.recurring[name]
        for other in (
            n.id for known in part.others.values() for n in ast.walk(known) if isinstance(n, ast.Name)
        ):
            self._notes(other, True)
        self._notes(name, True)
        self.assigned[name] = None
        self.certain.add(name)

    def _keeps(self, part: NumberPart | None) -> bool:
        """Whether a variable keeps a number that is not that of each round."""
        return part is not None and self._branched > 0 and part.counter in self.found.targets

    def _reads_kept(self, node: ast.expr) -> None:
        """Note what is read of what a variable is given."""
        if not self._keeps(self._number_part(node)):
            self._reads(node)
            return
        for name in (n for n in ast.walk(node) if isinstance(n, ast.Name)):
            if name.id in self.found.targets:
                self.found.kept.append(name)
            else:
                self._reads(name)

    def _reads_once(self, node: ast.AST) -> None:
        """Note what is read that is computed once, when the loop is over."""
        for name in (n for n in ast.walk(node) if isinstance(n, ast.Name)):
            if name.id in self.found.targets:
                self.read_once[name.id] += 1
            else:
                self._reads(name)

    def _branches(self, *branches: list[ast.stmt]) -> None:
        """Note the names of statements of which some are taken."""
        before, numbers = (self.certain, self.bound), self.numbers
        after, own = [], []
        self._branched += 1
        for branch in branches:
            self.certain, self.bound, self.numbers = {*before[0]}, {*before[1]}, {**numbers}
            self.has_left = False
            for statement in branch:
                self.follow(statement)
            if not self.has_left:
                after.append((self.certain, self.bound))
            own.append(self.numbers)
        self._branched -= 1
        self.has_left = not after
        if after:
            self.certain = set.intersection(*(certain for certain, _ in after))
            self.bound = set.intersection(*(bound for _, bound in after))
        self.numbers = {name: part for name, part in numbers.items() if all(n.get(name) is part for n in own)}
        for name, part in ((name, part) for n in own for name, part in n.items()):
            if name not in self.numbers:
                self.found.used.setdefault(part.counter, part.body.lineno)

    def _goes_over(self, loop: ast.For) -> None:
        """Note the names of a loop within a round, whose own rounds may be none."""
        self._reads(loop.iter)
        item = ast.copy_location(ast.Assign(targets=[loop.target], value=ast.Constant(value=None)), loop)
        statements = [ast.fix_missing_locations(item), *loop.body]
        stored, read_first = names_stored(loop.body)
        # What its first round reads may be another number than what the others do.
        self._forget_numbers(stored, loop)
        if _is_something(loop.iter):
            for statement in statements:
                self.follow(statement)
            self._forget_numbers(read_first, loop)
        else:
            self._branches(statements, [])

    def _forget_numbers(self, names: Collection[str], loop: ast.For) -> None:
        for name in self.numbers.keys() & {*names}:
            self.found.used.setdefault(self.numbers.pop(name).counter, loop.lineno)

    def _reads(self, node: ast.AST, sure: bool = True) -> None:
        if not isinstance(node, _EXPRESSIONS) or (isinstance(node, ast.keyword) and node.arg is None):
            line = getattr(node, "lineno", 0)
            raise NotPlain(f"its rounds have {_WORDS.get(type(node), 'an expression of another kind')}", line)
        if isinstance(node, ast.Name):
            self._note(node.id, node, sure)
            if node.id in self.numbers:
                self.found.mixed.append(node)
        if isinstance(node, ast.BinOp) and self._reads_operator(node, sure, True):
            return
        # What is behind a condition may not be read.
        sure = sure and not isinstance(node, (ast.IfExp, ast.BoolOp, ast.Compare))
        parts: list[ast.AST] = [*ast.iter_child_nodes(node)]
        row = induction.row_of(node, self.found.targets) if isinstance(node, ast.Subscript) else None
        test = induction.test_of(node, self.found.targets) if isinstance(node, ast.Compare) else None
        if isinstance(node, ast.Subscript) and row is not None:
            self.found.rows[node] = row
            parts = [node.value, *row.offsets, *row.others]
        elif isinstance(node, ast.Compare) and test is not None:
            self.found.tests[node] = test
            parts = [*test.offsets]
        for part in parts:
            self._reads(part, sure)

    def _number_part(self, node: ast.expr) -> NumberPart | None:
        recurring = self.found.recurring.keys()
        counters = [*self.found.targets, *recurring]
        return induction.number_part(node, counters, self._assigned - recurring, self.numbers)

    def _reads_operator(self, node: ast.BinOp, sure: bool, leaves: bool) -> bool:
        """Note what an operator reads that computes with the number of the round; whether it does."""
        sides = node.left, node.right
        first, second = map(self._number_part, sides)
        if first is None and second is None:
            return False
        self.found.numbers[node] = NumberUse((first, second), leaves)
        for side, part in zip(sides, (first, second), strict=True):
            if part is None:
                self._reads(side, sure)
            else:
                self._reads_number(side, sure)
        return True

    def _reads_number(self, node: ast.expr, sure: bool = True) -> None:
        """Note what an expression reads that follows from the number of the round."""
        if isinstance(node, ast.BinOp):
            if not self._reads_operator(node, sure, False):
                self._reads(node, sure)
        elif isinstance(node, ast.UnaryOp):
            self._reads_number(node.operand, sure)
        elif isinstance(node, ast.Attribute):
            self._reads(node, sure)
        elif isinstance(node, ast.Call) and induction.called(node):
            self._reads(node.func, sure)
            for argument in node.args:
                self._reads_number(argument, sure)
        elif isinstance(node, ast.Name) and node.id in self.found.recurring:
            self._notes(node.id, sure)
        elif isinstance(node, ast.Name) and node.id not in self.found.targets:
            self._note(node.id, node, sure)

    def _notes(self, name: str, sure: bool) -> None:
        if name not in self.certain:
            self.read[name] = None
        if sure:
            self.bound.add(name)

    def _note(self, name: str, node: ast.Name, sure: bool) -> None:
        self._notes(name, sure)
        if name in self.found.recurring:
            self.used_otherwise.add(name)
        if name in self.found.targets:
            self.found.used.setdefault(name, node.lineno)

    def _assigns(self, target: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self.assigned[name] = None
                self.numbers.pop(name, None)
                self.certain.add(name)
                self.bound.add(name)
            case ast.Tuple() if all(isinstance(part, ast.Name) for part in _parts(target)):
                for part in _parts(target):
                    self._assigns(part)
            case ast.Attribute(value=owner):
                self._reads(owner)
            case ast.Subscript(value=ast.Name() as owner, slice=index):
                self._reads(owner)
                row = induction.row_of(target, self.found.targets)
                if row is not None:
                    self.found.written[target] = row
                else:
                    self.found.parts[target] = owner.id
                for part in [index] if row is None else (*row.offsets, *row.others):
                    self._reads(part)
            case _:
                raise NotPlain(
                    f"its rounds set {_TARGETS.get(type(target), 'parts of things')}", target.lineno
                )

    def writes_parts(self, is_own: Callable[[str], bool]) -> None:
        """Note as assigned the variables of which parts are written: other tensors may stand for them."""
        found = self.found
        others = {*found.targets, *found.appends.values()}
        others |= {s.value.id for s in found.written if isinstance(s.value, ast.Name)}
        found.parts = {s: n for s, n in found.parts.items() if n not in others and is_own(n)}
        for name in found.parts.values():
            self.assigned[name] = None


# What a loop within a round may not have.
_LEAVING = (ast.Break, ast.Continue, ast.Return, ast.Raise, ast.While, ast.Assert)


def _is_something(items: ast.expr) -> bool:
    """Whether there is an item for sure to go over."""
    match items:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int() as number)], keywords=[]):
            return number > 0
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return any(not isinstance(element, ast.Starred) for element in elements)
    return False


_WORDS: dict[type, str] = {
    ast.For: "a loop of their own that may be left", ast.While: "a `while`",
    ast.With: "a `with`", ast.Try: "a `try`", ast.Continue: "a `continue` within more than branches",
    ast.Delete: "a `del`",
    ast.FunctionDef: "a definition", ast.Lambda: "a `lambda`", ast.Dict: "a dict",
    ast.ListComp: "a comprehension", ast.GeneratorExp: "a comprehension", ast.JoinedStr: "an f-string",
    ast.AnnAssign: "an annotation",
    ast.keyword: "`**` in a call", ast.Starred: "a `*` in a call",
}  # fmt: skip
_TARGETS: dict[type, str] = {
    ast.Subscript: "an item of more than a variable",
}
