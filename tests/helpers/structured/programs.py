"""Random programs over trees: branches on values, shared weights, effects, writes, exceptions.

`program(seed)` writes the source of a function of one tree; `Outcome.of` runs it for several trees, one by
one or batched, some of them again and again, as what is compiled answers later calls, and keeps all that can
be told afterwards: values, gradients, effects in each example, the exception.
"""

from __future__ import annotations

import linecache
import random
import traceback
from typing import Any, NamedTuple
from unittest import mock

import fusegrad as fg
from fusegrad.eager.batching.costs import Costs

HEAD = """def f(node, p, log, depth=0):
    if isinstance(node, int):
        return {leaf}
    a, b = f(node[0], p, log, depth + 1), f(node[1], p, log, depth + 1)
    c = a + b
"""
LEAVES = (
    "F.embedding(fg.tensor(node), p.table)",
    "p.table[node]",
    "p.table[fg.tensor(node)] * 0.5",
    "p.inputs[node].clone()",
    "fg.full((4,), node / 10.0, dtype=fg.float64)",
)
VALUES = (
    "fg.tanh({x} + {y})",
    "{x} * {y} - 0.5",
    "fg.tanh({x} @ p.w)",
    "F.linear(fg.cat([{x}, {y}]), p.wide, p.bias).tanh()",
    "fg.where({x} > 0, {y}, {x} * 0.1)",
    "fg.softmax({x}, 0) + {y}",
    "F.layer_norm({x}, (4,))",
    "{x}.detach() + {y}",
    "{x}.max() + {y}",
    "{x}.max(0)[0] + {y}",
    "{x}.sort()[0] * {y}",
    "{x}.cumsum(0) * 0.3",
    "fg.cat([{x}.chunk(2)[1], {y}.chunk(2)[0]])",
    "fg.stack([{x}, {y}]).mean(0)",
    "fg.stack([{x}, {y}]).t().reshape(-1)[2:6]",
    "{x}.view(2, 2).t().reshape(4) + {y}",
    "{x}[[0, 0, 3, 1]] * {y}",
    "p.table[int({x}.argmax())] + {y}",
    "p.ws[depth % 2] @ {x}",
    "(p.w.t() @ {x}).sigmoid()",
    "{x} / ({y}.norm() + 1)",
    "fg.bmm({x}.expand(3, 1, 4), p.w.expand(3, 4, 4)).sum((0, 1)).tanh()",
    "({x} * 3).round() + {y}",
    "{x}.to(fg.float32).to(fg.float64) * 0.9",
    "p.inputs[depth % 5] * {x}",
    "fg.add({x}, {y}, alpha=depth)",
    "fg.tanh(fg.linalg.solve(p.w @ p.w.t() + 5 * p.eye, {x}))",
    "F.dropout({x}, 0.0, True) + {y}",
    "fg.nn.utils.parametrize.__name__ and {x}.clamp(-1, 1)",
)
STATEMENTS = (
    "v = {x}.clone(); v.add_({y}); {z} = v",
    "v = {x} * 1; v[0] = {y}[1]; {z} = v",
    "v = {x} * 1; u = v.view(2, 2); u[0].mul_(0.5); {z} = v + u.reshape(4)",
    "v = {x} * 2; u = v[1:]; w = u * 3; v.zero_(); {z} = v + fg.cat([w, u[:1]])",
    "v = {x} * 1; u = v.detach(); {z} = v + u; log.append(u.sum().item())",
    "{x} = {x} + 0; {x} += {y}",
    "{x} = {x} * 1; {x}.register_hook(lambda g: g * 0.5)",
    "if {x}.requires_grad: u = {x} * 1; v = u * {y}; u.register_hook(lambda g: g * 0.5); {z} = v + u",
    "if {x}.requires_grad: u = {x} * 1; v = u.tanh(); u.retain_grad(); {z} = v + u.sum(); log.append(u)",
    "if {x}.requires_grad: u = {x} * 1; {z} = {y} + "
    "fg.autograd.grad((u * {y} * u).sum(), u, retain_graph=True)[0].detach()",
    "if {x}.requires_grad: u = ({x} * 1)[:2]; {z} = {y} + "
    "fg.autograd.grad((u * u).sum(), u, retain_graph=True)[0].detach().sum()",
    "if {x}.requires_grad: {z} = {y} + fg.autograd.grad(fg.tanh({x}).sum(), {x}, create_graph=True)[0]",
    "log.append({x}.max().item())",
    "log.append(({x}.requires_grad, tuple({x}.shape), {x}.stride(), {x}.is_leaf, {x}._version))",
    "log.append({x}.tolist()[depth % 4])",
    "log.append('deep' if depth > 1 else {y}.numel())",
    "x = {x}.detach().requires_grad_(); {z} = fg.autograd.grad((x * x @ p.w).sum(), x)[0] + {y}",
    "{z} = fg.func.grad(lambda x: (x * {y}).tanh().sum())({x}.detach())",
    "{z} = fg.vmap(lambda x: x * {y})({x}) [0] * 0.1 + {x}",
)
BLOCKS = (
    "if {x}.sum() > {k}:",
    "if float({x}.mean()) * depth > {k}:",
    "if bool(({x} > {y}).any()):",
    "with fg.no_grad():",
    "for _ in range(depth % 3):",
    "for _ in range(int({x}.abs().sum()) % 3):",
    "if depth == 1:",
)
RAISES = (
    "if float({x}.sum()) > {big}: raise ValueError('too large', node)",
    "if depth == 2 and {x}[0] > 0.5: {z} = {x} @ fg.ones(5, dtype=fg.float64)",
    "if node == (3, 4): {z} = p.table[{x}.numel() * 3]",
    "if node[0] == 7: {z} = F.embedding(fg.tensor(12), p.table)",
    "if depth == 0 and {x}[1] > 0.2: log.append(1 / 0)",
)
SHARED = ("p.counter.add_({x}.detach().sum())", "{z} = {x} + p.counter", "p.counter.mul_(0.5)")


