"""Optimizers, schedules and gradient helpers: PyTorch's numbers, step by step."""

from __future__ import annotations

import copy
import importlib
import pickle

import numpy as np
import pytest
from optimizers import IDS, OPTIONS, SHAPES, assert_same, parameters, refused, set_gradients, shapes_of
from oracle import torch

import fusegrad as fg


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=IDS)
@pytest.mark.parametrize("gaps", [False, True], ids=["all", "gaps"])
def test_steps_are_torchs(name, options, gaps):
    sides = []
    for namespace in (fg, torch):
        tensors = parameters(namespace, shapes_of(name))
        optimizer = getattr(namespace.optim, name)(tensors, **options)
        for step in range(20):
            skipped = [] if not gaps else [step % 3, 4] if step < 12 else [5]
            set_gradients(namespace, tensors, step, skipped)
            optimizer.step()
        sides.append((tensors, optimizer))
    (ours, mine), (theirs, reference) = sides
    assert_same(ours, theirs)
    assert repr(mine) == repr(reference)
    kept, expected = mine.state_dict()["state"], reference.state_dict()["state"]
    assert {k: set(v) for k, v in kept.items()} == {k: set(v) for k, v in expected.items() if v}
    for number, entries in kept.items():
        for key, value in entries.items():
            assert repr(value.dtype) == repr(expected[number][key].dtype)
            np.testing.assert_allclose(
                value.numpy(), expected[number][key].numpy(), rtol=1e-10, atol=1e-12, err_msg=key
            )


@pytest.mark.parametrize("name", ["SGD", "Adam", "NAdam", "RAdam", "RMSprop", "Adagrad", "Rprop", "ASGD"])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_other_dtypes(name, dtype):
    sides = []
    for namespace in (fg, torch):
        tensors = parameters(namespace, [(3, 2), (4,), (66, 70)], dtype)
        optimizer = getattr(namespace.optim, name)(tensors, lr=0.05)
        for step in range(5):
            set_gradients(namespace, tensors, step)
            optimizer.step()
        sides.append(tensors)
    assert_same(*sides, rtol=2e-5 if dtype == "float32" else 1e-11)


