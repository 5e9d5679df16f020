"""A selective state space: gates and a scan over time, with a convolution of depth."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import normal, seeded


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class MambaBlock(nn.Module):
    def __init__(self, d=6, n=4):
        super().__init__()
        self.in_proj = nn.Linear(d, 2 * d, bias=False)
        self.conv1d = nn.Conv1d(d, d, 3, groups=d, padding=2)
        self.x_proj = nn.Linear(d, 1 + 2 * n, bias=False)
        self.dt_proj = nn.Linear(1, d)
        A = torch.arange(1, n + 1, dtype=torch.float32).repeat(d, 1)
        self.A_log, self.D = nn.Parameter(torch.log(A)), nn.Parameter(torch.ones(d))
        self.out_proj, self.n = nn.Linear(d, d, bias=False), n

    def forward(self, x):
        b, l, d = x.shape
        x, res = self.in_proj(x).chunk(2, dim=-1)
        x = F.silu(self.conv1d(x.transpose(1, 2))[:, :, :l].transpose(1, 2))
        delta, B, C = self.x_proj(x).split(split_size=[1, self.n, self.n], dim=-1)
        delta, A = F.softplus(self.dt_proj(delta)), -torch.exp(self.A_log.float())
        deltaA = torch.exp(torch.einsum("bld,dn->bldn", delta, A))
        deltaB_u = torch.einsum("bld,bln,bld->bldn", delta, B, x)
        state, ys = torch.zeros((b, d, self.n), device=deltaA.device), []
        for i in range(l):
            state = deltaA[:, i] * state + deltaB_u[:, i]
            ys.append(torch.einsum("bdn,bn->bd", state, C[:, i, :]))
        y = torch.stack(ys, dim=1) + x * self.D
        return self.out_proj(y * F.silu(res))


def steps():
    block, norm = seeded(MambaBlock()), RMSNorm(6)
    optimizer = torch.optim.AdamW([*block.parameters(), *norm.parameters()], lr=1e-3)

    def train(x):
        optimizer.zero_grad()
        out = x + block(norm(x))
        loss = F.mse_loss(out[:, :-1], x[:, 1:])
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (torch.from_numpy(normal(2, 7, 6, seed=i)),)
