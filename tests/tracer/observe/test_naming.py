"""Names of captured tensors: how they were read, the same at every run."""

from __future__ import annotations

import functools
import sys

import numpy as np

import fusegrad as fg
from fusegrad import nn
from fusegrad.eager.core.op import wrap
from fusegrad.tracer.capture.api import capture


def tensor(*shape, seed=0):
    return wrap(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def names(function, *args):
    return [v.name for v in capture(function, args).captured]


w, other, v0, relu = tensor(3), tensor(3), tensor(3), tensor(3)
alias = w
table = {"scale": tensor(3), 2: tensor(3), (1, 2): tensor(3)}
layers = [[tensor(3)], [tensor(3)]]


class Holder:
    shared = tensor(3)

    def __init__(self, inner=None):
        self.weight = tensor(3)
        self.inner = inner

    def apply(self, x):
        return x * self.weight + self.inner.weight + self.shared


holder = Holder(Holder())


def test_globals_closures_defaults_items_and_attributes_name_their_tensors():
    local = tensor(3)

    def function(x, default=other, *, keyword=v0):
        y = x * w + local + default * keyword + table["scale"] * table[2]
        return y + layers[1][0] + holder.weight + holder.inner.weight + Holder.shared

    expected = ["w", "local", "default", "keyword", "table_scale", "table_2"]
    expected += ["layers_1_0", "holder_weight", "holder_inner_weight", "Holder_shared"]
    assert sorted(names(function, tensor(3))) == sorted(expected)


def test_what_self_has_is_named_without_self():
    assert names(holder.apply, tensor(3)) == ["weight", "inner_weight", "shared"]


def test_modules_in_a_loop_are_told_apart_by_their_place():
    blocks = [nn.Linear(3, 3) for _ in range(2)]

    def function(x):
        for block in blocks:
            x = block(x)
        return x

    assert names(function, tensor(2, 3)) == [
        f"blocks_{i}_{part}" for i in range(2) for part in ("weight", "bias")
    ]


def test_equal_names_get_numbers_and_names_of_ops_and_intermediates_stay_theirs():
    def function(x):
        def inner(w):
            return w * first

        first = x + 1.0
        return inner(w) + v0 + relu

    def same(x):
        return function(x) * holder.weight * alias

    taken = capture(same, (tensor(3),))
    used = [v.name for v in taken.graph.inputs] + [v.name for e in taken.graph.equations for v in e.outputs]
    assert len(used) == len(set(used))
    assert [v.name for v in taken.captured] == ["w", "v0_2", "relu_", "holder_weight"]


def test_a_tensor_read_by_a_name_that_an_argument_has_gets_a_number():
    def function(w):
        return w * holder_of(w)

    def holder_of(x):
        return x + globals_of()

    def globals_of():
        return alias + holder.inner.weight

    taken = capture(function, (tensor(3, seed=1),))
    assert [v.name for v in taken.graph.inputs] == ["w", "alias", "holder_inner_weight"]

    def clash(holder_weight):
        return holder_weight + holder.weight

    assert [v.name for v in capture(clash, (tensor(3, seed=1),)).graph.inputs] == [
        "holder_weight",
        "holder_weight_2",
    ]


def test_tensors_without_a_path_are_numbered():
    function = functools.partial(lambda a, b, x: a * b + x, tensor(3), tensor(3))

    def run(x):
        return function(x)

    assert all(n.isidentifier() for n in names(run, tensor(3)))


def test_every_run_gives_the_same_names_and_the_start_of_a_run_fixes_the_names_in_it():
    def function(x):
        h = x * w + table["scale"]
        if h.sum() > 0:
            return h + holder.weight
        return h - other * holder.inner.weight

    x = wrap(np.full(3, 1e6, "float32") * np.sign(w.array))
    first, again = capture(function, (x,)), capture(function, (x,))
    assert first.graph == again.graph
    below = capture(function, (wrap(-x.array),))
    prefix = [e for e in first.graph.equations if e.op.name in ("mul", "add")][:2]
    for ours, theirs in zip(prefix, below.graph.equations, strict=False):
        assert ours.key() == theirs.key()


def test_paths_of_one_function_still_share_their_start_when_compiled():
    @fg.jit
    def function(x):
        h = x * w + table["scale"]
        if h.sum() > 0:
            return h + holder.weight
        return h - other

    x = wrap(np.full(3, 1e6, "float32") * np.sign(w.array))
    for sign in (1, -1, 1, -1):
        given = wrap(sign * x.array)
        np.testing.assert_allclose(function(given).array, function.__wrapped__(given).array, rtol=1e-6)
    assert function.stats.compiled_calls == 2
    assert [len(e.variants) for e in function.entries.values()] == [1]


def test_reasons_about_memory_say_so():
    x = tensor(2, 3)
    kinds = {
        "view": capture(lambda x: x.reshape(-1), (x,)),
        "twice": capture(lambda x: (lambda h: (h, h.reshape(-1)))(x * 2.0), (x,)),
        "print": capture(lambda x: print("", file=sys.stdout) or x * 2.0, (x,)),
    }
    assert {name: [r.kind for r in taken.reasons] for name, taken in kinds.items()} == {
        "view": ["memory"],
        "twice": ["memory"],
        "print": [""],
    }