# Jitted functions of two tensors: (what it takes besides, what it gives), and how that is called.
CELLS = (
    (("", "c"), "{z} = cell({x}, {y})"),
    (("", "c"), "{z} = cell({x}, {x}) + {y}"),
    ((", depth", "c * 0.5"), "{z} = cell({x}, {y}, depth)"),
    ((", depth=1", "(c, a * b)"), "{y}, {z} = cell({x}, {y}, depth=depth % 2)"),
    (("", "(a, c + 1)"), "{x}, {z} = cell({x}, {y})"),
    (("", "{'c': c, 'n': 3}"), "{z} = cell({x}, {y})['c']"),
    (("", "c.chunk(2)"), "{z} = fg.cat(cell({x}, {y}))"),
    ((", rest=()", "c + sum(rest)"), "{z} = cell({x}, {y}, ({x}, [{y}][0]))"),
    (("", "c * s"), "p.scale = depth % 3 * 0.5; {z} = cell({x}, {y})"),
    (("", "F.embedding(c.argmax(), p.table) + a"), "{z} = cell({x}, {y})"),
)
OF_THREE = ((", other", "c * other"), "{z} = cell(d, e, {z})")
CELL_STATEMENTS = (
    "if c.sum() > 0.3: c = c * 0.5",
    "p.log.append('cell')",
    "c = c.clone(); c[0] = b[1]",
    "a = a * 1; a.mul_(0.9)",
    "c = c + p.counter",
    "with fg.no_grad(): c = c * 1.0",
    "if c.shape[0] > 3: c = c - 0.1",
    "if float(c.sum()) > 2.5: raise ValueError('too large')",
)
CELL_CALLS = (
    "with fg.no_grad(): {call}",
    "if node[0] == 7: {z} = word(fg.tensor(12))",
    "{call}; {x} = {x}.clone(); {x}.mul_(0.5)",
)
# Tensors that are the same for all examples, as one or as two.
SAME_FOR_ALL = "    d, e = (p.first, p.second) if isinstance(node[1], int) else (p.second, p.second)\n"
WORD = "word(fg.tensor(node))"


