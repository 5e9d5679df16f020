"""`out=` of every function that takes it, against torch: values, dtypes, sizes, and what is refused."""

from __future__ import annotations

import functools
import inspect
import warnings

import pytest
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.ops.shape import out as taking
from fusegrad.eager.ops.shape.out import _TAKING

# Arguments, of which each function gets the first that it takes in PyTorch.
ARGUMENTS = """
x
x, y
m
m, m
m, 1
m, 0
x, 2
i, i
i
b, b
q
q, q
c
x, y, y
x, 0.5
m, 0.5
3
2, 2
(2,)
(2, 2), 1.0
0, 1, 3
0, 3
m, x
x, x
m, x, x
x, m, x
x, x, x
m, m, m
t, t
t, t, t
m, t, t
2, x
b
b, x, y
x, m[0]
m, l
[m, m]
[x, x]
x, 2, 0, 1.0
m, 2, 0, 1.0
m, 0, 0, 1
m, 0, i
m, 0, j
q, p
q, q, p
m, 2.0
m, m, 0
5, (2,)
0.0, 1.0, (2,)
w, w
q, s
x, i
3, x
""".strip().splitlines()


def arguments(T):
    q = T.tensor([[2.0, 0.5, 0.0], [0.5, 3.0, 0.25], [0.0, 0.25, 1.5]])
    return {
        "T": T,
        "x": T.tensor([0.25, 0.5, 0.75]),
        "y": T.tensor([1.5, 2.0, 0.5]),
        "m": T.arange(9.0).reshape(3, 3) / 10 + 0.05,
        "q": q,
        "i": T.tensor([1, 2, 0]),
        "j": T.tensor([[1, 2, 0]]),
        "b": T.tensor([True, False, True]),
        "c": T.tensor([1 + 2j, 0.5j, 1.0]),
        "t": T.arange(18.0).reshape(2, 3, 3) / 10,
        "l": T.tensor([2, 3, 1]),
        "p": T.tensor([1, 2, 3], dtype=T.int32),
        "w": T.tensor([1.0, 2.0, 3.0]),
        "s": T.ones(3, 1),
    }


NAMES = [(path, name) for path, names in _TAKING.items() for name in names.split()]
RANDOM = {"rand", "randn", "randint", "randperm", "normal", "empty"}
# Not unique, or of matrices without an inverse.
NOT_COMPARED = ("svd", "eig", "lu_", "tensorinv", "tensorsolve", "slogdet")
# What PyTorch gives for none of the arguments above, or takes no `out` for in Python.
UNTRIED = 25


def function_of(T, path, name):
    space = T if path == "fusegrad" else getattr(T, path.removeprefix("fusegrad."))
    return getattr(space, name)


@functools.cache
def call_of(path, name):
    """The arguments, and how many results there are; None where PyTorch takes none of them with `out`."""
    # Products of matrices that can be inverted, where that is asked for.
    first = ["q, p", "q", "q, q", "q, s"] if path == "fusegrad.linalg" or name == "inverse" else []
    for text in first + ARGUMENTS:
        known = arguments(torch)
        values = eval(f"({text},)", known)
        try:
            result = function_of(torch, path, name)(*values)
            results = result if isinstance(result, tuple) else (result,)
            outs = tuple(torch.empty(0, dtype=r.dtype) for r in results)
            made = function_of(torch, path, name)(*values, out=outs if isinstance(result, tuple) else outs[0])
        except Exception:
            continue
        if made is not outs[0] and not isinstance(result, tuple):
            continue  # chain_matmul gives a single matrix back
        return text, len(results) if isinstance(result, tuple) else 0
    return None


def listed(value):
    return [torch.as_tensor(v.tolist()).to(torch.complex128) for v in value]


def test_nearly_all_are_tried():
    untried = [name for path, name in NAMES if call_of(path, name) is None]
    assert len(untried) <= UNTRIED, untried


