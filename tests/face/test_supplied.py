"""What modules in torch's place have beside fusegrad's: beside PyTorch, by one program for both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from oracle import torch

import fusegrad as fg

PROGRAM = """
import sys
if sys.argv[1] == "ours":
    from fusegrad.torch import install
    install()
import torch

xs = [torch.tensor([1.0, 4.0]), torch.tensor([[0.25]])]
def fresh():
    return [x.clone() for x in xs]
for name in "abs sqrt neg exp reciprocal sign log tanh sigmoid round".split():
    a, b = fresh(), fresh()
    print(name, getattr(torch, f"_foreach_{name}")(a), getattr(torch, f"_foreach_{name}_")(b) is b, b)
for name in "add sub mul div maximum minimum clamp_min clamp_max pow".split():
    for other in (xs, 2.0, [2.0, 3.0]):
        a, b = fresh(), fresh()
        getattr(torch, f"_foreach_{name}_")(b, other)
        print(name, getattr(torch, f"_foreach_{name}")(a, other), b)
print(torch._foreach_add(xs, xs, alpha=2), torch._foreach_mul(xs, torch.tensor(3.0)))
print(torch._foreach_lerp(xs, [x + 1 for x in xs], 0.5), torch._foreach_norm(xs), torch._foreach_norm(xs, 1))
for value in (2.0, [2.0, 3.0], torch.tensor([2.0, 3.0])):
    print(torch._foreach_addcmul(xs, xs, xs, value), torch._foreach_addcdiv(xs, xs, xs, value))
b = fresh(); torch._foreach_zero_(b); torch._foreach_copy_(b, xs)
torch._foreach_addcdiv_(b, xs, xs, value=2); print(b)
print(torch._foreach_pow(2.0, xs))
s = torch.ones(2, 3, 4).shape
print([type(v).__name__ for v in (s[:-1], s + s, (1,) + s, s * 2, s[1:] + (5,))])
print(s[:-1].numel(), s[0], s + (1,))
vmap = torch.vmap
x, y = torch.arange(6.0).reshape(3, 2), torch.tensor([1.0, 2.0])
print(vmap(torch.dot, (0, None))(x, y), vmap(torch.mul, (1, 0), 1)(x, y), vmap(vmap(torch.square))(x))
print(vmap(lambda d: {"a": d["x"] * 2, "b": (d["y"], d["x"].sum())})({"x": x, "y": x}))
print(vmap(torch.func.grad(lambda w, v: (w * v).sin().sum()), (None, 0))(y, x))
for call in (lambda: vmap(torch.dot)(x, y), lambda: vmap(lambda v: 3)(x), lambda: vmap(torch.sin, None)(x),
             lambda: vmap(torch.sin)(3), lambda: vmap(torch.sin, randomness="no")):
    try:
        print(call())
    except Exception as error:
        print(type(error).__name__)
print(torch.jit.isinstance([1, 2], list[int]), torch.jit.annotate(int, 3), torch.jit.is_scripting())
layers = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.ReLU())
norm = torch.nn.SyncBatchNorm.convert_sync_batchnorm(layers)
print(type(norm[0]).__name__, norm(x), list(norm.state_dict()), norm.eval()(x))
future = torch.futures.Future()
after = future.then(lambda f: f.wait() + 1)
future.set_result(1)
print(after.wait(), torch.futures.wait_all([future, after]))
class Mine(torch.nn.modules.loss._WeightedLoss):
    def forward(self, x):
        return (x * self.weight).sum()
print(Mine(torch.ones(2), reduction="sum")(y), list(Mine(torch.ones(2)).state_dict()))
print(Mine(None, False).reduction)
print(isinstance(torch.nn.BatchNorm2d(1), torch.nn.modules.batchnorm._BatchNorm))
print(isinstance(torch.nn.Conv2d(1, 1, 1), torch.nn.modules.conv._ConvNd), torch.nn.ZeroPad2d(1))
print([k.__module__ for k in (torch.Tensor, torch.dtype, torch.nn.Linear, torch.nn.Parameter,
                              torch.optim.Adam, torch.distributions.Normal, torch.utils.data.DataLoader)])
with torch.device("cpu"):
    print(torch.ones(2).device)
print(torch.ones(2, dtype=torch.bfloat16).untyped_storage().nbytes())
print(all(name in vars(torch.distributions) for name in ("Normal", "normal", "kl_divergence", "biject_to")))
print(torch._C._nn._parse_to(torch.float64), torch._C._nn._parse_to("cpu", torch.float32, True))
@torch.library.custom_op("mine::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2
double.register_autograd(lambda ctx, grad: grad * 5)
leaf = torch.ones(2, requires_grad=True)
torch.ops.mine.double(leaf).sum().backward()
print(leaf.grad)
@torch.library.register_vmap("mine::double")
def batched_double(info, in_dims, x):
    print(info.batch_size, info.randomness, in_dims)
    return x * 3, in_dims[0]
leaf.grad = None
print(torch.vmap(double)(leaf))
torch.vmap(double)(leaf).sum().backward()
print(leaf.grad, double(leaf).detach())
@torch.library.custom_op("mine::triple", mutates_args=())
def triple(x: torch.Tensor, k: float) -> torch.Tensor:
    return x * 3 * k
@triple.register_vmap
def batched_triple(info, in_dims, x, k):
    return x * 3 * k, in_dims[0]
print(torch.vmap(lambda x: triple(x, 2.0))(torch.ones(3, 2)))
print(torch.nn.parameter.is_lazy(leaf), torch.nn.parameter.Parameter(x).requires_grad)
import copy
from torch.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakIdRef
table = WeakIdKeyDictionary({leaf: 1, x: 2})
table.update({y: 3})
print(leaf in table, torch.ones(2) in table, 3 in table, table[x], table.pop(x), table.get(x), len(table))
print(list(table.values()), len(table | {x: 4}), len({x: 4} | table), table == table.copy())
print([key is leaf for key in table])
for value in (torch.ones(1),):
    table.setdefault(value, 5)
del value
print(len(table), len(table.keyrefs()), TensorWeakRef(x)() is x)
print(WeakIdRef(x) == WeakIdRef(x), WeakIdRef(x) == WeakIdRef(y))
print(sorted(copy.deepcopy(table).values()))
try:
    triple(leaf, 1.0).sum().backward()
except RuntimeError as error:
    print("no autograd formula was registered" in str(error))
"""


def test_what_is_supplied_gives_what_pytorchs_gives(tmp_path: Path) -> None:
    assert torch.ones(1) == 1
    said = {}
    (tmp_path / "program.py").write_text(PROGRAM)
    for who in ("ours", "theirs"):
        command = [sys.executable, "-W", "ignore", str(tmp_path / "program.py"), who]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (who, done.stderr)
        said[who] = done.stdout.splitlines()
    assert len(said["ours"]) > 70
    assert [pair for pair in zip(said["ours"], said["theirs"], strict=True) if pair[0] != pair[1]] == []


def test_rows_of_a_jitted_vmap_are_those_of_now() -> None:
    scale = [1.0]

    @fg.jit
    def scaled(x: fg.Tensor) -> fg.Tensor:
        return fg.func.vmap(lambda row: row * scale[0])(x)

    found = []
    for factor in (1.0, 1.0, 1.0, 3.0, 3.0):
        scale[0] = factor
        found.append(scaled(fg.ones(2, 1)).sum().item())
    assert found == [2.0, 2.0, 2.0, 6.0, 6.0]
