"""What objects are, and what the key of a call has: families of mutations."""

from __future__ import annotations

from kept.family import NUMBERS, F as _F, Family

_OWN_OP = """
@fg.library.custom_op("kept::op", mutates_args=())
def op(x: fg.Tensor) -> fg.Tensor: return fg.from_numpy(x.detach().numpy() {})
@op.register_fake
def _(x): return fg.empty_like(x)
op.register_autograd(lambda ctx, gradient: gradient {})
@jit
def f(x): return op(x) + 1
"""
FAMILIES = [
    Family("not kept", "an op `kept::op` of the program's own", _OWN_OP, ("* 2", "* 3", "+ 1")),
    # What objects are.
    Family(
        "tensor",
        "whose array",
        "w, v, u = fg.ones(3), fg.zeros(3), fg.ones(3)\n{}\n"
        + _F
        + "    w.mul_(3)\n    v.data = w.data\n    return x + v * 2 + u\ncalls = [(fg.arange(3.0),)] * 3\n",
        ("v.data = w.data", "", "w.data = v.data", "u.data = v.data", "u.data = w.data", "u.data = u.data"),
    ),
    Family(
        "tensor",
        "whose memory",
        "w = fg.ones(6)\nv, u = fg.zeros(3), fg.ones(3)\n{}\n"
        + _F
        + "    w.mul_(3)\n    return x + v * 2 + u\ncalls = [(fg.arange(3.0),)] * 3\n",
        (
            "",
            "v = w[:3]",
            "v = w[3:]",
            "v = w[:3].detach()",
            "v, u = w[:3], w[3:]",
            "v, u = w[2:5], w[3:]",
            "u = v",
            "u = v.view(3)",
            "w = fg.ones(3); v.data = w.data",
            "w = fg.ones(3); v = w",
        ),
    ),
    Family(
        "container",
        "namespace",
        "from types import SimpleNamespace\na = SimpleNamespace(k=2.0, h=3)\n{}\n"
        + _F
        + "    return x * a.k + getattr(a, 'h', 7)",
        ("", "a.k = 3", "a = SimpleNamespace(k=2.0)", "del a.k; a.k = True", "class A: k, h = 2.0, 4\na = A"),
    ),
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
        "class A:\n    k = 2\nclass B:\n    k = 3\nclass C(A): pass\nclass D(B, A): pass\n"
        "class E(A):\n    k = 2.0\na = {}()\n" + _F + "    return x * a.k",
        ("A", "B", "C", "D", "E"),
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
        ("a", "[1.0]", "[3.0]", "[1]", "(1.0,)"),
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
        ("config[0].go", "config[1].go", "config[0].run", "A(2).go", "A(2.0).run"),
    ),
    Family(
        "property",
        "source",
        "class A:\n    k = 2.0\n    @property\n    def j(self): return self.k {}\na = A()\n"
        + _F
        + "    return x * a.j",
        ("+ 1", "+ 2", "* 2", "- 1", "** 3"),
    ),
    Family(
        "staticmethod",
        "source",
        "class A:\n    @staticmethod\n    def go(x): return x {}\na = A()\n" + _F + "    return a.go(x)",
        ("+ 1", "+ 2", "* 2", "- 1", "** 3"),
    ),
    Family(
        "classmethod",
        "source",
        "class A:\n    k = 2.0\n    @classmethod\n    def go(cls, x): return x {}\n"
        "a = A()\n" + _F + "    return a.go(x)",
        ("+ 1", "+ 2", "* 2", "- 1", "** 3"),
    ),
    Family(
        "DType",
        "which",
        "to = {}\n" + _F + "    return x.to(to) * 2",
        ("fg.float64", "fg.float32", "fg.float16", "fg.complex64", "fg.int32"),
    ),
    Family(
        "module",
        "which",
        "import builtins, itertools, math, operator\nm = {}\n" + _F + "    return x * len(m.__name__)",
        ("math", "operator", "builtins", "itertools", "fg"),
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
    # How often a loop runs backward is a number of the run; its graph is no text.
    Family(
        "not kept",
        "has the gradient of a loop that data end",
        "def g(x, w, h):\n    for t in range(60):\n        s = 0.5\n        if x.shape[0] > 3:\n"
        "            s = t * {}\n        h = fg.tanh(h * s + x[t] @ w)\n    return h.sum()\n"
        "f = jit(fg.value_and_grad(g, (0, 1, 2)))\n"
        "calls = [tuple(fg.ones(*s, dtype=fg.float64) / 2 for s in ((60, 4), (4, 4), (4,)))]\n",
        ("0.1", "0.2"),
    ),
    # What is not kept: sets are in another order in each process.
    Family(
        "not kept",
        "makes or meets a set",
        "items = {{}}\n" + _F + "    y = x\n    for item in items: y = y * item\n    return y",
        ("1, 2", "1, 3"),
    ),
]
