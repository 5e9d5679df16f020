"""What is asked of a module is asked of its wrappers: `compile`, `jit`, parametrised ones and so on.

PyTorch answers the same of its own. `jit` has no peer there: to all who ask, what it gives is the module.
"""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.compiler.jitted_object import JittedObject
from fusegrad.compiler.torch_names import OptimizedModule
from fusegrad.eager.nn.module import Module

# Wrappers by name: what makes one of a module, ours and PyTorch's.
Wrap = Callable[[Any, Any], Any]


def weights_halved(lib: Any, net: Any) -> Any:
    class Halved(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return x / 2

        def right_inverse(self, x: Any) -> Any:
            return x * 2

    lib.nn.utils.parametrize.register_parametrization(net[0], "weight", Halved())
    return net


def pruned(lib: Any, net: Any) -> Any:
    importlib.import_module(f"{lib.__name__}.nn.utils.prune").l1_unstructured(net[0], "weight", amount=2)
    return net


def compiled_in_place(lib: Any, net: Any) -> Any:
    net.compile(backend="eager")
    return net


WRAPPERS: dict[str, Wrap] = {
    "compile": lambda lib, net: lib.compile(net, backend="eager"),
    "jit": lambda lib, net: lib.jit(net) if lib is fg else net,
    "jit of jit": lambda lib, net: lib.jit(lib.jit(net)) if lib is fg else net,
    "compile in place": compiled_in_place,
    "DataParallel": lambda lib, net: lib.nn.DataParallel(net),
    "parametrised": weights_halved,
    "compiled and parametrised": lambda lib, net: lib.compile(weights_halved(lib, net), backend="eager"),
    "jitted and parametrised": lambda lib, net: WRAPPERS["jit"](lib, weights_halved(lib, net)),
    "pruned": pruned,
    "compiled and pruned": lambda lib, net: lib.compile(pruned(lib, net), backend="eager"),
}


def made(lib: Any) -> Any:
    class Net(lib.nn.Sequential):
        kind = "a net"

        def __init__(self) -> None:
            super().__init__(lib.nn.Linear(2, 2), lib.nn.Dropout(0.5), lib.nn.Linear(2, 2))
            self.scale, self.notes = 1.0, ["a"]
            self.register_buffer("shift", lib.zeros(2))
            self.register_buffer("unsaved", lib.ones(2), persistent=False)
            self.plus = lib.nn.Parameter(lib.ones(2))
            with lib.no_grad():
                for i, p in enumerate(self.parameters()):
                    p.copy_(lib.arange(p.numel()).reshape(p.shape) / 4 + i)

        def forward(self, x: Any) -> Any:
            for layer in self:
                x = layer(x)
            return x * self.scale + self.shift + self.plus * self.doubled

        @property
        def doubled(self) -> float:
            return self.scale * 2

        @doubled.setter
        def doubled(self, value: float) -> None:
            self.scale = value / 2

        def twice(self, x: Any) -> Any:
            return self(self(x))

        def __enter__(self) -> Any:
            self.scale = 10.0
            return self

        def __exit__(self, *error: Any) -> None:
            self.scale = 1.0

    return Net().eval()


def named(net: Any) -> list[tuple[str, Any]]:
    return [(name, p.shape) for name, p in net.named_parameters()]


# Each is asked of a wrapper `net` of `inner` and may change it; afterwards the values of calls are compared.
ASKED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "read": lambda lib, net, inner: (net.scale, net.notes is inner.notes, net.kind, net.doubled),
    "read a missing one": lambda lib, net, inner: net.nothing,
    "ask for a missing one": lambda lib, net, inner: (hasattr(net, "nothing"), getattr(net, "nothing", 5)),
    "set": lambda lib, net, inner: setattr(net, "scale", 3.0),
    "set and read within": lambda lib, net, inner: (setattr(net, "scale", 3.0), inner.scale),
    "set on the module": lambda lib, net, inner: (setattr(inner, "scale", 3.0), net.scale),
    "set a new one": lambda lib, net, inner: (setattr(net, "fresh", 3), inner.fresh, "fresh" in vars(inner)),
    "set a property": lambda lib, net, inner: (setattr(net, "doubled", 8.0), inner.scale),
    "set a class's": lambda lib, net, inner: (setattr(net, "kind", "b"), inner.kind, type(inner).kind),
    "append to a list": lambda lib, net, inner: (net.notes.append("b"), inner.notes),
    "add in place": lambda lib, net, inner: exec("net.scale += 1", {"net": net}),
    "delete": lambda lib, net, inner: (delattr(net, "notes"), hasattr(inner, "notes")),
    "delete a missing one": lambda lib, net, inner: delattr(net, "nothing"),
    "set a submodule": lambda lib, net, inner: (setattr(net, "2", lib.nn.Identity()), named(net)),
    "set a new submodule": lambda lib, net, inner: (setattr(net, "new", lib.nn.ReLU()), len(inner._modules)),
    "delete a submodule": lambda lib, net, inner: (delattr(net, "2"), named(inner)),
    "set a submodule to a number": lambda lib, net, inner: setattr(net, "0", 3),
    "set a parameter": lambda lib, net, inner: (
        setattr(net, "plus", lib.nn.Parameter(lib.zeros(2))), named(net), inner.plus.tolist(),
    ),
    "set a parameter to a tensor": lambda lib, net, inner: setattr(net, "plus", lib.zeros(2)),
    "delete a parameter": lambda lib, net, inner: (delattr(net, "plus"), named(net)),
    "set a buffer": lambda lib, net, inner: (setattr(net, "shift", lib.ones(2)), inner.shift.tolist()),
    "delete a buffer": lambda lib, net, inner: (delattr(net, "shift"), list(net.state_dict())),
    "set of a submodule": lambda lib, net, inner: setattr(getattr(net, "0"), "bias", None),
    "len": lambda lib, net, inner: len(net),
    "truth": lambda lib, net, inner: bool(net),
    "iterate": lambda lib, net, inner: [type(m).__name__ for m in net],
    "index": lambda lib, net, inner: net[0] is inner[0],
    "slice": lambda lib, net, inner: len(net[1:]),
    "set an item": lambda lib, net, inner: (net.__setitem__(1, lib.nn.ReLU()), type(inner[1]).__name__),
    "delete an item": lambda lib, net, inner: (net.__delitem__(2), len(inner)),
    "contains": lambda lib, net, inner: inner[0] in list(net.children()),
    "enter": lambda lib, net, inner: entered(net),
    "dir": lambda lib, net, inner: {"scale", "plus", "shift", "twice", "forward"} <= set(dir(net)),
    "vars": lambda lib, net, inner: "training" in vars(inner),
    "isinstance": lambda lib, net, inner: (isinstance(net, lib.nn.Module), isinstance(net, type(inner))),
    "training": lambda lib, net, inner: (net.training, setattr(net, "training", True), inner.training),
    "eval": lambda lib, net, inner: (
        net.train() is net, inner[1].training, net.eval() is net, inner.training,
    ),
    "eval of the module": lambda lib, net, inner: (
        inner.train().training, net.training, inner.eval().training, net.training,
    ),
    "state_dict": lambda lib, net, inner: {k: v.tolist() for k, v in net.state_dict().items()},
    "load_state_dict": lambda lib, net, inner: str(
        net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()})
    ),
    "load the module's": lambda lib, net, inner: sorted(
        net.load_state_dict(inner.state_dict(), strict=False).unexpected_keys
    ),
    "named": lambda lib, net, inner: (
        named(net), [n for n, _ in net.named_buffers()], [n for n, _ in net.named_modules()],
    ),
    "children": lambda lib, net, inner: [n for n, _ in net.named_children()],
    "get_submodule": lambda lib, net, inner: type(net.get_submodule("0")).__name__,
    "get_parameter": lambda lib, net, inner: net.get_parameter("plus").shape,
    "apply": lambda lib, net, inner: applied(net),
    "register a buffer": lambda lib, net, inner: (
        net.register_buffer("late", lib.ones(1)), [k for k in net.state_dict() if "late" in k],
    ),
    "register a parameter": lambda lib, net, inner: (
        net.register_parameter("late", lib.nn.Parameter(lib.ones(1))), named(net),
    ),
    "add a module": lambda lib, net, inner: (net.add_module("late", lib.nn.Linear(1, 1)), named(net)),
    "freeze": lambda lib, net, inner: (net.requires_grad_(False) is net, inner.plus.requires_grad),
    "zero_grad": lambda lib, net, inner: (
        net(lib.ones(1, 2)).sum().backward(), net.zero_grad(), inner.plus.grad,
    ),
    "double": lambda lib, net, inner: (net.double() is net, str(inner.plus.dtype), net.float() is net),
    "forward hook": lambda lib, net, inner: hooked(lib, net.register_forward_hook, net),
    "hook of the module": lambda lib, net, inner: hooked(lib, inner.register_forward_hook, net),
    "pre-hook": lambda lib, net, inner: hooked(lib, net.register_forward_pre_hook, net),
    "a method": lambda lib, net, inner: net.twice(lib.ones(1, 2)).tolist(),
    "forward": lambda lib, net, inner: net.forward(lib.ones(1, 2)).tolist(),
    "deepcopy": lambda lib, net, inner: copied(lib, net, inner, copy.deepcopy),
    "copy": lambda lib, net, inner: copy.copy(net)(lib.ones(1, 2)).tolist(),
    "part of another": lambda lib, net, inner: part(lib, net, inner),
    "in a list": lambda lib, net, inner: named(lib.nn.ModuleList([net, lib.nn.Linear(1, 1)])),
    "share": lambda lib, net, inner: list(map(id, net.parameters())) == list(map(id, inner.parameters())),
    "hash": lambda lib, net, inner: ({net: 1}[net], net == net),
}  # fmt: skip


