"""What a custom Function may give, and what its backward gets for it, against torch."""

from __future__ import annotations

import pytest
from oracle import torch

import fusegrad as fg

# The results of forward for x; which of them are marked as without gradient; which one is used.
RESULTS = {
    "text": (lambda x: (x * 2, "note"), (), 0),
    "None": (lambda x: (x * 2, None), (), 0),
    "None before": (lambda x: (None, x * 2), (), 1),
    "others around": (lambda x: (3, x * 2, {}), (), 1),
    "unused": (lambda x: (x * 2, x * 3), (), 0),
    "not differentiable": (lambda x: (x * 2, x * 3), (1,), 0),
    "integers": (lambda x: (x * 2, x.long()), (), 0),
    "a tuple of one": (lambda x: (x * 2,), (), 0),
    "no tensor": (lambda x: ("a", 1), (), None),
    "None alone": (lambda x: None, (), None),
}


def described(value):
    return (tuple(value.shape), str(value.dtype), value.tolist()) if hasattr(value, "dtype") else value


@pytest.mark.parametrize("materialize", [True, False])
@pytest.mark.parametrize("name", RESULTS)
def test_backward_gets_one_gradient_for_each_result(name, materialize):
    forward_of, marked, used = RESULTS[name]

    def program(lib):
        seen = []

        class Double(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads(materialize)
                results = forward_of(x)
                ctx.mark_non_differentiable(*(results[i] for i in marked))
                return results

            @staticmethod
            def backward(ctx, *gradients):
                seen.append([described(g) for g in gradients])
                return next(g for g in gradients if g is not None) * 2

        x = lib.ones(2, requires_grad=True)
        results = Double.apply(x)
        if used is not None:
            results[used].sum().backward()
        listed = results if isinstance(results, tuple) else (results,)
        return [getattr(r, "requires_grad", r) for r in listed], seen, described(x.grad)

    assert program(fg) == program(torch)


@pytest.mark.parametrize("way", ["new", "input", "dirty"])
def test_one_tensor_given_twice(way):
    def program(lib):
        seen = []

        class Twice(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                if way == "dirty":
                    ctx.mark_dirty(x.mul_(2))
                result = x * 2 if way == "new" else x
                return result, result

            @staticmethod
            def backward(ctx, first, second):
                seen.append((first.tolist(), second.tolist()))
                return first * 2 + second * 20

        x = lib.ones(2, requires_grad=True)
        one, other = Twice.apply(x * 1)
        (one * 3 + other * 5).sum().backward()
        return one is other, seen, x.grad.tolist(), one.output_nr, other.output_nr

    assert program(fg) == program(torch)
