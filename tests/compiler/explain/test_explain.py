"""What `explain()` tells: for each cause the thing, its old and new value, the user's line, and an advice."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import fusegrad as fg
from fusegrad import nn
from fusegrad.compiler.explain.miss_reasons import structure_text

scale = 2.0
_log: list[int] = []
_array = fg.ones(3).numpy()


def miss(function: Any) -> dict[str, Any]:
    """The one difference of the last call that no compiled code fitted, as `as_dict` and the text tell it."""
    found = function.explain()
    (difference,) = found.as_dict()["last_miss"]
    assert difference["message"] in str(found)
    assert difference["advice"] in str(found)
    return difference


def line_of(text: str) -> int:
    """The line of this file where `text`, marked `# here: name`, stands."""
    with open(__file__) as source:
        return next(i for i, line in enumerate(source, 1) if line.rstrip().endswith(f"# here: {text}"))


# What the arguments are.


def argument_case(
    first: Callable[[], tuple], second: Callable[[], tuple], keywords: Any = None
) -> dict[str, Any]:
    def f(x: Any, y: Any = None, **options: Any) -> Any:
        return (x * 2).sum()

    compiled = fg.jit(f)
    for _ in range(2):
        compiled(*first())
    compiled(*second(), **(keywords or {}))
    return miss(compiled)


_object = SimpleNamespace(a=1)
ARGUMENTS = [
    ("shape", lambda: (fg.ones(32, 10),), lambda: (fg.ones(64, 10),),
     "argument `x`: float32[64, 10] where float32[32, 10] was captured", "padded"),
    ("dtype", lambda: (fg.ones(3),), lambda: (fg.ones(3, dtype=fg.float64),),
     "argument `x`: float64[3] where float32[3] was captured", "convert it once"),
    ("strides", lambda: (fg.ones(2, 3),), lambda: (fg.ones(3, 2).t(),),
     "argument `x`: strides of [4, 8] bytes where strides of [12, 4] bytes was captured", "contiguous()"),
    ("requires_grad", lambda: (fg.ones(3),), lambda: (fg.ones(3, requires_grad=True),),
     "argument `x`: requires_grad=True where requires_grad=False was captured", "both are kept"),
    ("class", lambda: (fg.ones(3, requires_grad=True),), lambda: (nn.Parameter(fg.ones(3)),),
     "argument `x`: a Parameter where a Tensor was captured", "same class"),
    ("value", lambda: (fg.ones(3), "sum"), lambda: (fg.ones(3), "mean"),
     "argument `y`: 'mean' where 'sum' was captured", "each value has code of its own"),
    ("type", lambda: (fg.ones(3), "1"), lambda: (fg.ones(3), None),
     "argument `y`: None (NoneType) where '1' (str) was captured", "same type"),
    ("type", lambda: (fg.ones(3), "1"), lambda: (fg.ones(3), fg.ones(2)),
     "argument `y`: float32[2] where '1' was captured", "same type"),
    ("object", lambda: (fg.ones(3), _object), lambda: (fg.ones(3), SimpleNamespace(a=1)),
     "argument `y`: another SimpleNamespace where a SimpleNamespace object was captured", "same object"),
]  # fmt: skip


@pytest.mark.parametrize(("aspect", "first", "second", "message", "advice"), ARGUMENTS)
def test_a_new_kind_of_argument(aspect: str, first: Any, second: Any, message: str, advice: str):
    found = argument_case(first, second)
    assert (found["kind"], found["aspect"], found["message"]) == ("argument", aspect, message)
    assert advice in found["advice"]


def test_tensors_that_are_the_same():
    x = fg.ones(3)
    found = argument_case(lambda: (x, fg.ones(3)), lambda: (x, x))
    assert found["aspect"] == "sharing"
    assert found["message"] == "argument `y`: the same tensor as `x` where a tensor of its own was captured"


def test_other_containers():
    found = argument_case(lambda: (fg.ones(3),), lambda: (fg.ones(3), 1))
    assert found["message"] == "the arguments: (x, y) where (x) was captured"
    found = argument_case(lambda: (fg.ones(3), [1]), lambda: (fg.ones(3), (1,)))
    assert found["kind"] == "structure" and found["now"] == "(., (.,))" and found["was"] == "(., [.])"
    found = argument_case(lambda: (fg.ones(3),), lambda: (fg.ones(3),), {"mode": "a"})
    assert found["message"] == "the arguments: (x, mode) where (x) was captured"
    key: Any = (dict, ((str, "a"), (int, 1)), (None, (list, None, (None, None))))
    assert structure_text(key) == "{'a': ., 1: [., .]}"


def test_modes():
    f = fg.jit(lambda x: x * 2)
    f(fg.ones(2))
    with fg.no_grad():
        f(fg.ones(2))
    assert miss(f)["message"] == "grad mode: off where on was captured"


def test_a_numbers_type():
    f = fg.jit(lambda x, n: x * n)
    f(fg.ones(2), 1)
    f(fg.ones(2), 1.0)
    assert miss(f)["message"] == "argument `n`: 1.0 (float) where 1 (int) was captured"


def test_the_closest_entry_is_the_one_with_the_fewest_differing_leaves():
    @fg.jit
    def f(x, y, z):
        return x + y + z

    one, two, three = fg.ones(2, 2), fg.ones(2), fg.ones(1)
    f(one, one, one), f(two, two, two)
    f(two, two, three)  # nearer to the second
    assert [d["message"] for d in f.explain().as_dict()["last_miss"]] == [
        "argument `z`: float32[1] where float32[2] was captured"
    ]
    f(one, three, two)
    differing = f.explain().as_dict()["last_miss"]
    assert [d["what"] for d in differing] == ["argument `y`", "argument `z`"]
    entries = f.explain().as_dict()["entries"]
    assert [len(e["differs"]) for e in entries] == [0, 3, 1, 2]
    assert "other than before: argument `z`: float32[1]" in str(f.explain())


# What a run read.


def after(function: Any, change: Callable[[], Any]) -> dict[str, Any]:
    x = fg.ones(3)
    for _ in range(2):
        function(x)
    assert function.stats.compiled_calls == 1
    change()
    function(x)
    assert function.stats.guard_failures == 1
    return miss(function)


def test_a_global(monkeypatch: pytest.MonkeyPatch):
    @fg.jit
    def f(x):
        return x * scale  # here: global

    found = after(f, lambda: monkeypatch.setitem(globals(), "scale", 3.0))
    assert (found["kind"], found["was"], found["now"]) == ("global", "2.0", "3.0")
    assert found["line"] == line_of("global") and found["file"] == __file__
    assert found["message"].startswith("global `scale`: now 3.0, was 2.0 (test_explain.py:")
    assert "an input once it has been two others" in found["advice"]


def test_an_attribute_of_an_object_in_a_closure():
    config = SimpleNamespace(rate=0.5)
    f = fg.jit(lambda x: x * config.rate)
    found = after(f, lambda: setattr(config, "rate", 0.25))
    assert found["kind"] == "attribute" and found["what"] == "attribute `rate` of a SimpleNamespace"
    assert "now 0.25, was 0.5" in found["message"] and "config.rate" in found["text"]


def test_an_attribute_that_goes_and_one_that_comes():
    config = SimpleNamespace(rate=0.5)
    f = fg.jit(lambda x: x * getattr(config, "rate", 2.0))
    assert "now absent, was 0.5" in after(f, lambda: delattr(config, "rate"))["message"]
    g = fg.jit(lambda x: x * getattr(config, "rate", 2.0))
    assert "now 0.1, was absent" in after(g, lambda: setattr(config, "rate", 0.1))["message"]


def test_a_closure_variable():
    number = 1.0
    f = fg.jit(lambda x: x * number)

    def change() -> None:
        nonlocal number
        number = 4.0

    assert after(f, change)["message"].startswith("closure variable `number`: now 4.0, was 1.0")


def test_an_object_that_is_replaced():
    holder = SimpleNamespace(config=SimpleNamespace(rate=0.5))
    old = holder.config
    f = fg.jit(lambda x: x * holder.config.rate)
    found = after(f, lambda: setattr(holder, "config", SimpleNamespace(rate=0.5)))
    assert "now another SimpleNamespace object, was a SimpleNamespace object" in found["message"] and old
    assert "make the object once" in found["advice"]


def test_an_object_that_is_gone():
    class Config:
        rate = 0.5

    holder = SimpleNamespace(config=Config())
    f = fg.jit(lambda x: x * holder.config.rate)
    found = after(f, lambda: setattr(holder, "config", Config()))
    assert "now a Config object, was a Config object that is gone" in found["message"]
    assert "make the object once" in found["advice"]


def test_containers():
    items, table = [1.0, 2.0], {"a": 1.0}

    def total(x):
        for item in items:
            x = x * item
        return x

    found = after(fg.jit(total), lambda: items.append(3.0))
    assert found["kind"] == "contents" and "now (1.0, 2.0, 3.0), was (1.0, 2.0)" in found["message"]
    found = after(fg.jit(lambda x: x * table["a"]), lambda: table.update(a=5.0))
    assert found["message"].startswith("item ['a'] of a dict: now 5.0, was 1.0")
    found = after(fg.jit(lambda x: x * len(items)), items.clear)
    assert found["message"].startswith("the length of a list: now 0, was 3")


def test_code_and_defaults():
    def helper(x, factor=2.0):
        return x * factor

    def other(x, factor=2.0):
        return x + factor

    f = fg.jit(lambda x: helper(x))
    found = after(f, lambda: setattr(helper, "__defaults__", (5.0,)))
    assert "now other defaults: (5.0), was the same code and defaults (2.0)" in found["message"]
    f = fg.jit(lambda x: helper(x))
    assert "now other code" in after(f, lambda: setattr(helper, "__code__", other.__code__))["message"]


def test_a_parameter_that_is_replaced_and_one_of_another_shape():
    model = nn.Linear(3, 2)
    old = model.weight
    f = fg.jit(model)
    found = after(f, lambda: setattr(model, "weight", nn.Parameter(fg.zeros(2, 3))))
    assert (
        "attribute `weight` of a Linear: now another tensor float32[2, 3]" in found["message"]
        and old is not None
    )
    w = fg.ones(3)
    g = fg.jit(lambda x: x * w)

    def resize() -> None:
        w.requires_grad_()

    assert "requires_grad" in after(g, resize)["message"]


def test_the_closest_state_of_the_world_is_told(monkeypatch: pytest.MonkeyPatch):
    config = SimpleNamespace(a="1", b="1")  # numbers that vary would be operands
    f = fg.jit(lambda x: x * len(config.a) * len(config.b))
    x = fg.ones(3)
    f(x)
    config.a, config.b = "2", "2"
    f(x)
    config.b = "3"  # nearer to the second
    f(x)
    assert miss(f)["what"] == "attribute `b` of a SimpleNamespace" and miss(f)["was"] == "'2'"
    config.b = "4"
    f(x)
    assert f.explain().as_dict()["misses"] == {
        "attribute `b` of a SimpleNamespace": 2,
        "attribute `a` of a SimpleNamespace": 1,
    }
    assert "again and again: attribute `b` of a SimpleNamespace (2 times)" in str(f.explain())


# What the data were.


def test_a_branch():
    @fg.jit
    def f(x):
        if x.mean() > 10:  # here: branch
            return x * 2
        return x * 3

    for _ in range(2):
        f(fg.ones(3))
    f(fg.ones(3) * 100)
    found = miss(f)
    assert (found["kind"], found["was"], found["now"], found["line"]) == (
        "branch",
        "False",
        "True",
        line_of("branch"),
    )
    assert found["message"].startswith("branch at test_explain.py:")
    assert found["message"].endswith("`if x.mean() > 10:  # here: branch` was False, now True")
    assert "both sides are kept" in found["advice"]


def test_a_number_that_leaves():
    f = fg.jit(lambda x: x * round(x.sum().item(), 3))
    for n in (1, 2, 3):
        f(fg.ones(1) * n)
    found = miss(f)
    assert (
        found["was"] == "1.0 or 2.0" and found["now"] == "3.0" and "each value is a path" in found["advice"]
    )


# What a run did.


def shows_effects(x: Any) -> list[tuple[str, Callable[..., Any], str, str]]:
    config = SimpleNamespace(a=1)
    numbers = iter(range(100))

    def prints(x):
        print(end="", file=sys.stderr)
        return x * 2

    def inserts(x):
        _log.insert(99, 1)
        return x * 2

    def sets(x):
        config.a = config
        return x * 2

    def clock(x):
        return x * time.localtime().tm_year

    def draws(x):
        return x * random.choice([2.0])

    def reads_values(x):
        return x * sum(x.tolist())

    def reads_array(x):
        _array.sort()
        return x * float(_array[0])

    def opens_file(x):
        with open(__file__) as file:
            file.readline()
        return x * 2

    def iterates(x):
        return x * next(numbers)

    def views(x):
        return x[0]

    def makes(x):
        return SimpleNamespace(x=x)

    def defines(x):
        class Scaled:
            factor = 2

        return x * Scaled.factor

    return [
        ("prints", prints, "prints", "print outside"),
        ("writes outside", inserts, "calls `insert` of a list that lives outside", "let the caller keep it"),
        ("writes outside", sets, "sets `a` of a SimpleNamespace object that lives outside", "let the caller"),
        ("clock", clock, "`time`", "pass the number as an argument"),
        ("random", draws, "Random", "fg.rand"),
        ("values", reads_values, "leave through tolist()", "keep the computation in tensor ops"),
        ("numpy", reads_array, "a NumPy array", "fg.from_numpy"),
        ("file", opens_file, "opens a file", "outside the function"),
        ("iterator", iterates, "advances an iterator", "next item outside"),
        ("memory", views, "returns a view", ".clone()"),
        ("result", makes, "returns an object of type SimpleNamespace", "return tensors and numbers"),
        ("cannot be followed", defines, "defines a class", "move that part out"),
    ]


def test_what_a_run_did_is_named_with_its_line_and_what_to_do(capsys: pytest.CaptureFixture[str]):
    x = fg.ones(3)
    for kind, function, reason, advice in shows_effects(x):
        compiled = fg.jit(function)
        for _ in range(2):
            compiled(x)
        (entry,) = compiled.explain().as_dict()["entries"]
        found = [r for r in entry["reasons"] if reason in r["reason"]]
        assert found and found[0]["kind"] == kind, (kind, entry["reasons"])
        code = function.__code__
        assert (
            found[0]["file"] == __file__
            and code.co_firstlineno <= found[0]["line"] <= code.co_firstlineno + 3
        )
        assert advice in found[0]["advice"], (kind, found)
        text = str(compiled.explain())
        assert (
            reason in text
            and f"-> {found[0]['advice']}" in text
            and f"test_explain.py:{found[0]['line']}" in text
        )


# The whole.


def test_the_text_of_a_path():
    config = SimpleNamespace(rate=0.5)

    @fg.jit
    def f(x):
        y = x * config.rate
        if y.sum() > 0:
            return y * 2
        return y

    for value in (1, 1, -1, 1):
        f(fg.ones(3) * value)
    text = str(f.explain())
    assert "f: 4 calls, 2 compiled, 2 eager; 2 compiles, 1 guard failures" in text
    assert "arguments (x: float32[3])" in text and "path 1 (replay): 2 calls" in text
    assert "guard True at " in text and "guard False at " in text and "if y.sum() > 0:" in text
    assert "reads attribute `rate` of a SimpleNamespace is 0.5  (" in text and "config.rate)" in text
    assert "no longer so" not in text
    config.rate = 0.75
    assert "reads attribute `rate` of a SimpleNamespace is 0.5  (no longer so)  (" in str(f.explain())


def test_what_belongs_to_fusegrad_is_counted_only():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    f = fg.jit(model)
    for _ in range(2):
        f(fg.ones(2, 3))
    text = str(f.explain())
    assert "inside fusegrad's own modules and optimizers: none has changed" in text
    assert "_forward_hooks" not in text and len(text.splitlines()) < 20
    reads = f.explain().as_dict()["entries"][0]["paths"][0]["reads"]
    assert any("_forward_hooks" in read["what"] for read in reads if read["own"])
    assert text.startswith("Sequential: 2 calls")


def test_numbers_that_are_inputs_are_told():
    box = SimpleNamespace(rate=0.5)
    f = fg.jit(lambda x, n: x * n * box.rate)
    for n in (1.0, 2.0, 3.0, 4.0, 5.0):
        box.rate = n / 8
        f(fg.ones(3), n)
    text = str(f.explain())
    assert "takes the number that is now in argument `n`" in text
    assert "takes the number that is now in attribute `rate` of a SimpleNamespace" in text
    assert "arguments (x: float32[3], n: any float)" in text


def test_the_structure_is_json_and_has_the_documented_fields():
    @fg.jit
    def f(x, n):
        print(end="")
        return x * n

    for n in (1, 1, 2):
        f(fg.ones(2), n)
    g = fg.jit(lambda x: x * scale)
    for x in (fg.ones(2), fg.ones(2), fg.ones(3, requires_grad=True)):
        g(x)
    for function in (f, g):
        found = json.loads(json.dumps(function.explain().as_dict()))
        assert set(found) == {"function", "stats", "last_miss", "misses", "machine_code", "entries"}
        for entry in found["entries"]:
            assert set(entry) == {
                "arguments", "leaves", "differs", "paths", "deferred", "compiling", "given_up", "reasons",
                "earlier", "not_rolled", "last_failure", "failure",
            }  # fmt: skip
            for path in entry["paths"]:
                assert set(path) == {
                    "way", "calls", "guards", "reads", "numbers", "not_rolled", "forward", "backward",
                    "joint", "compiling",
                }  # fmt: skip
                for read in path["reads"]:
                    assert set(read) == {"kind", "what", "was", "holds", "own", "file", "line", "text", "at"}
            for reason in entry["reasons"]:
                assert set(reason) == {"reason", "kind", "advice", "file", "line", "text", "at"}
        for difference in found["last_miss"]:
            assert set(difference) == {
                "kind", "what", "was", "now", "aspect", "file", "line", "text", "message", "advice",
            }  # fmt: skip


def test_kernels_are_told_with_their_loops_and_work():
    @fg.jit
    def softmax(x):
        return fg.softmax(x, 1)

    for _ in range(2):
        softmax(fg.ones(5000, 3))
    assert "unrolled" not in str(softmax.explain())
    (line,) = (text for text in str(softmax.explain(kernels=True)).splitlines() if "cycles" in text)
    assert "vectors of" in line and "i1 (3) unrolled" in line