def entered(net: Any) -> tuple[bool, float]:
    with net as found:
        return found is net, net.scale


def applied(net: Any) -> list[str]:
    seen: list[str] = []
    net.apply(lambda module: seen.append(type(module).__name__))
    return [name.replace("Parametrized", "") for name in seen]


def hooked(lib: Any, register: Callable[..., Any], net: Any) -> list[int]:
    seen: list[int] = []
    handle = register(lambda *args: seen.append(1))
    net(lib.ones(1, 2))
    handle.remove()
    net(lib.ones(1, 2))
    return seen


def copied(lib: Any, net: Any, inner: Any, copies: Callable[[Any], Any]) -> Any:
    made = copies(net)
    made.scale = 7.0
    return made(lib.ones(1, 2)).tolist(), inner.scale, list(made.state_dict())


def part(lib: Any, net: Any, inner: Any) -> Any:
    outer = lib.nn.Module()
    outer.net = net
    outer.train()
    trained = inner.training
    outer.eval()
    return trained, inner.training, named(outer), list(outer.state_dict()), outer.net is net


def answer(lib: Any, wrap: Wrap, ask: Callable[[Any, Any, Any], Any]) -> list[Any]:
    """What is answered, or the kind of error; then what calls of the wrapper and of the module give."""
    inner = made(lib)
    net = wrap(lib, inner)
    x = lib.ones(1, 2)
    said = []
    for call in (
        lambda: net(x).tolist(),
        lambda: ask(lib, net, inner),
        lambda: net.eval()(x).tolist(),
        lambda: inner(x).tolist(),
    ):
        try:
            said.append(call())
        except Exception as error:
            said.append(next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"))
    return said


def differing(*names: str, asked: Iterable[str] = tuple(ASKED)) -> Iterator[tuple[str, str, Any, Any]]:
    """The questions that our wrappers of these names answer otherwise than PyTorch's, with both answers."""
    for name in names:
        for question in asked:
            ask = ASKED[question]
            ours, theirs = answer(fg, WRAPPERS[name], ask), answer(torch, WRAPPERS[name], ask)
            if ours != theirs:
                yield name, question, ours, theirs


@pytest.fixture(autouse=True)
def without_dynamo():
    """PyTorch's wrapper is asked, not its compiler, which takes a second for each model."""
    torch._dynamo.config.disable = True
    yield
    torch._dynamo.config.disable = False
    torch._dynamo.reset()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_answer_as_pytorch(name: str):
    assert list(differing(name)) == []


def test_attributes_that_stay_on_the_wrapper_are_found(monkeypatch: pytest.MonkeyPatch):
    kept: dict[Any, Any] = {}
    monkeypatch.setattr(JittedObject, "__setattr__", lambda self, name, value: kept.update({name: value}))
    monkeypatch.setattr(OptimizedModule, "__setattr__", Module.__setattr__)
    for name in ("jit", "compile"):
        asked = {"set", "set a submodule", "set a buffer"}
        assert {question for _, question, *_ in differing(name, asked=asked)} == asked


def test_jitted_functions_tell_what_the_module_has_no_name_for():
    net = fg.nn.Linear(2, 2)
    for wrapped in (fg.jit(net), fg.compile(net)):
        for _ in range(3):
            wrapped(fg.ones(1, 2))
        assert wrapped.stats.compiled_calls == 2
        assert hasattr(wrapped.kernels(), "forward")
        assert "2 compiled" in str(wrapped.explain()) and {"stats", "weight"} <= set(dir(wrapped))
    net.stats = "its own"
    assert fg.jit(net).stats == fg.compile(net).stats == "its own"


def test_wrappers_pickle_with_their_module():
    net = fg.nn.Linear(2, 2)
    net.scale = 2
    for made_again in (lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy):
        for wrapped in (fg.jit(net, verify=3), fg.compile(net)):
            again = made_again(wrapped)
            assert type(again) is type(wrapped) and again.scale == 2 and again.weight is not net.weight
            assert fg.equal(again(fg.ones(1, 2)), net(fg.ones(1, 2)))
            assert again.verify == (3 if isinstance(wrapped, JittedObject) else 0)


def test_other_objects_that_are_called():
    class Scaled:
        times = 1

        def __call__(self, x: Any) -> Any:
            return x * self.times

    class Holder:
        scaled = fg.jit(Scaled())

    scaled = Holder().scaled  # no method: as without jit
    for times in (1, 2, 2):
        scaled.times = times
        assert scaled(fg.ones(1)).item() == times == Holder.scaled.__wrapped__.times
    assert isinstance(scaled, Scaled)
