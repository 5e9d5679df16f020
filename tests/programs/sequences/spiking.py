"""A spiking net: leaky neurons with a surrogate gradient, a `Function` of its own."""

import torch
import torch.nn as nn
from programs.common import integers, uniform


class SurrGradSpike(torch.autograd.Function):
    scale = 10.0

    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        out = torch.zeros_like(input)
        return torch.where(input > 0, torch.ones_like(out), out)

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        return grad_input / (SurrGradSpike.scale * torch.abs(input) + 1.0) ** 2


spike_fn = SurrGradSpike.apply


def run_snn(inputs, w1, w2, alpha=0.9, beta=0.85):
    h1 = torch.einsum("abc,cd->abd", (inputs, w1))
    syn = torch.zeros(inputs.size(0), w1.size(1))
    mem = torch.zeros(inputs.size(0), w1.size(1))
    spk_rec = []
    for t in range(inputs.size(1)):
        mthr = mem - 1.0
        out = spike_fn(mthr)
        rst = out.detach()
        new_syn = alpha * syn + h1[:, t]
        mem = (beta * mem + syn) * (1.0 - rst)
        syn = new_syn
        spk_rec.append(out)
    spk_rec = torch.stack(spk_rec, dim=1)
    h2 = torch.einsum("abc,cd->abd", (spk_rec, w2))
    flt, out, out_rec = torch.zeros_like(h2[:, 0]), torch.zeros_like(h2[:, 0]), []
    for t in range(inputs.size(1)):
        new_flt = alpha * flt + h2[:, t]
        out, flt = beta * out + flt, new_flt
        out_rec.append(out)
    return torch.stack(out_rec, dim=1), spk_rec


def steps():
    w1 = nn.Parameter(torch.from_numpy(uniform(8, 12)))
    w2 = nn.Parameter(torch.from_numpy(uniform(12, 3, seed=1) - 0.5))
    optimizer = torch.optim.Adam([w1, w2], lr=2e-3, betas=(0.9, 0.999))
    log_softmax_fn, loss_fn = nn.LogSoftmax(dim=1), nn.NLLLoss()

    def train(x, y):
        output, spikes = run_snn(x, w1, w2)
        m, _ = torch.max(output, 1)
        loss = loss_fn(log_softmax_fn(m), y) + 1e-3 * spikes.sum() / x.size(0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, spikes.sum()

    return train, lambda i: (
        torch.from_numpy((uniform(4, 9, 8, seed=i) > 0.6).astype("f4")),
        torch.from_numpy(integers(3, 4, seed=i)),
    )
