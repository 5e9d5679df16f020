"""Graphs of Python calls: written, changed, run; what is shown of each, to be compared with PyTorch's."""

import collections
import copy
import math
import operator
import pickle

import torch
from torch import fx, nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("scale", torch.ones(4) * 2)
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.constant = torch.full((4,), 3.0)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.fill_(0.5)

    def forward(self, x, y=2.0, *, flag=None):
        a = self.linear(x) + self.weight * self.scale
        a = torch.tanh(a).sum(dim=-1, keepdim=True) + y
        z = self.layers(x).view(x.size(0), -1)
        u, v = torch.chunk(z, 2, dim=1)
        w = torch.cat([u, v], 1)[:, 1:3]
        return {"w": w, "t": (a, -z, x.shape[0], 1 / (a @ a.T), a**2, z.T), "c": self.constant * 2}


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.list = Net(), nn.ParameterList([nn.Parameter(torch.ones(2))])

    def forward(self, x):
        return self.net.linear(x) * self.net.weight, self.list[0] + 1, self.net(x)["w"]


class WholeNet(fx.Tracer):
    def is_leaf_module(self, m, module_qualified_name):
        return isinstance(m, Net) or super().is_leaf_module(m, module_qualified_name)


class Minus(fx.Transformer):
    def call_function(self, target, args, kwargs):
        return super().call_function(torch.sub if target is operator.add else target, args, kwargs)


class Doubled(fx.Interpreter):
    def call_module(self, target, args, kwargs):
        return super().call_module(target, args, kwargs) * 2


def starred(x, *args, k=2, **more):
    return x * k + args[0] - more["a"]


def added(x, y):
    return torch.add(x, y, alpha=2).clamp(min=0.0).neg()


@fx.wrap
def by_itself(x):
    return x + 1 if x.sum() > 0 else x - 1


Pair = collections.namedtuple("Pair", "a b")


def refused(build):
    try:
        build()
    except Exception as error:
        print(type(error).__name__, str(error)[:60])


def changed(traced):
    for node in traced.graph.nodes:
        if node.op == "call_function" and node.target is operator.add:
            with traced.graph.inserting_after(node):
                new = traced.graph.call_function(torch.mul, (node, 3.0))
                node.replace_all_uses_with(new, delete_user_cb=lambda user, new=new: user is not new)
    traced.recompile()
    traced.graph.lint()
    print(traced.code)


def by_hand():
    graph = fx.Graph()
    x, weight = graph.placeholder("x"), graph.get_attr("weight")
    product = fx.Proxy(graph.call_function(torch.mul, (x, weight)))
    unused = graph.call_method("neg", (x,))
    graph.output((graph.call_module("0", ((product + 1).node,)),))
    refused(lambda: graph.erase_node(x))
    made = fx.GraphModule({"weight": torch.ones(3), "0": nn.ReLU()}, graph, "Made")
    print(graph.eliminate_dead_code(), unused in graph.nodes, len(graph.nodes))
    made.recompile()
    print(made, made(torch.tensor([-3.0, 0.0, 1.0])))


x = torch.arange(8.0).reshape(2, 4)
net = Net()
traced = fx.symbolic_trace(net)
for root in (net, Deep(), added, starred, nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))):
    module = fx.symbolic_trace(root)
    print(module.graph, module.code)
    for node in module.graph.nodes:
        target = node.target if isinstance(node.target, str) else node.target.__name__
        print(node.op, node.name, target, node.args, node.kwargs, [*node.users], node.all_input_nodes)
print(fx.symbolic_trace(lambda x: (x + math.pi * math.sin(2), x["key"].attribute)).code)
print(fx.symbolic_trace(lambda x: torch.einsum("ij,ij->i", [x, x])).graph.output_node().prev.args)
single = fx.symbolic_trace(lambda x: by_itself(x) * math.floor(x[0]))
print(single.graph, single(torch.tensor([2.5, 1.0])).tolist())
print(fx.GraphModule(deep := Deep(), WholeNet().trace(deep)).code)
print(fx.symbolic_trace(net, concrete_args={"y": 3.0, "flag": None}).code)
for result in (
    traced(x),
    net(x),
    fx.Interpreter(traced).run(x, 2.0, None),
    Doubled(traced).run(x, 2.0, None),
):
    print(result["w"].tolist(), [part.tolist() if hasattr(part, "tolist") else part for part in result["t"]])
print(
    [n for n, _ in traced.named_modules()], [n for n, _ in traced.named_parameters()], [*traced.state_dict()]
)
print(type(traced).__name__, isinstance(traced, fx.GraphModule), traced.training)
copied, kept = copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))
changed(traced)
for module in (traced, copied, kept):
    print(module(x)["t"][0].tolist())
print(Minus(copied).transform().code)
print(fx.symbolic_trace(lambda x: Pair(x, x + 1))(x).b.tolist())
refused(lambda: fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x))
refused(lambda: fx.symbolic_trace(lambda x: list(x)))
refused(lambda: fx.symbolic_trace(lambda x: len(x)))
refused(lambda: fx.symbolic_trace(net, concrete_args={"y": 3.0})(x, 4.0))
by_hand()
