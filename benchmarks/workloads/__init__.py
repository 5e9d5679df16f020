"""The workloads of the suite, in the order of its table."""

from __future__ import annotations

from workloads.base import Workload
from workloads.elementwise import BlackScholes, Chain, Rosenbrock
from workloads.networks import Attention, Convolutions, Perceptron, Recurrent
from workloads.programs import AdamStep, TreeNetwork, Wave
from workloads.reductions import CrossEntropy, LayerNorm

WORKLOADS: list[Workload] = [
    Rosenbrock(),
    Chain(1_000, 2),
    Chain(100_000, 3),
    Chain(1_000_000, 3),
    Chain(10_000_000, 5),
    CrossEntropy(32, 10),
    CrossEntropy(256, 1000),
    CrossEntropy(2048, 1000),
    LayerNorm(32, 64, 4),
    LayerNorm(1024, 768, 1.3),
    Perceptron(32, (8, 32, 32, 1), 3),
    Perceptron(64, (784, 256, 256, 10), 1.5),
    Perceptron(512, (784, 1024, 1024, 10), 1.1),
    Recurrent(32, 8, 32, 3),
    Recurrent(64, 32, 64, 2.5),
    Attention(4, 64, 128, 4),
    Attention(8, 256, 256, 8),
    BlackScholes(),
    Convolutions(),
    Wave(),
    AdamStep(),
    TreeNetwork(),
]
BY_KEY = {workload.key: workload for workload in WORKLOADS}