@pytest.mark.parametrize(("path", "name"), NAMES)
def test_results_are_written(path, name):
    call = call_of(path, name)
    if call is None or name == "ihfftn":
        pytest.skip("no arguments for it, or torch writes nothing")
    text, count = call

    def program(T, dtypes):
        values = eval(f"({text},)", arguments(T))
        outs = tuple(T.empty(0, dtype=getattr(T, d)) for d in dtypes)
        result = function_of(T, path, name)(*values, out=outs if count else outs[0])
        if result is None:  # of torch's unbind_copy and split_copy
            return outs
        same = all(r is o for r, o in zip(result, outs, strict=True)) if count else result is outs[0]
        assert same
        return outs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = function_of(torch, path, name)(*eval(f"({text},)", arguments(torch)))
        dtypes = [str(r.dtype)[6:] for r in (plain if count else (plain,))]
        found, right = program(fg, dtypes), program(torch, dtypes)
        assert [(tuple(f.shape), str(f.dtype)) for f in found] == [
            (tuple(r.shape), str(r.dtype)) for r in right
        ]
        if name not in RANDOM and not any(part in name for part in NOT_COMPARED):
            for mine, other in zip(listed(found), listed(right), strict=True):
                torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize(
    "name", ["add", "mul", "sin", "matmul", "sum", "sqrt", "where", "cumsum", "cat", "clamp"]
)
def test_what_may_be_written_into(name):
    arguments = {"matmul": "m, m", "sum": "m, 0", "cumsum": "x, 0", "cat": "[x, x]", "clamp": "x, 0.3, 0.6"}
    text = arguments.get(name, "b, x, y" if name == "where" else "x, y" if name in ("add", "mul") else "x")

    def program(T, out):
        known = {**globals()["arguments"](T), "grad": T.ones(3, requires_grad=True)}
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                made = getattr(T, name)(*eval(f"({text},)", known), out=eval(out, known))
            except (RuntimeError, TypeError):
                return "refused"
        return str(made.dtype), tuple(made.shape), any("was resized" in str(w.message) for w in seen)

    for out in (
        "T.empty(0)",
        "T.ones(7)",
        "T.ones(3)",
        "grad",
        "T.ones(3).long()",
        "3",
        "T.ones(1).expand(3)",
    ):
        found, right = program(fg, out), program(torch, out)
        assert found == right or name in ("matmul", "sum", "cat"), (out, found, right)


def test_operands_may_be_written_over():
    x = fg.tensor([1.0, 2.0])
    assert fg.add(x, x, out=x) is x and x.tolist() == [2, 4]
    m = fg.arange(4.0).reshape(2, 2)
    assert fg.matmul(m, m, out=m).tolist() == [[2, 3], [6, 11]]
    assert fg.add(m[0], 1, out=m[1]).tolist() == [3, 4] and m.tolist() == [[2, 3], [3, 4]]


def test_compiled():
    def program(x, out):
        fg.mul(x, 2, out=out)
        return fg.sort(x, out=(fg.empty(3), fg.empty(3, dtype=fg.int64)))[1] + out.sum()

    compiled, out = fg.jit(program), fg.zeros(3)
    for i in range(4):
        x = fg.tensor([3.0, 1.0, 2.0]) + i
        assert compiled(x, out).tolist() == program(x, fg.zeros(3)).tolist()
        assert out.tolist() == (x * 2).tolist()


def test_signatures_have_it():
    for path, name in NAMES:
        function = function_of(fg, path, name)
        shown = inspect.signature(function).parameters
        assert shown["out"].kind is inspect.Parameter.KEYWORD_ONLY and shown["out"].default is None
        plain = inspect.signature(inspect.unwrap(function)).parameters
        more = {"out", "axis", "keepdims"} - plain.keys()
        assert {n: p for n, p in shown.items() if n not in more} == dict(plain)


def _made(lib, name, *sizes):
    """A call of `name` that works, and its result; None for what takes other arguments."""
    x = lib.arange(9, dtype=lib.float64).reshape(3, 3) / 10
    for given in ((x,), (x, x), (x, 1)):
        try:
            result = getattr(lib, name)(*given)
        except (TypeError, RuntimeError, ValueError, IndexError):
            continue
        return given, result
    return None, None


