"""`nn.Module` beside PyTorch's: attributes, walking, hooks, state, conversion, text."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from module_twins import SIDES, both, build, outcome, with_ones
from oracle import torch

import fusegrad as fg


def test_names_are_torchs():
    found = both(
        lambda ns, net: [
            [n for n, _ in net.named_parameters()],
            [n for n, _ in net.named_parameters(prefix="net", remove_duplicate=False)],
            [n for n, _ in net.named_parameters(recurse=False)],
            [n for n, _ in net.first.named_buffers()],
            [n for n, _ in net.named_modules(prefix="net")],
            [n for n, _ in net.named_modules(remove_duplicate=False)],
            [n for n, _ in net.named_children()],
            len(list(net.parameters())), len(list(net.modules())), len(list(net.children())),
            len(list(net.modules(remove_duplicate=False))),
            list(net.state_dict()), list(net.state_dict(prefix="p.")),
            sorted(set(dir(net.first)) & {"layer", "weight", "mean", "missing", "nothing", "training", "0"}),
        ]
    )  # fmt: skip
    assert "first.layer.weight" in found[0]


def test_text_is_torchs():
    both(lambda ns, net: repr(net))
    both(lambda ns, net: repr(ns.nn.Sequential(ns.nn.Linear(1, 1), ns.nn.Sequential(), ns.nn.Identity())))


LOOKS = {
    "get_submodule": lambda ns, net: net.get_submodule("second.0"),
    "get_submodule-self": lambda ns, net: net.get_submodule("") is net,
    "get_submodule-none": lambda ns, net: net.get_submodule("second.7"),
    "get_submodule-other": lambda ns, net: net.get_submodule("first.weight"),
    "get_parameter": lambda ns, net: net.get_parameter("first.weight"),
    "get_parameter-none": lambda ns, net: net.get_parameter("first.nix"),
    "get_parameter-buffer": lambda ns, net: net.get_parameter("first.mean"),
    "get_buffer": lambda ns, net: net.get_buffer("first.mean"),
    "get_buffer-parameter": lambda ns, net: net.get_buffer("first.weight"),
    "set_submodule": lambda ns, net: (net.set_submodule("first.layer", ns.nn.Identity()), net.first.layer),
    "set_submodule-new": lambda ns, net: (net.set_submodule("first.new", ns.nn.Identity()), net.first.new),
    "set_submodule-strict": lambda ns, net: net.set_submodule("first.new", ns.nn.Identity(), strict=True),
    "set_submodule-empty": lambda ns, net: net.set_submodule("", ns.nn.Identity()),
    "no attribute": lambda ns, net: net.nothing_of_that_name,
    "delete": lambda ns, net: [delattr(net.first, n) for n in ("weight", "mean", "hidden", "layer")]
    and list(net.first.state_dict()),
    "delete-none": lambda ns, net: delattr(net, "nothing_of_that_name"),
    "parameter over number": lambda ns, net: setattr(net, "scale", ns.nn.Parameter(ns.ones(1)))
    or [n for n, _ in net.named_parameters()],
    "parameter over buffer": lambda ns, net: setattr(net.first, "mean", ns.nn.Parameter(ns.ones(1)))
    or list(net.first.state_dict()),
    "module over parameter": lambda ns, net: setattr(net.first, "weight", ns.nn.Identity())
    or list(net.first.state_dict()),
    "none over parameter": lambda ns, net: setattr(net.first, "weight", None) or list(net.first.state_dict()),
    "none over module": lambda ns, net: setattr(net.first, "layer", None) or list(net.first.state_dict()),
    "none over buffer": lambda ns, net: setattr(net.first, "mean", None) or list(net.first.state_dict()),
    "number over parameter": lambda ns, net: setattr(net.first, "weight", 3),
    "number over module": lambda ns, net: setattr(net.first, "layer", 3),
    "number over buffer": lambda ns, net: setattr(net.first, "mean", 3),
    "tensor over buffer": lambda ns, net: setattr(net.first, "mean", ns.ones(4))
    or (net.first.mean, list(net.first.state_dict())),
    "buffer": lambda ns, net: setattr(net, "kept", ns.nn.Buffer(ns.ones(1)))
    or setattr(net, "lost", ns.nn.Buffer(ns.ones(1), persistent=False))
    or (net.kept, list(net.state_dict())),
    "persistent later": lambda ns, net: net.first.register_buffer("hidden", ns.ones(1))
    or list(net.first.state_dict()),
    "register dotted": lambda ns, net: net.register_buffer("a.b", None),
    "register empty": lambda ns, net: net.register_parameter("", None),
    "register number": lambda ns, net: net.register_buffer("x", 3),
    "register taken": lambda ns, net: net.register_parameter("training", None),
    "register no string": lambda ns, net: net.register_parameter(3, None),
    "register no module": lambda ns, net: net.add_module("m", 3),
    "register no leaf": lambda ns, net: net.register_parameter(
        "p", ns.nn.Parameter(ns.ones(1)).clone().as_subclass(ns.nn.Parameter)
    ) if ns is torch else net.register_parameter("p", _no_leaf()),
    "train": lambda ns, net: [m.training for m in net.eval().modules()],
    "train-again": lambda ns, net: [m.training for m in net.eval().train().modules()],
    "train-number": lambda ns, net: net.train(1),
    "requires_grad_": lambda ns, net: [p.requires_grad for p in net.requires_grad_(False).parameters()],
    "half": lambda ns, net: [repr(v.dtype) for v in [*net.half().parameters(), *net.buffers()]],
    "double": lambda ns, net: [repr(v.dtype) for v in [*net.double().parameters(), *net.buffers()]],
    "float": lambda ns, net: [repr(v.dtype) for v in [*net.double().float().parameters(), *net.buffers()]],
    "to dtype": lambda ns, net: [repr(v.dtype) for v in [*net.to(ns.float64).parameters(), *net.buffers()]],
    "to device": lambda ns, net: [repr(v.dtype) for v in net.to("cpu").parameters()],
    "to both": lambda ns, net: [repr(v.dtype) for v in net.to("cpu", ns.float64).parameters()],
    "to keyword": lambda ns, net: [repr(v.dtype) for v in net.to(dtype=ns.float16).parameters()],
    "to tensor": lambda ns, net: [repr(v.dtype) for v in net.to(ns.ones(1, dtype=ns.float64)).parameters()],
    "to integer": lambda ns, net: net.to(ns.int64),
    "type": lambda ns, net: [repr(v.dtype) for v in [*net.type(ns.float64).parameters(), *net.buffers()]],
    "apply": lambda ns, net: (seen := [], net.apply(lambda m: seen.append(type(m).__name__))) and seen,
    "forward": lambda ns, net: ns.nn.Module()(1),
    "before init": lambda ns, net: type(
        "Early", (ns.nn.Module,), {"__init__": lambda s: setattr(s, "p", ns.nn.Parameter(ns.ones(1)))}
    )(),
    "module before init": lambda ns, net: type(
        "Early", (ns.nn.Module,), {"__init__": lambda s: setattr(s, "p", ns.nn.Identity())}
    )(),
    "buffer before init": lambda ns, net: type(
        "Early", (ns.nn.Module,), {"__init__": lambda s: s.register_buffer("p", None)}
    )(),
}  # fmt: skip


def _no_leaf():
    parameter = fg.nn.Parameter(fg.ones(1))
    made = parameter.clone()
    made.__class__ = fg.nn.Parameter
    return made


@pytest.mark.parametrize("name", LOOKS)
def test_attributes_and_conversions_are_torchs(name):
    def look(ns, net):
        return outcome(lambda: LOOKS[name](ns, net))

    texts = []
    for ns in SIDES:
        net = build(ns)
        with_ones(ns, net)
        text = look(ns, net)
        texts.append(text if isinstance(text, tuple) else text.replace("torch.FloatTensor", "Tensor"))
    assert texts[0] == texts[1]


# State.


def test_state_dict_shares_memory_and_keeps_variables():
    for ns in SIDES:
        net = build(ns)
        state = net.state_dict()
        assert type(state).__name__ == "OrderedDict" and state._metadata["first.layer"] == {"version": 1}
        with ns.no_grad():
            state["first.weight"].fill_(7)
        assert net.first.weight[0].item() == 7 and not state["first.weight"].requires_grad
        assert net.state_dict(keep_vars=True)["first.weight"] is net.first.weight
        mine = {}
        assert net.state_dict(destination=mine) is mine and "tied" in mine
        with pytest.warns(FutureWarning, match="Positional args"):
            assert net.state_dict({}, "p.", True)["p.tied"] is net.tied


BAD_STATES = {
    "missing": lambda s, ns: s.pop("first.mean"),
    "unexpected": lambda s, ns: s.update({"first.nix": ns.ones(1), "nix.a.b": ns.ones(1), "x": ns.ones(1)}),
    "shape": lambda s, ns: s.update({"first.weight": ns.ones(4), "second.0.bias": ns.ones(2, 2)}),
    "type": lambda s, ns: s.update({"first.weight": [1.0, 2.0, 3.0]}),
    "all": lambda s, ns: s.update({"first.weight": ns.ones(4), "nix": s.pop("tied")}),
}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("name", BAD_STATES)
def test_bad_states_are_refused_in_torchs_words_and_change_nothing(name, strict):
    texts = []
    for ns in SIDES:
        net = build(ns)
        with_ones(ns, net)
        state = {k: v * 3 for k, v in net.state_dict().items()}
        BAD_STATES[name](state, ns)
        texts.append(outcome(lambda net=net, state=state: net.load_state_dict(state, strict=strict)))
        if ns is fg and isinstance(texts[-1], tuple):
            assert all(p.min().item() == p.max().item() == 1.0 for p in net.parameters())
    assert texts[0] == texts[1]


def test_assign_makes_the_tensors_the_parameters():
    for ns in SIDES:
        net = build(ns)
        net.first.weight.requires_grad_(False)
        state = {k: v.detach().clone().double() for k, v in net.state_dict().items()}
        net.load_state_dict(state, assign=True)
        assert net.first.weight.dtype is ns.float64 and isinstance(net.first.weight, ns.nn.Parameter)
        assert not net.first.weight.requires_grad and net.first.layer.weight.requires_grad
        state["again.weight"].fill_(5)  # the last of its names
        assert net.first.weight[0].item() == 5 and net.first.mean is state["again.mean"]


def test_states_of_ones_own():
    for ns in SIDES:

        class Counting(ns.nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 3
                self.new = self.ns.nn.Parameter(self.ns.zeros(1))

            def get_extra_state(self):
                return {"count": self.count}

            def set_extra_state(self, state):
                self.count = state["count"]

            def _load_from_state_dict(self, state_dict, prefix, *rest):
                if prefix + "old" in state_dict:
                    state_dict[prefix + "new"] = state_dict.pop(prefix + "old")
                super()._load_from_state_dict(state_dict, prefix, *rest)

        Counting.ns = ns
        net = ns.nn.Sequential(Counting())
        assert net.state_dict()["0._extra_state"] == {"count": 3}
        keys = net.load_state_dict({"0.old": ns.ones(1), "0._extra_state": {"count": 9}})
        assert not keys.missing_keys and not keys.unexpected_keys
        assert net[0].count == 9 and net[0].new.item() == 1
        assert outcome(lambda net=net, ns=ns: net.load_state_dict({"0.new": ns.ones(1)}))[0] == "RuntimeError"


def test_state_hooks():
    logs = []
    for ns in SIDES:
        net, log = build(ns), []
        handles = [
            net.register_state_dict_pre_hook(lambda m, p, k, log=log: log.append(("pre", p, k))),
            net.first.register_state_dict_post_hook(
                lambda m, d, p, meta, log=log: log.append((p, sorted(meta)))
            ),
            net.register_state_dict_post_hook(lambda m, d, p, meta: d.__delitem__("tied")),
            net.register_load_state_dict_pre_hook(
                lambda m, d, p, *rest, log=log: log.append(("load", p, len(d))) or d.update({"tied": d["t"]})
            ),
            net.register_load_state_dict_post_hook(lambda m, keys, log=log: keys.unexpected_keys.remove("t")),
        ]
        state = net.state_dict()
        assert "tied" not in state
        log.append(repr(net.load_state_dict({**state, "t": ns.ones(2, 2)})))
        for handle in handles:
            handle.remove()
        log.append(len(net.state_dict()))
        logs.append(log)
    assert logs[0] == logs[1]


# Hooks.


# Copies, changes, sharing.


def test_copies_keep_what_is_tied():
    for ns in SIDES:
        net = build(ns)
        net.first.weight.grad = ns.ones(3)
        twin = copy.deepcopy(net)
        assert twin.again is twin.first and twin.tied is twin.second[0].weight
        assert twin.first is not net.first and twin.tied is not net.tied
        assert isinstance(twin.tied, ns.nn.Parameter) and twin.tied.requires_grad
        assert twin.first.weight.grad is None
        assert "hidden" not in twin.first.state_dict()
        shallow = copy.copy(net)
        assert shallow.first is net.first
        layer = ns.nn.Linear(2, 2)
        pair = pickle.loads(pickle.dumps(ns.nn.ModuleList([layer, layer])))
        assert pair[0] is pair[1] and pair[0].weight.requires_grad


def test_layers_change_between_steps():
    results = []
    for ns in SIDES:
        net = ns.nn.Sequential(ns.nn.Linear(2, 2), ns.nn.Tanh(), ns.nn.Linear(2, 1))
        with_ones(ns, net)
        optimizer = ns.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for step in range(6):
            if step == 2:
                net[1] = ns.nn.ReLU()
            if step == 4:
                extra = ns.nn.Linear(1, 1)
                with_ones(ns, extra)
                net.append(extra)
                optimizer.add_param_group({"params": extra.parameters(), "lr": 0.01})
            optimizer.zero_grad()
            loss = ((net(ns.ones(3, 2)) - 1) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        results.append(losses)
    assert results[0] == pytest.approx(results[1], rel=1e-5)


def test_gradients_are_cleared_and_converted():
    for ns in SIDES:
        net = build(ns)
        net(ns.ones(1, 2)).sum().backward()
        kept = net.first.layer.weight.grad
        net.double()
        assert net.first.layer.weight.grad.dtype is ns.float64
        net.zero_grad(set_to_none=False)
        assert not net.first.layer.weight.grad.any() and kept is not None
        net.zero_grad()
        assert all(p.grad is None for p in net.parameters())


# Backward hooks.


# Parametrizations.


def test_weight_norm_is_torchs():
    results = []
    for ns in SIDES:
        net = ns.nn.Linear(3, 2)
        with ns.no_grad():
            net.weight.copy_(ns.arange(1.0, 7.0).reshape(2, 3))
            net.bias.fill_(0.5)
        wrapped = ns.nn.utils.parametrizations.weight_norm(net, dim=0)
        optimizer = ns.optim.SGD(wrapped.parameters(), lr=0.01)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = (wrapped(ns.ones(1, 3)) ** 2).sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        twin = copy.deepcopy(wrapped)
        names = [list(wrapped.state_dict()), [n for n, _ in twin.named_parameters()], type(net).__name__]
        value = net.weight.flatten().tolist()
        ns.nn.utils.parametrize.remove_parametrizations(net, "weight")
        assert net.weight.flatten().tolist() == value and isinstance(net.weight, ns.nn.Parameter)
        results.append((losses, value, [*names, list(net.state_dict()), type(net).__name__]))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-5)
    assert results[0][1] == pytest.approx(results[1][1], rel=1e-5)
    assert results[0][2] == results[1][2]


def test_spectral_norm_is_torchs():
    results = []
    for ns in SIDES:
        net = ns.nn.Linear(4, 3)
        with ns.no_grad():
            net.weight.copy_(ns.sin(ns.arange(12.0)).reshape(3, 4))
        ns.nn.utils.parametrizations.spectral_norm(net)
        for name, buffer in net.named_buffers():
            buffer.copy_(ns.ones(3 if name.endswith("_u") else 4))
        seen = []
        for training in (True, True, False, False):
            net.train(training)
            net.zero_grad()
            weight = net.weight
            (weight * ns.arange(12.0).reshape(3, 4)).sum().backward()
            seen += [
                *weight.flatten().tolist(),
                *net.parametrizations.weight.original.grad.flatten().tolist(),
            ]
        results.append(seen)
        assert sorted(net.state_dict())[0] == "bias"
    assert results[0] == pytest.approx(results[1], rel=1e-4, abs=1e-5)


def test_parametrizations_of_ones_own():
    for ns in SIDES:

        class Shifted(ns.nn.Module):
            def __init__(self, amount):
                super().__init__()
                self.amount = amount

            def forward(self, x):
                return x + self.amount

            def right_inverse(self, x):
                return x - self.amount

        class Wider(ns.nn.Module):
            def forward(self, x):
                return x.repeat(2, 1)

        utils = ns.nn.utils.parametrize
        net = ns.nn.Linear(2, 2)
        with_ones(ns, net)
        parameter = net.weight
        utils.register_parametrization(net, "weight", Shifted(3.0))
        utils.register_parametrization(net, "weight", Shifted(1.0))
        assert net.parametrizations.weight.original is parameter and parameter[0, 0].item() == -2
        assert net.weight.tolist() == [[2.0, 2.0], [2.0, 2.0]]
        assert utils.is_parametrized(net) and utils.is_parametrized(net, "weight")
        assert not utils.is_parametrized(net, "bias")
        utils.remove_parametrizations(net, "weight", leave_parametrized=False)
        assert net.weight is parameter and net.weight[0, 0].item() == -2 and not utils.is_parametrized(net)
        with pytest.raises(ValueError, match="shape"):
            utils.register_parametrization(net, "weight", Wider())
        assert net.weight is parameter
        with pytest.raises(ValueError, match="does not have a param"):
            utils.register_parametrization(net, "nothing", Wider())
        with pytest.raises(ValueError, match="does not have a param"):
            utils.remove_parametrizations(net, "weight")


def test_methods_that_move_may_call_one_another():
    for lib in (fg, torch):

        class Moved(lib.nn.Linear):
            def to(self, *args: Any) -> Any:
                return self.cpu()

        assert Moved(1, 1).to("cpu").cpu().weight.shape == (1, 1)