def _cell(draw: random.Random, head: tuple[str, str]) -> str:
    """The source of a jitted function that programs call."""
    lines = ["@jit\n", f"def cell(a, b{head[0]}):\n", "    s, c = p.scale, a + b\n"]
    values = [value for value in VALUES if "depth" not in value and "p.inputs" not in value]
    for _ in range(draw.randrange(1, 5)):
        x, y, z = (draw.choice("abc") for _ in range(3))
        kind = draw.random()
        text = draw.choice(values).format(x=x, y=y)
        line = f"{z} = {text}" if kind < 0.85 else draw.choice(CELL_STATEMENTS)
        lines.append(f"    {line}\n")
    lines.append(f"    return {head[1]}\n")
    lines += ["@jit\n", "def word(i):\n", "    return F.embedding(i, p.table)\n"]
    return "".join(lines)


def program(seed: int) -> str:
    """The source of a random function of a tree. From 2000 on every second one calls jitted functions."""
    draw = random.Random(seed)
    cells = random.Random(seed + 1) if seed >= 2000 and seed % 2 else None
    lines = [HEAD.format(leaf=draw.choice(LEAVES))]
    if cells is not None:
        head, call = cells.choice((*CELLS, OF_THREE, OF_THREE, OF_THREE) if turns(seed) > 1 else CELLS)
        leaf = WORD if cells.random() < 0.5 else draw.choice(LEAVES)
        lines = [_cell(cells, head), HEAD.format(leaf=leaf)]

    if turns(seed) > 1:
        lines.append(SAME_FOR_ALL)

    def filled(text: str, names: str = "abc") -> str:
        x, y, z = (draw.choice(names) for _ in range(3))
        return text.format(x=x, y=y, z=z, k=round(draw.uniform(-1, 1), 2), big=round(draw.uniform(1, 6), 2))

    def statements(count: int, indent: int) -> None:
        for _ in range(count):
            kind, pad = draw.random(), "    " * indent
            if cells is not None and cells.random() < 0.4:
                around = cells.choice(CELL_CALLS) if cells.random() < 0.3 else "{call}"
                names = "abcde" if turns(seed) > 1 else "abc"
                lines.append(f"{pad}{filled(around.replace('{call}', call), names)}\n")
            elif kind < 0.55:
                lines.append(f"{pad}{draw.choice('abc')} = {filled(draw.choice(VALUES))}\n")
            elif kind < 0.75:
                lines.append(f"{pad}{filled(draw.choice(STATEMENTS))}\n")
            elif kind < 0.8 and seed % 3 == 0:
                lines.append(f"{pad}{filled(draw.choice(RAISES))}\n")
            elif kind < 0.82 and seed % 5 == 0:
                lines.append(f"{pad}{filled(draw.choice(SHARED))}\n")
            elif indent < 3:
                lines.append(f"{pad}{filled(draw.choice(BLOCKS))}\n")
                statements(draw.randrange(1, 3), indent + 1)
            else:
                lines.append(f"{pad}pass\n")

    statements(draw.randrange(2, 7), 1)
    lines.append(f"    return {draw.choice(('c', 'a + c', '(a, c)[1]', 'fg.tanh(c) * 0.9'))}\n")
    return "".join(lines)


def turns(seed: int) -> int:
    """How often the program of a seed runs. From 4000 on every second one that calls jitted functions runs
    until what is compiled for some numbers of calls answers.
    """
    return 5 if seed >= 4000 and seed % 4 == 3 else 1


def trees(seed: int, count: int) -> list[Any]:
    """So many trees, of which many are alike."""
    draw = random.Random(seed)

    def grown(depth: int) -> Any:
        if not depth or draw.random() < 0.25:
            return draw.randrange(10)
        return grown(depth - 1), grown(depth - 1)

    return [(grown(2), grown(2)) for _ in range(count)]


