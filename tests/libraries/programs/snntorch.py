"""snntorch: spiking neurons over time."""

from collections.abc import Callable

import snntorch
import torch
from snntorch import functional, surrogate

from libraries.case import Case, numbers, training, whole_numbers


class Network(torch.nn.Module):
    def __init__(self, neuron: Callable) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 32), torch.nn.Linear(32, 4)
        self.spiking, self.out = neuron(), neuron()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, last, spikes = self.spiking.reset_mem(), self.out.reset_mem(), []
        for _ in range(6):
            inner, states = self.spiking(self.first(x), states)
            outer, last = self.out(self.second(inner), last)
            spikes.append(outer)
        return torch.stack(spikes)


def leaky() -> Case:
    model = Network(lambda: snntorch.Leaky(beta=0.9, spike_grad=surrogate.fast_sigmoid(), learn_beta=True))
    x, labels, loss = numbers(8, 8).abs(), whole_numbers(4, 8), functional.ce_rate_loss()
    return training(model, lambda: loss(model(x), labels), rate=0.1)


def states() -> Case:
    def values() -> dict[str, torch.Tensor]:
        neuron = snntorch.Synaptic(alpha=0.8, beta=0.9)
        current, voltage = neuron.reset_mem()
        for number in range(8):
            spike, current, voltage = neuron(numbers(5, seed=number).abs(), current, voltage)
        return {"spikes": spike, "current": current, "voltage": voltage}

    return Case(values=values)


CASES = {"leaky neurons": leaky, "synaptic neurons": states}
