"""Numbers that are others from call to call: families of mutations."""

from __future__ import annotations

from kept.family import Family

_K = "@jit\ndef f(x, k):\n"
_ATTRIBUTE = "class A: pass\na = A()\na.k, a.h = 0.5, 1.0\ndef left(): return [*vars(a).items()]\n"
_F = "@jit\ndef f(x):\n"
_CALLS = "\ncalls = [(fg.arange(3.0), k) for k in (0.5, 1.5, 2.5, 3.5)]\n"
_SAME = "\ncalls = [(fg.arange(3.0),)] * 6\n"
_HOW = ("* 0.5", "* 2.0", "+ 1", "** 2", "- 0.5", "/ 3", "// 1 + 0.5")
FAMILIES = [
    Family("Scalar", "of an argument", _K + "    return x * (k {})" + _CALLS, _HOW),
    Family(
        "Scalar", "of an attribute", _ATTRIBUTE + _F + "    a.k = a.k {}\n    return x * a.k" + _SAME, _HOW
    ),
    Family(
        "Scalar",
        "which",
        _K + "    return x * k\ncalls = [(fg.arange(3.0), k) for k in {}]\n",
        (
            "(0.5, 1.5, 2.5, 3.5)",
            "(1, 2, 3, 4)",
            "(1.5, 0.5, -1.0, 7.0)",
            "(True, 2, 3.0, 4)",
            "(0.5, 0.5, 2, 2)",
            "(1e30, 1.0, 2.0, -0.0)",
            "(2 ** 50, 2 ** 40, 3, 4)",
        ),
    ),
    Family(
        "Scalar",
        "where",
        _ATTRIBUTE + "{}\n" + _F + "    a.h = a.h + a.k\n    return x * a.h" + _SAME,
        (
            "",
            "a.h = 2",
            "del a.h; A.h = 3.0",
            "A.h = property(lambda s: 4.0, lambda s, v: None)",
            "a.h = fg.ones(3)",
            "a.h = True",
            "a.k = 2",
        ),
    ),
    Family(
        "Scalar",
        "of an item",
        "items = {'k': 0.5, 'h': 1.0}\ndef left(): return items\n{}\n"
        + _F
        + "    items['k'] = items['k'] * 2.0\n    return x * items['k']"
        + _SAME,
        (
            "",
            "items['k'] = 2",
            "items['k'] = fg.ones(3)",
            "items = {'h': 1, 'k': 2.5}",
            "items = {'k': True}",
        ),
    ),
    Family(
        "Scalar",
        "of a global",
        "n, m = 0.5, 1\n{}\n"
        + _F
        + "    global n\n    n = n * 2.0 + m\n    return x * n\ndef left(): return n, m\n"
        + _SAME,
        ("", "n = 2", "m = 3", "n = fg.ones(3)", "m = 0.5", "n = 7.5"),
    ),
    Family(
        "Outcome",
        "of an argument",
        _K + "    return x * 2 if k > {} else x - k" + _CALLS,
        ("0.1", "1.0", "2.0", "3.0", "1", "-1", "float('nan')"),
    ),
    Family(
        "Outcome",
        "of an attribute",
        _ATTRIBUTE + _F + "    a.k = a.k + 1.0\n    return x * 2 if a.k {} else x - 1" + _SAME,
        ("> 0.1", "> 3.0", "< 3.0", "== 4.5", "> a.h * 3", "% 2 > 1"),
    ),
    Family(
        "computed",
        "texts",
        _F
        + "    return x + 1, '%.2f' % (x.sum().item() {})"
        + "\ncalls = [(fg.ones(3) * k,) for k in range(4)]\n",
        ("* 2", "+ 1", "- 0.5", "* 0.0", "/ 3", "* 2 + 1"),
    ),
    Family(
        "computed",
        "means",
        _ATTRIBUTE
        + _F
        + "    a.k = {} * a.k + x.sum().item()\n    return x * 2, a.k\n"
        + "calls = [(fg.ones(3) * k,) for k in range(6)]\n",
        ("0.5", "0.25", "2", "-1.0", "a.h", "0.0"),
    ),
]
