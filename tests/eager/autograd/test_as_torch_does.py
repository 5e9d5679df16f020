"""What hooks see, what is warned of and what is refused around backward: the same as in PyTorch."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg


def shown(value: Any) -> Any:
    """A nested value with lists in the place of tensors."""
    if isinstance(value, (tuple, list)):
        return [shown(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value


def both(run: Callable[[Any], Any]) -> None:
    assert shown(run(fg)) == shown(run(torch))


def refusal(function: Callable[[], Any], kind: type[Exception] = RuntimeError) -> str:
    """The error's text, without what fusegrad adds before and after it."""
    with pytest.raises(kind) as error:
        function()
    return re.sub(r"^(\w+: )+", "", str(error.value).partition("\n")[0]).strip()


NODES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a product with what needs no gradient": lambda t, x, n: x * n,
    "a product with it in front": lambda t, x, n: n * x,
    "a quotient": lambda t, x, n: n / x,
    "where": lambda t, x, n: t.where(n > 0, n, x),
    "a maximum": lambda t, x, n: t.maximum(x, n),
    "two": lambda t, x, n: x * x,
}


@pytest.mark.parametrize("name", NODES)
def test_hooks_of_nodes_see_none_for_inputs_without_a_gradient(name: str):
    def run(t: Any) -> Any:
        seen: list[Any] = []
        x, n = t.tensor([1.0, 2.0], requires_grad=True), t.tensor([3.0, 0.5])
        made = NODES[name](t, x, n)
        made.grad_fn.register_hook(lambda given, received: seen.append((given, received)))
        made.sum().backward()
        return seen, x.grad

    both(run)


def test_a_hook_of_a_node_may_replace_what_it_sees():
    def run(t: Any) -> Any:
        x, n = t.tensor([1.0, 2.0], requires_grad=True), t.tensor([3.0, 0.5])
        made = x * n
        made.grad_fn.register_hook(lambda given, _: (given[0] * 10, None))
        made.sum().backward()
        return x.grad

    both(run)


def test_a_tensors_hook_is_called_with_none_where_only_other_results_have_gradients():
    def run(t: Any) -> Any:
        seen: list[Any] = []
        x = t.tensor([[1.0, 2.0], [4.0, 3.0]], dtype=t.float64, requires_grad=True)
        first, second = t.linalg.eigh(x @ x.T)
        first.register_hook(lambda gradient: seen.append(gradient is None))
        second.abs().sum().backward()
        return seen

    both(run)


@pytest.mark.parametrize("wanted", ["a", "b", "ab"])
@pytest.mark.parametrize("way", ["grad", "backward"])
def test_which_hooks_run_where_some_gradients_are_asked_for(wanted: str, way: str):
    def run(t: Any) -> Any:
        seen: list[str] = []
        a = t.tensor(1.0, requires_grad=True)
        b = a * 2
        c = b * 3
        node = b.grad_fn.next_functions[0][0]
        a.register_hook(lambda g: seen.append("a"))
        node.register_prehook(lambda g: seen.append("before a"))
        node.register_hook(lambda given, received: seen.append("after a"))
        a.register_post_accumulate_grad_hook(lambda leaf: seen.append("added"))
        b.register_hook(lambda g: seen.append("b"))
        b.grad_fn.register_prehook(lambda g: seen.append("before b"))
        b.grad_fn.register_hook(lambda given, received: seen.append("after b"))
        inputs = [{"a": a, "b": b}[name] for name in wanted]
        if way == "grad":
            t.autograd.grad(c, inputs)
        else:
            c.backward(inputs=inputs)
        return sorted(seen)

    both(run)


def test_backward_of_some_inputs_retains_the_gradients_of_those_that_are_no_leaves():
    def run(t: Any) -> Any:
        a = t.tensor(1.0, requires_grad=True)
        b = a * 2
        c = b * 3
        found = []
        for again in (False, True):
            if again:
                b.retain_grad()
            c.backward(inputs=[b], retain_graph=True)
            found.append(b.grad.clone())
        c.backward()
        return found, b.grad, a.grad, b.retains_grad

    both(run)


