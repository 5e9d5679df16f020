"""`torch.fx`: graphs of Python calls, which are written, changed and run."""

from fusegrad.torch.supplied.fx import proxy as proxy
from fusegrad.torch.supplied.fx._symbolic_trace import (
    Tracer as Tracer,
    symbolic_trace as symbolic_trace,
    wrap as wrap,
)
from fusegrad.torch.supplied.fx.graph import Graph as Graph
from fusegrad.torch.supplied.fx.graph_module import GraphModule as GraphModule
from fusegrad.torch.supplied.fx.interpreter import Interpreter as Interpreter, Transformer as Transformer
from fusegrad.torch.supplied.fx.node import Node as Node
from fusegrad.torch.supplied.fx.proxy import Proxy as Proxy

__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Tracer",
    "Transformer",
    "symbolic_trace",
    "wrap",
]