@pytest.mark.parametrize("name", sorted(_TAKING["fusegrad"].split()))
def test_results_of_another_dtype_are_refused_where_torch_refuses(name):
    def refused(lib):
        given, result = _made(lib, name)
        if not isinstance(result, lib.Tensor) or result.dtype not in (lib.float64, lib.int64, lib.bool):
            return None
        try:
            getattr(lib, name)(*given, out=lib.empty(result.shape, dtype=lib.float32))
        except RuntimeError:
            return True
        except TypeError:
            return None  # no out= for these arguments
        return False

    if name in ("cross", "norm"):
        return  # these compute in the dtype of out
    theirs = refused(torch)
    assert theirs is not True or refused(fg) is not False


# How an `out` lies, that is made beside the result which a function gives.
LAYOUTS = {
    "expanded, of another size": lambda T, r: T.zeros((1, 6), dtype=r.dtype).expand(2, 6),
    "with steps": lambda T, r: T.zeros((*r.shape, 2), dtype=r.dtype)[..., 0],
    "a part, of another size": lambda T, r: T.zeros(30, dtype=r.dtype)[2:9],
    "turned": lambda T, r: T.zeros(tuple(r.shape)[::-1], dtype=r.dtype).permute(*range(r.dim())[::-1]),
    "wider": lambda T, r: T.zeros(tuple(r.shape), dtype=T.float64),
}
WITHIN = "within an operand"
# PyTorch's compute in the dtype of `out`, or ask other things of it first; of `ndtr` it is made of parts.
NOT_ALIKE = {
    "cross",
    "ifft",
    "nonzero",
    "lu_solve",
    "bucketize",
    "ndtr",
    "addr",
    "ihfftn",
    "narrow_copy",
    "chain_matmul",
}


def _placed(T, path, name, text, layout):
    """The arguments, and an `out` that lies so; None where there is none."""
    values = list(eval(f"({text},)", arguments(T)))
    result = function_of(T, path, name)(*values)
    if layout != WITHIN:
        return values, LAYOUTS[layout](T, result)
    for place, value in enumerate(values):
        if isinstance(value, T.Tensor) and value.dtype == result.dtype and value.dim():
            whole = T.zeros(value.shape[0] + 1, *value.shape[1:], dtype=value.dtype)
            whole[:-1] = value
            values[place] = whole[:-1]
            return values, whole[1:]
    return None


def _came_of(T, path, name, text, layout):
    placed = _placed(T, path, name, text, layout)
    if placed is None:
        return None
    values, out = placed
    try:
        function_of(T, path, name)(*values, out=out)
    except RuntimeError:
        return "refused"
    return tuple(out.shape), out.tolist()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("layout", [*LAYOUTS, WITHIN])
@pytest.mark.parametrize("letter", sorted({name[0] for _, name in NAMES}))
def test_where_out_may_lie(letter, layout):
    for path, name in NAMES:
        call = call_of(path, name) if name[0] == letter else None
        if call is None or call[1] or name in NOT_ALIKE or name in RANDOM:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                right = _came_of(torch, path, name, call[0], layout)
            except Exception:
                continue  # no such numbers, or no such operand, in PyTorch
            found = _came_of(fg, path, name, call[0], layout)
        assert (found == "refused") == (right == "refused"), (path, name, found, right)
        # What lies within an operand and is not refused is whatever PyTorch has written by then.
        if found not in (None, "refused") and layout != WITHIN:
            assert found[0] == right[0], (path, name)
            if not any(part in name for part in NOT_COMPARED):
                pair = [torch.as_tensor(x[1]).to(torch.complex128) for x in (found, right)]
                torch.testing.assert_close(*pair, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_an_out_that_is_not_written_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(taking, "check_once", lambda out: None)
    assert finds(test_where_out_may_lie, "a", "expanded, of another size")
    monkeypatch.setattr(taking, "_overlap", lambda out, operand, wholly: False)
    assert finds(test_where_out_may_lie, "a", WITHIN)
    monkeypatch.setattr(taking, "written_out", lambda made, target, *_, **__: target)
    assert all(finds(test_results_are_written, "fusegrad", name) for name in ("cumsum", "kron", "linspace"))