class Parameters:
    """What the examples of a program share."""

    def __init__(self, seed: int) -> None:
        fg.manual_seed(seed)

        def made(*shape: int) -> fg.Tensor:
            return (fg.randn(*shape, dtype=fg.float64) * 0.5).requires_grad_()

        self.w, self.wide, self.bias, self.table = made(4, 4), made(4, 8), made(4), made(10, 4)
        self.ws = [made(4, 4), made(4, 4)]
        self.inputs = fg.randn(10, 4, dtype=fg.float64)
        self.eye, self.counter = fg.eye(4, dtype=fg.float64), fg.zeros((), dtype=fg.float64)
        self.first, self.second = made(4), made(4)
        self.log: list[str] = []
        self.scale = 0.5

    def leaves(self) -> list[fg.Tensor]:
        """What has gradients."""
        return [self.w, self.wide, self.bias, self.table, *self.ws]


class Outcome(NamedTuple):
    """What came of a program. error: its type, message and line. refused: whether batching itself refused."""

    values: list[Any]
    gradients: list[Any]
    logs: list[list[Any]]
    error: tuple[str, str, int] | None
    refused: bool = False

    @classmethod
    def of(cls, seed: int, batch: bool, count: int = 6) -> Outcome:
        """Run the program of a seed for so many trees."""
        source, parameters = program(seed), Parameters(seed)
        space: dict[str, Any] = {"fg": fg, "F": fg.nn.functional, "p": parameters}
        space["jit"] = fg.jit if batch else lambda function: function
        name = f"<program {seed}>"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)  # `jit` reads it
        exec(compile(source, name, "exec", dont_inherit=True), space)

        def one(example: tuple[Any, list[Any]]) -> Any:
            return space["f"](example[0], parameters, example[1])

        told: list[Any] = []
        logs: list[Any] = []
        for turn in range(turns(seed)):
            examples = [(tree, []) for tree in trees(seed + turn, count)]
            try:
                with mock.patch.object(Costs, "loses", return_value=""):  # so few would go one by one
                    made = fg.batched(one)(examples) if batch else [one(example) for example in examples]
            except Exception as raised:
                frames = [f for f in traceback.extract_tb(raised.__traceback__) if "<program" in f.filename]
                error = (type(raised).__name__, str(raised), frames[-1].lineno or 0)
                return cls([], [], [log for _, log in examples], error, "batched: example" in str(raised))
            told += [(m.tolist(), m.requires_grad, m.stride(), m.is_leaf, m._version) for m in made]
            if any(m.requires_grad for m in made):
                sum(((m * (i + 1)).sum() for i, m in enumerate(made)), start=fg.zeros(())).backward()
            logs += [[_told(entry) for entry in log] for _, log in examples]
        gradients = [None if p.grad is None else p.grad.tolist() for p in parameters.leaves()]
        return cls([*told, parameters.counter.item(), len(parameters.log)], gradients, logs, None)


def _told(entry: Any) -> Any:
    """What was logged; of a tensor, the gradient that it has by now."""
    if isinstance(entry, fg.Tensor):
        return None if entry.grad is None else entry.grad.tolist()
    return entry


def same(x: Any, y: Any) -> bool:
    """Whether two outcomes, or parts of them, are equal, numbers up to rounding."""
    if isinstance(x, (list, tuple)):
        return isinstance(y, (list, tuple)) and len(x) == len(y) and all(map(same, x, y))
    if isinstance(x, float) and isinstance(y, float):
        return x == y or abs(x - y) <= 1e-7 * max(1.0, abs(x)) or (x != x and y != y)
    return bool(x == y)


def difference(seed: int, count: int = 6) -> str:
    """How the batched run of a program differs from that of one by one, or ""."""
    one, batched = Outcome.of(seed, False, count), Outcome.of(seed, True, count)
    if batched.refused:
        return ""
    if one.error is not None:
        # Examples behind the one that raised may have run.
        return "" if batched.error == one.error else f"{one.error} is {batched.error} batched"
    for name in Outcome._fields:
        if not same(getattr(one, name), getattr(batched, name)):
            return f"{name}: {getattr(one, name)} is {getattr(batched, name)} batched"
    return ""