@pytest.mark.parametrize("name", ["SGD", "Adam", "ASGD"])
def test_memory_of_every_kind(name):
    """Parameters that are not contiguous, gradients that are not, and parameters that share memory."""
    sides = []
    for namespace in (fg, torch):
        base = namespace.tensor(np.random.default_rng(0).normal(size=(6, 80, 80)))
        tensors = [
            base[0].t().detach().requires_grad_(),
            base[1][:, ::2].detach().requires_grad_(),
            base[2][:3, 0].detach().requires_grad_(),
            base[3][0, :4].detach().requires_grad_(),
            base[3][0, 2:6].detach().requires_grad_(),
        ]
        options = {"momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(namespace.optim, name)(tensors, lr=0.1, **options)
        for step in range(4):
            for i, tensor in enumerate(tensors):
                shape = tuple(tensor.shape)[::-1]
                gradient = np.random.default_rng(10 * step + i).normal(size=shape)
                tensor.grad = namespace.tensor(gradient).permute(*reversed(range(len(shape))))
            optimizer.step()
        sides.append([base])
    assert_same(*sides)


def test_groups_with_options_of_their_own_and_added_later():
    sides = []
    for namespace in (fg, torch):
        a, b, c, d = parameters(namespace, [(3,), (2, 2), (4,), (2,)])
        optimizer = namespace.optim.Adam(
            [{"params": [a]}, {"params": b, "lr": 0.5, "betas": (0.5, 0.5)}], lr=0.1
        )
        for step in range(12):
            if step == 4:
                optimizer.add_param_group({"params": [c, d], "weight_decay": 0.1})
            if step == 7:
                optimizer.param_groups[1]["lr"] = 0.01
                optimizer.param_groups[2]["amsgrad"] = False
            set_gradients(namespace, (a, b, c, d), step)
            optimizer.step()
        sides.append((a, b, c, d))
        names = list(optimizer.param_groups[0])
        assert optimizer.defaults["lr"] == 0.1 and "lr" in names
    assert_same(*sides)


def test_a_rate_may_be_a_tensor_and_names_are_kept():
    sides = []
    for namespace in (fg, torch):
        tensors = parameters(namespace, [(3,), (2,)])
        rate = namespace.tensor(0.1)
        optimizer = namespace.optim.SGD([("first", tensors[0]), ("second", tensors[1])], lr=rate)
        schedule = namespace.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for step in range(3):
            set_gradients(namespace, tensors, step)
            optimizer.step()
            schedule.step()
        assert optimizer.param_groups[0]["param_names"] == ["first", "second"]
        assert optimizer.state_dict()["param_groups"][0]["params"] == [0, 1]
        assert abs(rate.item() - 0.0125) < 1e-7
        sides.append(tensors)
    assert_same(*sides, rtol=1e-6)


def test_state_follows_every_change():
    """The buffers that small parameters share are not in the way of writes from outside."""
    ours, theirs = parameters(fg), parameters(torch)
    mine, reference = fg.optim.Adam(ours, lr=0.1), torch.optim.Adam(theirs, lr=0.1)

    def step(number):
        for namespace, tensors, optimizer in ((fg, ours, mine), (torch, theirs, reference)):
            set_gradients(namespace, tensors, number)
            optimizer.step()
        assert_same(ours, theirs)

    step(0)
    for namespace, tensors, optimizer in ((fg, ours, mine), (torch, theirs, reference)):
        optimizer.state[tensors[0]]["exp_avg"].zero_()
        optimizer.state[tensors[1]]["exp_avg_sq"] = namespace.ones_like(tensors[1]).detach()
    step(1)
    for tensors in (ours, theirs):
        tensors[0].data = tensors[0].detach().clone() * 2
    step(2)
    for tensors, optimizer in ((ours, mine), (theirs, reference)):
        del optimizer.state[tensors[2]]
        optimizer.state[tensors[5]]["step"].fill_(10)
    step(3)
    for optimizer in (mine, reference):
        optimizer.state.clear()
    step(4)
    before = [p._version for p in ours]
    step(5)
    assert [p._version for p in ours] == [v + 1 for v in before]


@pytest.mark.parametrize(("name", "options"), OPTIONS[::4], ids=IDS[::4])
def test_state_dicts_go_both_ways(name, options):
    tensors = parameters(fg, shapes_of(name))
    optimizer = getattr(fg.optim, name)(tensors, **options)
    for step in range(3):
        set_gradients(fg, tensors, step)
        optimizer.step()
    state = optimizer.state_dict()
    twins = [t.detach().clone().requires_grad_() for t in tensors]
    theirs = [torch.tensor(t.detach().numpy(), requires_grad=True) for t in tensors]
    other = getattr(fg.optim, name)(twins, lr=7)
    other.load_state_dict(state)
    reference = getattr(torch.optim, name)(theirs, lr=7)
    as_torch = {k: {n: torch.tensor(v.numpy()) for n, v in s.items()} for k, s in state["state"].items()}
    reference.load_state_dict({"state": as_torch, "param_groups": state["param_groups"]})
    for step in range(3, 6):
        for namespace, group, each in (
            (fg, tensors, optimizer), (fg, twins, other), (torch, theirs, reference)
        ):  # fmt: skip
            set_gradients(namespace, group, step)
            each.step()
    assert_same(tensors, theirs, rtol=1e-6)  # a loaded float32 number of the state becomes a float64 one
    assert_same(twins, theirs)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        other.load_state_dict({"state": {}, "param_groups": []})
    with pytest.raises(ValueError, match="doesn't match the size"):
        other.load_state_dict({"state": {}, "param_groups": [{"params": [0]}]})


def test_copies_and_pickles():
    layer = fg.nn.Linear(3, 2)
    optimizer = fg.optim.Adam(layer.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda *a: None)
    for _ in range(2):
        layer(fg.ones(1, 3)).sum().backward()
        optimizer.step()
    for twin_layer, twin in (
        copy.deepcopy((layer, optimizer)),
        pickle.loads(pickle.dumps((layer, optimizer))),
    ):
        assert twin.param_groups[0]["params"][0] is twin_layer.weight
        twin_layer.zero_grad()
        layer.zero_grad()
        for part in (layer, twin_layer):
            part(fg.ones(1, 3)).sum().backward()
        before = layer.weight.detach().clone()
        twin.step()
        assert fg.equal(layer.weight, before) and not fg.equal(twin_layer.weight, before)


@pytest.mark.parametrize("t", [fg, torch])
def test_hooks_of_all_optimizers_stand_around_those_of_one(t):
    place = importlib.import_module(f"{t.__name__}.optim.optimizer")
    x, seen = t.zeros(2, requires_grad=True), []
    optimizers = t.optim.SGD([x]), t.optim.Adam([x])
    optimizers[0].register_step_pre_hook(lambda *_: seen.append("own before"))
    optimizers[0].register_step_post_hook(lambda *_: seen.append("own after"))
    with (
        place.register_optimizer_step_pre_hook(lambda o, a, k: seen.append(type(o).__name__)),
        place.register_optimizer_step_pre_hook(lambda o, a, k: ((o, lambda: seen.append("closure")), k)),
        place.register_optimizer_step_pre_hook(lambda o, a, k: seen.append(a[0] is o and len(a))),
        place.register_optimizer_step_post_hook(lambda *_: seen.append("after")),
    ):
        for optimizer in optimizers:
            optimizer.step()
    optimizers[1].step()
    assert seen[:6] == ["SGD", 2, "own before", "closure", "own after", "after"]
    assert seen[6:] == ["Adam", 2, "closure", "after"]


def test_closures_hooks_and_gradients():
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = fg.optim.SGD([x], lr=0.1)
    seen = []
    handles = [
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before")),
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after")),
        optimizer.register_state_dict_post_hook(lambda o, d: {**d, "more": 1}),
        optimizer.register_load_state_dict_pre_hook(
            lambda o, d: {k: d[k] for k in ("state", "param_groups")}
        ),
    ]

    def closure():
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    with fg.no_grad():
        assert optimizer.step(closure).item() == 5.0
    assert seen == ["before", "after"] and fg.allclose(x.detach(), fg.tensor([0.8, 1.6]))
    state = optimizer.state_dict()
    assert state["more"] == 1
    optimizer.load_state_dict(state)
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 2 and "more" not in optimizer.state_dict()
    kept = x.grad
    optimizer.zero_grad(set_to_none=False)
    assert x.grad is kept and x.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert x.grad is None


def test_an_optimizer_of_ones_own():
    class Signs(fg.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @fg.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    kept = self.state[p]
                    kept["count"] = kept.get("count", 0) + 1
                    p.add_(p.grad.sign() * -group["lr"])

    x = fg.ones(2, requires_grad=True)
    optimizer = Signs([x], lr=0.25)
    fg.optim.lr_scheduler.StepLR(optimizer, 1)
    (3 * x).sum().backward()
    optimizer.step()
    assert x.tolist() == [0.75, 0.75] and optimizer.state[x] == {"count": 1}


def test_what_is_refused():
    x = fg.ones(2, requires_grad=True)
    refused(TypeError, "iterable of Tensors", lambda: fg.optim.SGD(x))
    refused(ValueError, "empty parameter list", lambda: fg.optim.SGD([]))
    refused(TypeError, "only optimize Tensors", lambda: fg.optim.SGD([1]))
    refused(ValueError, "non-leaf", lambda: fg.optim.SGD([x * 2]))
    refused(ValueError, "more than one", lambda: fg.optim.SGD([{"params": x}, {"params": x}]))
    refused(TypeError, "ordered", lambda: fg.optim.SGD([{"params": {x}}]))
    refused(ValueError, "Invalid learning rate: -1", lambda: fg.optim.SGD([x], lr=-1))
    refused(ValueError, "Invalid momentum value: -1", lambda: fg.optim.SGD([x], momentum=-1))
    refused(ValueError, "Nesterov", lambda: fg.optim.SGD([x], nesterov=True))
    refused(ValueError, "Invalid epsilon value: -1", lambda: fg.optim.Adam([x], eps=-1))
    refused(ValueError, "beta parameter at index 1: 1.5", lambda: fg.optim.Adam([x], betas=(0.1, 1.5)))
    refused(ValueError, "both floats or both", lambda: fg.optim.Adam([x], betas=(0, 0.9)))
    refused(ValueError, "1-element", lambda: fg.optim.Adam([x], lr=fg.ones(2)))
    refused(ValueError, "Invalid rho value: 2", lambda: fg.optim.Adadelta([x], rho=2))
    refused(TypeError, "closure", lambda: fg.optim.LBFGS([x]).step())
    refused(NotImplementedError, "^$", lambda: fg.optim.Optimizer([x], {}).step())
    refused(RuntimeError, r"size '\[3\]' to a tensor of size '\[2\]'", lambda: setattr(x, "grad", fg.ones(3)))
    x.grad, x.data = fg.ones(2), fg.ones(3)
    refused(RuntimeError, r"shape \[2\].*\[3\]", fg.optim.SGD([x]).step)
    assert x.tolist() == [1.0, 1.0, 1.0]
    y, z = fg.ones(1, requires_grad=True), fg.ones(1, requires_grad=True)
    optimizer = fg.optim.Adam([y, z])
    for other in (y, z):
        other.grad = fg.ones(1)
    optimizer.step()
    y.data, y.grad = fg.ones(3), fg.ones(3)
    refused(RuntimeError, r"state 'exp_avg' has shape \[1\], its parameter \[3\]", optimizer.step)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize("options", [{}, {"max_iter": 5, "history_size": 3}, {"lr": 0.5, "max_eval": 7}])
def test_lbfgs_is_torchs(search, options):
    options = {"lr": 0.02, **options} if search is None else options
    sides = []
    for namespace in (fg, torch):
        a, b = parameters(namespace, [(3,), (2, 2)])
        optimizer = namespace.optim.LBFGS([a, b], line_search_fn=search, **options)

        def closure(a=a, b=b, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (
                ((a[1:] - a[:-1] ** 2) ** 2).sum() * 10 + ((1 - a) ** 2).sum() + (b**4).sum() + a[0] * b[0, 0]
            )
            loss.backward()
            return loss

        # Without a search the path is chaotic: rounding shows after some thirty iterations.
        losses = [optimizer.step(closure).item() for _ in range(4 if search or "max_iter" in options else 2)]
        kept = optimizer.state_dict()["state"][0]
        sides.append((a, b, losses, kept["n_iter"], kept["func_evals"]))
    ours, theirs = sides
    np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-8, atol=1e-14)
    assert_same(ours[:2], theirs[:2], rtol=1e-7)
    assert ours[3:] == theirs[3:]


def test_lbfgs_state_goes_on(tmp_path):
    def steps(count, between=None):
        x = fg.tensor([3.0, -2.0, 1.0], dtype=fg.float64, requires_grad=True)
        optimizer = fg.optim.LBFGS([x], max_iter=2, line_search_fn="strong_wolfe")
        for number in range(count):
            if number == between:
                fg.save(optimizer.state_dict(), tmp_path / "f")
                optimizer = fg.optim.LBFGS([x])
                optimizer.load_state_dict(fg.load(tmp_path / "f"))

            def closure(optimizer=optimizer):
                optimizer.zero_grad()
                loss = ((x**2 - 1) ** 2).sum() + (x[0] * x[1] - x[2]) ** 2
                loss.backward()
                return loss

            optimizer.step(closure)
        return x.detach()

    assert fg.equal(steps(4), steps(4, between=2))


# Schedules.


# Gradient helpers.


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf"), 3.0])
@pytest.mark.parametrize("max_norm", [0.5, 1e6])
def test_clipping_is_torchs(norm_type, max_norm):
    sides = []
    for namespace in (fg, torch):
        tensors = parameters(namespace, SHAPES[:3] + SHAPES[5:])
        set_gradients(namespace, tensors, 0, skipped=[1])
        gradients = [t.grad for t in tensors if t.grad is not None]
        total = namespace.nn.utils.get_total_norm(gradients, norm_type)
        norm = namespace.nn.utils.clip_grad_norm_((t for t in tensors), max_norm, norm_type)
        assert total.item() == norm.item()
        sides.append([*gradients, norm])
    assert_same(*sides)
    for namespace in (fg, torch):
        tensors = parameters(namespace)
        set_gradients(namespace, tensors, 0)
        namespace.nn.utils.clip_grad_value_(tensors, 0.3)
        sides.append([t.grad for t in tensors])
    assert_same(*sides[2:])


def test_clipping_of_what_is_not_finite():
    x = fg.ones(2, requires_grad=True)
    assert fg.nn.utils.clip_grad_norm_([x], 1.0).item() == 0.0
    x.grad = fg.tensor([float("nan"), 1.0])
    refused(RuntimeError, "non-finite", lambda: fg.nn.utils.clip_grad_norm_(x, 1.0, error_if_nonfinite=True))
    assert x.grad[1].item() == 1.0
    assert fg.nn.utils.clip_grad_norm_(x, 1.0).isnan().item()


def test_parameters_and_vectors():
    layer = fg.nn.Linear(3, 2)
    vector = fg.nn.utils.parameters_to_vector(layer.parameters())
    assert vector.shape == (8,) and vector.requires_grad
    fg.nn.utils.vector_to_parameters(fg.arange(8.0), layer.parameters())
    assert layer.weight.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] and layer.bias.tolist() == [6.0, 7.0]
    refused(TypeError, "expected torch.Tensor", lambda: fg.nn.utils.vector_to_parameters([1], []))


def test_state_under_other_keys_than_parameters_is_kept():
    for T in (fg, torch):
        x = T.ones(2, requires_grad=True)
        optimizer = T.optim.SGD([x], lr=0.1, momentum=0.9)
        optimizer.state["note"] = {"of": "a program"}
        found = optimizer.state_dict()
        assert found["state"]["note"] == {"of": "a program"}
        other = T.optim.SGD([T.ones(2, requires_grad=True)], lr=0.1)
        other.load_state_dict(found)
        assert other.state["note"] == {"of": "a program"}
