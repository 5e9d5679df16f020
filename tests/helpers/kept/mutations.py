"""What a run can have read, and programs that differ in just that; a mutation is two of a family."""

from __future__ import annotations

from kept import followed, left, objects
from kept.family import NUMBERS, F as _F, Family

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
_STEP = """
net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3), nn.Tanh())
first, second = net[0], net[2]
firsts, seconds = {"params": [*first.parameters()]}, {"params": [*second.parameters()]}
{}
@jit
def f(x, y):
    opt.zero_grad()
    loss = ((net(x) - y) ** 2).mean()
    loss.backward()
    opt.step()
    return loss.detach()
calls = [(fg.arange(15.0).reshape(5, 3) / 9, fg.arange(15.0).reshape(5, 3) / 15)] * 5
"""
_SGD = "opt = fg.optim.SGD(net.parameters(), lr=0.1"
_ADAM = "opt = fg.optim.Adam(net.parameters(), lr=0.01"
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
        ("+ 1", "* 2", "- 1.0", "* -1"),
    ),
    Family(
        "TypeRead",
        "class",
        "class A:\n    def __call__(self, x): return x + 1\nclass B:\n"
        "    def __call__(self, x): return x - 1\nclass C(A): pass\nclass D(A):\n"
        "    def __call__(self, x): return super().__call__(x) * 3\nclass E(B, A): pass\na = {}()\n"
        + _F
        + "    return a(x)",
        ("A", "B", "C", "D", "E"),
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
        (
            "",
            "w.grad = fg.ones(3)",
            "w.grad = fg.zeros(3)",
            "w = fg.ones(3)",
            "w = fg.ones(3)\nw.grad = fg.ones(3)",
        ),
    ),
    Family(
        "ParametersRead",
        "groups",
        _STEP,
        (
            _SGD + ")",
            "opt = fg.optim.SGD(first.parameters(), lr=0.1)",
            "opt = fg.optim.SGD([{**firsts, 'lr': 0.1}, {**seconds, 'lr': 1.0}])",
            "opt = fg.optim.SGD([{**seconds, 'lr': 0.1}, {**firsts, 'lr': 1.0}])",
            "opt = fg.optim.SGD([*net.parameters()][::-1], lr=0.1)",
            "first.bias.requires_grad_(False)\n" + _SGD + ")",
            "second.weight.data = first.weight.data\n" + _SGD + ")",
            "second.weight = first.weight\n" + _SGD + ")",
        ),
    ),
    Family(
        "StateRead",
        "options",
        _STEP,
        (
            _SGD + ")",
            _SGD + ", momentum=0.9)",
            _SGD + ", momentum=0.5, nesterov=True)",
            _SGD + ", weight_decay=0.3)",
            _SGD + ", maximize=True)",
            _SGD + ")\nopt.param_groups[0]['lr'] = 0.5",
            _SGD + ")\nopt.param_groups[0]['lr'] = 1",
            _ADAM + ")",
            _ADAM + ", betas=(0.5, 0.6))",
            _ADAM + ", amsgrad=True)",
            _ADAM + ", eps=0.5)",
            _ADAM + ")\nopt.register_step_pre_hook(lambda *_: (net[0].bias.data.zero_(), None)[1])",
            _ADAM.replace("Adam", "AdamW") + ", weight_decay=0.4)",
            _ADAM.replace("Adam", "RMSprop") + ", centered=True)",
        ),
    ),
    Family(
        "Draw",
        "dropout",
        _F + "    return fg.dropout(x, {}, True) + fg.rand(3)",
        ("0.5", "0.2", "0.0", "1.0"),
    ),
    Family(
        "Draw",
        "what",
        _F + "    return x + {}",
        ("fg.rand(3)", "fg.randn(3)", "fg.rand(3, dtype=fg.float64)", "fg.rand(1)", "fg.randint(0, 9, (3,))"),
    ),
    Family("Draw", "seed", "fg.manual_seed({})\n" + _F + "    return x + fg.rand(3)", ("0", "1", "2")),
    Family(
        "Draw",
        "generator",
        "g = {}\n" + _F + "    return x + fg.rand(3, generator=g)",
        ("None", "fg.Generator().manual_seed(3)", "fg.Generator().manual_seed(4)"),
    ),
    Family(
        "GradientOf",
        "sum",
        "w = fg.ones(3, requires_grad=True)\n{}\n"
        + _F
        + "    (x.detach() * w).sum().backward()\n    return w.grad.clone()\n"
        "calls = [(fg.arange(3.0),)] * 3\n",
        (
            "",
            "w.grad = fg.ones(3)",
            "w.grad = fg.ones(3) * 2",
            "w.grad = fg.zeros(1).expand(3)",
            "w.requires_grad_(False)\nw = fg.zeros(3, requires_grad=True)",
        ),
    ),
    Family(
        "left",
        "writes",
        "w, v = fg.ones(3), fg.zeros(3)\n{}\n" + _F + "    w.mul_(2)\n    v.add_(w)\n    return x * w + v\n"
        "calls = [(fg.arange(3.0),)] * 3\n",
        (
            "",
            "v = w",
            "v = w.view(3)",
            "v = fg.zeros(6)[::2]",
            "w = fg.ones(1)",
            "w = fg.ones(3, dtype=fg.float64)",
        ),
    ),
    Family(
        "left",
        "statistics",
        "net = nn.BatchNorm1d(3{})\n"
        + _F
        + "    return net(x)\ncalls = [(fg.arange(15.0).reshape(5, 3) ** 2,)] * 3\n",
        ("", ", momentum=0.5", ", eps=1.0", ", affine=False", ", track_running_stats=False"),
    ),
    *objects.FAMILIES,
    *left.FAMILIES,
    *followed.FAMILIES,
]