@pytest.mark.parametrize("mode", ["all", "any"])
def test_hooks_on_several_tensors(mode: str):
    def run(t: Any) -> Any:
        seen: list[Any] = []
        x, y, z = (t.tensor(value, requires_grad=True) for value in (1.0, 2.0, 3.0))
        product = x * y
        register = t.autograd.graph.register_multi_grad_hook
        handle = register((x, product, z), lambda given: seen.append(shown(given)), mode=mode)
        (product * 2).backward(retain_graph=True)
        (product * z).backward(retain_graph=True)
        t.autograd.grad(product * 5, product, retain_graph=True)
        handle.remove()
        product.backward()
        with pytest.raises(ValueError, match="Expects mode to be one of"):
            register((x,), print, mode="some")
        return seen

    both(run)


# Warnings.


def warned(run: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", category=RuntimeWarning)  # NumPy's, of 0 / 0
        run()
    return [str(w.message) for w in found]


def test_anomaly_mode_warns_and_says_where_the_forward_was():
    def run(t: Any) -> Any:
        def failing() -> None:
            with pytest.raises(RuntimeError), t.autograd.detect_anomaly():
                a = t.ones(2, requires_grad=True)
                b = a + 1
                c = b**2
                b += 1
                t.autograd.grad(c.sum(), a)

        first, second = warned(failing)
        assert "c = b**2" in second
        return first.partition(".")[0], second.partition(" Traceback")[0]

    both(run)


def test_anomaly_mode_without_a_forward_says_so_and_follows_backwards_of_backwards():
    def run(t: Any) -> Any:
        class Inner(t.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * float("nan")

        class Outer(t.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return x * 2

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                (x,) = ctx.saved_tensors
                return Inner.apply(g * x)

        def failing(inside: bool) -> None:
            x = t.ones(2, requires_grad=True)
            with pytest.raises(RuntimeError, match="returned nan values"):
                if inside:
                    with t.autograd.detect_anomaly():
                        (g,) = t.autograd.grad(Outer.apply(x).sum(), x, create_graph=True)
                        g.sum().backward()
                (g,) = t.autograd.grad(Outer.apply(x).sum(), x, create_graph=True)
                with t.autograd.detect_anomaly():
                    g.sum().backward()

        inside, outside = warned(lambda: failing(True)), warned(lambda: failing(False))
        assert "Inner.apply" in inside[1] and "Outer.apply" in inside[2]
        return (
            "No forward pass information" in outside[1],
            len(inside),
            len(outside),
            [text.strip().partition(" Traceback")[0] for text in inside],
        )

    both(run)


def test_a_graph_of_gradients_is_warned_of_once_or_always():
    def run(t: Any) -> Any:
        def backward() -> None:
            x = t.tensor(2.0, requires_grad=True)
            (x * x).backward(create_graph=True)
            t.autograd.backward(x * x, create_graph=True)
            x.grad = None

        warned(backward)
        t.set_warn_always(True)
        try:
            always = warned(backward)
        finally:
            t.set_warn_always(False)
        return (
            len(warned(backward)),
            [text.partition(" which")[0] for text in always],
            t.is_warn_always_enabled(),
        )

    both(run)


def test_checkpoint_keeps_its_setting_and_wants_a_choice():
    def run(t: Any) -> Any:
        checkpoint, counts = t.utils.checkpoint.checkpoint, []
        for early in (True, False):
            count = [0]

            def function(x: Any, count: Any = count) -> Any:
                made = x.sin().cos()
                count[0] += 1
                return made.clone()

            x = t.tensor(1.0, requires_grad=True)
            with t.utils.checkpoint.set_checkpoint_early_stop(early):
                result = checkpoint(function, x, use_reentrant=False)
            result.backward()
            counts.append((count[0], round(x.grad.item(), 5)))
        found = warned(lambda: checkpoint(lambda x: x * 2, t.ones(1, requires_grad=True)))
        return counts, [text.partition(" passed")[0] for text in found]

    both(run)


def test_a_backward_inside_of_a_checkpointed_function():
    def run(t: Any) -> Any:
        def function(x: Any) -> Any:
            a = x.sin().exp().sin()
            b = x.sin().exp().sin()
            first = t.autograd.grad(a, x, retain_graph=True)
            second = t.autograd.grad(b, x)
            return x.sin() + (first[0] + second[0]).detach()

        found = []
        for early in (True, False):
            x = t.tensor(0.5, dtype=t.float64, requires_grad=True)
            with t.utils.checkpoint.set_checkpoint_early_stop(early):
                result = t.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
            result.backward()
            found.append((round(result.item(), 12), round(x.grad.item(), 12)))
        return found

    both(run)


# What is refused.


def dirty(t: Any, forward: Callable[[Any, Any, Any], Any]) -> Any:
    """A Function whose forward is this."""

    class Dirty(t.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return forward(ctx, a, b)

        @staticmethod
        def backward(ctx: Any, *given: Any) -> Any:
            return given[0], given[0]

    return Dirty.apply


def returning_others(ctx: Any, a: Any, b: Any) -> Any:
    a.add_(b)
    ctx.mark_dirty(a)
    return a.clone()


def returning_two(ctx: Any, a: Any, b: Any) -> Any:
    a.add_(b)
    ctx.mark_dirty(a)
    return a, a + b


@pytest.mark.parametrize(
    ("forward", "view", "match"),
    [
        (returning_others, False, "Some elements marked as dirty"),
        (returning_two, True, "modifies inplace an input that is a view of another Tensor"),
    ],
)
def test_writes_of_functions_that_cannot_be_followed(forward: Any, view: bool, match: str):
    for t in (fg, torch):
        a, b = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
        given = a.clone().view_as(a) if view else a.clone()
        with pytest.raises(RuntimeError, match=match):
            dirty(t, forward)(given, b)


def test_both_backward_and_vjp_and_no_gradients_for_what_has_none():
    def run(t: Any) -> Any:
        class Both(t.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x.clone()

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g

            @staticmethod
            def vjp(ctx: Any, g: Any) -> Any:
                return g

        with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
            Both.apply(t.ones(1, requires_grad=True)).sum().backward()
        x = t.ones(1, requires_grad=True)
        edge = t.autograd.graph.get_gradient_edge(x.clone())
        grad = t.autograd.grad
        return [
            shown(grad((x * 2).sum(), (x,), materialize_grads=True)),
            refusal(lambda: grad((x * 2).sum(), (edge,), allow_unused=True, materialize_grads=True)),
        ]

    both(run)


STRICT: dict[str, Callable[[Any], Any]] = {
    "detached": lambda a: a.detach(),
    "of a constant": lambda a: a.long().float().requires_grad_().clone(),
    "linear": lambda a: a.clone(),
    "linear sum": lambda a: (3 * a).sum(),
    "square": lambda a: (a * a).sum(),
}


@pytest.mark.parametrize("name", STRICT)
@pytest.mark.parametrize("way", ["vjp", "jvp", "jacobian", "hessian", "vhp", "hvp"])
@pytest.mark.parametrize("create", [False, True])
def test_strict_mode(name: str, way: str, create: bool):
    if name != "linear sum" and name != "square" and way in ("hessian", "vhp", "hvp"):
        return  # which take functions of one value
    found = []
    for t in (fg, torch):
        x = t.tensor([0.5, 1.5], requires_grad=create)
        scalar = name in ("linear sum", "square")
        v = t.tensor(2.0) if scalar and way == "vjp" else t.tensor([1.0, 2.0])
        given = () if way in ("jacobian", "hessian") else (v,)
        try:
            made = getattr(t.autograd.functional, way)(
                STRICT[name], x, *given, create_graph=create, strict=True
            )
            found.append(shown(made))
        except RuntimeError as error:
            text = str(error).partition("\n")[0]
            found.append([word in text for word in ("Output 0", "independent of", "jacobian of", "input 0")])
    if not (way == "hvp" and found[0] != found[1] and isinstance(found[1][0], bool)):
        assert found[0] == found[1]


def test_gradcheck_says_which_part_of_a_complex_output_and_what_changed():
    for t in (fg, torch):

        def hooked(x: Any) -> Any:
            y = x.clone()
            y.register_hook(lambda g: g + 1e-2)
            return y

        z = t.ones(2, dtype=t.complex128, requires_grad=True)
        with pytest.raises(
            RuntimeError, match="While considering the imaginary part of complex outputs only"
        ):
            t.autograd.gradcheck(hooked, (z,))
        x = t.ones(1, dtype=t.float64, requires_grad=True)
        for change, what in ((lambda x, t=t: t.cat([x, x]), "shape"), (lambda x: x.float(), "dtype")):
            with pytest.raises(AssertionError, match=f"same {what} when inputs are perturbed"):
                t.autograd.gradcheck(lambda x, change=change: change(x) if x >= 1 else x, (x,))


def test_views_of_inference_tensors_and_writes_of_hooks():
    def run(t: Any) -> Any:
        with t.inference_mode():
            x = t.ones(2, 3, requires_grad=True)
        views = [x[0], x.view(-1), x.t(), x.expand(2, 2, 3), x.detach()]

        def doubled(kept: Any) -> Any:
            kept *= 2
            return kept

        leaf = t.ones(2, requires_grad=True)
        with t.autograd.graph.saved_tensors_hooks(doubled, lambda kept: kept):
            text = refusal(lambda: leaf.exp())
        return [(v.requires_grad, v.is_inference()) for v in views], text.partition(". Tensors")[0]

    both(run)


def test_classes_under_no_grad_and_values_in_it():
    def run(t: Any) -> Any:
        def decorate() -> None:
            @t.no_grad()
            class Decorated:
                pass

            Decorated()

        x = t.ones(2, requires_grad=True)
        with t.no_grad():
            values = x.numpy().tolist()
        return [text.partition(" and will")[0] for text in warned(decorate)], values

    both(run)


def test_data_is_a_tensor_that_may_have_gradients():
    def run(t: Any) -> Any:
        x = t.tensor(1.0, requires_grad=True)
        for value, kind in ((t.tensor(3), RuntimeError), (None, TypeError)):
            with pytest.raises(kind):
                x.data = value
        with pytest.raises(TypeError):
            del x[0]
        x.data = t.tensor(2.0)
        return x.item()

    both(run)


LEAVES = {
    "rows": lambda t: t.ones(3, 4),
    "columns": lambda t: t.ones(4, 3).t(),
    "every second": lambda t: t.ones(3, 8)[:, ::2],
    "expanded": lambda t: t.ones(1, 4).expand(3, 4),
    "a part of a permuted one": lambda t: t.ones(4, 1, 3).permute(1, 2, 0)[0],
}
LOSSES = {
    "product with rows": lambda t, x: x * t.ones(3, 4),
    "product with columns": lambda t, x: x * t.ones(4, 3).t(),
    "product the other way round": lambda t, x: (x.t() * t.ones(4, 3)).t(),
    "flipped": lambda t, x: x.flip(0) * 3,
    "columns by exp": lambda t, x: x.t().contiguous().exp(),
}


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("leaf, loss", [*itertools.product(LEAVES, LOSSES)])
def test_gradients_lie_as_their_leaves(leaf: str, loss: str, jitted: bool):
    def strides(library: Any) -> list[tuple[int, ...]]:
        def total(x: Any) -> Any:
            return LOSSES[loss](library, x).sum()

        derived = fg.jit(total) if jitted and library is fg else total
        found = []
        for _ in range(3):
            x = LEAVES[leaf](library).detach().requires_grad_()
            for _ in range(2):
                derived(x).backward()
                found.append(x.grad.stride())
        return found

    assert strides(fg) == strides(torch)
