"""What a run can have read, and programs that differ in just that: kinds go in, pairs of programs come out.

Each family is a program with one thing left out, and the things that may stand there; each two of them are a
mutation. It names the kind of read that sees it, or the fact of an object.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

CALL = 'calls = [(fg.tensor([0.5, -1.0, 2.0], requires_grad=True),)] if not "calls" in globals() else calls\n'


class Family(NamedTuple):
    """kind: of the read, or the fact, by which a mutation is seen. program: with `{}` where the things go."""

    kind: str
    name: str
    program: str
    things: tuple[str, ...]

    def sources(self) -> list[str]:
        return [self.program.replace("{}", thing) + ("" if "calls =" in self.program else "\n" + CALL)
                for thing in self.things]  # fmt: skip


NUMBERS = ("2.0", "3.0", "2", "3", "True", "-0.0", "0.0", "1e-3")
_F = "@jit\ndef f(x):\n"
_NET = """
class Net(nn.Module):
    scale = 2.0
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 3)
        self.drop = nn.Dropout(0.5)
        {}
    def forward(self, x):
        return self.drop(self.second(fg.tanh(self.first(x)))) * self.scale
net = Net()
net.eval()
"""
FAMILIES = [
    Family("GlobalRead", "number", "scale = {}\n" + _F + "    return x * scale", NUMBERS),
    Family(
        "GlobalRead",
        "choice",
        "act = {}\n" + _F + "    return act(x)",
        (
            "fg.tanh",
            "fg.exp",
            "fg.relu",
            "fg.sigmoid",
            "abs",
            "nn.functional.gelu",
            "lambda x: x + 1",
            "lambda x: x + 2",
        ),
    ),
    Family(
        "GlobalRead",
        "builtin",
        "{}\n" + _F + "    return x * abs(-2)",
        ("", "abs = lambda x: x", "def abs(x): return 5"),
    ),
    Family(
        "GlobalRead",
        "text",
        "way = {}\n" + _F + "    return x + 1 if way == 'a' else x - 1",
        ("'a'", "'b'", "b'a'", "None", "('a',)"),
    ),
    Family(
        "function",
        "whose globals",
        "scale = 2.0\ndef helper(x):\n    return x * scale\n# other module\n"
        "import kept_other\nscale = 2.0\ndef helper(x):\n    return x * scale\nkept_other.scale = 3.0\n{}\n"
        + _F
        + "    return helper(x) + scale",
        ("", "helper = kept_other.helper"),
    ),
    Family(
        "CellRead",
        "number",
        "def make(k):\n    @jit\n    def f(x):\n        return x * k\n    return f\nf = make({})",
        NUMBERS,
    ),
    Family(
        "CellRead",
        "function",
        "def plus(x): return x + 1\ndef minus(x): return x - 1\n"
        "def make(g):\n    @jit\n    def f(x):\n        return g(x)\n    return f\nf = make({})",
        ("plus", "minus", "fg.tanh", "fg.exp"),
    ),
    Family(
        "FunctionRead",
        "default",
        "def helper(x, k={}): return x * k\n" + _F + "    return helper(x)",
        NUMBERS,
    ),
    Family(
        "FunctionRead",
        "keyword",
        "def helper(x, *, k={}, j=1): return x * k + j\n" + _F + "    return helper(x)",
        NUMBERS,
    ),
    Family("FunctionRead", "own default", "@jit\ndef f(x, k={}): return x * k", NUMBERS),
    Family(
        "AttributeRead", "number", "class A: pass\na = A()\na.k = {}\n" + _F + "    return x * a.k", NUMBERS
    ),
    Family(
        "AttributeRead",
        "where",
        "class A:\n    k = 2.0\na = A()\n{}\n" + _F + "    return x * a.k",
        (
            "",
            "a.k = 3.0",
            "A.k = property(lambda self: 4.0)",
            "A.k = 5",
            "del A.k; A.__getattr__ = lambda s, n: 7.0",
        ),
    ),
    Family(
        "AttributeRead",
        "parameter",
        _NET + _F + "    return net(x)",
        (
            "pass",
            "self.first.bias = None",
            "self.scale = 3.0",
            "self.second = nn.Identity(); self.first = nn.Identity()",
            "self.second = nn.Linear(4, 5)",
            "self.drop = nn.ReLU()",
            "self.first.weight.requires_grad_(False)",
            "self.register_forward_hook(lambda m, i, o: o + 1)",
        ),
    ),
    Family(
        "AttributeRead",
        "mode",
        _NET.replace("{}", "pass") + "{}\n" + _F + "    return net(x)",
        (
            "",
            "net.drop.p = 0.0; net.drop.train()",
            "net.first = nn.Identity(); net.second = nn.Identity()",
            "net.double(); calls = [(fg.ones(3, dtype=fg.float64),)]",
            "Net.scale = 1",
            "net.half = 3",
        ),
    ),
    Family(
        "ClassAttributeRead",
        "method",
        "class A:\n    def go(self, x): return x {}\n    def __call__(self, x): "
        "return self.go(x)\n" + _F + "    return A()(x)",
        ("+ 1", "* 2", "- 1.0", "* -1"),
    ),
    Family(
        "ClassAttributeRead",
        "super",
        "class A:\n    def go(self, x): return x {}\nclass B(A):\n"
        "    def go(self, x): return super().go(x) * 2\n" + _F + "    return B().go(x)",
        ("+ 1", "* 2", "- 1.0"),
    ),
    Family(
        "TypeRead",
        "class",
        "class A:\n    def __call__(self, x): return x + 1\nclass B:\n"
        "    def __call__(self, x): return x - 1\na = {}()\n" + _F + "    return a(x)",
        ("A", "B"),
    ),
    Family("ItemRead", "list", "items = [1.0, {}]\n" + _F + "    return x * items[1]", NUMBERS),
    Family(
        "ItemRead",
        "dict",
        "items = {'a': 1, {}}\n" + _F + "    return x * items.get('b', 7)",
        ("'b': 2", "'b': 3", "'b': 2.0", "'c': 2", "'b': True"),
    ),
    Family(
        "ItemRead",
        "whose key",
        "w, v = fg.ones(3), fg.zeros(3)\nitems = {w: 2.0, v: 3.0}\nkey = {}\n"
        + _F
        + "    return x * items[key]",
        ("w", "v"),
    ),
    Family(
        "LengthRead",
        "list",
        "items = [{}]\n" + _F + "    return x * len(items)",
        ("", "1", "1, 2", "1, 2, 3", "None"),
    ),
    Family(
        "ContentsRead",
        "list",
        "items = [{}]\n" + _F + "    y = x\n    for item in items: y = y * item + 1\n    return y",
        ("", "1", "1, 2", "2, 1", "1.0, 2", "2.0, True", "3"),
    ),
    Family(
        "ContentsRead",
        "dict",
        "items = {{}}\n" + _F + "    y = x\n    for k, v in items.items(): y = y * v + len(k)\n    return y",
        ("", "'a': 1", "'a': 2", "'ab': 1", "'a': 1, 'b': 2", "'b': 2, 'a': 1"),
    ),
    Family(
        "ContentsRead",
        "functions",
        "fs = [{}]\n" + _F + "    y = x\n    for g in fs: y = g(y)\n    return y",
        ("fg.tanh", "fg.exp, fg.tanh", "fg.tanh, fg.exp", "lambda x: x * 2", "lambda x: x * 3"),
    ),
    Family(
        "ModuleRead",
        "parts",
        "net = nn.Sequential({})\n"
        + _F
        + "    return x.sum() + sum((p * p).sum() for p in net.parameters())",
        (
            "nn.Linear(3, 2)",
            "nn.Linear(3, 2, bias=False)",
            "nn.Linear(3, 2), nn.Linear(2, 1)",
            "nn.LayerNorm(3)",
            "nn.Linear(3, 2), nn.ReLU()",
        ),
    ),
    Family(
        "NoGradient",
        "grad",
        "w = fg.ones(3, requires_grad=True)\n{}\n" + _F + "    return x * w if w.grad is None else x - 1",
        ("", "w.grad = fg.ones(3)"),
    ),
    # What objects are.
    Family(
        "function",
        "source",
        "def helper(x): return x {}\n" + _F + "    return helper(x)",
        ("+ 1", "+ 2", "+ 1.0", "* 2", "- 1", "** 2", "@ x", "if x.sum() > 0 else x + 5"),
    ),
    Family("function", "own source", _F + "    return x {}", ("+ 1", "+ 2", "+ 1.0", "* 2", "- 1", "+ True")),
    Family(
        "function",
        "inner source",
        _F + "    def inner(y): return y {}\n    return inner(x)",
        ("+ 1", "+ 2", "* 2"),
    ),
    Family(
        "function",
        "decorated",
        "import functools\ndef times(g):\n    @functools.wraps(g)\n    def h(x): return g(x) {}\n"
        "    return h\n@times\ndef helper(x): return x + 1\n" + _F + "    return helper(x)",
        ("* 2", "* 3", "+ 1"),
    ),
    Family(
        "class",
        "bases",
        "class A: pass\nclass B: pass\nclass C({}): pass\nc = C()\n"
        + _F
        + "    return x + 1 if isinstance(c, A) else x - 1",
        ("A", "B", "A, B", "B, A", "object"),
    ),
    Family(
        "instance",
        "of what",
        "class A:\n    k = 2\nclass B:\n    k = 3\na = {}()\n" + _F + "    return x * a.k",
        ("A", "B"),
    ),
    Family(
        "tensor",
        "type",
        "w = {}\n" + _F + "    return x * w",
        (
            "fg.ones(3)",
            "fg.ones(1)",
            "fg.ones(3, dtype=fg.float64)",
            "fg.ones(3, dtype=fg.int32)",
            "fg.ones(2, 3)",
            "fg.ones(3, requires_grad=True)",
            "nn.Parameter(fg.ones(3))",
            "fg.ones(3) * 2",
            "fg.ones(6)[::2] * 1",
            "fg.ones(3).bool()",
        ),
    ),
    Family(
        "tensor",
        "gradients",
        "w = {}\n" + _F + "    return x.detach() * w",
        ("fg.ones(3)", "fg.ones(3, requires_grad=True)"),
    ),
    Family(
        "tensor",
        "same",
        "w = fg.ones(3)\nv = {}\n" + _F + "    return x * 2 if w is v else x * w + v * 3",
        ("w", "fg.ones(3)", "w.clone()"),
    ),
    Family(
        "container",
        "same",
        "a = [1.0]\nb = {}\n" + _F + "    return x * 2 if a is b else x * b[0]",
        ("a", "[1.0]", "[3.0]", "[1]"),
    ),
    Family(
        "tuple",
        "items",
        "items = (fg.ones(3), {})\n" + _F + "    return x * items[0] * items[1]",
        ("2.0", "3.0", "2", "fg.ones(3)", "fg.ones(3, dtype=fg.float64)"),
    ),
    Family(
        "method",
        "whose",
        "class A:\n    def __init__(self, k): self.k = k\n    def go(self, x): return x * self.k\n"
        "    def run(self, x): return x - self.k\nconfig = [A(2.0), A(3.0)]\ngo = {}\n"
        + _F
        + "    return go(x)",
        ("config[0].go", "config[1].go", "config[0].run", "A(2).go"),
    ),
    Family(
        "property",
        "source",
        "class A:\n    k = 2.0\n    @property\n    def j(self): return self.k {}\na = A()\n"
        + _F
        + "    return x * a.j",
        ("+ 1", "+ 2", "* 2"),
    ),
    Family(
        "staticmethod",
        "source",
        "class A:\n    @staticmethod\n    def go(x): return x {}\na = A()\n" + _F + "    return a.go(x)",
        ("+ 1", "+ 2", "* 2"),
    ),
    Family(
        "classmethod",
        "source",
        "class A:\n    k = 2.0\n    @classmethod\n    def go(cls, x): return x {}\n"
        "a = A()\n" + _F + "    return a.go(x)",
        ("+ 1", "+ 2", "* 2"),
    ),
    Family(
        "DType",
        "which",
        "to = {}\n" + _F + "    return x.to(to) * 2",
        ("fg.float64", "fg.float32", "fg.float16", "fg.complex64"),
    ),
    Family(
        "module",
        "which",
        "import math, operator\nm = {}\n" + _F + "    return x * m.pow(2, 3)",
        ("math", "operator"),
    ),
    Family(
        "known",
        "builtin",
        "import math\ng = {}\n" + _F + "    return x * g(2)",
        ("math.sqrt", "math.exp", "abs", "float", "int", "round"),
    ),
    # What the key has.
    Family(
        "key",
        "default dtype",
        "fg.set_default_dtype({})\n" + _F + "    return x + fg.ones(3)",
        ("fg.float32", "fg.float64"),
    ),
    Family("key", "grad mode", "fg.set_grad_enabled({})\n" + _F + "    return x * 2", ("True", "False")),
    Family(
        "key",
        "argument",
        _F + "    return x * 2 if x.dtype == fg.float32 else x + 1\ncalls = [({},)]",
        (
            "fg.ones(3)",
            "fg.ones(2)",
            "fg.ones(3, dtype=fg.float64)",
            "fg.ones(3, requires_grad=True)",
            "nn.Parameter(fg.ones(3))",
            "fg.ones(2, 3).t()",
            "fg.ones(3, 2)",
        ),
    ),
    Family(
        "key",
        "plain argument",
        "@jit\ndef f(x, k, j=1): return x * k + j\ncalls = [(fg.ones(3), {})]",
        (*NUMBERS, "2, 3", "2, 4"),
    ),
    Family(
        "key",
        "same argument",
        "@jit\ndef f(x, y): return x * 2 if x is y else x * y\na, b = fg.ones(3), fg.ones(3)\ncalls = [{}]",
        ("(a, a)", "(a, b)"),
    ),
    Family(
        "key",
        "argument object",
        "class A:\n    def __init__(self, k): self.k = k\nclass B(A):\n    pass\n"
        "@jit\ndef f(x, a): return x * a.k if type(a) is A else x - a.k\ncalls = [(fg.ones(3), {})]",
        ("A(2.0)", "A(3.0)", "A(2)", "B(2.0)"),
    ),
    Family(
        "key",
        "containers",
        "@jit\ndef f(x):\n    return x['a'] * 2 if type(x) is dict else x[0] + len(x)\ncalls = [({},)]",
        ("[fg.ones(3)]", "(fg.ones(3),)", "{'a': fg.ones(3)}", "[fg.ones(3), fg.ones(3)]"),
    ),
    Family(
        "key",
        "bound",
        "class A:\n    k = {}\n    @jit\n    def f(self, x): return x * self.k\nf = A().f",
        NUMBERS[:4],
    ),
    Family(
        "key",
        "methods of tensors",
        "before = fg.Tensor.tanh\ndef ended(): fg.Tensor.tanh = before\n{}\n" + _F + "    return x.tanh()",
        ("", "fg.Tensor.tanh = fg.Tensor.exp", "fg.Tensor.tanh = lambda self: self + 1"),
    ),
    # What is not kept: sets are in another order in each process.
    Family(
        "not kept",
        "sets",
        "items = {{}}\n" + _F + "    y = x\n    for item in items: y = y * item\n    return y",
        ("1, 2", "1, 3"),
    ),
]


def pairs(family: Family) -> list[tuple[str, str]]:
    """The mutations of a family, both ways."""
    return list(itertools.permutations(family.sources(), 2))
