"""What a run leaves in Python's objects, and what it asks of them for that: families of mutations."""

from __future__ import annotations

from kept.family import F as _F, Family

_A = "class A: pass\na = A()\n"
_OBJECT = _A + "a.h, a.n, a.m = 0, 0, 5\ndef left(): return a.h, [*vars(a).items()]\n"
_OF_GROUP = """
w = fg.ones(3, requires_grad=True)
opt = fg.optim.SGD([w], lr=0.1)
schedules = fg.optim.lr_scheduler
schedule = schedules.{}
@jit
def f(x):
    opt.zero_grad()
    (w * x).sum().backward()
    opt.step()
    schedule.step()
    return w.detach().clone()
calls = [(fg.arange(3.0),)] * 4
def left(): return opt.param_groups[0]["lr"], schedule.last_epoch
"""
_SET = _F + "    items['a'] = x * 2\n    return x + 1\ndef left(): return [*items.items()]\n"
_CALLS = "calls = [(fg.arange(3.0),)] * 3\n"
_IMPORT = "import abc, enum, os\nfrom collections.abc import Sized\n"
_WAY = _IMPORT + "class Way(enum.Enum):\n    {}\nway = [*Way][0]\n"
FAMILIES = [
    Family(
        "attributes",
        "what",
        _OBJECT + _F + "    a.h = {}\n    return x + 1\n" + _CALLS,
        ("x * 2", "x * 3", "(x, 1)", "'text'", "[x, x + 1]", "None", "x.sum().item()", "{'b': x}"),
    ),
    Family(
        "attributes",
        "whose",
        _OBJECT + "b = A()\nb.h = 7\n{}\n" + _F + "    a.h = x * 2\n    return x + 1\n" + _CALLS,
        (
            "",
            "a = b",
            "A.__setattr__ = lambda s, n, v: object.__setattr__(s, 'm', v)",
            "A.h = property(lambda s: 4, lambda s, v: object.__setattr__(s, 'n', v))",
            "del a.h; A.h = 8",
        ),
    ),
    Family(
        "attributes",
        "items",
        "t = {'loss': 0.0, 'rows': [1, 2]}\ndef left(): return t\n"
        + _F
        + "    {}\n    return x + 1\n"
        + _CALLS,
        (
            "t['loss'] = x.sum()",
            "t['loss'] = 3",
            "t['loss'] += 1",
            "t['rows'][0] = x",
            "t['rows'][-1] = x",
            "t['rows'][0] = t['loss']",
        ),
    ),
    Family(
        "attributes",
        "of globals",
        "n, m, k = 0, 1, 2\n{}\n"
        + _F
        + "    global n\n    n = x * m\n    return x + k\ndef left(): return n, m, k\n"
        + _CALLS,
        ("", "m = 3", "k = 4", "m = 1.0", "del n; n = 7", "def f(x): pass"),
    ),
    Family(
        "attributes",
        "of whose cell",
        "def make(k):\n    n = k\n    def g(x):\n        nonlocal n\n        n = n * 2 + 1\n"
        "        return x * n\n"
        "    def h(x): return g(x) + n\n    def own(x): return (g2(x) if g2 else g(x)) + n\n    g2 = None\n"
        "    def other(g):\n        nonlocal g2\n        g2 = g\n        return own\n"
        "    return g, h, other, lambda: n\ng, h, other, left = make(1)\ng3, h3, other3, left3 = make(1)\n"
        "f = jit({})\n" + _CALLS,
        ("g", "h", "other(g)", "other(g3)", "other3(g)", "other(h3)", "h3"),
    ),
    Family(
        "items",
        "what",
        "rows = [1]\ndef left(): return rows\n" + _F + "    {}\n    return x + 1\n" + _CALLS,
        (
            "rows.append(x)",
            "rows.append(x * 2); rows.append(3)",
            "rows.extend([x, x])",
            "rows.clear(); rows.append(x)",
            "rows.append((x, 1))",
            "rows.append(x.sum().item())",
        ),
    ),
    Family(
        "items",
        "whose",
        "rows, others = [1], [2]\n{}\ndef left(): return rows, others\n"
        + _F
        + "    rows.append(x * 2)\n    return x + rows[0]\n"
        + _CALLS,
        ("", "rows = others", "rows.append(4)", "rows[0] = 3", "others = rows", "rows = [x for x in (1, 2)]"),
    ),
    Family(
        "counts",
        "by how much",
        _OBJECT + _F + "    {}\n    return x + 1\n" + _CALLS,
        ("a.n += 1", "a.n += 2", "a.n -= 1", "a.n += 1; a.m += 1", "a.m += 1", "a.n += a.m"),
    ),
    Family(
        "CountRead",
        "of what",
        _OBJECT + "{}\n" + _F + "    a.n += 1\n    return x + 1\n" + _CALLS,
        (
            "",
            "a.n = 5",
            "a.n = 0.5",
            "a.n = True",
            "del a.n; A.n = 7",
            "a.n = fg.zeros(3)",
            "A.n = property(lambda s: 4, lambda s, v: object.__setattr__(s, 'm', v))",
        ),
    ),
    Family(
        "after",
        "schedule",
        _OF_GROUP,
        (
            "StepLR(opt, 1)",
            "StepLR(opt, 2, gamma=0.5)",
            "ExponentialLR(opt, 0.5)",
            "LambdaLR(opt, lambda n: 1 / (n + 1))",
            "LambdaLR(opt, lambda n: 2.0 ** n)",
            "CosineAnnealingLR(opt, 3)",
        ),
    ),
    Family(
        "stores._has_item",
        "of a dict",
        "items = {}\n" + _SET + _CALLS,
        ("{'a': 1.0}", "{'b': 1}", "{'a': 1, 'b': 2}", "{}", "dict(b=1, a=2)", "{'a': None}"),
    ),
    Family(
        "stores._keys",
        "of a dict",
        "items = {}\n"
        + _F
        + "    items['a'] = x * 2\n    return sum(v * len(k) for k, v in items.items())\n"
        + _CALLS,
        ("{'a': 1.0}", "{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}", "{'a': 1, 'bc': 2}", "{'a': 1, 'b': 3}"),
    ),
    Family(
        "world.environment._text",
        "of a variable",
        _IMPORT
        + "os.environ.pop('KEPT_WAY', None)\n{}\ndef ended(): os.environ.pop('KEPT_WAY', None)\n"
        + _F
        + "    return x + len(os.environ.get('KEPT_WAY', 'none'))",
        (
            "",
            "os.environ['KEPT_WAY'] = ''",
            "os.environ['KEPT_WAY'] = 'a'",
            "os.environ['KEPT_WAY'] = 'bcd'",
            "os.environ['KEPT_WAYS'] = 'a'; os.environ['KEPT_WAY'] = 'ab'",
        ),
    ),
    Family(
        "attributes._member",
        "of an enumeration",
        _WAY + _F + "    return x + 1 if way is Way.A else x - Way.A.value",
        ("A, B = 1, 2", "B, A = 1, 2", "A = 2", "B, A = 2, 1", "A, B = 3, 3", "B, A = 3, 3"),
    ),
    Family(
        "AbstractRead",
        "what counts",
        _IMPORT
        + "class Asked(abc.ABC): pass\nclass A: pass\n{}\na = A()\n"
        + _F
        + "    return x + 2 * isinstance(a, Asked) + isinstance(a, Sized)",
        (
            "",
            "Asked.register(A)",
            "A.__len__ = lambda self: 3",
            "class A(Asked): pass",
            "class B: pass\nAsked.register(B)",
            "class B: pass\nAsked.register(B)\nclass A(B): pass",
        ),
    ),
    Family(
        "results",
        "which",
        _F + "    found = fg.{}\n    return found.values * 2 + found.indices",
        ("max(x, 0)", "min(x, 0)", "sort(x)", "cummax(x, 0)", "topk(x, 2)", "mode(x, 0)", "median(x, 0)"),
    ),
    Family(
        "device",
        "which",
        "d = fg.device({})\n" + _F + "    return x + len(d.type) + (d.index or 0)",
        ("'cpu'", "'cpu', 0", "'cuda', 3", "'meta'", "'cuda:1'"),
    ),
]
